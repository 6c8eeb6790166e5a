"""All policies share the supply of nodes and the bounds: what stands at the beginning, and both searches."""

from dataclasses import replace

import pytest

from modelfleet.cli.main import main
from modelfleet.cli.simulate_text import document
from modelfleet.sim import contest
from modelfleet.sim.contest import best_static
from modelfleet.sim.fleet import Fleet
from modelfleet.sim.headroom import headroom
from modelfleet.sim.requests import Request
from modelfleet.sim.world import World
from sim_worlds import SITE, Always, of_bursts

SCARCE = ["--shape", "burst:1-14,5m", "--hours", "0.1", "--lengths", "1000:100", "--supply", "2", "--min-replicas", "2"]
MODEL = ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--class", "l40s"]


@pytest.fixture(scope="module")
def world() -> World:
    return of_bursts()


def bounded(world: World, *, low: int = 1, supply: int | None = None) -> World:
    """The world with another minReplicas and supply."""
    site = replace(world.site, min_replicas=low, supply=supply)
    return replace(world, site=site, setting=replace(world.setting, min_replicas=low, supply=supply))


@pytest.mark.parametrize(
    ("change", "stand"),
    [
        pytest.param({"supply": 2}, 2, id="the supply"),
        pytest.param({"max_replicas": 3}, 3, id="the most replicas"),
        pytest.param({}, 4, id="neither"),
    ],
)
def test_no_more_stand_at_the_beginning_than_there_may_be(change: dict[str, int], stand: int) -> None:
    run = Fleet(replace(SITE, first_replicas=4, **change), 1).run([Request(1.0, 50, 20)], Always(4), 60.0)

    assert {total for _, _, total in run.course} == {stand}
    assert run.accelerator_hours == pytest.approx(2 * stand * 60 / 3600)


def test_how_long_a_start_took_is_seen_once_and_what_stood_before_took_none() -> None:
    policy = Always(2)
    Fleet(replace(SITE, jitter=0.1), 1).run([Request(1.0, 50, 20)], policy, 120.0)

    found = [one for seen in policy.seen for one in seen.starts_s]
    assert len(found) == 1
    assert 54.0 <= found[0] <= 66.0


@pytest.mark.parametrize("low", [pytest.param(1, id="from one"), pytest.param(3, id="from three")])
def test_a_constant_number_is_looked_for_inside_the_supply_and_the_bounds(world: World, low: int) -> None:
    static = best_static(bounded(world, low=low, supply=4), [1])

    assert {int(point.parameter) for point in static.points} <= set(range(low, 5))
    assert max(point.accelerator_hours for point in static.points) <= 4 * 0.2 + 0.001


def test_where_no_number_that_fits_keeps_the_share_none_is_named(world: World) -> None:
    static = best_static(bounded(world, low=2, supply=2), [1])

    assert static.usual is None
    assert document(world, [static], [1], ())["policies"][0]["asShipped"] is None
    assert [point.parameter for point in static.points] == ["2"]
    assert headroom(bounded(world, low=2, supply=2), 1) is None


def test_the_headroom_is_no_more_than_the_supply(world: World) -> None:
    free = headroom(world, 1)
    assert free is not None
    assert headroom(bounded(world, supply=free), 1) == free
    assert headroom(bounded(world, supply=free - 1), 1) is None


def test_a_plan_of_the_oracle_is_not_taken_for_dearer_than_what_can_stand(world: World) -> None:
    scarce = bounded(world, supply=2)
    assert contest._least_hours(scarce, [8] * 73) == contest._least_hours(scarce, [2] * 73)


def test_simulate_says_that_no_number_inside_the_supply_keeps_the_share(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *SCARCE, *MODEL, "--policy", "modelfleet,static"]) == 0
    said = capsys.readouterr().out

    assert "no minReplicas up to the supply of 2 would have kept it" in said
    assert "static                 no number from 2 to 2 keeps the share" in said
