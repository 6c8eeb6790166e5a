"""Every node, every pod that takes room of one, every device: the books that placement reads. I/O: reads.

One list by pages, then a watch, for each kind. Bodies are dropped as they come. The books are used only once
whole, and not while they are too old; a list anew (410) changes them in place, and what it does not show is gone.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modelfleet.controller.cluster import ApiError
from modelfleet.controller.resources import DEVICE_CLAIMS, DEVICE_CLASSES, DEVICE_SLICES, NODES, PODS, Resource
from modelfleet.controller.streams import Change, GoneError, Streams
from modelfleet.controller.triggers import Key
from modelfleet.core import raw
from modelfleet.core.placement.devices import DeviceBooks, claim_entry, device_class_entry, slice_entry
from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.project import NodeEntry, PodEntry, node_entry, pod_entry, pod_key
from modelfleet.core.snapshot import Raw

_log = logging.getLogger(__name__)

STALE_S = 180.0
"""Older books are not decided on: two bookmarks were missed and a watch anew did not mend it."""

_UNENDED = "status.phase!=Succeeded,status.phase!=Failed"
_FIRST_S, _MOST_S = 0.5, 15.0


FEW_SLICES = 8
"""With as many ResourceSlices that are not looked at yet, a view looks at them itself: a tenth of a second for nodes of
eight devices that all differ."""

_DENIED_S = 300.0
"""Until devices are asked for again where the cluster does not serve them, or the operator may not read them."""


@dataclass
class _Stream:
    """How one kind is followed: `put` takes an object as it is now, `drop` the name of one that is gone, `known` gives
    all names. One that is `optional` is done without where it is `denied`."""

    resource: Resource
    fields: str
    put: Callable[[Raw], None]
    drop: Callable[[str], None]
    known: Callable[[], Iterable[str]]
    optional: bool = False
    denied: bool = False
    whole: bool = False
    heard_s: float = 0.0
    version: str = ""
    trouble: str = ""


class Inventory:
    """Follows the cluster; `ledger` holds what it shows.

    `room_grew` is called when a node got more room or began to take pods, the books became usable, or why they are not
    is another thing to say; `keys_concern` with the ModelDeployments
    whose pods stand on a node that was cordoned, tainted, lost, or is or was not ready.
    """

    def __init__(
        self, streams: Streams, room_grew: Callable[[], None], keys_concern: Callable[[Iterable[Key]], None]
    ) -> None:
        self.ledger = Ledger(devices=DeviceBooks(_selects))
        self._streams, self._room_grew, self._keys_concern = streams, room_grew, keys_concern
        self._kinds = (
            _Stream(NODES, "", self._put_node, self._drop_node, lambda: self.ledger.nodes),
            _Stream(PODS, _UNENDED, self._put_pod, self._drop_pod, lambda: self.ledger.pods),
            *self._device_kinds(self.ledger.devices),
        )
        self._now = asyncio.get_running_loop().time
        self._unseen = asyncio.Event()

    @property
    def whole(self) -> bool:
        """All lists were read to their ends."""
        return all(kind.whole for kind in self._kinds)

    @property
    def age_s(self) -> float:
        """Seconds since the quietest stream was last heard."""
        return self._now() - min(kind.heard_s for kind in self._kinds if not kind.denied)

    @property
    def usable(self) -> bool:
        """Whole, not too old to decide on, and all devices that count were looked at."""
        return self.whole and self.age_s < STALE_S and self._is_seen

    @property
    def _is_seen(self) -> bool:
        return len(self.ledger.devices.unseen) <= FEW_SLICES

    def ask(self, resources: Iterable[str]) -> None:
        """Devices are asked for by these names: they are counted, as soon as they were looked at."""
        self.ledger.recount(self.ledger.devices.ask(resources))
        if not self._is_seen:
            self._unseen.set()

    def fault(self) -> str:
        """Why it is not usable, as the end of a sentence; empty where it is."""
        if not self.whole:
            missing = [kind.resource.plural for kind in self._kinds if not kind.whole]
            return f"the {' and '.join(missing)} of the cluster are not all read yet{self._trouble()}"
        if self.usable:
            return ""
        if not self._is_seen:
            return "the devices of the cluster are not all looked at yet"
        return f"the API server has told nothing about nodes, pods or devices for {STALE_S:.0f} s{self._trouble()}"

    def _trouble(self) -> str:
        told = "; ".join(kind.trouble for kind in self._kinds if kind.trouble and not kind.denied)
        return f" ({told})" if told else ""

    @property
    def devices_fault(self) -> str:
        """Why devices of Dynamic Resource Allocation are not counted; empty where they are."""
        return "; ".join(kind.trouble for kind in self._kinds if kind.denied)

    async def run(self) -> None:
        """Follows all kinds until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds:
                group.create_task(self._follow(kind))
            group.create_task(self._look_at_devices())

    async def _look_at_devices(self) -> None:
        """Slice by slice, what else is due between them: to decide on every device of a large cluster takes longer than
        the Lease may wait."""
        books = self.ledger.devices
        while True:
            await self._unseen.wait()
            self._unseen.clear()
            was_usable = self.usable
            while name := next(iter(books.unseen), None):
                books.look_at(name)
                await asyncio.sleep(0)
            if self.usable and not was_usable:
                self._room_grew()

    async def _follow(self, kind: _Stream) -> None:
        wait_s = _FIRST_S
        while True:
            watched_s, asked_s = math.inf, 0.0
            try:
                if not kind.version:
                    await self._list(kind)
                watched_s = self._now()
                await self._watch(kind)
            except GoneError:
                kind.version = ""
            except ApiError as error:
                if kind.optional and error.status in (403, 404):
                    asked_s = _DENIED_S
                    self._do_without(kind, str(error))
                else:
                    _log.warning("the inventory is put off: %s", error)
                    asked_s = error.retry_after_s
                    self._tell_trouble(kind, str(error))
            if self._now() - watched_s > _MOST_S:
                wait_s = _FIRST_S  # it held for a while; how long a list took says nothing
            await asyncio.sleep(max(wait_s, asked_s))
            wait_s = min(wait_s * 2, _MOST_S)

    async def _list(self, kind: _Stream) -> None:
        """All pages of one list; a list whose snapshot expires half way is begun anew by the GoneError."""
        seen: set[str] = set()
        token = ""
        while True:
            page = await self._streams.page(kind.resource, token, kind.fields)
            for item in page.items:
                seen.add(_name(kind.resource, item))
                kind.put(item)
            token = page.token
            if not token:
                break
            await asyncio.sleep(0)  # what is due runs between pages
        for name in set(kind.known()) - seen:
            kind.drop(name)
        kind.version = page.version
        if not kind.whole:
            _log.info("listed", extra={"kind": kind.resource.kind, "objects": len(seen)})
        self._heard(kind, whole=True)

    async def _watch(self, kind: _Stream) -> None:
        async for change in self._streams.watch(kind.resource, kind.version, kind.fields):
            self._apply(kind, change)
            kind.version = raw.text(change.object, "metadata", "resourceVersion") or kind.version
            self._heard(kind)

    def _heard(self, kind: _Stream, *, whole: bool = False) -> None:
        was_usable, kind.heard_s, kind.trouble, kind.denied = self.usable, self._now(), "", False
        kind.whole = kind.whole or whole
        if self.usable and not was_usable:
            self._room_grew()

    def _tell_trouble(self, kind: _Stream, trouble: str) -> None:
        """Those who wait have it in their status; the back-off bounds how often."""
        before, kind.trouble = self.fault(), trouble
        if self.fault() != before:
            self._room_grew()

    def _do_without(self, kind: _Stream, trouble: str) -> None:
        """What was read of it counts no more; everything else goes on."""
        if not kind.denied:
            _log.warning("devices are not counted: %s", trouble)
        for name in tuple(kind.known()):
            kind.drop(name)
        kind.version = ""
        self._heard(kind, whole=True)
        kind.trouble, kind.denied = trouble, True

    def _apply(self, kind: _Stream, change: Change) -> None:
        if change.type in ("ADDED", "MODIFIED"):
            kind.put(change.object)
        elif change.type == "DELETED":
            kind.drop(_name(kind.resource, change.object))

    def _put_node(self, item: Raw) -> None:
        name, entry = raw.name(item), node_entry(item)
        before = self.ledger.nodes.get(name)
        if not self.ledger.set_node(name, entry) or not self.whole:
            return
        if before is None or _better(before, entry):
            self._room_grew()
        if before is not None and _concerns(before, entry):
            self._tell(name)

    def _drop_node(self, name: str) -> None:
        if self.ledger.drop_node(name) and self.whole:
            self._tell(name)

    def _put_pod(self, item: Raw) -> None:
        self._set_pod(pod_key(item), pod_entry(item))

    def _drop_pod(self, name: str) -> None:
        self._set_pod(name, None)

    def _set_pod(self, key: str, after: PodEntry | None) -> None:
        before = self.ledger.pods.get(key)
        changed = self.ledger.set_pod(key, after)
        if changed and before is not None and self.whole and (after is None or after.node != before.node):
            self._room_grew()

    def _device_kinds(self, books: DeviceBooks) -> Iterable[_Stream]:
        """The three kinds that tell of devices."""

        def stream(
            resource: Resource,
            entry: Callable[[Raw], Any],
            set_entry: Callable[[str, Any], frozenset[str]],
            known: Callable[[], Mapping[str, Any]],
        ) -> _Stream:
            def put(item: Raw) -> None:
                self._recount(set_entry(_name(resource, item), entry(item)))

            def drop(name: str) -> None:
                self._recount(set_entry(name, None))

            return _Stream(resource, "", put, drop, known, optional=True)

        yield stream(DEVICE_CLASSES, device_class_entry, books.set_class, lambda: books.classes)
        yield stream(DEVICE_SLICES, slice_entry, books.set_slice, lambda: books.slices)
        yield stream(DEVICE_CLAIMS, claim_entry, books.set_claim, lambda: books.claims)

    def _recount(self, nodes: frozenset[str]) -> None:
        self.ledger.recount(nodes)
        if not self._is_seen:
            self._unseen.set()
        if nodes and self.whole:
            self._room_grew()

    def _tell(self, node: str) -> None:
        self._keys_concern(Key(*name.split("/", 1)) for name in sorted(self.ledger.deployments_on(node)))


def _better(before: NodeEntry, after: NodeEntry) -> bool:
    """The node may take a pod that it did not take before."""
    return (
        (after.ready and not before.ready)
        or (before.cordoned and not after.cordoned)
        or before.labels != after.labels
        or not set(before.taints) <= set(after.taints)
        or any(amount > before.allocatable.get(name, 0) for name, amount in after.allocatable.items())
    )


def _concerns(before: NodeEntry, after: NodeEntry) -> bool:
    """Something about the node bears on the pods that stand on it."""
    return (before.ready, before.cordoned, before.taints) != (after.ready, after.cordoned, after.taints)


def _name(resource: Resource, item: Raw) -> str:
    return pod_key(item) if resource.namespaced else raw.name(item)


def _selects(expression: str, device: Mapping[str, Any]) -> bool:
    """CEL takes 26 MiB and a quarter of a second to import, which a cluster without devices need not pay."""
    from modelfleet.controller.device_selectors import selects

    return selects(expression, device)
