"""What is kept of a raw node or pod: small values, never bodies. Pure; no shape of an object raises."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import ceil, floor
from typing import Any

from modelfleet.api import names
from modelfleet.api.values import Quantity
from modelfleet.core import raw
from modelfleet.core.placement.images import images_of
from modelfleet.core.placement.kept_on import Kept, told_by
from modelfleet.core.placement.view import Amounts, NodeView, Taint

_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """What is kept of a node."""

    labels: Mapping[str, str]
    allocatable: Amounts
    ready: bool
    cordoned: bool
    taints: tuple[Taint, ...]
    images: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PodEntry:
    """What is kept of a pod that takes room of `node`: bound to it, or pinned to it and not bound yet.

    `deployment` is `namespace/name` of the ModelDeployment that owns it, empty for a foreign pod. `grouped`: it is one
    of the pods of a replica over several nodes. `kept`: what its fetch found in the node's cache. `leaving`: it was
    asked to end; `end_by`: when its grace is over then.
    """

    node: str
    requests: Amounts
    deployment: str = ""
    bound: bool = True
    grouped: bool = False
    kept: Kept | None = None
    leaving: bool = False
    end_by: datetime | None = None


def pod_key(pod: Any) -> str:
    """`namespace/name`."""
    return f"{raw.text(pod, 'metadata', 'namespace')}/{raw.name(pod)}"


def node_entry(node: Any) -> NodeEntry:
    """What is kept of a raw node. Without a Ready condition it is not ready."""
    ready = next((c for c in raw.items(node, "status", "conditions") if c.get("type") == "Ready"), {})
    labels = {str(key): str(value) for key, value in raw.mapping(node, "metadata", "labels").items()}
    offered = {
        str(name): _amount(str(name), value, up=False)
        for name, value in raw.mapping(node, "status", "allocatable").items()
    }
    taints = tuple(
        Taint(raw.text(taint, "key"), raw.text(taint, "value"), raw.text(taint, "effect"))
        for taint in raw.items(node, "spec", "taints")
        if raw.text(taint, "key") != _CORDON  # said by the cordon itself, and no toleration of ours lifts that
    )
    cordoned = raw.at(node, "spec", "unschedulable") is True
    leaving = raw.at(node, "metadata", "deletionTimestamp") is not None
    return NodeEntry(labels, offered, ready.get("status") == "True", cordoned or leaving, taints, images_of(node))


_CORDON = "node.kubernetes.io/unschedulable"


def empty_node(node: Any) -> NodeView:
    """A raw node as a view shows one that no pod is on."""
    entry = node_entry(node)
    return NodeView(
        name=raw.name(node),
        labels=entry.labels,
        allocatable=entry.allocatable,
        free=entry.allocatable,
        ready=entry.ready,
        cordoned=entry.cordoned,
        taints=entry.taints,
        images=entry.images,
    )


def pod_entry(pod: Any) -> PodEntry | None:
    """What is kept of a raw pod; None where it takes no room of any node: ended, or neither bound nor pinned."""
    if raw.text(pod, "status", "phase") in _FINISHED:
        return None
    bound = raw.text(pod, "spec", "nodeName")
    node = bound or pinned_node(pod)
    if not node:
        return None
    owner = raw.controller(pod)
    ours = owner.get("kind") == names.DEPLOYMENT_KIND and str(owner.get("apiVersion", "")).startswith(f"{names.GROUP}/")
    deployment = f"{raw.text(pod, 'metadata', 'namespace')}/{owner.get('name')}" if ours else ""
    grouped = bool(raw.text(pod, "spec", "subdomain"))  # members find each other by names; a single pod has none
    kept = told_by(pod) if ours else None
    leaving = raw.at(pod, "metadata", "deletionTimestamp") is not None
    end_by = raw.instant(pod, "metadata", "deletionTimestamp") if leaving else None
    return PodEntry(node, pod_amounts(pod), deployment, bool(bound), grouped, kept, leaving, end_by)


def pinned_node(pod: Any) -> str:
    """The one node that every required term of the pod's node affinity names by its field; empty without one."""
    affinity = raw.mapping(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    found = {_named_by(term) for term in raw.items(affinity, "nodeSelectorTerms")}
    return found.pop() if len(found) == 1 else ""


def _named_by(term: Any) -> str:
    for field in raw.items(term, "matchFields"):
        values = field.get("values")
        if field.get("key") == "metadata.name" and field.get("operator") == "In" and isinstance(values, list):
            return str(values[0]) if len(values) == 1 else ""
    return ""


def pod_amounts(pod: Any) -> dict[str, int]:
    """What the scheduler counts for a pod: its containers and sidecars together, or an init container that takes more
    while it runs, plus the runtime's overhead; what the pod itself requests wins. One of `pods`.

    The rules: https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    spec = raw.mapping(pod, "spec")
    running: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in raw.items(spec, "initContainers"):
        own = _container(container)
        if container.get("restartPolicy") == "Always":
            _add(running, own)
            _raise(most, running)
        else:
            _raise(most, {name: own.get(name, 0) + running.get(name, 0) for name in {*own, *running}})
    for container in raw.items(spec, "containers"):
        _add(running, _container(container))
    _raise(most, running)
    most.update(_amounts(raw.mapping(spec, "resources", "requests")))
    _add(most, _amounts(raw.mapping(spec, "overhead")))
    return {name: amount for name, amount in most.items() if amount} | {"pods": 1}


def _container(container: Any) -> dict[str, int]:
    """Its requests; a limit without a request is a request."""
    limits = raw.mapping(container, "resources", "limits")
    return _amounts({**limits, **raw.mapping(container, "resources", "requests")})


def _amounts(quantities: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): _amount(str(name), value, up=True) for name, value in quantities.items()}


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(most: dict[str, int], to: Amounts) -> None:
    for name, amount in to.items():
        most[name] = max(most.get(name, 0), amount)


def _amount(resource: str, value: Any, *, up: bool) -> int:
    return _parsed(str(value), resource == "cpu", up)


@lru_cache(maxsize=4096)
def _parsed(text: str, cpu: bool, up: bool) -> int:
    """The quantity in whole units, cpu in millicores; 0 where it is none."""
    try:
        exact = Quantity(text).exact * (1000 if cpu else 1)
    except ValueError:
        return 0
    return ceil(exact) if up else floor(exact)


def accelerators_of(requests: Amounts) -> Iterable[tuple[str, int]]:
    """The extended resources of a request: those whose name has a domain."""
    return ((name, amount) for name, amount in requests.items() if "/" in name)
