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


def clock(served: int, revision: str = NEW) -> dict[str, Any]:
    return {"progress": {"revision": REVISIONS[revision].digest, "served": served, "at": START.isoformat()}}


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
            trial(old(0), old(1), pod(0, **NO_IMAGE)),
            (NEW, "on its way"),
            id="an image may still come: it has until the deadline",
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
        pytest.param(trial(old(0), kept={}), clock(0), id="a rollout starts its clock"),
        pytest.param(trial(old(0), kept=clock(0, OLD)), clock(0), id="another revision's clock is left"),
        pytest.param(trial(old(0), pod(0, **CRASHED)), failure(), id="a failure is kept"),
        pytest.param(trial(old(0), kept=failure()), None, id="and stays as it is"),
        pytest.param(trial(old(0), kept=failure(), paused=True), {}, id="a pause forgets it: that is how to try again"),
        pytest.param(trial(old(0), kept={}, paused=True), None, id="and forgets nothing where there is nothing"),
    ],
)
def test_what_is_kept(of: Trial, kept: dict[str, Any] | None) -> None:
    assert decide_course(of).kept == kept


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
