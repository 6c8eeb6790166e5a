"""Costs are compared at equal share between points that are near each other."""

from dataclasses import replace

import pytest

from modelfleet.cli.cases import asked
from modelfleet.cli.models import lookup
from modelfleet.sim import contest
from modelfleet.sim.capacity import Promise
from modelfleet.sim.contest import OURS, Curve, Point, around, cost_at, same_value
from modelfleet.sim.equal_share import sharpened
from modelfleet.sim.shapes import Regime, shaped
from modelfleet.sim.world import Setting, World, build


@pytest.fixture(scope="module")
def world() -> World:
    case = asked({"model": "meta-llama/Llama-3.1-8B-Instruct", "class": "l40s", "tp": "1"}, lookup()).case
    case = replace(case, setup=replace(case.setup, sequence_cap=256))
    trace = shaped("burst:1-8,2m", Regime(input_tokens=3000, output_tokens=200, spread=0.3), 8 / 60, 1)
    promise = Promise(ttft_s=2.0, tpot_s=0.050, share=0.99)
    return build(case, trace, Setting(promise=promise, cold_start_s=60.0, max_replicas=12))


def point(parameter: str, share: float, hours: float) -> Point:
    return Point(
        parameter=parameter, seed=1, share=share, accelerator_hours=hours, good_requests=1, worst_share=0.0,
        actions=0, refused=0, failed=0,
    )  # fmt: skip


def test_where_a_parameter_jumps_the_cost_is_that_of_the_point_above() -> None:
    far = Curve(policy="x", usual="1", points=(point("0.5", 0.999, 12.0), point("0.75", 0.65, 1.5)))
    near = replace(far, points=(*far.points, point("0.6", 0.999, 12.0), point("0.61", 0.65, 1.5)))

    between = cost_at(far, 0.98, 1)
    assert between is not None
    assert 1.5 < between < 12.0
    assert cost_at(near, 0.98, 1) == 12.0


def test_the_cheapest_peer_has_points_near_our_share_or_a_jump_there(world: World) -> None:
    known = {rule.name: rule for rule in contest.rules(world)}
    ours = replace(known[OURS], make={known[OURS].usual: known[OURS].make[known[OURS].usual]})
    coarse = replace(known["keda"], make={value: known["keda"].make[value] for value in ("1", "32")})
    before = [contest.curve(world, ours, [1]), contest.curve(world, coarse, [1])]
    share = before[0].points[0].share
    after = sharpened(world, before, [1])

    assert after[0] == before[0]
    ends = around(after[1], share, 1)
    assert ends is not None
    assert len(after[1].points) > 2
    assert ends[1].accelerator_hours <= 1.15 * ends[0].accelerator_hours or same_value(*ends)


def test_without_ours_nothing_is_run(world: World) -> None:
    one = Curve(policy="keda", usual="1", points=(point("1", 0.999, 12.0),))

    assert sharpened(world, [one], [1]) == [one]
