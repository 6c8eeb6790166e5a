"""What an activator writes: what waits, into status.demand; its own address, into the slices that point to it. I/O.

Both are levels, not edges: each look compares what should be there with what the watch shows. The API server away means
that it is written later; requests are held and handed on meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from modelfleet.activator.fleet import Fleet
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
_SHOWN_S = 0.5
_CONFLICT_S = 0.2
_FAILED_S = 2.0


class _Writes:
    """Writes that are on their way, one a model at a time: a slow one keeps no other from being sent."""

    def __init__(self) -> None:
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._fault: BaseException | None = None

    def __contains__(self, key: Key) -> bool:
        return key in self._tasks

    def begin(self, key: Key, writing: Coroutine[Any, Any, None], ended: Callable[[], None]) -> None:
        """Sends one; `ended` is called when it was answered, or was not in time."""
        task = self._tasks[key] = asyncio.get_running_loop().create_task(writing)

        def done(task: "asyncio.Task[None]") -> None:
            del self._tasks[key]
            self._fault = self._fault or (None if task.cancelled() else task.exception())
            ended()

        task.add_done_callback(done)

    def check(self) -> None:
        """Raises what ended one, which must not be: the process is started again."""
        if self._fault is not None:
            raise self._fault

    async def settle(self) -> None:
        """Until none is on its way."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())


class Demands:
    """Keeps this activator's part of status.demand. A look is at the models of which another number may wait, or of
    which something is due."""

    def __init__(self, cluster: KubernetesCluster, activator: str, now: Callable[[], datetime], meter: Meter) -> None:
        self._cluster, self._activator, self._now, self._meter = cluster, activator, now, meter
        self._told: dict[Key, tuple[str, Told]] = {}
        """With the uid of the object that it was written to."""
        self._due_s: dict[Key, float] = {}
        self._writes = _Writes()
        self._wake = asyncio.Event()

    def changed(self, key: Key) -> None:
        """Another number may wait for a model."""
        self._due_s[key] = float("-inf")
        self._wake.set()

    async def run(self, lines: Callable[[], Mapping[Key, Line]]) -> None:
        """Writes what is due, until cancelled."""
        while True:
            self._wake.clear()
            self._writes.check()
            await _woken(self._wake, self.look(lines()))

    def look(self, lines: Mapping[Key, Line]) -> float:
        """Begins to write what is due; seconds until something else is."""
        now_s = asyncio.get_running_loop().time()
        for key in [key for key, due_s in self._due_s.items() if due_s <= now_s and key not in self._writes]:
            del self._due_s[key]
            line = lines.get(key)
            if line is None:
                self._told.pop(key, None)
                continue
            decision = self._decide(line, now_s)
            if decision.step is Step.WRITE:
                self._writes.begin(key, self._write(line, line.demand), partial(self._after, key))
            elif decision.wait_s is not None:
                self._due_s[key] = now_s + decision.wait_s
        waits = (due_s - now_s for key, due_s in self._due_s.items() if key not in self._writes)
        return max(0.0, min([_IDLE_S, *waits]))

    async def clear(self, lines: Mapping[Key, Line]) -> None:
        """Takes this activator out of every object that names it, because it ends."""
        await self._writes.settle()
        own = self._activator
        named = [x for x in lines.values() if self._last(x).waiting or own in x.model.demand]
        await asyncio.gather(*(self._write(line, 0) for line in named))

    def _decide(self, line: Line, now_s: float) -> Decision:
        return decide_demand(line.demand, self._last(line), line.model.demand.get(self._activator), now_s)

    def _last(self, line: Line) -> Told:
        uid, told = self._told.get(line.model.key, ("", Told()))
        return told if uid == line.model.uid else Told()

    def _after(self, key: Key) -> None:
        """By the next look the watch should show what was written; a change meanwhile is looked at first."""
        self._due_s.setdefault(key, asyncio.get_running_loop().time() + _SHOWN_S)
        self._wake.set()

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
        self._told[model.key] = model.uid, Told(waiting, asyncio.get_running_loop().time(), confirmed=done)


@dataclass
class _Try:
    not_before_s: float = 0.0
    version: str = ""


class Membership:
    """Keeps this activator's address in the slices of the models that it listens for. A look is at the models that
    something changed of, and at all every few seconds."""

    def __init__(self, cluster: KubernetesCluster, own: Own, meter: Meter) -> None:
        self._cluster, self._own, self._meter = cluster, own, meter
        self._tries: dict[Key, _Try] = {}
        self._due: set[Key] = set()
        self._all_at_s = float("-inf")
        """When all are looked at next."""
        self._writes = _Writes()
        self._wake = asyncio.Event()
        self.leaving = False

    def changed(self, keys: Iterable[Key] | None = None) -> None:
        """The slices of these models changed; None: anything, such as ports or the other activators."""
        if keys is None:
            self._all_at_s = float("-inf")
        self._due.update(keys or ())
        self._wake.set()

    def leave(self) -> None:
        """Takes the address out of all slices."""
        self.leaving = True
        self.changed()

    async def run(self, seen: Callable[[], "Seen"]) -> None:
        """Writes what is due, until cancelled."""
        while True:
            self._wake.clear()
            self._writes.check()
            await _woken(self._wake, self.look(seen()))

    def look(self, seen: "Seen") -> float:
        """Begins to write what is due; seconds until the next look."""
        lines = seen.fleet.lines
        now_s = asyncio.get_running_loop().time()
        looked_at = self._due & lines.keys()
        if now_s >= self._all_at_s:
            self._tries = {key: tried for key, tried in self._tries.items() if key in lines}
            looked_at, self._all_at_s = set(lines), now_s + _IDLE_S
        self._due = set()
        for key in looked_at:
            stored = seen.fleet.activator_slice(key)
            if stored is None:
                continue
            listens = not self.leaving and lines[key].model.port in seen.listening
            wanted = wanted_endpoints(stored, self._own, seen.alive, listens=listens)
            if wanted is None:
                continue
            self._due.add(key)  # to see whether it was done
            if key not in self._writes and self._may_try(key, stored):
                self._writes.begin(key, self._write(key, stored, wanted), self._wake.set)
        return _CONFLICT_S if self._due else max(0.0, self._all_at_s - now_s)

    def _may_try(self, key: Key, stored: Raw) -> bool:
        """Not the same version twice in a moment: the watch shows soon what the last write did."""
        at = self._tries.get(key, _Try())
        version = raw.text(stored, "metadata", "resourceVersion")
        return at.version != version or at.not_before_s <= asyncio.get_running_loop().time()

    async def _write(self, key: Key, stored: Raw, wanted: list[Mapping[str, Any]]) -> None:
        namespace, name = raw.text(stored, "metadata", "namespace"), raw.name(stored)
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

    fleet: Fleet
    listening: frozenset[int]
    alive: frozenset[str] | None


async def _woken(wake: asyncio.Event, wait_s: float) -> None:
    """After so many seconds, or as soon as something changed."""
    try:
        async with asyncio.timeout(wait_s):
            await wake.wait()
    except TimeoutError:
        return


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
