"""The replicas that would have had to stand ready where bursts outrun the cold start."""

from dataclasses import replace

import pytest

from modelfleet.cli.main import main
from modelfleet.sim.contest import rules, scored
from modelfleet.sim.fleet import Fleet
from modelfleet.sim.headroom import headroom
from modelfleet.sim.world import World
from sim_worlds import of_bursts


@pytest.fixture(scope="module")
def world() -> World:
    return of_bursts()


def _share(world: World, replicas: int) -> float:
    site = replace(world.site, min_replicas=replicas, first_replicas=max(replicas, world.site.first_replicas))
    raised = replace(world, site=site, setting=replace(world.setting, min_replicas=replicas))
    rule = next(rules(raised))
    run = Fleet(site, 1).run(world.trace.requests, rule.make[rule.usual](1), world.trace.duration_s)
    return scored(raised, run, rule.usual, 1).share


def test_the_least_number_that_keeps_the_promise_is_found(world: World) -> None:
    found = headroom(world, 1)

    assert found is not None
    assert found > 1
    assert _share(world, found) >= world.setting.promise.share > _share(world, found - 1)


def test_where_no_number_keeps_it_there_is_none(world: World) -> None:
    setting = replace(world.setting, max_replicas=1)
    assert headroom(replace(world, setting=setting, site=replace(world.site, max_replicas=1)), 1) is None


def test_simulate_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--shape", "burst:1-14,5m", "--hours", "0.2", "--lengths", "1000:100", "--max-replicas", "8"]
    model = ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--class", "l40s"]
    assert main(["simulate", *flags, *model, "--policy", "modelfleet"]) == 0

    assert "on the first seed: with minReplicas" in capsys.readouterr().out
