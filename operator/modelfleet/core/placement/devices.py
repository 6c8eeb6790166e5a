"""Devices of Dynamic Resource Allocation as amounts of a node: what a class of devices offers, what claims hold. Pure.

A pod asks for them by the resource name of their DeviceClass, and kube-scheduler makes the claim itself:
https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#extended-resource
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.placement.project import PodEntry

_BY_SCHEDULER = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that kube-scheduler made for a pod's extended resources."""

DeviceId = tuple[str, str, str]
"""Driver, pool, name: what a claim calls a device by."""

Selects = Callable[[str, Mapping[str, Any]], bool]
"""Whether a CEL expression of a DeviceClass holds for a device as CEL sees it."""


@dataclass(frozen=True, slots=True)
class SliceEntry:
    """What is kept of a ResourceSlice: devices that pods of one node may have, as CEL sees them, by name."""

    node: str
    driver: str
    pool: str
    generation: int
    slices: int
    devices: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ClaimEntry:
    """What is kept of a ResourceClaim: its devices. `pod` is `namespace/name` of the pod that kube-scheduler made it
    for, empty for any other claim."""

    devices: tuple[DeviceId, ...]
    pod: str = ""


@dataclass(frozen=True, slots=True)
class DeviceClassEntry:
    """What is kept of a DeviceClass: the resource names that stand for its devices, and its CEL expressions."""

    resources: tuple[str, ...]
    expressions: tuple[str, ...]


def slice_entry(found: Any) -> SliceEntry | None:
    """What is kept of a raw ResourceSlice; None where its devices belong to no single node."""
    spec = raw.mapping(found, "spec")
    node = raw.text(spec, "nodeName")
    if not node:
        return None
    driver = raw.text(spec, "driver")
    return SliceEntry(
        node=node,
        driver=driver,
        pool=raw.text(spec, "pool", "name"),
        generation=raw.integer(spec, "pool", "generation"),
        slices=raw.integer(spec, "pool", "resourceSliceCount", default=1),
        devices={raw.text(one, "name"): _as_cel(driver, one) for one in raw.items(spec, "devices") if _is_whole(one)},
    )


def claim_entry(claim: Any) -> ClaimEntry | None:
    """What is kept of a raw ResourceClaim; None where it holds no device."""
    held = tuple(
        (raw.text(one, "driver"), raw.text(one, "pool"), raw.text(one, "device"))
        for one in raw.items(claim, "status", "allocation", "devices", "results")
        if one.get("adminAccess") is not True  # an administrator looks at a device that stays another's
    )
    if not held:
        return None
    made_for = raw.controller(claim) if raw.mapping(claim, "metadata", "annotations").get(_BY_SCHEDULER) else {}
    pod = f"{raw.text(claim, 'metadata', 'namespace')}/{made_for['name']}" if made_for.get("kind") == "Pod" else ""
    return ClaimEntry(held, pod)


def device_class_entry(found: Any) -> DeviceClassEntry:
    """What is kept of a raw DeviceClass."""
    own = names.device_class_resource(raw.name(found))
    given = raw.text(found, "spec", "extendedResourceName")
    return DeviceClassEntry(
        resources=(own, given) if given else (own,),
        expressions=tuple(raw.text(one, "cel", "expression") for one in raw.items(found, "spec", "selectors")),
    )


def _is_whole(device: Mapping[str, Any]) -> bool:
    """It can be had alone by a pod without tolerations: neither tainted, nor a part that shares counters with others,
    nor on several nodes, nor one that several claims share."""
    tainted = any(one.get("effect") in ("NoSchedule", "NoExecute") for one in raw.items(device, "taints"))
    shared = device.get("allowMultipleAllocations") is True or bool(device.get("consumesCounters"))
    elsewhere = any(device.get(key) for key in ("nodeName", "nodeSelector", "allNodes"))
    return not (tainted or shared or elsewhere)


def _as_cel(driver: str, device: Mapping[str, Any]) -> Mapping[str, Any]:
    """Attributes and capacity by domain, then by name; a name without a domain has the driver's."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in raw.mapping(device, "attributes").items():
        domain, _, identifier = str(name).rpartition("/")
        attributes.setdefault(domain or driver, {})[identifier] = value
    capacity: dict[str, dict[str, Any]] = {}
    for name, value in raw.mapping(device, "capacity").items():
        domain, _, identifier = str(name).rpartition("/")
        capacity.setdefault(domain or driver, {})[identifier] = raw.text(value, "value")
    return {"driver": driver, "attributes": attributes, "capacity": capacity}


def _is_current(entry: SliceEntry, newest: int, count: int) -> bool:
    """Of the pool's newest generation, of which `count` slices are there: all, as kube-scheduler looks at it."""
    return entry.generation == newest and count >= entry.slices


@dataclass
class DeviceBooks:
    """The devices of a cluster. `selects` decides the expressions of classes; by default none holds.

    Deciding an expression costs up to a millisecond, and a cluster may have a hundred thousand devices. So only the
    classes that somebody asks for are looked at (`ask`), each slice once for a list of expressions; what is still to be
    looked at can be done piece by piece (`look_at`), else it is done when a node is asked about.
    What is set or dropped answers with the nodes whose amounts may have changed.
    """

    selects: Selects = lambda _expression, _device: False
    _slices: dict[str, SliceEntry] = field(default_factory=dict)
    _claims: dict[str, ClaimEntry] = field(default_factory=dict)
    _classes: dict[str, DeviceClassEntry] = field(default_factory=dict)
    _by_node: dict[str, dict[str, SliceEntry]] = field(default_factory=dict)
    _pools: dict[tuple[str, str], dict[str, SliceEntry]] = field(default_factory=dict)
    _holders: dict[DeviceId, str] = field(default_factory=dict)
    _offered: dict[str, Mapping[str, frozenset[DeviceId]]] = field(default_factory=dict)
    _newest: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    _asked: frozenset[str] = frozenset()
    _taken: dict[str, dict[tuple[str, ...], frozenset[str]]] = field(default_factory=dict)
    _unseen: dict[str, None] = field(default_factory=dict)  # in the order in which they came

    @property
    def slices(self) -> Mapping[str, SliceEntry]:
        """ResourceSlices by name."""
        return self._slices

    @property
    def claims(self) -> Mapping[str, ClaimEntry]:
        """ResourceClaims that hold devices, by `namespace/name`."""
        return self._claims

    @property
    def classes(self) -> Mapping[str, DeviceClassEntry]:
        """DeviceClasses by name."""
        return self._classes

    def set_slice(self, name: str, entry: SliceEntry | None) -> frozenset[str]:
        """A ResourceSlice as it is now, None where it is gone."""
        before = self._slices.get(name)
        if before == entry:
            return frozenset()
        touched: set[str] = set()
        for one in (before, entry):
            if one is not None:
                pool = self._pools.setdefault((one.driver, one.pool), {})
                touched |= {one.node, *(other.node for other in pool.values())}
        if before is not None:
            del self._slices[name], self._by_node[before.node][name], self._pools[before.driver, before.pool][name]
            self._newest.pop((before.driver, before.pool), None)
        self._taken.pop(name, None)
        self._unseen.pop(name, None)
        if entry is not None:
            self._slices[name] = self._by_node.setdefault(entry.node, {})[name] = entry
            self._pools[entry.driver, entry.pool][name] = entry
            self._newest.pop((entry.driver, entry.pool), None)
            if any(map(self._counts, self._classes.values())):
                self._unseen[name] = None
        return self._touch(touched)

    def set_claim(self, key: str, entry: ClaimEntry | None) -> frozenset[str]:
        """A ResourceClaim as it is now, None where it holds nothing."""
        before = self._claims.pop(key, None)
        if entry is not None:
            self._claims[key] = entry
        if before == entry:
            return frozenset()
        for device in before.devices if before else ():
            if self._holders.get(device) == key:
                del self._holders[device]
        for device in entry.devices if entry else ():
            self._holders[device] = key
        held = {device[:2] for one in (before, entry) if one for device in one.devices}
        return frozenset(one.node for pool in held for one in self._pools.get(pool, {}).values())

    def set_class(self, name: str, entry: DeviceClassEntry | None) -> frozenset[str]:
        """A DeviceClass as it is now, None where it is gone."""
        before = self._classes.pop(name, None)
        if entry is not None:
            self._classes[name] = entry
        if before == entry:
            return frozenset()
        counts = any(self._counts(one) for one in (before, entry) if one is not None)
        return self._anew() if counts else frozenset()

    def ask(self, resources: Iterable[str]) -> frozenset[str]:
        """Somebody may ask for devices by these names, from now on: those of DeviceClasses are counted."""
        asked = self._asked.union(resources)
        new, self._asked = asked - self._asked, asked
        return (
            self._anew() if any(not new.isdisjoint(kind.resources) for kind in self._classes.values()) else frozenset()
        )

    @property
    def unseen(self) -> Collection[str]:
        """The slices that were not looked at yet for all the classes that are asked for."""
        return self._unseen.keys()

    def look_at(self, name: str) -> None:
        """Decides which devices of a slice the classes that are asked for take."""
        wanted = {kind.expressions for kind in self._classes.values() if self._counts(kind)}
        before, devices = self._taken.get(name, {}), self._slices[name].devices
        self._taken[name] = {
            expressions: before[expressions] if expressions in before else self._select(expressions, devices)
            for expressions in wanted
        }
        self._unseen.pop(name, None)

    def offered(self, node: str) -> Mapping[str, int]:
        """How many devices each resource name stands for on the node, held or not."""
        return {resource: len(devices) for resource, devices in self._devices(node).items()}

    def held_by_others(self, node: str, pods: Mapping[str, PodEntry]) -> Mapping[str, int]:
        """How many of them are held by claims that the requests of `pods`, by `namespace/name`, do not tell of."""
        return {
            resource: sum(not self._told(device, resource, pods) for device in devices & self._holders.keys())
            for resource, devices in self._devices(node).items()
        }

    def _told(self, device: DeviceId, resource: str, pods: Mapping[str, PodEntry]) -> bool:
        pod = pods.get(self._claims[self._holders[device]].pod)
        return pod is not None and pod.requests.get(resource, 0) > 0

    def _devices(self, node: str) -> Mapping[str, frozenset[DeviceId]]:
        known = self._offered.get(node)
        if known is not None:
            return known
        slices = self._by_node.get(node, {})
        here = {name: one for name, one in slices.items() if _is_current(one, *self._newest_of((one.driver, one.pool)))}
        for name in here.keys() & self._unseen.keys():
            self.look_at(name)
        found: dict[str, frozenset[DeviceId]] = {}
        for kind in filter(self._counts, self._classes.values()):
            devices = frozenset(
                (one.driver, one.pool, device)
                for name, one in here.items()
                for device in self._taken[name][kind.expressions]
            )
            for resource in kind.resources:
                found[resource] = devices
        self._offered[node] = found
        return found

    def _counts(self, kind: DeviceClassEntry) -> bool:
        """Somebody may ask for devices of the class."""
        return not self._asked.isdisjoint(kind.resources)

    def _select(self, expressions: tuple[str, ...], devices: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
        return frozenset(
            name for name, device in devices.items() if all(self.selects(each, device) for each in expressions)
        )

    def _newest_of(self, pool: tuple[str, str]) -> tuple[int, int]:
        """A pool's newest generation, and how many of its slices are there; a pool may span all nodes."""
        known = self._newest.get(pool)
        if known is None:
            generations = [one.generation for one in self._pools[pool].values()]
            newest = max(generations)
            known = self._newest[pool] = newest, generations.count(newest)
        return known

    def _anew(self) -> frozenset[str]:
        """Which classes count, or what they take, has changed."""
        counts = any(map(self._counts, self._classes.values()))
        self._unseen = dict.fromkeys(self._slices) if counts else {}
        return self._touch(self._by_node)

    def _touch(self, nodes: Iterable[str]) -> frozenset[str]:
        touched = frozenset(nodes)
        for node in touched:
            self._offered.pop(node, None)
        return touched
