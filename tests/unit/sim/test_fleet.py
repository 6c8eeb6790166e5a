"""A simulated fleet: cold starts, bounds, drains, deaths and what all of it costs."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelfleet.sim.fleet import Fleet, Routing
from modelfleet.sim.requests import End, Request
from sim_worlds import SITE, SPEC, Always

EVERY_SECOND = [Request(float(second), 50, 20) for second in range(600)]


def test_a_constant_fleet_costs_replicas_times_accelerators_times_hours() -> None:
    site = replace(SITE, first_replicas=3)
    run = Fleet(site, 1).run(EVERY_SECOND, Always(3), 1800.0)

    assert run.accelerator_hours == pytest.approx(3 * 2 * 0.5)
    assert run.actions == 0
    assert [one.end for one in run.outcomes] == [End.FINISHED] * 600


def test_a_started_replica_serves_after_its_cold_start_and_is_paid_from_its_start() -> None:
    run = Fleet(SITE, 1).run(EVERY_SECOND, Always(2), 600.0)

    serving = [(at_s, count) for at_s, count, _ in run.course]
    assert serving[12] == (65.0, 2)
    assert serving[11] == (60.0, 1)
    assert {total for _, _, total in run.course} == {2}
    assert run.accelerator_hours == pytest.approx(2 * (600 + 595) / 3600)


@pytest.mark.parametrize("wish, kept", [pytest.param(99, 4, id="above"), pytest.param(-5, 1, id="below")])
def test_a_wish_outside_the_bounds_is_clipped(wish: int, kept: int) -> None:
    run = Fleet(SITE, 1).run(EVERY_SECOND, Always(wish), 300.0)

    assert {total for _, _, total in run.course} == {kept}


def test_a_replica_that_leaves_finishes_what_it_holds() -> None:
    long = [Request(1.0, 50, 3000), Request(1.1, 50, 3000)]
    site = replace(SITE, first_replicas=2, routing=Routing.LEAST_OF_TWO)
    policy = Always(1)
    run = Fleet(site, 3).run(long, policy, 120.0)

    assert [one.end for one in run.outcomes] == [End.FINISHED] * 2
    assert {one.draining for one in policy.seen} == {0, 1}


def test_a_drain_that_takes_too_long_is_cut() -> None:
    site = replace(SITE, first_replicas=2, longest_drain_s=10.0)
    run = Fleet(site, 1).run([Request(float(at), 50, 5000) for at in range(4)], Always(1), 120.0)

    cut = [one for one in run.outcomes if one.end is End.FAILED]
    assert cut
    assert {one.ended_s for one in cut} == {15.0}


def test_a_replica_that_starts_leaves_before_one_that_serves() -> None:
    run = Fleet(SITE, 1).run(EVERY_SECOND, Always(3, 1), 120.0)

    assert [total for _, _, total in run.course[:3]] == [3, 1, 1]
    assert {serving for _, serving, _ in run.course} == {1}
    assert run.actions == 2


def test_dead_replicas_fail_their_requests_and_are_replaced() -> None:
    site = replace(SITE, first_replicas=2, failures_per_hour=60.0)
    run = Fleet(site, 5).run(EVERY_SECOND, Always(2), 600.0)

    assert any(one.end is End.FAILED for one in run.outcomes)
    assert {total for _, _, total in run.course} == {2}


def test_a_policy_sees_what_came_since_its_last_look() -> None:
    policy = Always(1)
    Fleet(SITE, 1).run(EVERY_SECOND, policy, 20.0)

    assert [one.arrivals for one in policy.seen] == [5, 5, 5, 5]
    assert [one.arrived_input_tokens for one in policy.seen] == [250] * 4
    assert [len(one.ended) for one in policy.seen] == [5, 5, 5, 5]
    assert [one.made_tokens for one in policy.seen] == [100] * 4
    assert [one.computed_tokens for one in policy.seen] == [250] * 4


def test_a_seed_decides_everything() -> None:
    site = replace(SITE, first_replicas=3, jitter=0.2, failures_per_hour=20.0)
    one, same, other = (Fleet(site, seed).run(EVERY_SECOND, Always(2, 4, 3), 600.0) for seed in (1, 1, 2))

    assert one == same
    assert one != other


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-3, 9), min_size=1, max_size=20), st.integers(0, 1000))
def test_whatever_is_wished_each_request_ends_once_and_bounds_hold(wishes: list[int], seed: int) -> None:
    requests = [Request(second / 5, 50, 20) for second in range(500)]
    site = replace(SITE, engine=SPEC, failures_per_hour=30.0, jitter=0.1, cold_start_s=10.0)
    run = Fleet(site, seed).run(requests, Always(*wishes), 120.0)

    assert sorted(map(id, requests)) == sorted(id(one.request) for one in run.outcomes)
    assert all(1 <= total <= 4 for _, _, total in run.course)
    assert 0 < run.accelerator_hours <= 2 * (4 + 4) * 120 / 3600


def test_above_the_supply_of_nodes_nothing_starts_and_the_shortfall_is_counted() -> None:
    run = Fleet(replace(SITE, supply=2), 1).run(EVERY_SECOND, Always(4), 300.0)

    assert {total for _, _, total in run.course} == {2}
    assert run.unplaced == 2
    assert run.actions == 1


def test_a_replica_that_drains_keeps_its_node_from_the_next() -> None:
    site = replace(SITE, first_replicas=2, supply=2, routing=Routing.LEAST_OF_TWO)
    long = [Request(1.0, 50, 3000), Request(1.1, 50, 3000)]
    run = Fleet(site, 3).run(long, Always(1, 2), 300.0)

    assert run.unplaced == 1
    assert run.course[1][2] == 1
    assert run.course[-1][2] == 2


@pytest.mark.parametrize(
    "kept_s, ready_s",
    [
        pytest.param(600.0, 210.0, id="the node is there still: it only loads"),
        pytest.param(10.0, 250.0, id="the node is gone: all phases"),
    ],
)
def test_a_start_on_a_node_that_a_replica_left_is_short(kept_s: float, ready_s: float) -> None:
    site = replace(SITE, first_replicas=2, warm_start_s=10.0, node_kept_s=kept_s, jitter=0.0)
    run = Fleet(site, 1).run([], Always(*[1] * 38, 2), 400.0)

    twice = [at for at, serving, _ in run.course if serving == 2]
    assert min(twice) == pytest.approx(ready_s, abs=5.1)
