"""What an activator writes: what waits, into status.demand; its own address, into the slices that point to it. I/O.

Both are levels, not edges: each look compares what should be there with what the watch shows. The API server away means
that it is written later; requests are held and handed on meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from modelfleet.activator.fleet import activator_slices, service_key
from modelfleet.activator.line import Line
from modelfleet.activator.meter import Meter
from modelfleet.api import names
from modelfleet.controller.cluster import ApiError, KubernetesCluster, WriteResult, Written
from modelfleet.controller.resources import SLICES
from modelfleet.core import raw
from modelfleet.core.activation.demand import Decision, Step, Told, decide_demand, entry
from modelfleet.core.activation.slices import Own, wanted_endpoints
from modelfleet.core.snapshot import Raw

_log = logging.getLogger(__name__)

Key = tuple[str, str]

_IDLE_S = 5.0
_CONFLICT_S = 0.2
_FAILED_S = 2.0


class Demands:
    """Keeps this activator's part of status.demand."""

    def __init__(self, cluster: KubernetesCluster, activator: str, now: Callable[[], datetime], meter: Meter) -> None:
        self._cluster, self._activator, self._now, self._meter = cluster, activator, now, meter
        self._told: dict[str, Told] = {}
        self._wake = asyncio.Event()

    def changed(self) -> None:
        """Another number may wait."""
        self._wake.set()

    async def run(self, lines: Callable[[], Mapping[Key, Line]]) -> None:
        """Writes what is due, until cancelled."""
        while True:
            self._wake.clear()
            wait_s = await self.look(lines())
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def look(self, lines: Mapping[Key, Line]) -> float:
        """Writes what is due; seconds until something else is."""
        now_s = asyncio.get_running_loop().time()
        self._told = {uid: told for uid, told in self._told.items() if uid in {x.model.uid for x in lines.values()}}
        decisions = [(line, self._decide(line, now_s)) for line in lines.values()]
        due = [line for line, decision in decisions if decision.step is Step.WRITE]
        await asyncio.gather(*(self._write(line, line.demand) for line in due))
        waits = [decision.wait_s for _, decision in decisions if decision.wait_s is not None]
        return min([0.5 if due else _IDLE_S, *waits])

    def _decide(self, line: Line, now_s: float) -> Decision:
        model = line.model
        return decide_demand(line.demand, self._told.get(model.uid, Told()), model.demand.get(self._activator), now_s)

    async def clear(self, lines: Mapping[Key, Line]) -> None:
        """Takes this activator out of every object that names it, because it ends."""
        own = self._activator
        named = [x for x in lines.values() if self._told.get(x.model.uid, Told()).waiting or own in x.model.demand]
        await asyncio.gather(*(self._write(line, 0) for line in named))

    async def _write(self, line: Line, waiting: int) -> None:
        model = line.model
        manifest = {
            "apiVersion": names.API_VERSION,
            "kind": names.DEPLOYMENT_KIND,
            "metadata": {"name": model.name, "namespace": model.namespace, "uid": model.uid},
            "status": {"demand": entry(self._activator, waiting, self._now())},
        }
        done = await _attempt(self._cluster.apply_status(manifest), f"the demand of {model.namespace}/{model.name}")
        self._meter.writes.labels("demand", "ok" if done else "failed").inc()
        self._told[model.uid] = Told(waiting, asyncio.get_running_loop().time(), confirmed=done)


@dataclass
class _Try:
    not_before_s: float = 0.0
    version: str = ""


class Membership:
    """Keeps this activator's address in the slices of the models that it listens for."""

    def __init__(self, cluster: KubernetesCluster, own: Own, meter: Meter) -> None:
        self._cluster, self._own, self._meter = cluster, own, meter
        self._tries: dict[Key, _Try] = {}
        self._wake = asyncio.Event()
        self.leaving = False

    def changed(self) -> None:
        """Slices, ports or the other activators changed."""
        self._wake.set()

    def leave(self) -> None:
        """Takes the address out of all slices."""
        self.leaving = True
        self.changed()

    async def run(self, seen: Callable[[], "Seen"]) -> None:
        """Writes what is due, until cancelled."""
        while True:
            self._wake.clear()
            wait_s = await self.look(seen())
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def look(self, seen: "Seen") -> float:
        """Writes what is due; seconds until the next look."""
        due = []
        slices = activator_slices(seen.slices.values())
        for line in seen.lines.values():
            stored = slices.get(service_key(line.model))
            if stored is None:
                continue
            listens = not self.leaving and line.model.port in seen.listening
            wanted = wanted_endpoints(stored, self._own, seen.alive, listens=listens)
            if wanted is not None and self._may_try(stored):
                due.append(self._write(stored, wanted))
        await asyncio.gather(*due)
        return _CONFLICT_S if due else _IDLE_S

    def _may_try(self, stored: Raw) -> bool:
        """Not the same version twice in a moment: the watch shows soon what the last write did."""
        at = self._tries.get(_key(stored), _Try())
        version = raw.text(stored, "metadata", "resourceVersion")
        return at.version != version or at.not_before_s <= asyncio.get_running_loop().time()

    async def _write(self, stored: Raw, wanted: list[Mapping[str, Any]]) -> None:
        namespace, name = key = _key(stored)
        version = raw.text(stored, "metadata", "resourceVersion")
        patch = {"metadata": {"resourceVersion": version}, "endpoints": wanted}
        done = await _attempt(
            self._cluster.merge(SLICES, name, namespace, patch), f"the endpoints of {namespace}/{name}"
        )
        self._meter.writes.labels("endpoints", "ok" if done else "failed").inc()
        self._tries[key] = _Try(asyncio.get_running_loop().time() + _FAILED_S, version)


@dataclass(frozen=True)
class Seen:
    """What membership is decided by. `alive`: the addresses of activators that are ready; None: not known."""

    lines: Mapping[Key, Line]
    slices: Mapping[Key, Raw]
    listening: frozenset[int]
    alive: frozenset[str] | None


def _key(item: Raw) -> Key:
    return raw.text(item, "metadata", "namespace"), raw.name(item)


async def _attempt(writing: Any, what: str) -> bool:
    """Whether the write was done."""
    try:
        result: WriteResult = await writing
    except ApiError as error:
        _log.warning("%s is written later: %s", what, error)
        return False
    if not isinstance(result, Written):
        _log.warning("%s was not written: %s: %s", what, type(result).__name__, result.message)
    return isinstance(result, Written)
