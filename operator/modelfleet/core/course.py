"""Which revision the replicas move to: that of the spec, or, while a rollout is paused or after it failed, the one that
serves. Pure.

What a failed rollout returned to is remembered in NAME-state for the inputs that failed, so that neither a restart nor
a change of the number of replicas tries them again. There too stands the clock of the progress deadline: how many new
replicas served at most, and since when. Losing either costs one more try.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from modelfleet.api.reasons import Reason
from modelfleet.api.rollout import OnFailure, Rollout
from modelfleet.core import raw
from modelfleet.core.failures import Failure
from modelfleet.core.groups import Replica
from modelfleet.core.revisions import Revision

_WAITED_FOR = {Reason.IMAGE_NOT_PULLABLE, Reason.CONTAINER_CONFIG_ERROR, Reason.REPLICA_LOST}
"""Failures that something outside of the revision may mend: they have until the progress deadline."""

_SAID_LIMIT = 400  # characters of a failure's sentence that are kept


@dataclass(frozen=True)
class Interval:
    """The 95 % interval of the share of requests of a revision that kept their promise, between 0 and 1."""

    low: float
    high: float


@dataclass(frozen=True)
class Promise:
    """The share that is promised, and what is measured of each revision, by its name; without a sample it is absent."""

    target: float
    measured: Mapping[str, Interval]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What the course is decided from. `wanted` is the revision of the spec, `known` are all readable ones by name,
    `kept` is what NAME-state holds of it."""

    wanted: Revision
    known: Mapping[str, Revision]
    fleet: tuple[Replica, ...]
    replicas: int
    rollout: Rollout
    kept: Mapping[str, Any]
    now: datetime
    promise: Promise | None = None


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Why a revision was given up: `revision` is its whole hash; `to` is that of the one that serves in its place."""

    revision: str
    to: str
    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True)
class Course:
    """`goal`: the revision that replicas are made of; `wanted`: that of the spec. `paused`: those of other revisions
    stay. `failed`: why the goal is not the wanted one. `halted`: why the wanted one does not get on, where it is not
    given up. `kept`: what NAME-state is to hold; None leaves it as it is."""

    goal: Revision
    wanted: Revision
    paused: bool = False
    failed: Failed | None = None
    halted: tuple[Reason, str] | None = None
    kept: Mapping[str, Any] | None = None
    wake_after_s: float | None = None


def decide_course(trial: Trial) -> Course:
    """
    | what is observed | the goal |
    | --- | --- |
    | replicas of other revisions stand, and the rollout is paused | the revision of most; nothing is remembered |
    | these inputs failed, onFailure is Rollback, what they returned to is there | that |
    | the new replicas fail (`_failure`), old ones serve, onFailure is Rollback | the revision of most that serve |
    | the new replicas fail | the wanted one, halted |
    | else | the wanted one |
    """
    others = _others(trial)
    if trial.rollout.paused:
        forgotten: Mapping[str, Any] | None = {} if trial.kept else None
        if not others:
            return Course(wanted=trial.wanted, goal=trial.wanted, kept=forgotten)
        return Course(
            wanted=trial.wanted, goal=_most(trial, _live(trial), ready_first=False), paused=True, kept=forgotten
        )
    remembered = _remembered(trial)
    if remembered is not None:
        to, failed = remembered
        return Course(wanted=trial.wanted, goal=to, failed=failed)
    if not others:
        return Course(wanted=trial.wanted, goal=trial.wanted)
    progress = _progress(trial)
    failure = _failure(trial, progress)
    serving = [replica for replica in others if replica.ready and replica.revision in trial.known]
    if failure is not None and serving and trial.rollout.on_failure is OnFailure.ROLLBACK:
        to = _most(trial, serving, ready_first=True)
        failed = Failed(revision=trial.wanted.digest, to=to.digest, reason=failure[0], message=failure[1])
        return Course(wanted=trial.wanted, goal=to, failed=failed, kept={"failed": _dumped(failed)})
    left_s = progress.left_s(trial)
    return Course(
        wanted=trial.wanted,
        goal=trial.wanted,
        halted=failure,
        kept={"progress": progress.dumped(trial.wanted)},
        wake_after_s=left_s if left_s > 0 else None,
    )


@dataclass(frozen=True)
class _Progress:
    """The most new replicas that served at once, and when it became so many."""

    served: int
    at: datetime

    def left_s(self, trial: Trial) -> float:
        """Seconds to the deadline; below zero after it."""
        waited_s = max(0.0, (trial.now - self.at).total_seconds())
        return trial.rollout.progress_deadline.seconds - waited_s

    def dumped(self, wanted: Revision) -> dict[str, Any]:
        """As NAME-state holds it."""
        return {"revision": wanted.digest, "served": self.served, "at": self.at.isoformat()}


def _progress(trial: Trial) -> _Progress:
    kept, served = raw.mapping(trial.kept, "progress"), _served(trial)
    now = trial.now.replace(microsecond=0)
    at = raw.instant(kept, "at")
    if raw.text(kept, "revision") != trial.wanted.digest or at is None or at > trial.now:
        return _Progress(served, now)
    most = raw.integer(kept, "served")
    return _Progress(served, now) if served > most else _Progress(most, at)


def _failure(trial: Trial, progress: _Progress) -> tuple[Reason, str] | None:
    """
    | no new replica ever served, and one failed for a reason in itself that waiting does not mend | its reason |
    | no further new replica served for the progress deadline | ProgressDeadlineExceeded |
    | the new ones break the promise and the old ones keep it, both for certain | PromiseBroken |
    """
    own = [replica for replica in _live(trial) if replica.revision == trial.wanted.name]
    lasting = (r.failure for r in own if r.failure is not None and r.hopeless and _is_its_own(r.failure))
    failure = next(lasting, None)
    if progress.served == 0 and failure is not None:
        return failure.reason, failure.message[:_SAID_LIMIT]
    if progress.left_s(trial) <= 0 and _served(trial) < trial.replicas:
        why = next((r.failure.message[:_SAID_LIMIT] for r in own if r.failure), "" if own else "none could be placed")
        return (
            Reason.PROGRESS_DEADLINE_EXCEEDED,
            f"for {trial.rollout.progress_deadline.canonical} no further new replica has come to serve"
            + (f": {why}" if why else ""),
        )
    return _broken_promise(trial)


def _is_its_own(failure: Failure) -> bool:
    """The revision itself is the cause: neither its node nor what is around it."""
    return failure.reason not in _WAITED_FOR and not failure.of_its_node


def _broken_promise(trial: Trial) -> tuple[Reason, str] | None:
    if trial.promise is None:
        return None
    target, measured = trial.promise.target, trial.promise.measured
    new = measured.get(trial.wanted.name)
    old = [measured[name] for name in sorted({str(r.revision) for r in _others(trial)} & measured.keys())]
    if new is None or new.high >= target or not any(each.low >= target for each in old):
        return None
    return (
        Reason.PROMISE_BROKEN,
        f"at most {new.high:.1%} of its requests kept the promise of {target:.1%}, which the old revision keeps",
    )


def _live(trial: Trial) -> list[Replica]:
    return [replica for replica in trial.fleet if not (replica.terminating or replica.finished)]


def _others(trial: Trial) -> list[Replica]:
    return [replica for replica in _live(trial) if replica.revision != trial.wanted.name]


def _served(trial: Trial) -> int:
    return sum(replica.ready for replica in _live(trial) if replica.revision == trial.wanted.name)


def _most(trial: Trial, replicas: list[Replica], *, ready_first: bool) -> Revision:
    """The revision of most of these replicas; of equals one that is not the wanted one, then the newest."""
    counts: dict[str, int] = {}
    for replica in replicas:
        if replica.revision in trial.known and replica.revision is not None:
            counts[replica.revision] = counts.get(replica.revision, 0) + 1
    named = [trial.known[name] for name in counts]
    return max(
        named,
        key=lambda each: (counts[each.name], each.name != trial.wanted.name, each.number, each.name),
        default=trial.wanted,
    )


def _remembered(trial: Trial) -> tuple[Revision, Failed] | None:
    """What these inputs returned to when they failed, while that still counts."""
    kept = raw.mapping(trial.kept, "failed")
    if raw.text(kept, "revision") != trial.wanted.digest or trial.rollout.on_failure is not OnFailure.ROLLBACK:
        return None
    to = next((each for each in trial.known.values() if each.digest == raw.text(kept, "to")), None)
    reason = next((each for each in Reason if each == raw.text(kept, "reason")), None)
    if to is None or reason is None or to.digest == trial.wanted.digest:
        return None
    message = raw.text(kept, "message")
    return to, Failed(revision=trial.wanted.digest, to=to.digest, reason=reason, message=message)


def _dumped(failed: Failed) -> dict[str, str]:
    return {"revision": failed.revision, "to": failed.to, "reason": str(failed.reason), "message": failed.message}
