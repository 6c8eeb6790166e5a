"""The one placer: hands out views of the books, and keeps what was decided on them. No I/O.

From a view to the record of what was decided on it nothing else runs: both happen in one step of the event loop, so no
other key can decide in between. Losing the reservations (a restart, a handover of the Lease) loses only what was
decided for pods that are not pinned yet: they are still gated, and are placed anew.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import floor

from modelfleet.controller.inventory import Inventory
from modelfleet.controller.streams import Streams
from modelfleet.controller.triggers import Key, Triggers
from modelfleet.core.placement.project import PodEntry, pod_entry, pod_key
from modelfleet.core.placement.view import ClusterView, Reservation
from modelfleet.core.snapshot import Raw

WAKE_S = 1.0
"""Keys that wait for room are woken at most so often: pods end in crowds."""

WAKE_KEYS_PER_S, LONGEST_WAKE_S = 20, 30.0
"""Where many wait, so seldom that this many a second are woken, but never more seldom than that: most look in vain, and
each asks the API server for nine lists."""


class Placer:
    """Views and reservations of all keys, and who waits for room."""

    def __init__(self, streams: Streams, triggers: Triggers) -> None:
        self.inventory = Inventory(streams, self._room_grew, self._keys_concern)
        self._triggers = triggers
        self._waiting: set[Key] = set()
        self._blind: dict[Key, None] = {}  # without a view, in the order in which they asked: what changed asks first
        self._wake: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Keys that wait for room, or for the books."""
        return len(self._waiting | self._blind.keys())

    def view(self, key: Key, pods: Iterable[Raw], resources: Iterable[str]) -> ClusterView | None:
        """The cluster as this key may use it; `pods` are its own, freshly listed, `resources` the names by which it may
        ask for devices. None: nothing may be decided on the books now, and the key is woken once that changes."""
        self.inventory.ask(resources)
        if not self.inventory.usable:
            self._blind[key] = None
            return None
        own = _taking_room(pods)
        age_s = float(floor(self.inventory.age_s / 60) * 60)
        view = self.inventory.ledger.view(str(key), own, age_s)
        return replace(view, devices_fault=self.inventory.devices_fault)

    def fault(self) -> str:
        """Why there is no view, as the end of a sentence; empty where there is one."""
        return self.inventory.fault()

    def record(self, key: Key, pods: Iterable[Raw], reservations: Sequence[Reservation], *, waits: bool) -> None:
        """What was decided on the view just handed out, all of it; `pods` as there, `waits`: a group found no room.

        A pod that was pinned a moment ago is decided no more and may not be seen yet: its room is kept meanwhile.
        """
        seen = self.inventory.ledger.pods
        own = (
            Reservation(pod=name, node=entry.node, requests=entry.requests)
            for name, entry in _taking_room(pods).items()
            if name not in seen or seen[name].node != entry.node
        )
        self.inventory.ledger.reserve(str(key), (*own, *reservations))
        self._blind.pop(key, None)
        if waits:
            self._waiting.add(key)
        elif self.inventory.usable:
            self._waiting.discard(key)

    def forget(self, key: Key) -> None:
        """The ModelDeployment is gone."""
        self._waiting.discard(key)
        self._blind.pop(key, None)
        if self.inventory.ledger.reservations(str(key)):
            self.inventory.ledger.reserve(str(key), ())
            self._room_grew()

    def _room_grew(self) -> None:
        if (self._waiting or self._blind) and self._wake is None:
            crowd = 0 if self._blind else len(self._waiting)
            wait_s = min(max(WAKE_S, crowd / WAKE_KEYS_PER_S), LONGEST_WAKE_S)
            self._wake = asyncio.get_running_loop().call_later(wait_s, self._wake_waiting)

    def _wake_waiting(self) -> None:
        self._wake = None
        for key in self._blind:
            self._triggers.add(key)
        for key in sorted(self._waiting):
            self._triggers.add(key, behind=True)

    def _keys_concern(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._triggers.add(key)


def _taking_room(pods: Iterable[Raw]) -> dict[str, PodEntry]:
    """The pods that hold room of a node, bound or pinned, by name."""
    return {pod_key(pod): entry for pod in pods if (entry := pod_entry(pod)) is not None}
