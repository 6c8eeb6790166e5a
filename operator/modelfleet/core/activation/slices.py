"""EndpointSlices: which workers serve a model, and which activators its Service reaches. Pure.

`endpoints` of a slice is one value to the API server, not a list that several writers share, so an activator writes all
of it, with the resourceVersion that it read: its own entry, and the others that still live.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw

Slice = Mapping[str, Any]

_BY_KUBERNETES = "endpointslice-controller.k8s.io"


@dataclass(frozen=True, order=True)
class Address:
    """Where a worker answers."""

    host: str
    port: int


@dataclass(frozen=True)
class Own:
    """This activator, as an endpoint."""

    address: str
    pod: str
    namespace: str
    node: str = ""


def outline(endpoint_slice: Slice) -> Slice:
    """What an activator needs of a slice: all but the long record of who wrote which field."""
    metadata = {k: v for k, v in raw.mapping(endpoint_slice, "metadata").items() if k != "managedFields"}
    return {**endpoint_slice, "metadata": metadata}


def service_of(endpoint_slice: Slice) -> tuple[str, str]:
    """Namespace and name of the Service that a slice belongs to."""
    labels = raw.mapping(endpoint_slice, "metadata", "labels")
    return raw.text(endpoint_slice, "metadata", "namespace"), raw.text(labels, names.SERVICE_NAME_LABEL)


def is_of_activators(endpoint_slice: Slice) -> bool:
    """Whether activators keep the slice's endpoints."""
    return raw.mapping(endpoint_slice, "metadata", "labels").get(names.SLICE_MANAGER_LABEL) == names.ACTIVATOR


def serving(slices: Iterable[Slice]) -> frozenset[Address]:
    """The workers behind a Service that take requests: those that Kubernetes itself lists, and calls ready."""
    found: set[Address] = set()
    for each in slices:
        by = raw.mapping(each, "metadata", "labels").get(names.SLICE_MANAGER_LABEL)
        port = next((raw.integer(p, "port") for p in raw.items(each, "ports")), 0)
        if by == _BY_KUBERNETES and port:
            found |= {Address(host, port) for e in raw.items(each, "endpoints") if _ready(e) for host in _addresses(e)}
    return frozenset(found)


def ready_addresses(slices: Iterable[Slice]) -> frozenset[str]:
    """The addresses that are ready: of the activators' own Service, the activators that live."""
    return frozenset(
        host for each in slices for e in raw.items(each, "endpoints") if _ready(e) for host in _addresses(e)
    )


def wanted_endpoints(
    endpoint_slice: Slice, own: Own, alive: frozenset[str] | None, *, listens: bool
) -> list[Mapping[str, Any]] | None:
    """What the slice should hold, in the order of addresses; None where it does.

    `alive`: the activators that are ready; None or none at all: nobody knows better than they themselves, so none is
    taken out. `listens`: this activator answers on the model's port; it enters once it is ready, or if there is no
    other. A slice of the other family of addresses is none of ours.
    """
    if (raw.text(endpoint_slice, "addressType") == "IPv6") != (":" in own.address):
        return None
    present = list(raw.items(endpoint_slice, "endpoints"))
    others = [e for e in present if own.address not in _addresses(e)]
    kept = [e for e in others if not alive or alive & set(_addresses(e))]
    enters = listens and (not alive or own.address in alive or not kept)
    mine = next((e for e in present if own.address in _addresses(e) and _is_same(e, own)), None)
    wanted = kept + ([mine or _endpoint(own)] if enters else [])
    wanted.sort(key=lambda e: _addresses(e))
    stored = sorted(present, key=lambda e: _addresses(e))
    return None if wanted == stored else wanted


def _endpoint(own: Own) -> dict[str, Any]:
    node = {"nodeName": own.node} if own.node else {}
    return {
        "addresses": [own.address],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "targetRef": {"kind": "Pod", "namespace": own.namespace, "name": own.pod},
        **node,
    }


def _is_same(endpoint: Mapping[str, Any], own: Own) -> bool:
    """Whether the entry is this pod's, not that of an earlier one with the same address."""
    return raw.text(endpoint, "targetRef", "name") == own.pod and _ready(endpoint)


def _addresses(endpoint: Mapping[str, Any]) -> list[str]:
    value = endpoint.get("addresses")
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _ready(endpoint: Mapping[str, Any]) -> bool:
    """Absent means ready, by the API's own words."""
    return raw.at(endpoint, "conditions", "ready") is not False
