"""A contest on one trace: scores, costs at equal share, and what hindsight is worth."""

from dataclasses import replace
from statistics import mean

import pytest

from modelfleet.cli.cases import asked
from modelfleet.cli.models import lookup
from modelfleet.core.perf.case import Case
from modelfleet.core.scaling.terms import ANSWER_TOKENS, COLD_START_S
from modelfleet.sim import contest
from modelfleet.sim.capacity import Promise, measured_knee_rps, share_at
from modelfleet.sim.contest import Curve, Point, cost_at
from modelfleet.sim.fleet import Run
from modelfleet.sim.requests import End, Outcome, Request
from modelfleet.sim.shapes import Regime, shaped
from modelfleet.sim.world import Setting, World, WorldError, build

PROMISE = Promise(ttft_s=2.0, tpot_s=0.050, share=0.99)
SETTING = Setting(promise=PROMISE, cold_start_s=60.0, max_replicas=12)


@pytest.fixture(scope="module")
def case() -> Case:
    cells = {"model": "meta-llama/Llama-3.1-8B-Instruct", "class": "l40s", "tp": "1"}
    found = asked(cells, lookup()).case
    return replace(found, setup=replace(found.setup, sequence_cap=256))


@pytest.fixture(scope="module")
def world(case: Case) -> World:
    trace = shaped("sine:1-6,5m", Regime(input_tokens=3000, output_tokens=200, spread=0.3), 5 / 60, 1)
    return build(case, trace, SETTING)


def test_the_knee_is_the_highest_rate_that_keeps_the_share(world: World) -> None:
    engine = replace(world.site.engine, queued_tokens=None)
    knee = measured_knee_rps(engine, world.trace.requests, PROMISE, 1)

    assert world.knee_rps == knee > 0
    assert share_at(engine, world.trace.requests, PROMISE, knee, 1) >= 0.99
    assert share_at(engine, world.trace.requests, PROMISE, knee * 1.2, 1) < 0.99


def test_a_promise_that_one_request_alone_breaks_gets_a_sentence(case: Case, world: World) -> None:
    fast = replace(SETTING, promise=replace(PROMISE, ttft_s=0.001))
    with pytest.raises(WorldError, match="even one at a time; relax the promise"):
        build(case, world.trace, fast)


def test_policies_are_told_a_capacity_that_is_wrong_within_the_error(world: World) -> None:
    told = {world.believed_knee_rps(seed) for seed in range(50)}

    assert len(told) == 50
    assert all(0.8 * world.knee_rps <= one <= 1.2 * world.knee_rps for one in told)
    exact = replace(world, setting=replace(SETTING, capacity_error=0.0))
    assert exact.believed_knee_rps(1) == world.knee_rps


def test_ours_is_told_what_the_operator_knows_of_a_plan_and_no_measured_truth(world: World) -> None:
    slow = replace(world, setting=replace(world.setting, cold_start_s=600.0), prompt_part=0.123)
    terms = slow.terms(1, 0.99)
    prompt, answer = world.known.input_tokens, world.known.output_tokens

    assert terms.cold_start_s == COLD_START_S
    assert terms.prompt_part == prompt / (prompt + ANSWER_TOKENS * answer)
    shared = tuple(replace(one, prefix_tokens=500) for one in world.trace.requests)
    of_prefix = replace(world, trace=replace(world.trace, requests=shared)).terms(1, 0.99)
    assert of_prefix.prompt_part == (prompt - 500) / (prompt - 500 + ANSWER_TOKENS * answer)


def test_the_oracle_keeps_the_share_at_no_more_than_the_best_constant_number_costs(world: World) -> None:
    static = contest.best_static(world, [1])
    oracle = contest.oracle(world, [1])
    best = next(point for point in static.points if point.parameter == static.usual)
    known = next(point for point in oracle.points if point.parameter == oracle.usual)

    assert min(best.share, known.share) >= PROMISE.share
    assert known.accelerator_hours <= best.accelerator_hours
    fewer = next(point for point in static.points if point.parameter == str(int(static.usual) - 1))
    assert fewer.share < PROMISE.share


def test_the_best_constant_number_keeps_the_share_in_the_mean_of_the_seeds(world: World) -> None:
    failing = replace(world, site=replace(world.site, failures_per_hour=2.0))
    static = contest.best_static(failing, [1, 2, 3])

    def share(number: int) -> float:
        return mean(point.share for point in static.points if point.parameter == str(number))

    assert static.usual is not None
    assert share(int(static.usual)) >= PROMISE.share
    assert share(int(static.usual) - 1) < PROMISE.share


def test_the_same_seed_gives_the_same_curve(world: World) -> None:
    rule = next(rule for rule in contest.rules(world) if rule.name == contest.OURS)
    usual = replace(rule, make={rule.usual: rule.make[rule.usual]})

    assert contest.curve(world, usual, [1, 2]) == contest.curve(world, usual, [1, 2])


def test_every_rule_ships_with_one_of_its_values_also_where_they_are_thinned(world: World) -> None:
    many = replace(world, trace=replace(world.trace, requests=world.trace.requests * 80))
    assert len(many.trace.requests) > contest.MANY_REQUESTS
    for whole, thin in zip(contest.rules(world), contest.rules(many), strict=True):
        assert whole.usual in whole.make
        assert thin.usual in thin.make
        assert len(thin.make) < len(whole.make)
    assert "every second value" in contest.notes(many)[0]
    assert contest.notes(world) == ()


def test_a_load_that_one_replica_carries_is_said(world: World) -> None:
    calm = replace(world, knee_rps=1000.0)
    assert "one replica carries the mean load" in contest.notes(calm)[0]


def test_a_run_is_scored_by_all_its_requests(world: World) -> None:
    def ended(at_s: float, end: End, ttft_s: float = 1.0, tpot_s: float = 0.01) -> Outcome:
        return Outcome(Request(at_s, 1, 1), end, at_s, ttft_s=ttft_s, tpot_s=tpot_s)

    outcomes = (
        *(ended(at, End.FINISHED) for at in range(600)),
        ended(700, End.FINISHED, ttft_s=2.5),
        ended(701, End.FINISHED, tpot_s=0.06),
        ended(702, End.REFUSED),
        ended(703, End.FAILED),
    )
    run = Run(outcomes=outcomes, accelerator_hours=2.0, course=(), actions=7, preemptions=0)
    point = contest.scored(world, run, "1", 3)

    assert point.share == pytest.approx(600 / 604)
    assert (point.good_requests, point.refused, point.failed, point.actions) == (600, 1, 1, 7)
    assert point.good_per_accelerator_hour == 300
    assert point.worst_share == 0.0


def points(*pairs: tuple[float, float]) -> Curve:
    return Curve(
        policy="x",
        usual="0",
        points=tuple(
            Point(parameter=str(number), seed=1, share=share, accelerator_hours=hours, good_requests=1,
                  worst_share=0.0, actions=0, refused=0, failed=0)
            for number, (share, hours) in enumerate(pairs)
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    "curve, cost",
    [
        pytest.param(points((0.99, 5.0)), 5.0, id="the point itself"),
        pytest.param(points((0.95, 5.0), (0.98, 7.0)), None, id="no point reaches the share"),
        pytest.param(points((0.9, 2.0), (0.999, 8.0)), 4.0, id="half of the way in the logarithm of what is late"),
        pytest.param(points((0.9, 2.0), (0.999, 8.0), (0.5, 3.0)), 4.0, id="a dear point that is worse is left out"),
        pytest.param(points((0.995, 3.0), (0.999, 8.0)), 3.0, id="the cheapest point is above the share"),
    ],
)
def test_cost_at_equal_share(curve: Curve, cost: float | None) -> None:
    assert cost_at(curve, 0.99, 1) == (None if cost is None else pytest.approx(cost))
