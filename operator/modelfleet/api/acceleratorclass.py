"""AcceleratorClass: how the nodes with one kind of accelerator are recognised, and what they have. Pure."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from modelfleet.api import names
from modelfleet.api.kubernetes_types import Metadata, NodeSelector, Tolerations
from modelfleet.api.quantization import StandardQuantization
from modelfleet.api.schema import ApiModel, Unique, whole
from modelfleet.api.sources import NodePath
from modelfleet.api.strings import (
    ComputeCapability,
    Currency,
    DeviceClassName,
    DnsLabel,
    EngineVersion,
    LabelValue,
    QualifiedName,
)
from modelfleet.api.values import Duration, PositiveDuration, PositiveQuantity, Price, Quantity


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


class Compute(ApiModel):
    """Dense arithmetic of one accelerator by precision, in operations a second (a multiplication and an addition are
    two). A precision without units of its own is left out."""

    bf16: PositiveQuantity
    """16-bit floating point, such as 989T."""
    fp8: PositiveQuantity | None = None
    """8-bit floating point, such as 1979T. Default: the chip has none."""
    fp4: PositiveQuantity | None = None
    """4-bit floating point. Default: the chip has none."""
    int8: PositiveQuantity | None = None
    """8-bit integers. Default: the chip has none."""


class Fabric(ApiModel):
    """What joins the accelerators of a node: NVLink, a mesh, or PCIe."""

    bandwidth: PositiveQuantity
    """Bytes a second that one accelerator sends to others, one direction, such as 450G."""
    domain_size: Annotated[int, whole(1, 1024)] | None = None
    """Accelerators that are joined by it; tensor parallelism stays inside. Default: those of a node. Where it is more,
    the first of topologyKeys tells which nodes are joined."""


class Network(ApiModel):
    """What joins nodes."""

    bandwidth: PositiveQuantity
    """Bytes a second that one accelerator sends to other nodes, one direction, such as 50G."""


class Provisioning(StrEnum):
    """Whether nodes of a supply come when pods ask for them."""

    STATIC = "Static"
    AUTOSCALED = "Autoscaled"


class Supply(ApiModel):
    """Terms on which accelerators of a class can be had."""

    name: DnsLabel
    """The supply's name, unique in this class."""
    node_selector: NodeSelector = Field(default_factory=dict)
    """Labels that tell this supply's nodes from others of the class. Default: all nodes of the class are its."""
    provisioning: Provisioning = Provisioning.STATIC
    """Static: what has no room is not created. Autoscaled: it is, up to limit, so that a cluster autoscaler adds nodes.
    Default: Static."""
    limit: Annotated[int, whole(1, 1_000_000)] | None = None
    """Accelerators that nodes of this supply have at most, those that are there included; only with Autoscaled.
    Default: no limit."""
    can_be_reacquired: Annotated[bool, Field(strict=True)] = True
    """Whether what is given back can be had again when it is asked for. false: a model scales to zero only on a class
    with another supply. Default: true."""
    notice_period: Duration | None = None
    """How long before a node of this supply is taken away it is cordoned, such as 2m; a drain of it takes no longer.
    Default: no limit of its own."""
    price_per_accelerator_hour: Price | None = None
    """What one accelerator costs an hour, such as "2.49". Default: not known."""
    currency: Currency = Currency("USD")
    """The price's currency. Default: USD."""


class NodeCache(ApiModel):
    """A folder of the class's nodes that is granted to workers for fetched weights, so that a node fetches a model
    once. Each namespace gets a subfolder of its own."""

    path: NodePath
    """The folder on the node (hostPath), such as /var/lib/modelfleet/weights; any user must be able to write to it."""
    size: PositiveQuantity
    """The most bytes that one namespace keeps on a node, such as 500Gi; least recently used models go first."""
    max_age: PositiveDuration = PositiveDuration("168h")
    """A model that no pod has used for this long goes. Default: 168h, a week."""


class AcceleratorClassSpec(ApiModel):
    """How to recognise the nodes, and what they have. With memory, memoryBandwidth and compute the planner chooses
    layouts and predicts; without them nothing is predicted."""

    node_selector: Annotated[dict[QualifiedName, LabelValue], Field(min_length=1, max_length=32)]
    """Labels that all nodes of this class, and only they, carry."""
    resource_name: QualifiedName | None = None
    """The name under which nodes offer the accelerator, such as nvidia.com/gpu."""
    device_class_name: DeviceClassName | None = None
    """Instead of resourceName: the DeviceClass of Dynamic Resource Allocation that an accelerator is a device of, such
    as gpu.example.com. Needs Kubernetes 1.36, whose scheduler claims devices for pods by a resource's name."""
    device: Device = Device.CUDA
    """What the engine runs on: Cuda or Cpu. Default: Cuda."""
    accelerators_per_node: Annotated[int, whole(1, 1024)]
    """Accelerators in one node."""
    host_per_accelerator: HostPerAccelerator = HostPerAccelerator()
    """What a worker gets of its node for each accelerator. Default: nothing is requested."""
    tolerations: Tolerations = ()
    """Tolerations that every worker on this class carries."""
    node_cache: NodeCache | None = None
    """Grants workers a folder of the node for fetched weights. Default: no host path is granted."""
    memory: PositiveQuantity | None = None
    """Memory of one accelerator as the engine sees it, such as 81559Mi; less than what is printed on the box."""
    memory_bandwidth: PositiveQuantity | None = None
    """Bytes a second that one accelerator reads from its memory, such as 3350G."""
    compute: Compute | None = None
    """Dense arithmetic of one accelerator by precision."""
    compute_capability: ComputeCapability | None = None
    """NVIDIA's compute capability, such as "9.0". Default: not known."""
    fabric: Fabric | None = None
    """What joins the accelerators of a node. Default: nothing, so a replica that the planner lays out takes one."""
    network: Network | None = None
    """What joins nodes. Default: not known."""
    storage_bandwidth: PositiveQuantity | None = None
    """Bytes a second at which one node reads a model's files, such as 2G; how long a start may take is computed from
    it. Default: 200M."""
    topology_keys: Annotated[tuple[QualifiedName, ...], Field(max_length=8), Unique()] = ()
    """Node labels that tell how near nodes are to each other, the nearest first, such as nvidia.com/gpu.clique, a rack,
    a block, topology.kubernetes.io/zone. A replica over several nodes stays in one domain of the last, as near together
    as it can. Default: nodes of one zone are preferred."""
    supplies: Annotated[tuple[Supply, ...], Field(max_length=8), Unique(("name",))] = ()
    """Terms on which accelerators of this class can be had. Default: nodes are not added, and no price is known."""
    standard_quantization: StandardQuantization = StandardQuantization()
    """What everything on this class is stored in unless an exception brings evidence. Default: no standard."""
    engine_versions: Annotated[tuple[EngineVersion, ...], Field(max_length=16), Unique()] = ()
    """Engine versions that may run on this class. Default: all."""

    @property
    def requested(self) -> str:
        """The resource name by which pods request an accelerator."""
        if self.device_class_name is not None:
            return names.device_class_resource(str(self.device_class_name))
        return str(self.resource_name)

    @property
    def is_predictable(self) -> bool:
        """Whether the class states what a prediction needs."""
        return None not in (self.memory, self.memory_bandwidth, self.compute)


class AcceleratorClass(ApiModel):
    """A kind of accelerator in this cluster."""

    metadata: Metadata
    spec: AcceleratorClassSpec
    """How to recognise the nodes, and what they have."""

    @property
    def is_predictable(self) -> bool:
        """Whether the class states what a prediction needs."""
        return self.spec.is_predictable
