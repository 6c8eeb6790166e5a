"""Who is held, who is refused, and when to come back."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator_api import deployment
from modelfleet.core.activation.holding import (
    UNMEASURED_S,
    Limits,
    Load,
    Reason,
    decide_hold,
    retry_after_s,
    start_left_s,
    waited_too_long,
)
from modelfleet.core.activation.known import Known, Outlook, Refusal, known

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = Limits(requests=100, total_bytes=1000, body_bytes=100)
EMPTY = Load(requests=0, total_bytes=0, ahead=0)


def model(**changes: object) -> Known:
    made = known(deployment("chat", 20000, waits="300s"))
    assert made is not None
    return replace(made, **changes)


MEASURED = Outlook(usual_s=190.0)


@pytest.mark.parametrize(
    "changes, load, size, reason, status, after_s",
    [
        pytest.param({}, EMPTY, 10, Reason.HELD, 0, None, id="the first is held"),
        pytest.param({"outlook": MEASURED}, EMPTY, 10, Reason.HELD, 0, None, id="a start that fits is waited for"),
        pytest.param({}, Load(100, 0, 0), 10, Reason.TOO_MANY, 503, 60, id="this process is full, nothing is measured"),
        pytest.param(
            {"outlook": MEASURED}, Load(100, 0, 0), 10, Reason.TOO_MANY, 503, 190, id="full, and a start is measured"
        ),
        pytest.param({}, Load(9, 995, 0), 10, Reason.TOO_MANY_BYTES, 503, 60, id="the bodies together are too large"),
        pytest.param({}, EMPTY, 101, Reason.TOO_LARGE, 413, None, id="one body is too large"),
        pytest.param(
            {"outlook": Outlook(usual_s=301.0)}, EMPTY, 1, Reason.BEYOND_CAPACITY, 503, 301, id="the start is too long"
        ),
        pytest.param(
            {"outlook": MEASURED, "rate_rps": 0.5, "most_replicas": 2},
            Load(50, 0, 110),
            1,
            Reason.HELD,
            0,
            None,
            id="110 ahead at 1 a second are answered 300 s from now",
        ),
        pytest.param(
            {"outlook": MEASURED, "rate_rps": 0.5, "most_replicas": 2},
            Load(50, 0, 111),
            1,
            Reason.BEYOND_CAPACITY,
            503,
            301,
            id="111 ahead are one too many",
        ),
        pytest.param(
            {"refusal": Refusal("ImagePullFailed", "no such image", NOW + timedelta(seconds=42.2))},
            EMPTY,
            1,
            Reason.START_FAILED,
            503,
            43,
            id="a start that fails is not waited for",
        ),
        pytest.param(
            {"refusal": Refusal("WakeFailed", "no such image", NOW)},
            EMPTY,
            1,
            Reason.HELD,
            0,
            None,
            id="the time of the refusal is over, though the object still has it",
        ),
        pytest.param(
            {"refusal": Refusal("NoCapacity", "no room"), "outlook": MEASURED},
            EMPTY,
            1,
            Reason.START_FAILED,
            503,
            190,
            id="a failed start without a time to come back",
        ),
    ],
)
def test_decide_hold(
    changes: dict[str, object], load: Load, size: int, reason: Reason, status: int, after_s: int | None
) -> None:
    verdict = decide_hold(model(**changes), load, size, LIMITS, NOW)

    assert (verdict.reason, verdict.status, verdict.retry_after_s) == (reason, status, after_s)
    assert verdict.held == (reason is Reason.HELD)


def test_a_refusal_names_the_bound_and_the_operator_s_own_words() -> None:
    full = decide_hold(model(), Load(100, 0, 0), 1, LIMITS, NOW).message
    failed = decide_hold(model(refusal=Refusal("ImagePullFailed", "no such image")), EMPTY, 1, LIMITS, NOW).message

    assert full == "chat-model is not ready: this activator already holds 100 requests, its most"
    assert failed == "chat-model cannot start: ImagePullFailed: no such image"


@pytest.mark.parametrize(
    "outlook, left_s",
    [
        pytest.param(Outlook(), None, id="nothing is measured"),
        pytest.param(Outlook(usual_s=190.0), 190.0, id="no start runs"),
        pytest.param(Outlook(usual_s=190.0, since=NOW - timedelta(seconds=50)), 140.0, id="one has run for 50 s"),
        pytest.param(Outlook(usual_s=190.0, since=NOW - timedelta(seconds=500)), 0.0, id="one runs longer than usual"),
        pytest.param(Outlook(usual_s=190.0, left_s=33.0, since=NOW), 33.0, id="the start's own progress wins"),
    ],
)
def test_what_is_left_of_a_start(outlook: Outlook, left_s: float | None) -> None:
    assert start_left_s(outlook, NOW) == left_s


def test_without_a_measurement_one_comes_back_in_a_minute() -> None:
    assert retry_after_s(model(rate_rps=1.0), 500, NOW) == UNMEASURED_S


def test_who_waited_too_long_is_told_when_the_start_ends() -> None:
    verdict = waited_too_long(model(outlook=Outlook(usual_s=9.0, left_s=20.0)), 0, NOW)

    assert (verdict.status, verdict.retry_after_s) == (503, 20)
    assert "within the 300 s that scaling.toZero accepts" in verdict.message


@given(
    requests=st.integers(0, 200),
    held=st.integers(0, 2000),
    ahead=st.integers(0, 10_000),
    size=st.integers(0, 200),
    usual=st.none() | st.floats(0, 1e5),
    rate=st.none() | st.floats(0.001, 1e3),
)
def test_every_refusal_says_why_and_what_is_held_stays_inside_the_bounds(
    requests: int, held: int, ahead: int, size: int, usual: float | None, rate: float | None
) -> None:
    verdict = decide_hold(
        model(outlook=Outlook(usual_s=usual), rate_rps=rate), Load(requests, held, ahead), size, LIMITS, NOW
    )

    assert verdict.message
    if verdict.held:
        assert requests < LIMITS.requests
        assert held + size <= LIMITS.total_bytes
    else:
        assert verdict.status == 413 or (verdict.retry_after_s or 0) >= 1


LATE = [
    pytest.param(Outlook(usual_s=60.0, since=NOW - timedelta(seconds=45)), 15, id="in time"),
    pytest.param(Outlook(usual_s=60.0, since=NOW - timedelta(seconds=68)), 8, id="eight seconds late"),
    pytest.param(Outlook(usual_s=60.0, since=NOW - timedelta(seconds=900)), 60, id="very late"),
    pytest.param(Outlook(usual_s=60.0, since=NOW + timedelta(hours=1)), 60, id="begun by a clock that is ahead"),
    pytest.param(Outlook(usual_s=60.0, left_s=20.0, since=NOW - timedelta(hours=1)), 20, id="late, and it tells"),
]


@pytest.mark.parametrize(("outlook", "after_s"), LATE)
def test_a_start_that_is_late_is_not_said_to_end_at_once(outlook: Outlook, after_s: int) -> None:
    assert retry_after_s(model(outlook=outlook), 0, NOW) == after_s


def test_a_refusal_lasts_no_longer_than_the_operator_lets_one_last_whatever_our_clock_says() -> None:
    refusal = Refusal("WakeFailed", "no image", until=NOW + timedelta(days=1))
    assert decide_hold(model(refusal=refusal), EMPTY, 1, LIMITS, NOW).retry_after_s == 900
