"""Every node and every pod that takes room of one, as the cluster tells it: the books that placement reads. I/O: reads.

One list by pages, then a watch, for each of both kinds. Bodies are dropped as they come. The books are used only once
whole, and not while they are too old; a list anew (410) changes them in place, and what it does not show is gone.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from modelfleet.controller.cluster import ApiError
from modelfleet.controller.resources import NODES, PODS, Resource
from modelfleet.controller.streams import Change, GoneError, Streams
from modelfleet.controller.triggers import Key
from modelfleet.core import raw
from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.project import NodeEntry, node_entry, pod_entry, pod_key
from modelfleet.core.snapshot import Raw

_log = logging.getLogger(__name__)

STALE_S = 180.0
"""Older books are not decided on: two bookmarks were missed and a watch anew did not mend it."""

_UNENDED = "status.phase!=Succeeded,status.phase!=Failed"
_FIRST_S, _MOST_S = 0.5, 15.0


@dataclass
class _Stream:
    """How one kind is followed."""

    resource: Resource
    fields: str
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
        self.ledger = Ledger()
        self._streams, self._room_grew, self._keys_concern = streams, room_grew, keys_concern
        self._kinds = (_Stream(NODES, ""), _Stream(PODS, _UNENDED))
        self._now = asyncio.get_running_loop().time

    @property
    def whole(self) -> bool:
        """Both lists were read to their ends."""
        return all(kind.whole for kind in self._kinds)

    @property
    def age_s(self) -> float:
        """Seconds since the quieter of both streams was last heard."""
        return self._now() - min(kind.heard_s for kind in self._kinds)

    @property
    def usable(self) -> bool:
        """Whole, and not too old to decide on."""
        return self.whole and self.age_s < STALE_S

    def fault(self) -> str:
        """Why it is not usable, as the end of a sentence; empty where it is."""
        if not self.whole:
            missing = [kind.resource.plural for kind in self._kinds if not kind.whole]
            return f"the {' and '.join(missing)} of the cluster are not all read yet{self._trouble()}"
        if self.usable:
            return ""
        return f"the API server has told nothing about nodes and pods for {STALE_S:.0f} s{self._trouble()}"

    def _trouble(self) -> str:
        told = "; ".join(kind.trouble for kind in self._kinds if kind.trouble)
        return f" ({told})" if told else ""

    async def run(self) -> None:
        """Follows both kinds until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds:
                group.create_task(self._follow(kind))

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
                seen.add(self._name(kind, item))
                self._put(kind, item)
            token = page.token
            if not token:
                break
            await asyncio.sleep(0)  # what is due runs between pages
        for name in self._known(kind) - seen:
            self._drop(kind, name)
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
        was_usable, kind.heard_s, kind.trouble = self.usable, self._now(), ""
        kind.whole = kind.whole or whole
        if self.usable and not was_usable:
            self._room_grew()

    def _tell_trouble(self, kind: _Stream, trouble: str) -> None:
        """Those who wait have it in their status; the back-off bounds how often."""
        before, kind.trouble = self.fault(), trouble
        if self.fault() != before:
            self._room_grew()

    def _apply(self, kind: _Stream, change: Change) -> None:
        if change.type in ("ADDED", "MODIFIED"):
            self._put(kind, change.object)
        elif change.type == "DELETED":
            self._drop(kind, self._name(kind, change.object))

    def _name(self, kind: _Stream, item: Raw) -> str:
        return raw.name(item) if kind.resource is NODES else pod_key(item)

    def _known(self, kind: _Stream) -> set[str]:
        return set(self.ledger.nodes if kind.resource is NODES else self.ledger.pods)

    def _put(self, kind: _Stream, item: Raw) -> None:
        if kind.resource is NODES:
            self._put_node(raw.name(item), node_entry(item))
        else:
            self._put_pod(pod_key(item), item)

    def _put_node(self, name: str, entry: NodeEntry) -> None:
        before = self.ledger.nodes.get(name)
        if not self.ledger.set_node(name, entry) or not self.whole:
            return
        if before is None or _better(before, entry):
            self._room_grew()
        if before is not None and _concerns(before, entry):
            self._tell(name)

    def _put_pod(self, key: str, item: Raw | None) -> None:
        before = self.ledger.pods.get(key)
        after = None if item is None else pod_entry(item)
        changed = self.ledger.set_pod(key, after)
        if changed and before is not None and self.whole and (after is None or after.node != before.node):
            self._room_grew()

    def _drop(self, kind: _Stream, name: str) -> None:
        if kind.resource is not NODES:
            self._put_pod(name, None)
        elif self.ledger.drop_node(name) and self.whole:
            self._tell(name)

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
