"""One reconcile: gather, decide, do, report. The only place that catches. I/O through its parts."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from modelfleet.controller.cluster import ApiError, Cluster, Conflict, Refused, Written
from modelfleet.controller.events import Recorder
from modelfleet.controller.execute import Execution, StatusWriter, execute
from modelfleet.controller.faults import bug_status
from modelfleet.controller.gather import Gatherer
from modelfleet.controller.queue import Done, Forget, Result, Retry
from modelfleet.controller.triggers import Key
from modelfleet.core.active import Scaling
from modelfleet.core.asked_resources import resources_of
from modelfleet.core.effects import Outcome
from modelfleet.core.placement.view import ClusterView, Reservation
from modelfleet.core.scaling.arbitration import Grant
from modelfleet.core.scaling.memory import Kept
from modelfleet.core.snapshot import Raw, World

_log = logging.getLogger(__name__)

ROUNDS = 3
"""How often one reconcile decides, when what its writes met bears on the decision."""

TAKEN_RECHECK_S = 15.0
"""A foreign object's end makes no event that we watch, so it is looked at again after this time."""


PASSES_S = 12.0
"""The longest back-off from what passes by itself: the API server in trouble, a write that met a newer version. Nothing
that we watch tells of its end, and what waits is to be done within 30 s of it."""

REFUSED_S = 25.0
"""The longest back-off from a refusal (a quota, a policy, missing rights), which somebody mends without telling us."""


class Decide(Protocol):
    """`core.reconcile.plan`."""

    def __call__(self, world: World) -> Outcome:
        """Decides about one world."""


class Books(Protocol):
    """`controller.placer.Placer`."""

    def view(self, key: Key, pods: Iterable[Raw], resources: Iterable[str]) -> ClusterView | None:
        """The cluster as this key, which may ask for these resources, may use it; None while nothing may be decided on
        it."""

    def fault(self) -> str:
        """Why there is no view, as the end of a sentence; empty where there is one."""

    def record(self, key: Key, pods: Iterable[Raw], reservations: Sequence[Reservation], *, waits: bool) -> None:
        """What was decided on the view just handed out."""

    def forget(self, key: Key) -> None:
        """The ModelDeployment is gone."""


class Numbers(Protocol):
    """`controller.autoscaler.Autoscaler`."""

    def view(self, key: Key) -> Kept | None:
        """What is remembered of decisions about a key's number of replicas."""

    def grants(self, key: Key) -> tuple[Grant, ...]:
        """Replicas that a key leaves to other models, or gets from them."""

    def wait(self, key: Key) -> str:
        """What a key that lacks replicas waits for before other models leave it some; empty: nothing."""

    def hold(self, key: Key, scaling: Scaling | None) -> None:
        """What was decided on what was just handed out."""

    def forget(self, key: Key) -> None:
        """The ModelDeployment is gone."""


@dataclass(frozen=True)
class Parts:
    """What a reconcile works with."""

    cluster: Cluster
    gatherer: Gatherer
    recorder: Recorder
    decide: Decide
    now: Callable[[], datetime]
    observe: Callable[[str, float], None] = lambda _result, _duration_s: None
    placer: Books | None = None
    autoscaler: Numbers | None = None


@dataclass(frozen=True)
class _Report:
    """What one reconcile did, for its log line and metric."""

    result: Result
    name: str  # settled, changed, stale, taken, refused, gone
    writes: int = 0
    detail: str = ""


class Shell:
    """Reconciles keys; give `reconcile` to the queue."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._status = StatusWriter(parts.cluster)
        self._uids: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> Result:
        """One run. Errors end here: the API server's as a back-off, a bug also as a condition and a traceback."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            report = await self._reconcile(key)
        except ApiError as error:
            self._parts.observe("api_error", loop.time() - started)
            _log.warning("reconcile put off: %s", error, extra={"object": str(key)})
            return Retry(error.retry_after_s, PASSES_S)
        except Exception as bug:
            self._parts.observe("bug", loop.time() - started)
            _log.exception("reconcile failed by a bug", extra={"object": str(key)})
            await self._tell_bug(key, bug)
            return Retry()
        duration_s = loop.time() - started
        self._parts.observe(report.name, duration_s)
        _log.log(
            logging.INFO if report.writes or report.detail else logging.DEBUG,
            "reconciled: %s",
            report.detail or report.name,
            extra={
                "object": str(key),
                "result": report.name,
                "writes": report.writes,
                "duration_s": round(duration_s, 4),
            },
        )
        return report.result

    async def _reconcile(self, key: Key) -> _Report:
        rounds, done = 0, Execution()
        while True:
            world = await self._parts.gatherer.gather(key)
            if world is None:
                self._forget(key)
                return _Report(Forget(), "gone")
            uid = world.deployment["metadata"]["uid"]
            if self._uids.get(key, uid) != uid:
                self._forget(key)  # another object of the same name: it begins anew
            self._uids[key] = uid
            outcome, rounds = self._decide(key, world), rounds + 1
            if done.refused is not None:
                break  # this round was only to say so in the status
            done = (await self._execute(key, world.deployment, outcome)).after(done)
            if done.writes:
                self._parts.gatherer.has_written(key)
            if not self._learned(key, world, done) or rounds == ROUNDS:
                break
        status = await self._status.write(world.deployment, outcome.status)
        if isinstance(status, Refused):
            raise ApiError(f"the status was refused (are the CRDs older than the operator?): {status.message}")
        if isinstance(status, Conflict) and done.stale is None:
            done = replace(done, stale=status.message)
        writes = done.writes + int(isinstance(status, Written))
        for event in outcome.events:
            self._parts.recorder.record(world.deployment, event)
        return _report(world, outcome, done, writes)

    def _decide(self, key: Key, world: World) -> Outcome:
        """Nothing is awaited between the view of the cluster and the record of what was decided on it."""
        placer, numbers = self._parts.placer, self._parts.autoscaler
        if numbers is not None:
            grants, wait = numbers.grants(key), numbers.wait(key)
            world = replace(world, scaling=numbers.view(key), grants=grants, waits_for=wait)
        outcome = self._decide_placed(key, world, placer) if placer is not None else self._parts.decide(world)
        if numbers is not None:
            numbers.hold(key, outcome.scaling)
        return outcome

    def _decide_placed(self, key: Key, world: World, placer: Books) -> Outcome:
        cluster = placer.view(key, world.pods, resources_of(world))
        outcome = self._parts.decide(world.showing(cluster, placer.fault()))
        placer.record(key, world.pods, outcome.reservations, waits=outcome.waits_for_room)
        return outcome

    def _learned(self, key: Key, world: World, execution: Execution) -> bool:
        """Whether the writes met something that bears on the decision; it is in the next world."""
        if execution.taken is not None:
            self._parts.gatherer.name_is_taken(key, *execution.taken)
            return True
        refused = execution.refused or ""
        self._parts.gatherer.was_refused(key, refused)
        return refused != world.refused

    async def _execute(self, key: Key, deployment: Raw, outcome: Outcome) -> Execution:
        if "deletionTimestamp" in deployment["metadata"]:
            return Execution()  # its children are the garbage collector's now
        return await execute(self._parts.cluster, key, outcome.effects)

    async def _tell_bug(self, key: Key, bug: Exception) -> None:
        """Best effort: the log has it in any case."""
        try:
            world = await self._parts.gatherer.gather(key)
            if world is not None:
                await self._status.write(world.deployment, bug_status(world.deployment, bug, self._parts.now()))
        except Exception as error:
            _log.warning("the bug could not be told in the status: %s", error, extra={"object": str(key)})

    def _forget(self, key: Key) -> None:
        if self._parts.placer is not None:
            self._parts.placer.forget(key)
        if self._parts.autoscaler is not None:
            self._parts.autoscaler.forget(key)
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._status.forget(uid)


def _report(world: World, outcome: Outcome, execution: Execution, writes: int) -> _Report:
    again_s = outcome.wake_after_s
    if world.taken:
        again_s = min(TAKEN_RECHECK_S, again_s or TAKEN_RECHECK_S)
    if execution.refused is not None:
        return _Report(
            Retry(most_s=REFUSED_S), "refused", writes, f"the API server refuses a child: {execution.refused}"
        )
    if execution.stale is not None:
        return _Report(Retry(most_s=PASSES_S), "stale", writes, f"the world changed meanwhile: {execution.stale}")
    if execution.taken is not None:
        return _Report(
            Retry(most_s=PASSES_S), "taken", writes, f"{' '.join(execution.taken)} is held by another object"
        )
    return _Report(Done(again_s), "changed" if writes else "settled", writes)
