"""Which revision the replicas move to: that of the spec, or, while a rollout is paused or after it failed, the one that
serves, or served. Pure.

What a failed rollout returned to is remembered in NAME-state for the inputs that failed, so that neither a restart nor
a change of the number of replicas tries them again. There too stands the clock of the progress deadline: how many new
replicas served at most, since when, and which revision served before (progress.py). Losing either costs one more try.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from modelfleet.api.reasons import Reason
from modelfleet.api.rollout import OnFailure, Rollout
from modelfleet.core import progress as clock
from modelfleet.core import raw
from modelfleet.core.failures import Failure
from modelfleet.core.groups import Replica
from modelfleet.core.progress import Progress, in_words
from modelfleet.core.revisions import Revision

_WAITED_FOR = {Reason.IMAGE_NOT_PULLABLE, Reason.CONTAINER_CONFIG_ERROR, Reason.REPLICA_LOST, Reason.DISK_FULL}
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
    `kept` is what NAME-state holds of it. `replicas` is 0 where the model is at zero; `from_zero`: it is, or wakes, so
    that replicas which are not there are not lost. `start_s` is how long a new replica may take to serve."""

    wanted: Revision
    known: Mapping[str, Revision]
    fleet: tuple[Replica, ...]
    replicas: int
    from_zero: bool = False
    rollout: Rollout
    kept: Mapping[str, Any]
    now: datetime
    promise: Promise | None = None
    start_s: float = 0.0

    @property
    def deadline_s(self) -> float:
        """How long it may stand still: what the spec says, else as long as a start may take."""
        written = self.rollout.progress_deadline
        return written.seconds if written is not None else max(clock.LEAST_S, self.start_s)


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
    given up. `origin`: the one to go back to if it does not. `kept`: what NAME-state is to hold; None leaves it as it
    is."""

    goal: Revision
    wanted: Revision
    paused: bool = False
    failed: Failed | None = None
    halted: tuple[Reason, str] | None = None
    origin: Revision | None = None
    kept: Mapping[str, Any] | None = None
    wake_after_s: float | None = None


def decide_course(trial: Trial) -> Course:
    """
    | what is observed | the goal |
    | --- | --- |
    | the rollout is paused | what serves or served (`_stays`); failures are forgotten |
    | these inputs failed, onFailure is Rollback, what they returned to is there | that |
    | the new replicas fail (`_failure`), old ones serve, onFailure is Rollback | the revision of most that serve |
    | they fail, none of them ever served and no old one serves any more | the one that served before (`_origin`) |
    | the same, and none served before: a first start | the wanted one |
    | the new replicas fail, onFailure is Hold | the wanted one, halted |
    | else | the wanted one |
    """
    others, origin = _others(trial), _origin(trial)
    progress = _progress(trial, origin)
    if trial.rollout.paused:
        return _paused(trial, others, progress)
    remembered = _remembered(trial)
    if remembered is not None:
        to, failed = remembered
        return Course(wanted=trial.wanted, goal=to, failed=failed)
    if not others and not _is_open(trial, origin):
        return Course(wanted=trial.wanted, goal=trial.wanted, kept=_done(trial))
    failure = _failure(trial, progress)
    back = origin if progress.served == 0 or _serving(trial, others) else None
    if failure is not None and back is not None and trial.rollout.on_failure is OnFailure.ROLLBACK:
        failed = Failed(revision=trial.wanted.digest, to=back.digest, reason=failure[0], message=failure[1])
        return Course(wanted=trial.wanted, goal=back, failed=failed, kept={"failed": _dumped(failed)})
    left_s = trial.deadline_s - progress.waited_s(trial.now)
    return Course(
        wanted=trial.wanted,
        goal=trial.wanted,
        halted=failure,
        origin=origin,
        kept={"progress": progress.dumped()},
        wake_after_s=left_s if left_s > 0 and progress.at is not None else None,
    )


def _done(trial: Trial) -> Mapping[str, Any] | None:
    """Once the rollout is over its clock stands: what is old later begins a rollout of its own."""
    kept = clock.read(trial.kept)
    running = kept.revision == trial.wanted.digest and kept.at is not None
    return {"progress": replace(kept, at=None).dumped()} if running else None


def _paused(trial: Trial, others: list[Replica], progress: Progress) -> Course:
    """A pause forgets what failed, and the clock; not what served, which is still what there is to go back to."""
    goal, before = _stays(trial), _served_before(trial)
    known = replace(progress, at=None)
    if before and not (known.served or known.origin):
        known = replace(known, origin=before[0].digest)  # the wanted one itself, set back to while nothing serves
    kept: Mapping[str, Any] = {"progress": known.dumped()} if known.served or known.origin else {}
    return Course(
        wanted=trial.wanted,
        goal=goal,
        paused=bool(others) or goal.digest != trial.wanted.digest,
        kept=kept if trial.kept or (others and kept) else None,
    )


def _stays(trial: Trial) -> Revision:
    """
    What is lost during a pause is made of this revision.

    | replicas stand of revisions that serve, or served by what is kept, and nothing keeps them from it | that of most |
    | none does | the last that served |
    | none ever served, or the model is at zero or wakes | that of most, or the wanted one, as in a first start |
    """
    before, live = [] if trial.from_zero else _served_before(trial), _live(trial)
    proved = {each.name for each in before} | {replica.revision for replica in live if replica.ready}
    left = [replica for replica in _known(trial, live) if replica.revision in proved and not replica.hopeless]
    return before[0] if before and not left else _most(trial, left or live)


def _progress(trial: Trial, origin: Revision | None) -> Progress:
    """How far the wanted revision is now. The clock stands while no replica is wanted."""
    kept, served = clock.read(trial.kept), _served(trial)
    now = trial.now.replace(microsecond=0) if trial.replicas else None
    known = Progress(trial.wanted.digest, served, now, origin.digest if origin is not None else "")
    if kept.revision != trial.wanted.digest:
        return known
    if now is None or kept.at is None or kept.at > trial.now or served > kept.served:
        return replace(known, served=max(served, kept.served))
    return replace(known, served=kept.served, at=kept.at)


def _is_open(trial: Trial, origin: Revision | None) -> bool:
    """Whether, with no old replica left, the rollout is still to be watched: none of the wanted revision has served yet
    by what is kept, and another did before. What goes to zero is noted as well: there no old replica tells of it."""
    kept = clock.read(trial.kept)
    if kept.revision == trial.wanted.digest and kept.served:
        return False
    return origin is not None or (not trial.replicas and _served(trial) > 0)


def _origin(trial: Trial) -> Revision | None:
    """The revision that a failed rollout goes back to; None where none has served.

    | an old replica serves | the revision of most that do |
    | what was rolled out before served | it |
    | it did not | the one that it would have gone back to, or went back to |
    | that is the wanted one, not known any more, or its replicas fail now | the next of these |
    """
    others = _others(trial)
    serving = _serving(trial, others)
    if serving:
        return _most(trial, serving)
    failing = {replica.revision for replica in others if replica.hopeless}
    found = (each for each in _served_before(trial) if each.digest != trial.wanted.digest)
    return next((each for each in found if each.name not in failing), None)


def _served_before(trial: Trial) -> list[Revision]:
    """What has served by what is kept, the last first, as far as it is still known."""
    kept, known = clock.read(trial.kept), {each.digest: each for each in trial.known.values()}
    served = (kept.revision if kept.served else "", kept.origin, raw.text(trial.kept, "failed", "to"))
    return [known[each] for each in served if each in known]


def _failure(trial: Trial, progress: Progress) -> tuple[Reason, str] | None:
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
    if progress.waited_s(trial.now) >= trial.deadline_s and _served(trial) < trial.replicas:
        return Reason.PROGRESS_DEADLINE_EXCEEDED, _too_long(trial, own)
    return _broken_promise(trial)


def _too_long(trial: Trial, own: list[Replica]) -> str:
    """That nothing has come for too long, and why, as far as something tells."""
    written = trial.rollout.progress_deadline
    waited = written.canonical if written is not None else in_words(trial.deadline_s)
    why = next((r.failure.message[:_SAID_LIMIT] for r in own if r.failure), "" if own else "none could be placed")
    if not why and trial.deadline_s < trial.start_s:
        why = f"a start may take up to {in_words(trial.start_s)}, more than spec.rollout.progressDeadline allows"
    return f"for {waited} no further new replica has come to serve" + (f": {why}" if why else "")


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


def _serving(trial: Trial, others: list[Replica]) -> list[Replica]:
    return [replica for replica in _known(trial, others) if replica.ready]


def _known(trial: Trial, replicas: list[Replica]) -> list[Replica]:
    return [replica for replica in replicas if replica.revision in trial.known]


def _served(trial: Trial) -> int:
    return sum(replica.ready for replica in _live(trial) if replica.revision == trial.wanted.name)


def _most(trial: Trial, replicas: list[Replica]) -> Revision:
    """The revision of most of these replicas; of equals one that is not the wanted one, then the newest."""
    counts: dict[str, int] = {}
    for replica in _known(trial, replicas):
        if replica.revision is not None:
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
