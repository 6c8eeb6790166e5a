"""A peer whose sweep ends below our share is run on, stricter, before it drops out; and what it ships with is run."""

from dataclasses import dataclass, replace

import pytest

from modelfleet.cli.cases import asked
from modelfleet.cli.models import lookup
from modelfleet.sim import contest
from modelfleet.sim.capacity import Promise
from modelfleet.sim.contest import OURS, Curve, Point, Rule, cost_at, scored
from modelfleet.sim.equal_share import extended, out_of_reach, sharpened
from modelfleet.sim.fleet import Fleet, Observation
from modelfleet.sim.requests import Request
from modelfleet.sim.shapes import Regime, shaped
from modelfleet.sim.world import Setting, World, build


@pytest.fixture(scope="module")
def world() -> World:
    case = asked({"model": "meta-llama/Llama-3.1-8B-Instruct", "class": "l40s", "tp": "1"}, lookup()).case
    case = replace(case, setup=replace(case.setup, sequence_cap=256))
    trace = shaped("step:1-6,2m", Regime(input_tokens=2000, output_tokens=150, spread=0.3), 5 / 60, 1)
    promise = Promise(ttft_s=2.0, tpot_s=0.050, share=0.99)
    return build(case, trace, Setting(promise=promise, cold_start_s=20.0, max_replicas=8))


@dataclass
class Target:
    """Asks for `load` over its parameter, up to `most`."""

    value: float
    load: float
    most: int = 99
    tick_s: float = 15.0

    def wish(self, seen: Observation) -> int:
        return min(self.most, int(self.load / self.value))


def swept(load: float, *, most: int = 99, over: tuple[float, ...] = (1.0, 2.0, 4.0)) -> Rule:
    def at(value: float) -> object:
        return lambda _seed: Target(value, load, most)

    return Rule(name="x", usual="1", make={f"{value:g}": at(value) for value in over}, at=at)  # type: ignore[arg-type,misc]


def test_a_rule_that_only_loosens_is_made_stricter_until_it_reaches_our_share(world: World) -> None:
    rule = swept(1.0)
    before = contest.curve(world, rule, [1])
    assert cost_at(before, 0.95, 1) is None

    after = extended(world, before, rule, 0.95, 1)

    assert cost_at(after, 0.95, 1) is not None
    assert after.points[: len(before.points)] == before.points
    added = [float(point.parameter) for point in after.points[len(before.points) :]]
    assert added == [0.5 / 2**step for step in range(len(added))]
    assert all(point.share < 0.95 for point in after.points[:-1])
    assert extended(world, after, rule, 0.95, 1) == after


def test_a_rule_is_not_run_on_once_it_stands_at_the_most_throughout(world: World) -> None:
    full = replace(world, site=replace(world.site, first_replicas=world.site.most))
    before = contest.curve(full, swept(8.0), [1])

    assert extended(full, before, swept(8.0), 1.1, 1) == before


def test_a_rule_is_not_run_on_once_two_steps_buy_nothing(world: World) -> None:
    rule = swept(3.0, most=3)
    before = contest.curve(world, rule, [1])

    assert len(extended(world, before, rule, 1.1, 1).points) == len(before.points) + 2


def test_a_rule_that_has_not_begun_to_scale_is_run_on_and_not_taken_to_be_at_its_end(world: World) -> None:
    """Its loosest values all stand at the minimum: that nothing changes between them says nothing."""
    rule = swept(1 / 16)
    after = extended(world, contest.curve(world, rule, [1]), rule, 0.95, 1)

    assert cost_at(after, 0.95, 1) is not None


def test_the_rounds_are_bounded(world: World) -> None:
    rule = swept(1e-9)
    before = contest.curve(world, rule, [1])

    after = extended(world, before, rule, 0.95, 1).points[len(before.points) :]

    assert [float(one.parameter) for one in after] == pytest.approx([0.5**step for step in range(1, 11)], rel=1e-4)


def test_where_there_are_many_requests_the_steps_are_quarters(world: World) -> None:
    requests = tuple(Request(200 + number / 10_000, 10, 1) for number in range(contest.MANY_REQUESTS + 1))
    many = replace(world, trace=replace(world.trace, requests=requests))
    before = contest.curve(world, swept(1.0), [1])
    none = replace(before, points=tuple(replace(point, share=0.0) for point in before.points))

    after = extended(many, none, swept(1.0), 0.001, 1)

    assert [point.parameter for point in after.points[len(before.points) :]] == ["0.25"]


@pytest.mark.parametrize("name", ["keda", "hpa-running", "wva-v1", "kthena"])
def test_each_peer_that_is_below_our_share_is_run_on(world: World, name: str) -> None:
    known = {rule.name: rule for rule in contest.rules(world)}
    loosest = max(known[name].make, key=float)
    loose = contest.curve(world, replace(known[name], make={loosest: known[name].make[loosest]}), [1])
    mine = replace(loose, policy=OURS, usual="1", points=(replace(loose.points[0], parameter="1", share=0.9),))
    assert loose.points[0].share < 0.9

    found = {curve.policy: curve for curve in sharpened(world, [mine, loose], [1])}

    assert cost_at(found[name], 0.9, 1) is not None
    assert out_of_reach(world, list(found.values()), [1]) == ()


def test_in_every_rule_a_smaller_parameter_is_the_stricter_one(world: World) -> None:
    for rule in contest.rules(world):
        strict, loose = (min(rule.make, key=float), max(rule.make, key=float))
        hours = [
            scored(
                world, Fleet(world.site, 1).run(world.trace.requests, rule.at(value)(1), world.trace.duration_s), "", 1
            ).accelerator_hours
            for value in (float(strict) / 64, float(loose) * 4)
            if rule.name != OURS
        ]
        assert hours == sorted(hours, reverse=True), rule.name


def test_who_never_reaches_our_share_is_named_with_the_best_that_it_does(world: World) -> None:
    def curve(policy: str, *shares: float) -> Curve:
        points = tuple(
            Point(
                parameter=str(2**number), seed=1, share=share, accelerator_hours=1.0, good_requests=1, worst_share=0.0,
                actions=0, refused=0, failed=0,
            )
            for number, share in enumerate(shares)
        )  # fmt: skip
        return Curve(policy=policy, usual="1", points=points)

    curves = [curve(OURS, 0.99), curve("kpa", 0.97, 0.5), curve("keda", 0.995), curve("static", 0.2)]

    assert out_of_reach(world, curves, [1]) == (
        "however strict, kpa (0.9700 at most) does not reach the share of ours on seed 1 (0.9900)",
    )
    assert out_of_reach(world, curves[1:], [1]) == ()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param("hpa-running", 16.0, id="HPA: 16 running requests a replica"),
        pytest.param("kubeai", 100.0, id="KubeAI: 100 requests in flight"),
        pytest.param("ray-serve", 2.0, id="Ray Serve: 2 ongoing requests"),
    ],
)
def test_as_shipped_a_target_is_the_published_number(world: World, name: str, target: float) -> None:
    rule = next(rule for rule in contest.rules(world) if rule.name == name)

    assert float(rule.usual) * world.knee_in_flight == pytest.approx(target, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "usual"),
    [
        pytest.param("kpa", "0.7", id="KPA: 70 % of what a replica holds"),
        pytest.param("aibrix-kpa", "0.7", id="AIBrix' KPA: as KPA"),
        pytest.param("aibrix-kpa-as-shipped", "0.7", id="AIBrix' KPA as shipped: as KPA"),
        pytest.param("hpa-queue", "1", id="HPA: 1 waiting"),
        pytest.param("hpa-kv", "0.5", id="HPA: half of the KV cache"),
        pytest.param("apa", "0.5", id="APA: half of the KV cache"),
        pytest.param("keda", "1", id="KEDA: its own triggers"),
    ],
)
def test_as_shipped_a_share_or_a_factor_is_the_published_one(world: World, name: str, usual: str) -> None:
    rule = next(rule for rule in contest.rules(world) if rule.name == name)

    assert rule.usual == usual
    assert list(rule.make) == sorted(rule.make, key=float)
