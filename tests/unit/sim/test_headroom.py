"""The replicas that would have had to stand ready where bursts outrun the cold start."""

from dataclasses import replace

import pytest

from modelfleet.cli.cases import asked
from modelfleet.cli.main import main
from modelfleet.cli.models import lookup
from modelfleet.sim.capacity import Promise
from modelfleet.sim.contest import rules, scored
from modelfleet.sim.fleet import Fleet
from modelfleet.sim.headroom import headroom
from modelfleet.sim.shapes import Regime, shaped
from modelfleet.sim.world import Setting, World, build


@pytest.fixture(scope="module")
def world() -> World:
    case = asked({"model": "meta-llama/Llama-3.1-8B-Instruct", "class": "l40s", "tp": "1"}, lookup()).case
    case = replace(case, setup=replace(case.setup, sequence_cap=256))
    trace = shaped("burst:1-14,5m", Regime(input_tokens=1000, output_tokens=100), 0.2, 1)
    promise = Promise(ttft_s=2.0, tpot_s=0.050, share=0.99)
    return build(case, trace, Setting(promise=promise, cold_start_s=180.0, max_replicas=8))


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
