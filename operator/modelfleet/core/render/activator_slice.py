"""The EndpointSlice that puts the activators behind a model's Service while no replica serves. Pure.

The activators keep `endpoints` themselves, because the data path outlives the operator; what is rendered here never
holds it.
"""

from typing import Any

from modelfleet.api import names
from modelfleet.core.render.metadata import Owner, metadata


def activator_slice(owner: Owner, port: int, family: str = "IPv4") -> dict[str, Any]:
    """The slice, without endpoints. `port` is the activators' port that stands for this model; `family` is the address
    family of the Service. The port's name is that of the Service's port, by which Kubernetes joins the two."""
    labels = {names.SERVICE_NAME_LABEL: names.child(owner.name), names.SLICE_MANAGER_LABEL: names.ACTIVATOR}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata(owner, names.activator_slice(owner.name), labels),
        "addressType": family,
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
    }
