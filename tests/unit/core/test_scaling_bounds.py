"""What holds of every decision about replicas: bounds, reasons, monotony, and that a ledger gives the same again."""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelfleet.api.cron import Cron, times
from modelfleet.api.reasons import ScalingReason
from modelfleet.api.schedules import DurationUpToAWeek, Schedule, TimeZone
from modelfleet.core.scaling import memory as remembered
from modelfleet.core.scaling.forecast import Due, Forecaster, Way
from modelfleet.core.scaling.history import BINS, SLOTS, History
from modelfleet.core.scaling.ledger import CHUNK, VERSION, Ledger, Row, cut, dumped, loaded, replay
from modelfleet.core.scaling.policy import Memory
from modelfleet.core.scaling.schedule import _begins as all_begins
from modelfleet.core.scaling.schedule import in_force, next_change_s
from modelfleet.core.scaling.weighing import Limit, weigh
from scaling_ticks import AT, inputs

_KEYS = (
    *("replicas", "clock_s", "starts_s", "inputMean", "evidence", "begun"),
    *("learnsUntil_s", "shown", "changes", "findings"),
    *("ledger", "version", "base", "rows", "shared", "history", "bins", "slots", "log_margin", "last_s", "needs"),
    *("at", "inputs", "reason", "fault", "about", "sentence", "at_s", "terms", "lows", "highs", "keep"),
)


_LOADS = st.lists(st.integers(0, 400), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(_LOADS, st.integers(1, 5), st.integers(5, 30), st.booleans(), st.integers(0, 5))
def test_bounds_hold_and_there_is_a_reason_whatever_the_load(
    loads: list[int], low: int, high: int, kept: bool, spare: int
) -> None:
    memory, current = Memory(), low
    for number, arrivals in enumerate(loads):
        tick = inputs(number * 5.0, arrivals, current, low, high, keep="something moves" if kept else "")
        weighed, memory = weigh(replace(tick, spare=spare), memory)
        assert low <= weighed.replicas <= high
        assert weighed.detail
        assert not kept or weighed.replicas >= current - spare
        assert (weighed.reason is ScalingReason.STEADY) == (weighed.replicas == current)
        current = weighed.replicas


@settings(max_examples=60, deadline=None)
@given(_LOADS, st.integers(0, 400), st.integers(0, 400))
def test_more_load_never_asks_for_fewer(loads: list[int], one: int, other: int) -> None:
    memory, current = Memory(), 1
    for number, arrivals in enumerate(loads):
        weighed, memory = weigh(inputs(number * 5.0, arrivals, current, 1, 50), memory)
        current = weighed.replicas
    less, more = sorted((one, other))
    now_s = len(loads) * 5.0 + 15.0

    asked = [weigh(inputs(now_s, count, current, 1, 50), memory)[0].replicas for count in (less, more)]

    assert asked[0] <= asked[1]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=3 * CHUNK))
def test_a_ledger_that_was_written_and_read_goes_on_with_the_same_memory(loads: list[int]) -> None:
    ledger, current = Ledger(), 1
    for number, arrivals in enumerate(loads):
        tick = cut(inputs(number * 5.013, arrivals, current, 1, 50))
        weighed, ledger = ledger.decide(tick, AT + timedelta(seconds=5 * number))
        current = weighed.replicas

    again = loaded(json.loads(json.dumps(dumped(ledger))))

    assert again == ledger
    assert all(each.same for each in replay(ledger)[0])
    assert len(ledger.rows) <= 2 * CHUNK


@pytest.mark.parametrize(
    "value",
    [{}, {"version": VERSION + 1}, {"version": VERSION, "base": []}, {"version": VERSION, "rows": [{"at": 1}]}],
)
def test_what_is_no_ledger_is_none(value: dict[str, object]) -> None:
    found = loaded(value)

    assert found is None or found == Ledger()


def _edited(**base: Any) -> dict[str, Any]:
    """A ledger that somebody edited: of a calm fleet, without rows."""
    ledger = Ledger()
    for number in range(30):
        _, ledger = ledger.decide(cut(inputs(number * 5.0, 10, 1, 1, 9)), AT)
    value = dumped(Ledger(base=ledger.memory, memory=ledger.memory))
    return {**value, "base": {**value["base"], **base}}


@pytest.mark.parametrize(
    "base",
    [
        pytest.param({"log_margin": 1e9}, id="a margin that is no number any more"),
        pytest.param({"log_knee": -900.0}, id="a knee that is none"),
        pytest.param({"last_s": 1e300}, id="a clock that never goes on"),
        pytest.param({"last_s": -5.0}, id="a clock before its beginning"),
        pytest.param({"needs": [[1e12, 1000]]}, id="a need that comes in a thousand years"),
        pytest.param({"peaks": [[1e9, 1000.0]]}, id="a peak that is to come"),
        pytest.param({"knee_sure": 0.0}, id="a knee that nothing is known of"),
        pytest.param({"history": {"bins": [-1.0] * 20}}, id="a load below zero"),
        pytest.param({"history": {"open_since_s": 1e11}}, id="a load that is counted from then on"),
        pytest.param({"output_mean": float("inf")}, id="an endless answer"),
        pytest.param({"history": {"bins": [1.0] * 20_000}}, id="more than is remembered"),
        pytest.param({"forecaster": {"period": 10**6}}, id="a period beyond what is remembered"),
    ],
)
def test_a_memory_that_would_end_or_mislead_the_policy_for_ever_is_none(base: dict[str, Any]) -> None:
    assert loaded(_edited()) is not None

    assert loaded(_edited(**base)) is None


def test_a_forecast_that_there_is_no_more_takes_nothing_else_with_it() -> None:
    known = _edited(log_margin=0.3)
    whole = loaded(known)
    due = [{"made_at": 3, "values": [["steady", 1.0], ["rise", 9.0]]}]
    forecaster = {"count": 9, "scores": [["rise", 2.0], ["steady", 1.0]], "due": due}
    found = loaded({**known, "base": {**known["base"], "forecaster": forecaster}})

    assert found is not None
    assert whole is not None
    assert found.memory.log_margin == whole.memory.log_margin == 0.3
    assert found.memory.history == whole.memory.history
    assert found.memory.forecaster.scores == ((Way.STEADY, 1.0),)
    assert found.memory.forecaster.due == (Due(made_at=3, values=((Way.STEADY, 1.0),)),)


def test_what_was_learned_is_not_said_to_be_of_requests_whose_ledger_is_lost() -> None:
    kept = remembered.loaded({"replicas": 2, "evidence": 442_200, "ledger": {"version": VERSION + 1}}, 2)

    assert kept is not None
    assert kept.evidence == 0


def test_a_ledger_that_is_nested_too_deep_is_none() -> None:
    deep: Any = 1
    for _ in range(2 * sys.getrecursionlimit()):
        deep = [deep]

    assert loaded({"version": VERSION, "base": deep, "rows": []}) is None


@pytest.mark.parametrize(
    "finding",
    [{"count": -1, "at_s": 0.0}, {"at_s": float("inf")}, {"at_s": 1e300}, {"at_s": 1e9, "count": 10**30}],
)
def test_a_finding_that_was_edited_blocks_no_replacement(finding: dict[str, Any]) -> None:
    entry = {"fault": "SlowReplica", "about": "uid-1", "sentence": "slow", **finding}
    kept = remembered.loaded({"replicas": 2, "findings": [entry]}, 2)

    assert kept is not None
    assert kept.slow is None or (kept.slow.count >= 0 and kept.slow.at_s <= kept.clock_s)


def test_a_number_that_was_written_into_what_is_told_alone_is_not_done() -> None:
    shown = {"at": AT.isoformat(), "from": 1, "to": 9999, "reason": "LoadGrew", "detail": "edited"}
    kept = remembered.loaded({"replicas": 2, "shown": shown}, 2)

    assert kept is not None
    assert kept.shown is not None
    assert (kept.replicas, kept.shown.to) == (2, 2)


def test_the_largest_memory_there_can_be_fits_into_the_object_that_keeps_it() -> None:
    """A week of history, an hour's cold start, a thousand replicas that start, and the longest sentences: an object of
    the API server holds a megabyte, and others keep something beside it."""
    ways = tuple((way, 123456.789) for way in Way)
    base = Memory(
        history=History(bins=(123456.789,) * BINS, slots=(123456.789,) * SLOTS),
        forecaster=Forecaster(count=9999, scores=ways, due=(Due(made_at=9999, values=ways),) * 241),
        peaks=tuple((600_000.0 + each, 9000.0 - each) for each in range(720)),
        last_s=604_800.0,
    )
    tick = cut(inputs(604_805.0, 10**6, 1000, 1, 1000, keep="requests pile up"))
    tick = replace(tick, sample=replace(tick.sample, pending_s=(1234.567,) * 1000))
    row = Row(at=AT, inputs=tick, replicas=1000, reason=ScalingReason.LOAD_GREW, bound="left to " + "x" * 56)
    change = remembered.Change(at=AT, before=1, to=2, reason=ScalingReason.LOAD_GREW, detail="é" * 2000)
    kept = remembered.Kept(
        replicas=1000,
        ledger=Ledger(base=base, memory=base, rows=(row,) * (2 * CHUNK)),
        shown=change,
        changes=(change,) * 40,
        starts_s=(3600.0,) * 8,
    )

    size = len(json.dumps(remembered.dumped(kept), ensure_ascii=False).encode())

    assert size < 700_000
    assert loaded(json.loads(json.dumps(dumped(kept.ledger)))) is not None


def test_the_least_upper_bound_wins_over_a_lower_one_and_is_named() -> None:
    tick = replace(
        inputs(0.0, 0, 3, 4, 9), highs=(Limit("maxReplicas", 9), Limit("maxAccelerators", 2)), keep="something moves"
    )

    weighed, _ = weigh(tick, Memory())

    assert (weighed.replicas, weighed.bound) == (2, "maxAccelerators")
    assert "maxAccelerators allows 2" in weighed.detail


def schedule(cron: str, zone: str = "UTC", duration: str = "10h", replicas: int = 4) -> Schedule:
    return Schedule(
        cron=Cron(cron), time_zone=TimeZone(zone), duration=DurationUpToAWeek(duration), min_replicas=replicas
    )


@pytest.mark.parametrize(
    ("cron", "zone", "now", "active"),
    [
        pytest.param("0 8 * * 1-5", "UTC", "2026-01-05T08:00", True, id="at its begin"),
        pytest.param("0 8 * * 1-5", "UTC", "2026-01-05T07:58", True, id="a cold start ahead"),
        pytest.param("0 8 * * 1-5", "UTC", "2026-01-05T07:50", False, id="not sooner"),
        pytest.param("0 8 * * 1-5", "UTC", "2026-01-05T17:59", True, id="just before its end"),
        pytest.param("0 8 * * 1-5", "UTC", "2026-01-05T18:00", False, id="at its end"),
        pytest.param("0 8 * * 1-5", "UTC", "2026-01-04T09:00", False, id="not on a Sunday"),
        pytest.param("0 8 * * mon-fri", "UTC", "2026-01-05T09:00", True, id="days by name"),
        pytest.param("0 8 * * 7", "UTC", "2026-01-04T09:00", True, id="the seventh day is Sunday"),
        pytest.param("0 8 * * *", "Europe/Berlin", "2026-01-05T07:00", True, id="in a zone, in winter"),
        pytest.param("0 8 * * *", "Europe/Berlin", "2026-07-06T06:00", True, id="in a zone, in summer"),
        pytest.param("0 8 * * *", "Europe/Berlin", "2026-07-06T05:50", False, id="in a zone, sooner"),
        pytest.param("30 2 * * *", "Europe/Berlin", "2026-03-29T01:30", True, id="at a time that the clock leaves out"),
        pytest.param("0 22 * * *", "UTC", "2026-01-06T03:00", True, id="over midnight"),
        pytest.param("0 0 1 * 1", "UTC", "2026-01-05T01:00", True, id="a day of the month or of the week: the week"),
        pytest.param("0 0 5 * 3", "UTC", "2026-01-05T01:00", True, id="a day of the month or of the week: the month"),
        pytest.param("0 0 30 2,3 *", "UTC", "2026-02-28T01:00", False, id="a day that this month has not"),
        pytest.param("0 8 */2 * *", "UTC", "2026-01-05T09:00", True, id="every second day: an odd one"),
        pytest.param("0 8 */2 * *", "UTC", "2026-01-06T09:00", False, id="every second day: an even one"),
        pytest.param("0 8 * * */3", "UTC", "2026-01-07T09:00", True, id="every third day of the week: Wednesday"),
        pytest.param("0 8 * * */3", "UTC", "2026-01-05T09:00", False, id="every third day of the week: not Monday"),
        pytest.param("0 8 * * sat,sun", "Pacific/Apia", "2026-01-02T20:00", True, id="a zone a day ahead"),
        pytest.param("30 0 * * *", "Africa/Cairo", "2026-04-23T22:30", True, id="midnight that the clock leaves out"),
        pytest.param("0 22-2/4 * * *", "UTC", "2026-01-05T02:30", True, id="a range that goes on over midnight"),
    ],
)
def test_a_schedule_is_in_force(cron: str, zone: str, now: str, active: bool) -> None:
    found = in_force((schedule(cron, zone),), datetime.fromisoformat(now).replace(tzinfo=UTC), 180.0)

    assert (found is not None) is active


def test_of_several_schedules_the_one_that_asks_for_most_counts() -> None:
    now = datetime(2026, 1, 5, 9, tzinfo=UTC)
    found = in_force((schedule("0 8 * * *", replicas=2), schedule("0 8 * * *", replicas=5)), now, 0.0)

    assert found is not None
    assert (found.index, found.min_replicas, found.until) == (1, 5, datetime(2026, 1, 5, 18, tzinfo=UTC))


@pytest.mark.parametrize(
    ("now", "seconds"),
    [
        pytest.param("2026-01-05T07:00", 3600.0 - 180.0, id="until a cold start before it begins"),
        pytest.param("2026-01-05T17:00", 3600.0, id="until it ends"),
        pytest.param("2026-01-05T19:00", 13 * 3600.0 - 180.0, id="until the next day"),
    ],
)
def test_what_is_in_force_is_looked_at_again_in_time(now: str, seconds: float) -> None:
    at = datetime.fromisoformat(now).replace(tzinfo=UTC)

    assert next_change_s((schedule("0 8 * * *"),), at, 180.0) == seconds


_FIELD = st.sampled_from(["*", "*/7", "0", "5,50", "22-4/3", "30"])
_ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu"])


@settings(max_examples=60, deadline=None)
@given(
    minute=_FIELD.filter(lambda field: field != "22-4/3"),
    hour=st.sampled_from(["*", "*/5", "0", "2,3", "22-4/3"]),
    zone=_ZONES,
    now=st.datetimes(datetime(2026, 3, 20), datetime(2026, 4, 30)) | st.datetimes(datetime(2026, 10, 20)),
)
def test_the_begins_that_are_found_are_those_of_every_minute_looked_at(
    minute: str, hour: str, zone: str, now: datetime
) -> None:
    """The clocks of these zones change on other days and by other steps."""
    at = min(now, datetime(2026, 11, 2)).replace(tzinfo=UTC, second=0, microsecond=0)
    one, parsed = ZoneInfo(zone), times(f"{minute} {hour} * * *")
    days = [at.astimezone(one).date() + timedelta(days=number) for number in range(-2, 4)]
    begins = [begin for day in days for begin in all_begins(parsed, day, one)]
    asked = schedule(f"{minute} {hour} * * *", zone, "24h")

    found = in_force((asked,), at, 0.0)

    last = max((begin for begin in begins if begin <= at), default=None)
    running = last is not None and at - last < timedelta(hours=24)
    assert (found.until if found else None) == (last + timedelta(hours=24) if running and last else None)
    left_s = next_change_s((asked,), at, 0.0)
    coming = min(begin for begin in begins if begin > at) - at
    ends = last + timedelta(hours=24) - at if running and last else timedelta(days=1)
    assert left_s == max(1.0, min(coming, ends, timedelta(days=1)).total_seconds())


@given(st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)))
def test_nothing_changes_before_the_time_that_is_told(now: datetime) -> None:
    schedules = (schedule("15 6,20 * * 1-5", "America/New_York", "3h"),)
    at = now.replace(tzinfo=UTC, microsecond=0)
    left_s = next_change_s(schedules, at, 120.0)
    assert left_s is not None

    before = at + timedelta(seconds=left_s - 1)

    assert (in_force(schedules, at, 120.0) is None) == (in_force(schedules, before, 120.0) is None)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**6) | st.floats() | st.sampled_from(["nan", "inf", "x", "LoadGrew"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=6),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=8))
def test_whatever_somebody_wrote_into_the_memory_a_process_starts_from_it(stored: dict[str, Any]) -> None:
    kept = remembered.loaded(stored, 3)

    if kept is not None:
        assert kept.replicas >= 0
        json.dumps(remembered.dumped(kept))
        weigh(inputs(kept.clock_s + 5.0, 10, 3, 1, 9), kept.ledger.memory)
