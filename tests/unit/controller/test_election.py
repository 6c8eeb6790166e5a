"""Who may lead: the tables of election.py, row by row."""

from datetime import UTC, datetime

import pytest

from modelfleet.controller.election import (
    Held,
    Record,
    Sight,
    Step,
    Timing,
    decide,
    decide_loss,
    read,
    record_for,
    released,
    see,
    spec_of,
    write_left_s,
)

TIMING = Timing(duration_s=15, deadline_s=10, retry_s=2, attempt_s=5)
AT = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
STAMP = "2026-01-02T03:04:05.000006Z"


def of(holder: str, duration_s: int = 15) -> Record:
    return Record(holder, duration_s, 7, "acquired", "renewed")


@pytest.mark.parametrize(
    "sight, now_s, step, reason",
    [
        pytest.param(Sight(Record(), 0, False), 0, Step.CREATE, "there is no Lease", id="a first start creates it"),
        pytest.param(Sight(of(""), 0), 0, Step.TAKE, "nobody leads", id="one that was given up is taken at once"),
        pytest.param(Sight(of("b"), 0), 14.9, Step.WAIT, "b leads", id="another's that is unexpired is left alone"),
        pytest.param(
            Sight(of("b"), 0), 15, Step.TAKE, "b did not renew for 15 s", id="another's that expired is taken"
        ),
        pytest.param(
            Sight(of("b", 60), 0), 59, Step.WAIT, "b leads", id="a holder may have promised a longer duration"
        ),
        pytest.param(Sight(of("b", 0), 0), 14, Step.WAIT, "b leads", id="one that says no duration has ours"),
        pytest.param(Sight(of("me"), 0), 0, Step.RENEW, "this process leads", id="ours is renewed"),
        pytest.param(Sight(of("me"), 0), 99, Step.RENEW, "this process leads", id="ours whose answer was lost is ours"),
        pytest.param(
            Sight(of("me"), 0, False), 0, Step.CREATE, "there is no Lease", id="ours that was deleted comes back"
        ),
        pytest.param(Sight(of("b"), 0, False), 14, Step.WAIT, "b leads", id="another's that was deleted is waited for"),
        pytest.param(Sight(of("b"), 0, False), 15, Step.CREATE, "there is no Lease", id="but no longer than it lasts"),
    ],
)
def test_the_next_step(sight, now_s, step, reason):
    decision = decide(sight, "me", now_s, TIMING)
    assert (decision.step, decision.reason) == (step, reason)
    assert (decision.expires_s is not None) == (step is Step.WAIT)


@pytest.mark.parametrize(
    "record, exists, now_s, loss",
    [
        pytest.param(of("me"), True, 9.9, None, id="renewed before the deadline"),
        pytest.param(of("me"), True, 10, "it could not be renewed for 10 s", id="not renewed until the deadline"),
        pytest.param(of("me"), False, 9.9, None, id="deleted, which a renewal mends"),
        pytest.param(of("b"), True, 1, "it is held by b", id="another holds it"),
        pytest.param(of(""), True, 1, "somebody took it away by hand", id="emptied by hand"),
    ],
)
def test_a_leader_no_longer_leads_when(record, exists, now_s, loss):
    assert decide_loss(Held(renewed_s=0), Sight(record, 0, exists), "me", now_s, TIMING) == loss


@pytest.mark.parametrize(
    "held, now_s, left_s",
    [
        pytest.param(None, 0, 0, id="a standby may not write"),
        pytest.param(Held(100), 100, 15, id="the whole duration from when the renewal was sent"),
        pytest.param(Held(100), 114, 1, id="the rest of it"),
        pytest.param(Held(100), 130, -15, id="nothing once it is over"),
    ],
)
def test_how_long_it_may_write(held, now_s, left_s):
    assert write_left_s(held, now_s, TIMING) == left_s


def test_a_leader_s_right_to_write_ends_before_any_standby_may_take_the_lease():
    """Whenever a renewal was sent, stored and seen, in this order."""
    for sent_s, seen_s in ((0.0, 0.0), (0.0, 0.1), (0.0, 14.0)):
        over_s = sent_s + write_left_s(Held(sent_s), sent_s, TIMING)
        assert (decide(Sight(of("b"), seen_s), "me", over_s, TIMING).step is Step.TAKE) == (seen_s == sent_s)


@pytest.mark.parametrize(
    "before, record, seen",
    [
        pytest.param(None, of("b"), Sight(of("b"), 9), id="a first look starts the clock, however old the record is"),
        pytest.param(Sight(of("b"), 5), of("b"), Sight(of("b"), 5), id="the same record lets it run"),
        pytest.param(Sight(of("b"), 5), of("c"), Sight(of("c"), 9), id="a changed record starts it anew"),
        pytest.param(Sight(of("b"), 5), None, Sight(of("b"), 5, False), id="a deletion is remembered with the record"),
        pytest.param(None, None, Sight(Record(), 9, False), id="nothing yet"),
        pytest.param(Sight(of("b"), 5, False), of("b"), Sight(of("b"), 5), id="put back as it was"),
    ],
)
def test_what_a_read_tells(before, record, seen):
    assert see(before, record, 9) == seen


@pytest.mark.parametrize(
    "sight, transitions, acquired",
    [
        pytest.param(Sight(Record(), 0, False), 0, STAMP, id="the first holder is no transition"),
        pytest.param(Sight(of("b"), 0), 8, STAMP, id="taken from another"),
        pytest.param(Sight(of(""), 0), 8, STAMP, id="taken after it was given up"),
        pytest.param(Sight(of("b"), 0, False), 8, STAMP, id="created again after another's was deleted"),
        pytest.param(Sight(of("me"), 0), 7, "acquired", id="a renewal keeps both"),
        pytest.param(Sight(of("me"), 0, False), 7, "acquired", id="and so does ours that was deleted"),
    ],
)
def test_what_is_written(sight, transitions, acquired):
    assert record_for(sight, "me", AT, TIMING) == Record("me", 15, transitions, acquired, STAMP)


def test_giving_up_leaves_nobody_and_the_count():
    assert released(Sight(of("me"), 0), AT) == Record("", 1, 7, STAMP, STAMP)


def test_a_record_is_read_as_it_was_written_and_from_nothing_at_all():
    assert read(spec_of(of("b"))) == of("b")
    assert read(None) == read({}) == read({"holderIdentity": None, "leaseDurationSeconds": None}) == Record()
