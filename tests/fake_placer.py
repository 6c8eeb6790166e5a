"""The placer's books made from a fake cluster at each look: exact, and with nothing to wait for."""

from collections.abc import Iterable, Sequence
from typing import Any

from fake_cluster import FakeCluster
from modelfleet.controller.triggers import Key
from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.project import NodeEntry, node_entry, pod_entry, pod_key
from modelfleet.core.placement.view import ClusterView, Reservation
from modelfleet.core.snapshot import Raw


class FakePlacer:
    """Views of a FakeCluster's nodes and pods. Where it has no nodes there are four that take every pod."""

    def __init__(self, cluster: FakeCluster, room: int = 10**6) -> None:
        self._cluster, self._room = cluster, room
        self._reserved: dict[Key, tuple[Reservation, ...]] = {}
        self.waiting: set[Key] = set()
        self.unread = ""

    def view(self, key: Key, pods: Iterable[Raw], resources: Iterable[str]) -> ClusterView | None:
        """The cluster as it is now, net of what other keys reserved; none while it is `unread`."""
        if self.unread:
            self.waiting.add(key)
            return None
        ledger = Ledger()
        for name, entry in self._nodes():
            ledger.set_node(name, entry)
        for pod in self._cluster.all_of("pods"):
            ledger.set_pod(pod_key(pod), pod_entry(pod))
        for other, reservations in self._reserved.items():
            ledger.reserve(str(other), reservations)
        return ledger.view(str(key), {})

    def fault(self) -> str:
        """Why there is no view."""
        return self.unread

    def record(self, key: Key, pods: Iterable[Raw], reservations: Sequence[Reservation], *, waits: bool) -> None:
        """What was decided on the last view."""
        self._reserved[key] = tuple(reservations)
        if waits:
            self.waiting.add(key)
        elif not self.unread:
            self.waiting.discard(key)

    def forget(self, key: Key) -> None:
        """The ModelDeployment is gone."""
        self._reserved.pop(key, None)

    def _nodes(self) -> Iterable[tuple[str, NodeEntry]]:
        nodes: tuple[Any, ...] = self._cluster.all_of("nodes")
        if nodes:
            return [(node["metadata"]["name"], node_entry(node)) for node in nodes]
        classes = self._cluster.all_of("acceleratorclasses")
        plenty = _plenty(classes, self._cluster.all_of("modeldeployments"), self._room)
        return [(f"plenty-{number}", plenty) for number in range(4)]


def _plenty(classes: Iterable[Any], deployments: Iterable[Any], room: int) -> NodeEntry:
    """A node of every class, with all labels that any ModelDeployment asks for."""
    labels: dict[str, str] = {}
    offered = {"cpu": 10**12, "memory": 2**60, "pods": room}
    for item in classes:
        spec = item.get("spec") if isinstance(item.get("spec"), dict) else {}
        offered[str(spec.get("resourceName"))] = 10**9
        labels |= _labels(spec.get("nodeSelector"))
    for item in deployments:
        spec = item.get("spec") if isinstance(item.get("spec"), dict) else {}
        placement = spec.get("placement")
        labels |= _labels(placement.get("nodeSelector")) if isinstance(placement, dict) else {}
    return NodeEntry(labels, offered, ready=True, cordoned=False, taints=())


def _labels(given: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}
