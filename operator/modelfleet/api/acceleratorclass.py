"""AcceleratorClass: how the nodes with one kind of accelerator are recognised, and what they have. Pure."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from modelfleet.api.kubernetes_types import Metadata, Tolerations
from modelfleet.api.schema import ApiModel, whole
from modelfleet.api.strings import LabelValue, QualifiedName
from modelfleet.api.values import Quantity


class Device(StrEnum):
    """What kind of device the engine runs on."""

    CUDA = "Cuda"
    CPU = "Cpu"


class HostPerAccelerator(ApiModel):
    """What a worker gets of its node for each accelerator, as requests."""

    cpu: Quantity | None = None
    """CPU cores for each accelerator, such as 12 or 500m. Default: none requested."""
    memory: Quantity | None = None
    """Host memory for each accelerator, such as 128Gi. Default: none requested."""


class AcceleratorClassSpec(ApiModel):
    """How to recognise the nodes, and what they have."""

    node_selector: Annotated[dict[QualifiedName, LabelValue], Field(min_length=1, max_length=32)]
    """Labels that all nodes of this class, and only they, carry."""
    resource_name: QualifiedName
    """The name under which nodes offer the accelerator, such as nvidia.com/gpu."""
    device: Device = Device.CUDA
    """What the engine runs on: Cuda or Cpu. Default: Cuda."""
    accelerators_per_node: Annotated[int, whole(1, 1024)]
    """Accelerators in one node."""
    host_per_accelerator: HostPerAccelerator = HostPerAccelerator()
    """What a worker gets of its node for each accelerator. Default: nothing is requested."""
    tolerations: Tolerations = ()
    """Tolerations that every worker on this class carries."""


class AcceleratorClass(ApiModel):
    """A kind of accelerator in this cluster."""

    metadata: Metadata
    spec: AcceleratorClassSpec
    """How to recognise the nodes, and what they have."""
