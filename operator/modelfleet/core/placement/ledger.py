"""Who holds what of which node: pods as they are seen, and reservations until they are. Does no I/O.

Each change costs what it touches, not the size of the cluster: sums are kept by node, and a node's view is made anew
only after something on it changed. A reservation counts until its pod is seen to hold that node, or until its owner
decides anew. A pod of its name that is seen may be the one before it, whose end is not seen yet: then both count where
they are on two nodes, and the reservation is kept where they are on one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from modelfleet.core.placement.devices import DeviceBooks
from modelfleet.core.placement.kept_on import Kept
from modelfleet.core.placement.project import NodeEntry, PodEntry, accelerators_of
from modelfleet.core.placement.view import ClusterView, Ending, NodeView, Reservation


@dataclass
class Ledger:
    """The books of one cluster. `deployment` is everywhere `namespace/name`. Who changes `devices` tells `recount`."""

    devices: DeviceBooks = field(default_factory=DeviceBooks)
    _nodes: dict[str, NodeEntry] = field(default_factory=dict)
    _pods: dict[str, PodEntry] = field(default_factory=dict)
    _by_node: dict[str, dict[str, PodEntry]] = field(default_factory=dict)
    _reserved: dict[str, dict[str, Reservation]] = field(default_factory=dict)
    _reserved_by: dict[str, str] = field(default_factory=dict)
    _reserved_on: dict[str, dict[str, Reservation]] = field(default_factory=dict)
    _views: dict[str, NodeView] = field(default_factory=dict)
    _shared: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = field(default_factory=dict)
    _order: tuple[str, ...] | None = None

    @property
    def nodes(self) -> Mapping[str, NodeEntry]:
        """Nodes by name."""
        return self._nodes

    @property
    def pods(self) -> Mapping[str, PodEntry]:
        """Pods that take room, by `namespace/name`."""
        return self._pods

    def set_node(self, name: str, entry: NodeEntry) -> bool:
        """A node as it is now; False where nothing that counts has changed."""
        if self._nodes.get(name) == entry:
            return False
        self._order = None if name not in self._nodes else self._order
        self._nodes[name] = entry
        self._views.pop(name, None)
        return True

    def drop_node(self, name: str) -> bool:
        """The node is gone; False where it was not known."""
        self._order = None
        self._views.pop(name, None)
        return self._nodes.pop(name, None) is not None

    def set_pod(self, key: str, entry: PodEntry | None) -> bool:
        """A pod as it is now, None where it takes no room; False where nothing that counts has changed."""
        before = self._pods.get(key)
        if before == entry:
            return False
        if before is not None:
            del self._by_node[before.node][key]
            self._views.pop(before.node, None)
            del self._pods[key]
        if entry is not None:
            entry = replace(entry, requests=self._shared_amounts(entry))
            self._pods[key] = entry
            self._by_node.setdefault(entry.node, {})[key] = entry
            self._views.pop(entry.node, None)
            owner = self._reserved_by.get(key)
            if owner is not None and self._reserved[owner][key].node == entry.node:
                self._unreserve(owner, key)
        return True

    def recount(self, nodes: Iterable[str]) -> None:
        """Devices of these nodes have changed, or who holds them."""
        for name in nodes:
            self._views.pop(name, None)

    def reserve(self, deployment: str, reservations: Iterable[Reservation]) -> None:
        """All that the deployment has decided and that may not be seen yet, instead of what it had reserved before."""
        for pod in tuple(self._reserved.get(deployment, ())):
            self._unreserve(deployment, pod)
        for one in reservations:
            self._reserved.setdefault(deployment, {})[one.pod] = one
            self._reserved_by[one.pod] = deployment
            self._reserved_on.setdefault(one.node, {})[one.pod] = one
            self._views.pop(one.node, None)

    def reservations(self, deployment: str) -> tuple[Reservation, ...]:
        """What the deployment has reserved, but for pods that were seen since."""
        return tuple(self._reserved.get(deployment, {}).values())

    def deployments_on(self, node: str) -> frozenset[str]:
        """ModelDeployments with a pod on the node."""
        return frozenset(pod.deployment for pod in self._by_node.get(node, {}).values() if pod.deployment)

    def view(self, deployment: str, own: Mapping[str, PodEntry], age_s: float = 0.0) -> ClusterView:
        """All nodes, net of what pods hold and of what other deployments have reserved.

        `own` are the deployment's pods as they were just listed: those that take room and were not seen here yet count
        too, so that a lagging watch gives nothing away twice. Its own reservations do not: it decides them anew.
        """
        if self._order is None:
            self._order = tuple(sorted(self._nodes))
        changed: dict[str, NodeView] = {}
        for one in filter(self._counts, self._reserved.get(deployment, {}).values()):
            self._shift(changed, one.node, one.requests, -1)
        for key, entry in own.items():
            seen = self._pods.get(key)
            if seen is None or seen.node != entry.node:
                self._shift(changed, entry.node, entry.requests, 1)
        nodes = tuple(changed.get(name) or self._view(name) for name in self._order)
        return ClusterView(nodes=nodes, age_s=age_s)

    def _shift(self, changed: dict[str, NodeView], name: str, requests: Mapping[str, int], sign: int) -> None:
        if name not in self._nodes:
            return
        changed[name] = shifted(changed.get(name) or self._view(name), requests, sign)

    def _view(self, name: str) -> NodeView:
        known = self._views.get(name)
        if known is not None:
            return known
        entry = self._nodes[name]
        by_key = self._by_node.get(name, {})
        # What a device plugin offers under a name is what kube-scheduler takes for it on this node.
        devices = {key: amount for key, amount in self.devices.offered(name).items() if not entry.allocatable.get(key)}
        allocatable = {**entry.allocatable, **devices} if devices else entry.allocatable
        free = dict(allocatable)
        if devices:
            for key, amount in self.devices.held_by_others(name, by_key).items():
                free[key] -= amount if key in devices else 0
        held: dict[str, list[int]] = {}
        here = tuple(by_key.values())
        promised = (one.requests for one in self._reserved_on.get(name, {}).values() if self._counts(one))
        for requests in (*(pod.requests for pod in here), *promised):
            for resource, amount in requests.items():
                free[resource] = free.get(resource, 0) - amount
            for resource, amount in accelerators_of(requests):
                held.setdefault(resource, []).append(amount)
        made = self._views[name] = NodeView(
            name=name,
            labels=entry.labels,
            allocatable=allocatable,
            free=free,
            held=_sorted(held),
            movable=tuple(pod.requests for pod in here if pod.deployment and pod.bound and not pod.grouped),
            leaving=tuple(Ending(pod.requests, pod.end_by) for pod in here if pod.leaving),
            ready=entry.ready,
            cordoned=entry.cordoned,
            taints=entry.taints,
            images=entry.images,
            kept=_kept(self._by_node.get(name, {})),
        )
        return made

    def _counts(self, one: Reservation) -> bool:
        """Nothing is seen yet that holds this room under this name."""
        seen = self._pods.get(one.pod)
        return seen is None or seen.node != one.node

    def _unreserve(self, deployment: str, pod: str) -> None:
        one = self._reserved[deployment].pop(pod)
        del self._reserved_by[pod]
        del self._reserved_on[one.node][pod]
        self._views.pop(one.node, None)
        if not self._reserved[deployment]:
            del self._reserved[deployment]

    def _shared_amounts(self, entry: PodEntry) -> Mapping[str, int]:
        """One mapping for all pods with the same requests: there are few kinds and many pods."""
        key = tuple(sorted(entry.requests.items()))
        return self._shared.setdefault(key, entry.requests)


def _kept(pods: Mapping[str, PodEntry]) -> dict[str, Kept]:
    """By namespace, what the newest fetch found."""
    found: dict[str, Kept] = {}
    for key, pod in pods.items():
        namespace = key.partition("/")[0]
        if pod.kept is not None and (namespace not in found or found[namespace].at < pod.kept.at):
            found[namespace] = pod.kept
    return found


def shifted(node: NodeView, requests: Mapping[str, int], sign: int) -> NodeView:
    """The node with a pod's requests taken of it (`sign` 1), or given back to it (-1): room and what is held of it."""
    free = dict(node.free)
    held = {resource: list(sizes) for resource, sizes in node.held.items()}
    for resource, amount in requests.items():
        free[resource] = free.get(resource, 0) - sign * amount
    for resource, amount in accelerators_of(requests):
        sizes = held.setdefault(resource, [])
        if sign > 0:
            sizes.append(amount)
        elif amount in sizes:
            sizes.remove(amount)
    return replace(node, free=free, held=_sorted(held))


def _sorted(held: Mapping[str, Iterable[int]]) -> dict[str, tuple[int, ...]]:
    return {resource: tuple(sorted(sizes, reverse=True)) for resource, sizes in held.items() if sizes}
