"""A line's own clockwork, on a clock of the test: pace, deadlines, echoes, how many share the traffic."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from activator_api import deployment
from modelfleet.activator.line import Line, Place, Surroundings, Worker
from modelfleet.core.activation.holding import Limits, Reason, Verdict
from modelfleet.core.activation.known import Demand, Known, Outlook, Refusal, known
from modelfleet.core.activation.slices import Address

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE, TWO = Address("10.0.0.1", 8000), Address("10.0.0.2", 8000)
pytestmark = pytest.mark.looptime


def model(**changes: object) -> Known:
    made = known(deployment("chat", 20000, waits="60s"))
    assert made is not None
    return replace(made, **changes)


def line(limits: Limits | None = None, activators: int = 1, **changes: object) -> Line:
    around = Surroundings("activator-a", limits or Limits(), lambda: NOW, activators=activators)
    return Line(model(**changes), around)


def enter(at: Line, count: int) -> list[Place]:
    places = [at.enter(asyncio.get_running_loop().time()) for _ in range(count)]
    for place in places:
        at.ready(place)
    return places


def released(places: list[Place]) -> int:
    return sum(place.outcome.done() for place in places)


async def test_those_who_waited_are_released_at_the_rate_that_workers_serve_within_the_promise() -> None:
    at = line(rate_rps=2.0)
    places = enter(at, 10)
    at.serve(frozenset({ONE}))
    counts = []
    for _ in range(5):
        counts.append(released(places))
        await asyncio.sleep(1)
    assert counts == [1, 3, 5, 7, 9]


async def test_the_rate_is_shared_by_workers_and_by_activators() -> None:
    at = line(rate_rps=2.0, activators=2)
    places = enter(at, 10)
    at.serve(frozenset({ONE, TWO}))
    await asyncio.sleep(2.1)
    assert released(places) == 5


async def test_without_a_known_rate_all_go_at_once_spread_over_the_workers() -> None:
    at = line()
    places = enter(at, 10)
    at.serve(frozenset({ONE, TWO}))
    outcomes = [place.outcome.result() for place in places]
    assert [sum(isinstance(o, Worker) and o.address == each for o in outcomes) for each in (ONE, TWO)] == [5, 5]


async def test_where_nothing_is_known_of_a_worker_it_is_given_256_at_a_time_of_those_who_waited() -> None:
    at = line()
    places = enter(at, 1000)
    at.serve(frozenset({ONE}))
    assert released(places) == 256
    at.done(at.workers[ONE])
    assert released(places) == 257
    for _ in range(10):
        assert at.worker() is None, "who comes later waits behind them"


async def test_a_place_whose_body_is_not_read_does_not_stop_those_behind() -> None:
    at = line()
    slow = at.enter(asyncio.get_running_loop().time())
    (quick,) = enter(at, 1)
    at.serve(frozenset({ONE}))
    assert (slow.outcome.done(), quick.outcome.done()) == (False, True)


async def test_the_deadline_counts_from_the_arrival() -> None:
    at = line(outlook=Outlook(left_s=20.0))
    arrived_s = asyncio.get_running_loop().time()
    await asyncio.sleep(50)
    place = at.enter(arrived_s)
    await asyncio.sleep(9)
    assert not place.outcome.done()
    await asyncio.sleep(1.1)
    verdict = place.outcome.result()
    assert isinstance(verdict, Verdict)
    assert (verdict.reason, verdict.retry_after_s) == (Reason.WAITED_TOO_LONG, 20)


async def test_a_worker_found_for_a_client_that_is_gone_takes_another() -> None:
    at = line(sequences=1)
    first, second = enter(at, 2)
    at.serve(frozenset({ONE}))
    assert (first.outcome.done(), second.outcome.done()) == (True, False)
    at.abandon(first)
    assert second.outcome.done()
    assert at.held == 1


async def test_a_worker_that_left_keeps_its_requests_and_gets_no_more() -> None:
    at = line()
    at.serve(frozenset({ONE}))
    leaving = at.worker()
    at.serve(frozenset({TWO}))
    assert leaving is not None
    assert leaving.address == ONE
    assert [at.worker().address for _ in range(2)] == [TWO, TWO]  # type: ignore[union-attr]
    at.done(leaving)
    assert at.workers[TWO].in_flight == 2


async def test_a_refusal_that_a_start_would_mend_is_demand_until_its_retry_after() -> None:
    at = line(outlook=Outlook(usual_s=100.0))
    assert at.decide(1).reason is Reason.BEYOND_CAPACITY
    await asyncio.sleep(99)
    assert at.demand == 1
    await asyncio.sleep(2)
    assert at.demand == 0


async def test_a_start_that_fails_is_asked_for_again_only_for_a_moment() -> None:
    at = line(refusal=Refusal("NoCapacity", "no room", NOW + timedelta(seconds=300)))
    assert at.decide(1).reason is Reason.START_FAILED
    assert at.demand == 1
    await asyncio.sleep(5.1)
    assert at.demand == 0


async def test_where_workers_serve_no_start_bounds_what_is_held_and_none_fails() -> None:
    at = line(outlook=Outlook(usual_s=1000.0), refusal=Refusal("NoCapacity", "no room"))
    at.serve(frozenset({ONE}))
    assert at.decide(1).held


async def test_what_other_activators_hold_is_ahead_too() -> None:
    at = line(rate_rps=1.0, most_replicas=1, demand={"activator-b": Demand(61, NOW), "activator-a": Demand(900, NOW)})
    assert at.decide(1).reason is Reason.BEYOND_CAPACITY


async def test_ten_thousand_who_wait_leave_in_any_order_without_a_look_at_each_other() -> None:
    at = line()
    places = enter(at, 10_000)
    for place in reversed(places):
        at.leave(place)
    assert (at.held, at.demand) == (0, 0)
