"""One step to zero or back, row by row: what is kept and observed, and what comes of it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import START
from modelfleet.api.reasons import Reason
from modelfleet.api.zero_status import ZeroState
from modelfleet.core.activator import Answer, Waiting
from modelfleet.core.beginning import Beginning
from modelfleet.core.failures import Failure
from modelfleet.core.groups import alone
from modelfleet.core.pods import PodView
from modelfleet.core.scaling.idle import Counts
from modelfleet.core.scaling.zero import HOLD_S, Moment, Slice, back_off_s, decide_zero, needed
from modelfleet.core.scaling.zero_kept import Failed, Kept, kept_entry, read_kept
from scenes import OFF, STARTING, pod

BROKEN = Failure(Reason.IMAGE_NOT_PULLABLE, "the image cannot be pulled", hopeless=True)
RECORDED = Kept(port=20001, since=START, counted_since=START, at_zero_s=70.5, wakes=3)
MINUTE = timedelta(minutes=1)
FIRST = "chat-bbbbbbbb-0"
PROVEN, SILENT = Answer(proven=True), Answer(proven=False, why="nothing listens", silent_s=90.0)
UNPROVEN = Answer(proven=False, why="nothing listens", silent_s=2.0)
ONE = (Waiting("a1", 1, "t1"),)
SERVING = Kept(port=20001, idle_at=START - 20 * MINUTE, arrivals={FIRST: 7})
LEAVING = replace(SERVING, state=ZeroState.LEAVING, since=START - MINUTE)
AT_ZERO = Kept(port=20001, state=ZeroState.AT_ZERO, since=START - 60 * MINUTE, answered={"a1": "t0"})
WAKING = Kept(port=20001, state=ZeroState.WAKING, since=START - MINUTE, woken=2, waited=40)
FAILED = Failed(times=1, at=START - timedelta(seconds=5), generation=1, reason="ImageNotPullable", message="no image")


def moment(kept: Kept, *pods: PodView, **change: Any) -> Moment:
    """A quiet one: `after` is 15 minutes, one replica carries 20 requests, counts are known and as they were."""
    counted = {each.uid: Counts(arrivals=7, in_flight=0) for each in pods if each.ready}
    base = Moment(
        kept=kept,
        after_s=900.0,
        wanted=1,
        most=4,
        fleet=tuple(map(alone, pods)),
        now=START,
        generation=1,
        carries=20.0,
        counts=counted,
    )
    return replace(base, **change)


def starts(**beginning: Any) -> PodView:
    """A pod that starts and is so far."""
    return pod(0, **STARTING, beginning=Beginning(**beginning))


ARRIVED = {FIRST: Counts(arrivals=8, in_flight=0)}
IN_FLIGHT = {FIRST: Counts(arrivals=7, in_flight=1)}
OLD = {FIRST: Counts(arrivals=7, in_flight=0, age_s=20.0)}
YOUNG = replace(SERVING, idle_at=START - timedelta(seconds=895))
FRESH = Kept(port=20001)
YOUNG_WAKE = replace(WAKING, since=START - timedelta(seconds=30))


@pytest.mark.parametrize(
    ("of", "state", "replicas", "slice_"),
    [
        pytest.param(moment(FRESH), "Serving", 1, Slice.KEEP, id="a new model starts with a replica"),
        pytest.param(moment(FRESH, pod(0, **STARTING)), "Serving", 1, Slice.KEEP, id="no clock before one is ready"),
        pytest.param(moment(SERVING, pod(0)), "Leaving", 1, Slice.MAKE, id="idle for long enough"),
        pytest.param(moment(YOUNG, pod(0)), "Serving", 1, Slice.DROP, id="idle for less"),
        pytest.param(moment(SERVING, pod(0), counts=ARRIVED), "Serving", 1, Slice.DROP, id="a request came"),
        pytest.param(moment(SERVING, pod(0), counts=IN_FLIGHT), "Serving", 1, Slice.DROP, id="one is answered"),
        pytest.param(moment(SERVING, pod(0), counts={}), "Serving", 1, Slice.DROP, id="not known is not idle"),
        pytest.param(
            moment(replace(SERVING, idle_at=START - timedelta(seconds=910)), pod(0), counts=OLD),
            "Serving",
            1,
            Slice.DROP,
            id="idle counts only as far as it is known",
        ),
        pytest.param(
            moment(SERVING, pod(0), pod(1, **STARTING)), "Serving", 1, Slice.DROP, id="a start is no idleness"
        ),
        pytest.param(
            moment(SERVING, pod(0), pod(1, placed=False, ready=False)),
            "Leaving",
            2,
            Slice.MAKE,
            id="a pod that has no node",
        ),
        pytest.param(moment(SERVING, pod(0), warm=True), "Serving", 1, Slice.DROP, id="a schedule keeps it warm"),
        pytest.param(moment(SERVING, pod(0), after_s=None), "Serving", 1, Slice.DROP, id="another mode"),
        pytest.param(moment(SERVING, pod(0), wanted=3), "Leaving", 1, Slice.MAKE, id="idle beats the declared load"),
        pytest.param(moment(FRESH, pod(0), wanted=0, by_hand=True), "Leaving", 1, Slice.MAKE, id="by hand"),
        pytest.param(moment(LEAVING, pod(0)), "Leaving", 1, Slice.MAKE, id="not asked yet: replicas stay"),
        pytest.param(moment(LEAVING, pod(0), answer=UNPROVEN), "Leaving", 1, Slice.MAKE, id="no answer: replicas stay"),
        pytest.param(moment(LEAVING, pod(0), answer=SILENT), "Leaving", 1, Slice.MAKE, id="never an answer: they stay"),
        pytest.param(moment(LEAVING, pod(0), answer=PROVEN), "Leaving", 0, Slice.MAKE, id="proven: they drain"),
        pytest.param(moment(LEAVING, pod(0, **OFF), answer=PROVEN), "Leaving", 0, Slice.MAKE, id="they go on draining"),
        pytest.param(
            moment(LEAVING, pod(0, **OFF), answer=UNPROVEN), "Leaving", 1, Slice.MAKE, id="no answer any more: back"
        ),
        pytest.param(moment(LEAVING, pod(0), answer=PROVEN, counts={}), "Leaving", 1, Slice.MAKE, id="not known: stay"),
        pytest.param(
            moment(LEAVING, pod(0, **OFF), answer=PROVEN, counts=ARRIVED), "Serving", 1, Slice.KEEP, id="called off"
        ),
        pytest.param(moment(LEAVING, pod(0), answer=PROVEN, demand=ONE), "Serving", 1, Slice.KEEP, id="one waits"),
        pytest.param(
            moment(LEAVING, pod(0, terminating=True, ready=False), answer=PROVEN),
            "Leaving",
            0,
            Slice.MAKE,
            id="the last ends",
        ),
        pytest.param(
            moment(LEAVING, pod(0, terminating=True, ready=False), answer=PROVEN, demand=ONE),
            "Waking",
            1,
            Slice.MAKE,
            id="one waits while the last ends",
        ),
        pytest.param(
            moment(LEAVING, pod(0), by_hand=True, wanted=0, answer=SILENT, counts=IN_FLIGHT),
            "Leaving",
            0,
            Slice.MAKE,
            id="by hand it goes also without an activator",
        ),
        pytest.param(moment(LEAVING, answer=PROVEN), "AtZero", 0, Slice.MAKE, id="nothing is left"),
        pytest.param(moment(AT_ZERO, answer=PROVEN), "AtZero", 0, Slice.MAKE, id="nobody waits"),
        pytest.param(
            moment(AT_ZERO, demand=(Waiting("a1", 9, "t0"),)),
            "AtZero",
            0,
            Slice.MAKE,
            id="served before: no second wake",
        ),
        pytest.param(
            moment(AT_ZERO, demand=ONE, demand_s={"a1": 91.0}),
            "AtZero",
            0,
            Slice.MAKE,
            id="an entry of a dead activator",
        ),
        pytest.param(moment(AT_ZERO, demand=ONE), "Waking", 1, Slice.MAKE, id="one waits"),
        pytest.param(
            moment(AT_ZERO, demand=(Waiting("a1", 30, "t1"), Waiting("a2", 30, "t1"))),
            "Waking",
            3,
            Slice.MAKE,
            id="sixty wait",
        ),
        pytest.param(
            moment(AT_ZERO, demand=(Waiting("a1", 900, "t1"),)), "Waking", 4, Slice.MAKE, id="up to the bound"
        ),
        pytest.param(
            moment(AT_ZERO, demand=ONE, carries=None), "Waking", 1, Slice.MAKE, id="nothing tells what one carries"
        ),
        pytest.param(moment(AT_ZERO, answer=UNPROVEN), "AtZero", 0, Slice.MAKE, id="no answer for a moment"),
        pytest.param(moment(AT_ZERO, answer=SILENT), "Waking", 1, Slice.MAKE, id="what nobody could wake is woken"),
        pytest.param(moment(AT_ZERO, warm=True, wanted=2), "Serving", 2, Slice.KEEP, id="a schedule begins"),
        pytest.param(moment(AT_ZERO, after_s=None), "Serving", 1, Slice.KEEP, id="toZero was taken out"),
        pytest.param(
            moment(AT_ZERO, by_hand=True, wanted=0, demand=ONE), "AtZero", 0, Slice.MAKE, id="by hand it stays"
        ),
        pytest.param(moment(replace(AT_ZERO, failed=FAILED), demand=ONE), "AtZero", 0, Slice.MAKE, id="backing off"),
        pytest.param(
            moment(replace(AT_ZERO, failed=FAILED), demand=ONE, generation=2),
            "Waking",
            1,
            Slice.MAKE,
            id="a changed spec",
        ),
        pytest.param(
            moment(replace(AT_ZERO, failed=FAILED), demand=ONE, now=START + MINUTE),
            "Waking",
            1,
            Slice.MAKE,
            id="tried again",
        ),
        pytest.param(moment(YOUNG_WAKE), "Waking", 2, Slice.MAKE, id="what waited waits no more: the wake goes on"),
        pytest.param(moment(WAKING, demand=(Waiting("a1", 70, "t1"),)), "Waking", 4, Slice.MAKE, id="more came"),
        pytest.param(moment(WAKING, demand=ONE), "Waking", 2, Slice.MAKE, id="never fewer than before"),
        pytest.param(
            moment(WAKING, pod(0), pod(1, **STARTING), demand=ONE),
            "Waking",
            2,
            Slice.MAKE,
            id="one of two, and one waits",
        ),
        pytest.param(
            moment(WAKING, pod(0), pod(1, **STARTING)), "Serving", 2, Slice.KEEP, id="one of two, nobody waits"
        ),
        pytest.param(moment(WAKING, pod(0), pod(1), demand=ONE), "Serving", 2, Slice.KEEP, id="all serve"),
        pytest.param(
            moment(WAKING, pod(0, ready=False, failure=BROKEN), pod(1, ready=False, failure=BROKEN), demand=ONE),
            "AtZero",
            0,
            Slice.MAKE,
            id="none can come up",
        ),
        pytest.param(
            moment(WAKING, pod(0, ready=False, failure=BROKEN), pod(1, **STARTING), demand=ONE),
            "Waking",
            2,
            Slice.MAKE,
            id="one of two may",
        ),
        pytest.param(
            moment(WAKING, pod(0, **STARTING), deadline_s=59.0, demand=ONE), "AtZero", 0, Slice.MAKE, id="stuck"
        ),
        pytest.param(
            moment(WAKING, starts(fetches=True, fetch_since=START - MINUTE), deadline_s=59.0, demand=ONE),
            "Waking",
            2,
            Slice.MAKE,
            id="its weights come",
        ),
        pytest.param(
            moment(WAKING, starts(fetches=True), deadline_s=59.0, demand=ONE),
            "Waking",
            2,
            Slice.MAKE,
            id="they are about to be tried again",
        ),
        pytest.param(
            moment(WAKING, starts(fetches=True, fetch_since=START - MINUTE), deadline_s=59.0, fetch_s=59.0, demand=ONE),
            "AtZero",
            0,
            Slice.MAKE,
            id="they come for too long",
        ),
        pytest.param(
            moment(WAKING, starts(fetched_at=START - MINUTE / 2), deadline_s=59.0, demand=ONE),
            "Waking",
            2,
            Slice.MAKE,
            id="they came half a minute ago",
        ),
        pytest.param(
            moment(WAKING, starts(fetched_at=START - MINUTE), deadline_s=59.0, demand=ONE),
            "AtZero",
            0,
            Slice.MAKE,
            id="stuck with its weights",
        ),
        pytest.param(
            moment(WAKING, now=START + MINUTE), "AtZero", 0, Slice.MAKE, id="no room, and nobody waits any more"
        ),
    ],
)
def test_a_step(of: Moment, state: str, replicas: int, slice_: Slice) -> None:
    got = decide_zero(of)

    assert (str(got.state), got.replicas, got.slice) == (state, replicas, slice_)


@pytest.mark.parametrize("kept", [FRESH, SERVING, LEAVING, AT_ZERO, WAKING, replace(AT_ZERO, failed=FAILED), RECORDED])
def test_what_is_kept_is_read_back(kept: Kept) -> None:
    assert read_kept(kept_entry(kept)) == kept


def test_traffic_is_written_seldom_and_a_moved_count_never_counts_as_idle() -> None:
    busy = moment(replace(SERVING, idle_at=START - timedelta(seconds=30)), pod(0), counts=ARRIVED)

    assert decide_zero(busy).kept == busy.kept
    later = replace(busy, now=START + MINUTE)
    assert decide_zero(later).kept.idle_at == START + MINUTE
    assert decide_zero(later).kept.arrivals == {FIRST: 8}


def test_a_wake_that_fails_is_tried_with_growing_pauses_and_then_seldom() -> None:
    pauses = [(replace(FAILED, times=times).until - FAILED.at).total_seconds() for times in range(1, 8)]

    assert pauses == [10, 20, 40, 80, 900, 900, 900]


def test_what_was_woken_is_held_while_its_requests_are_answered() -> None:
    came_up = decide_zero(moment(WAKING, pod(0), pod(1))).kept
    soon = moment(came_up, pod(0), pod(1), now=START + timedelta(seconds=HOLD_S - 1), counts={})

    assert decide_zero(soon).replicas == 2
    assert decide_zero(replace(soon, now=START + timedelta(seconds=HOLD_S))).replicas == 1


def test_a_failed_wake_says_why_and_what_waited_wakes_nothing_again() -> None:
    broken = moment(WAKING, pod(0, ready=False, failure=BROKEN), demand=ONE)
    got = decide_zero(broken).kept

    assert got.failed is not None
    assert (got.failed.reason, got.failed.message) == ("ImageNotPullable", "the image cannot be pulled")
    assert got.answered == {"a1": "t1"}


@pytest.mark.parametrize(
    ("requests", "carries", "replicas"), [(0, 20.0, 1), (20, 20.0, 1), (21, 20.0, 2), (5, None, 1)]
)
def test_as_many_replicas_as_what_waits_needs(requests: int, carries: float | None, replicas: int) -> None:
    assert needed(requests, carries, 4) == replicas


def test_the_record_counts_time_at_zero_and_forgets_half_of_what_is_older_than_a_week() -> None:
    slept = Kept(state=ZeroState.AT_ZERO, since=START, counted_since=START - timedelta(hours=1))
    woken = slept.turned(ZeroState.WAKING, START + timedelta(hours=3))
    assert (woken.at_zero_s, woken.wakes, woken.counted_since) == (10800.0, 1, slept.counted_since)

    week = timedelta(days=8)
    old = replace(slept, at_zero_s=1000.0, wakes=4, counted_since=START - week).turned(ZeroState.WAKING, START)
    assert (old.at_zero_s, old.wakes, old.counted_since) == (500.0, 2, START - week / 2)


@pytest.mark.parametrize(
    "entry",
    [
        {"state": "Dreaming", "port": 99999, "since": 3, "idle": 4, "answered": [], "failed": "x", "record": None},
        {"state": "AtZero", "since": "9999-12-31T23:59:59Z", "failed": {"at": "9999-12-31T23:59:59Z", "times": -4}},
        {
            "record": {"since": "2026-01-01T00:00:00Z", "atZero_s": float("inf"), "wakes": "many"},
            "wake": {"replicas": {}},
        },
        {"idle": {"at": "2026-01-01T00:00:00Z", "arrivals": {"u": "x", "v": 1.5}}},
    ],
    ids=["nothing is right", "the end of time", "no numbers", "no counts"],
)
@pytest.mark.parametrize("of", [moment(FRESH), moment(FRESH, pod(0)), moment(FRESH, demand=ONE, answer=SILENT)])
def test_what_somebody_wrote_into_the_state_never_stops_a_decision(entry: dict[str, Any], of: Moment) -> None:
    kept = read_kept(entry)
    got = decide_zero(replace(of, kept=kept))

    assert kept.port is None
    assert 0 <= got.replicas <= of.most
    assert read_kept(kept_entry(got.kept)) == got.kept


LATER = START + timedelta(days=1)
AHEAD = [
    pytest.param(replace(SERVING, idle_at=LATER, since=LATER), id="it serves"),
    pytest.param(replace(LEAVING, idle_at=LATER, since=LATER), id="it leaves"),
    pytest.param(replace(AT_ZERO, since=LATER, failed=replace(FAILED, at=LATER)), id="a wake failed"),
    pytest.param(replace(WAKING, since=LATER, counted_since=LATER), id="it wakes"),
]


@pytest.mark.parametrize("kept", AHEAD)
def test_a_clock_that_was_set_back_holds_nothing_up(kept: Kept) -> None:
    found = kept.not_after(START)
    times = (found.since, found.idle_at, found.counted_since, found.failed.at if found.failed else None)
    assert all(each is None or each <= START for each in times)
    assert found.not_after(START + MINUTE) == found
    assert back_off_s(found, 1, START) <= 10


def test_while_activators_answer_a_model_at_zero_is_looked_at_seldom_and_a_busy_one_as_its_clock_is_exact() -> None:
    answered, alone_ = (decide_zero(moment(AT_ZERO, answer=each)).wake_after_s for each in (PROVEN, UNPROVEN))
    assert (answered, alone_) == (300.0, 30.0)
    busy = [decide_zero(moment(SERVING, pod(0), counts=ARRIVED, after_s=each)).wake_after_s for each in (5.0, 120, 900)]
    assert busy == [5.0, 15.0, 60.0]


@pytest.mark.parametrize(("answer", "slice_"), [(SILENT, Slice.DROP), (UNPROVEN, Slice.KEEP), (PROVEN, Slice.KEEP)])
def test_endpoints_of_activators_that_are_gone_leave_as_soon_as_a_replica_serves(answer: Answer, slice_: Slice) -> None:
    assert decide_zero(moment(WAKING, pod(0), pod(1), answer=answer)).slice is slice_
