"""Which revision replicas move to, row by row."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import START, Fleet, manual
from modelfleet.api.reasons import Reason
from modelfleet.api.rollout import Rollout
from modelfleet.core.course import Course, Interval, Promise, Trial, decide_course
from modelfleet.core.failures import Failure
from modelfleet.core.groups import alone
from modelfleet.core.plan import Plan
from modelfleet.core.pods import PodView
from modelfleet.core.revisions import Revision
from scenes import NEW, OLD, STARTING, old, pod

OLDEST = "cccccccc"
CRASHED: dict[str, Any] = {"ready": False, "failure": Failure(Reason.MODEL_REFUSED, "it cannot be read", hopeless=True)}
FULL_CLAIM: dict[str, Any] = {
    "ready": False,
    "failure": Failure(Reason.DISK_FULL, "the claim is full", hopeless=True, anywhere=True),
}
NO_IMAGE: dict[str, Any] = {"ready": False, "failure": Failure(Reason.IMAGE_NOT_PULLABLE, "no image", hopeless=True)}


def plan() -> Plan:
    fleet = Fleet(manual(1))
    fleet.settle()
    stored = next(item for (kind, _), item in fleet.objects.items() if kind == "ControllerRevision")
    return Plan.model_validate(stored["data"]["plan"])


PLAN = plan()
REVISIONS = {name: Revision(name + "0" * 56, number, PLAN) for number, name in enumerate((OLDEST, OLD, NEW))}


def trial(*pods: PodView, kept: dict[str, Any] | None = None, after_s: float = 0.0, **rollout: Any) -> Trial:
    """Two replicas are wanted of the new revision, which was made `after_s` ago."""
    return Trial(
        wanted=REVISIONS[NEW],
        known=REVISIONS,
        fleet=tuple(map(alone, pods)),
        replicas=2,
        rollout=Rollout.model_validate(rollout),
        kept=kept if kept is not None else clock(0),
        now=START + timedelta(seconds=after_s),
    )


def clock(served: int, revision: str = NEW, origin: str = "") -> dict[str, Any]:
    """What is kept of a rollout that began at START; before it `origin` served."""
    said = {"revision": REVISIONS[revision].digest, "served": served, "at": START.isoformat()}
    return {"progress": said | ({"from": REVISIONS[origin].digest} if origin else {})}


def stopped(served: int, origin: str = "") -> dict[str, Any]:
    """The same with a clock that stands."""
    entry = clock(served, origin=origin)["progress"]
    return {"progress": {key: value for key, value in entry.items() if key != "at"}}


def failure(revision: str = NEW, to: str = OLD) -> dict[str, Any]:
    said = {"reason": "ModelRefused", "message": "it cannot be read"}
    return {"failed": {"revision": REVISIONS[revision].digest, "to": REVISIONS[to].digest, **said}}


def told(course: Course) -> tuple[str, str]:
    """The goal, and how it stands."""
    if course.paused:
        return course.goal.name, "paused"
    if course.failed:
        return course.goal.name, f"gave up: {course.failed.reason}"
    return course.goal.name, f"halted: {course.halted[0]}" if course.halted else "on its way"


OLDER = REVISIONS[OLD].digest


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(trial(), (NEW, "on its way"), id="nothing there"),
        pytest.param(trial(pod(0), pod(1)), (NEW, "on its way"), id="nothing old: no rollout"),
        pytest.param(trial(old(0), old(1), pod(0, **STARTING)), (NEW, "on its way"), id="the new one starts"),
        pytest.param(
            trial(old(0), old(1), pod(0, **CRASHED)),
            (OLD, "gave up: ModelRefused"),
            id="the new one cannot serve while old ones do: back",
        ),
        pytest.param(
            trial(old(0), old(1), pod(0, **CRASHED), onFailure="Hold"),
            (NEW, "halted: ModelRefused"),
            id="the same, and the user wants to hold",
        ),
        pytest.param(
            trial(old(0, **CRASHED), old(1, **STARTING), pod(0, **CRASHED)),
            (NEW, "halted: ModelRefused"),
            id="no old one serves: there is nothing to go back to",
        ),
        pytest.param(
            trial(pod(0, **CRASHED), pod(1, **CRASHED)),
            (NEW, "on its way"),
            id="a first start that fails is no rollout",
        ),
        pytest.param(
            trial(pod(0, **CRASHED), kept=clock(0, origin=OLD)),
            (OLD, "gave up: ModelRefused"),
            id="in place, the old ones are gone and the new one cannot serve: back to what served before",
        ),
        pytest.param(
            trial(pod(0, **CRASHED), kept=clock(0, origin=OLD), onFailure="Hold"),
            (NEW, "halted: ModelRefused"),
            id="the same, and the user wants to hold: it is said",
        ),
        pytest.param(
            trial(old(0, **STARTING), pod(0, **CRASHED), kept=clock(0, origin=OLD)),
            (OLD, "gave up: ModelRefused"),
            id="old ones are left that do not serve at the moment, and did: back",
        ),
        pytest.param(
            trial(pod(0, **STARTING), kept=clock(0, origin=OLD), after_s=1799),
            (NEW, "on its way"),
            id="in place, it has until the deadline",
        ),
        pytest.param(
            trial(pod(0, **NO_IMAGE), kept=clock(0, origin=OLD), after_s=1800),
            (OLD, "gave up: ProgressDeadlineExceeded"),
            id="in place, then it is given up too",
        ),
        pytest.param(
            trial(kept=clock(0, origin=OLD), after_s=1800),
            (OLD, "gave up: ProgressDeadlineExceeded"),
            id="in place, and the new one has no room at all",
        ),
        pytest.param(
            trial(pod(0, **CRASHED), kept=clock(1, origin=OLD), after_s=7200),
            (NEW, "on its way"),
            id="it has served: what happens later is no rollout any more",
        ),
        pytest.param(
            replace(trial(pod(0, **CRASHED), kept=clock(0, origin=OLD)), known={NEW: REVISIONS[NEW]}),
            (NEW, "on its way"),
            id="what served before is not known any more",
        ),
        pytest.param(
            trial(pod(0, **CRASHED), kept=clock(0, OLDEST, origin=OLD)),
            (OLD, "gave up: ModelRefused"),
            id="a second bad one goes back to what served before the first",
        ),
        pytest.param(
            trial(pod(0, **CRASHED), kept=clock(1, OLD, origin=OLDEST)),
            (OLD, "gave up: ModelRefused"),
            id="what was rolled out before and served is what served last",
        ),
        pytest.param(
            trial(old(0, **CRASHED), pod(0, **CRASHED), kept=clock(1, OLD, origin=OLDEST)),
            (OLDEST, "gave up: ModelRefused"),
            id="but not while it fails itself",
        ),
        pytest.param(
            trial(pod(0, **CRASHED), kept=failure(OLDEST, OLD)),
            (OLD, "gave up: ModelRefused"),
            id="what the last failure returned to served",
        ),
        pytest.param(
            trial(pod(0, **CRASHED), kept=failure(OLD, NEW)),
            (NEW, "on its way"),
            id="set back to what served: there is nothing before it",
        ),
        pytest.param(
            replace(trial(kept=clock(0, origin=OLD), after_s=7200), replicas=0),
            (NEW, "on its way"),
            id="at zero nothing is late",
        ),
        pytest.param(
            trial(old(0), old(1), pod(0, **NO_IMAGE)),
            (NEW, "on its way"),
            id="an image may still come: it has until the deadline",
        ),
        pytest.param(
            trial(old(0), old(1), pod(0, **FULL_CLAIM)),
            (NEW, "on its way"),
            id="a claim that is full may get more room: the same",
        ),
        pytest.param(
            trial(old(0), old(1), pod(0, **NO_IMAGE), after_s=1800),
            (OLD, "gave up: ProgressDeadlineExceeded"),
            id="then it is given up",
        ),
        pytest.param(
            trial(old(0), old(1), pod(0, **STARTING), after_s=600, progressDeadline="10m"),
            (OLD, "gave up: ProgressDeadlineExceeded"),
            id="the user's deadline",
        ),
        pytest.param(
            trial(old(0), pod(0), pod(1, **CRASHED), kept=clock(1), after_s=60),
            (NEW, "on its way"),
            id="one new one has served: another's crash may be its node's",
        ),
        pytest.param(
            trial(old(0), pod(0), after_s=1700, kept=clock(0)),
            (NEW, "on its way"),
            id="one more that serves is progress, and the clock begins anew",
        ),
        pytest.param(
            trial(old(0), pod(0), pod(1), after_s=7200, kept=clock(2)),
            (NEW, "on its way"),
            id="all new ones serve: an old one's long drain is no failure",
        ),
        pytest.param(
            trial(pod(0, OLDEST), old(0), old(1), pod(0, **CRASHED)),
            (OLD, "gave up: ModelRefused"),
            id="of several old revisions the one of most that serve",
        ),
        pytest.param(
            trial(old(0), old(1), kept=failure()), (OLD, "gave up: ModelRefused"), id="a failure is remembered"
        ),
        pytest.param(
            trial(old(0), old(1), kept=failure(), onFailure="Hold"),
            (NEW, "on its way"),
            id="Hold gives nothing up: it is tried again",
        ),
        pytest.param(
            trial(old(0), old(1), kept=failure(revision=OLDEST)), (NEW, "on its way"), id="other inputs failed"
        ),
        pytest.param(
            replace(trial(kept=failure()), known={NEW: REVISIONS[NEW]}),
            (NEW, "on its way"),
            id="what was returned to is not known any more",
        ),
        pytest.param(
            trial(old(0), old(1), kept=failure(), paused=True), (OLD, "paused"), id="a pause stands before a failure"
        ),
        pytest.param(trial(old(0), pod(0), pod(1), paused=True), (NEW, "paused"), id="paused: the revision of most"),
        pytest.param(trial(old(0), pod(0), paused=True), (OLD, "paused"), id="paused half-way: the old revision"),
        pytest.param(
            trial(pod(0, **STARTING), kept=clock(0, origin=OLD), paused=True),
            (OLD, "paused"),
            id="paused, and the last that serves is lost while the new one starts: what served",
        ),
        pytest.param(
            trial(kept=clock(0, origin=OLD), paused=True), (OLD, "paused"), id="the same with nothing left at all"
        ),
        pytest.param(
            trial(old(0), pod(0, **CRASHED), pod(1, **STARTING), paused=True),
            (OLD, "paused"),
            id="paused with more new ones that do not serve",
        ),
        pytest.param(
            trial(old(0, **STARTING), pod(0), pod(1), kept=clock(2, origin=OLD), paused=True),
            (NEW, "paused"),
            id="paused, both served: that of most",
        ),
        pytest.param(
            trial(old(0, **STARTING), pod(0), kept=clock(1, origin=OLD), paused=True),
            (OLD, "paused"),
            id="paused half-way, and the old one is not Ready for a moment: the goal stays",
        ),
        pytest.param(
            trial(kept=clock(1, origin=OLD), paused=True), (NEW, "on its way"), id="paused, and the new one served last"
        ),
        pytest.param(
            trial(old(0, **CRASHED), kept=clock(0, OLD, origin=NEW), paused=True),
            (NEW, "paused"),
            id="paused, set back to what served, and nothing of it is left",
        ),
        pytest.param(
            replace(trial(pod(0, **STARTING), kept=stopped(0, origin=OLD), paused=True), from_zero=True),
            (NEW, "on its way"),
            id="paused at zero: nothing is lost, and it wakes as what the spec wants",
        ),
        pytest.param(
            trial(paused=True), (NEW, "on its way"), id="paused with nothing there: a first start is no rollout"
        ),
        pytest.param(
            trial(old(0), old(1), pod(0), after_s=-3600, kept=clock(0)),
            (NEW, "on its way"),
            id="a clock of the future counts from now",
        ),
    ],
)
def test_the_course(of: Trial, expected: tuple[str, str]) -> None:
    assert told(decide_course(of)) == expected


@pytest.mark.parametrize(
    ("of", "kept"),
    [
        pytest.param(trial(pod(0), kept={}), None, id="without a rollout nothing is kept"),
        pytest.param(
            trial(old(0), kept={}), clock(0, origin=OLD), id="a rollout starts its clock, and notes what serves"
        ),
        pytest.param(trial(old(0), kept=clock(0, OLD)), clock(0, origin=OLD), id="another revision's clock is left"),
        pytest.param(trial(old(0, **STARTING), kept={}), clock(0), id="an old one that never served is not noted"),
        pytest.param(
            trial(pod(0, **STARTING), kept=clock(0, origin=OLD), after_s=60),
            clock(0, origin=OLD),
            id="without old ones it stays as it is until a new one serves",
        ),
        pytest.param(trial(pod(0), kept=clock(0, origin=OLD)), clock(1, origin=OLD), id="then that is noted"),
        pytest.param(
            trial(pod(0), pod(1), kept=clock(1, origin=OLD)), stopped(1, origin=OLD), id="and over, the clock stands"
        ),
        pytest.param(trial(pod(0), pod(1), kept=stopped(1, origin=OLD)), None, id="and no more"),
        pytest.param(
            trial(pod(0), pod(1), old(0), kept=stopped(1, origin=OLD)),
            clock(2, origin=OLD),
            id="what is old later begins it anew",
        ),
        pytest.param(
            replace(trial(kept=clock(0, origin=OLD)), replicas=0), stopped(0, origin=OLD), id="at zero the clock stands"
        ),
        pytest.param(
            replace(trial(pod(0), kept={}), replicas=0), stopped(1), id="what goes to zero is noted as what served"
        ),
        pytest.param(replace(trial(kept=stopped(1)), replicas=0), None, id="and once is enough"),
        pytest.param(trial(kept=stopped(0, origin=OLD)), clock(0, origin=OLD), id="after zero the clock begins anew"),
        pytest.param(trial(old(0), pod(0, **CRASHED)), failure(), id="a failure is kept"),
        pytest.param(trial(old(0), kept=failure()), None, id="and stays as it is"),
        pytest.param(
            trial(old(0), kept=failure(), paused=True),
            stopped(0, origin=OLD),
            id="a pause forgets it, which is how to try again, and not what served",
        ),
        pytest.param(
            trial(pod(0, **CRASHED), kept=clock(0), paused=True), {}, id="a pause forgets the clock of a first start"
        ),
        pytest.param(
            trial(old(0), kept={}, paused=True),
            stopped(0, origin=OLD),
            id="and notes what serves where nothing is kept",
        ),
        pytest.param(
            trial(old(0, **CRASHED), kept=clock(0, OLD, origin=NEW), paused=True),
            stopped(0, origin=NEW),
            id="and what served where the spec is set back to it",
        ),
        pytest.param(
            trial(old(0, **STARTING), kept={}, paused=True), None, id="and notes nothing where nothing served"
        ),
        pytest.param(trial(pod(0), kept={}, paused=True), None, id="a pause without a rollout keeps nothing"),
    ],
)
def test_what_is_kept(of: Trial, kept: dict[str, Any] | None) -> None:
    assert decide_course(of).kept == kept


@pytest.mark.parametrize(
    ("of", "start_s", "expected"),
    [
        pytest.param(trial(old(0), pod(0, **STARTING), after_s=3000), 10800, "", id="a start may take longer than 30m"),
        pytest.param(
            trial(old(0), pod(0, **STARTING), after_s=10800),
            10800,
            "for 3h no further new replica has come to serve",
            id="then it is over",
        ),
        pytest.param(
            trial(old(0), pod(0, **STARTING), after_s=1800),
            600,
            "for 30m no further new replica has come to serve",
            id="never less than 30m",
        ),
        pytest.param(
            trial(old(0), pod(0, **STARTING), after_s=600, progressDeadline="10m"),
            10800,
            "for 10m no further new replica has come to serve: a start may take up to 3h, more than"
            " spec.rollout.progressDeadline allows",
            id="a written one is kept to, and it is said that it is short",
        ),
        pytest.param(
            trial(old(0), pod(0, **NO_IMAGE), after_s=600, progressDeadline="10m"),
            10800,
            "for 10m no further new replica has come to serve: no image",
            id="but not where another cause is known",
        ),
    ],
)
def test_a_start_that_the_operator_allows_is_no_failure(of: Trial, start_s: float, expected: str) -> None:
    failed = decide_course(replace(of, start_s=start_s)).failed
    assert (failed.message if failed else "") == expected


def test_what_becomes_old_long_after_a_rollout_is_not_late_at_once() -> None:
    """A class is taken off the list: the replicas that stand on it are of another revision from then on."""
    over = decide_course(trial(pod(0), pod(1), kept=clock(2), after_s=60)).kept
    later = trial(pod(0), old(0), kept=dict(over or clock(2)), after_s=10 * 86400)
    assert told(decide_course(later)) == (NEW, "on its way")


def test_the_deadline_wakes() -> None:
    assert decide_course(trial(old(0), after_s=300)).wake_after_s == 1500


BROKEN, KEPT, UNSURE = Interval(0.90, 0.95), Interval(0.991, 0.999), Interval(0.97, 0.999)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        pytest.param(
            {NEW: BROKEN, OLD: KEPT}, (OLD, "gave up: PromiseBroken"), id="the new one breaks it, the old keeps"
        ),
        pytest.param(
            {NEW: UNSURE, OLD: KEPT}, (NEW, "on its way"), id="the interval holds the target: not for certain"
        ),
        pytest.param({NEW: BROKEN, OLD: UNSURE}, (NEW, "on its way"), id="the old one may break it too"),
        pytest.param({NEW: BROKEN}, (NEW, "on its way"), id="nothing is known of the old one"),
        pytest.param({OLD: KEPT}, (NEW, "on its way"), id="nothing is known of the new one"),
        pytest.param({}, (NEW, "on its way"), id="nothing is measured"),
    ],
)
def test_a_promise_that_only_the_new_revision_breaks(measured: dict[str, Interval], expected: tuple[str, str]) -> None:
    of = replace(trial(old(0), pod(0), kept=clock(1)), promise=Promise(target=0.99, measured=measured))
    assert told(decide_course(of)) == expected
