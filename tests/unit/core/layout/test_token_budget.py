"""The token budget: the largest whose full step is inside tpot, prompts in time, through all stages."""

from dataclasses import replace

import pytest

from modelfleet.core.catalog import CATALOG
from modelfleet.core.layout.answer import Check
from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.demand import demand_of
from modelfleet.core.layout.question import Pins
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.token_budget import BUDGETS, budget_of, largest_budget
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.workload import EngineSetup
from questions import LARGE, facts, objective, on, question, variants

SETUP = EngineSetup(version="0.32.0", context_limit_tokens=16384)
CASE = Case(facts=facts("Llama-3.3-70B-Instruct"), hardware=LARGE, layout=Layout(4), setup=SETUP)
DEMAND = demand_of(question())


@pytest.mark.parametrize("tpot", [0.04, 0.06, 0.1, 0.2])
def test_the_budget_is_the_largest_of_its_sizes_whose_full_step_is_inside(tpot):
    got = largest_budget(CASE, DEMAND, 20.0, tpot)
    assert got is not None
    assert got.step_s <= tpot
    larger = [size for size in BUDGETS if size > got.tokens]
    assert not larger or budget_of(CASE, DEMAND, larger[0], 20.0).step_s > tpot


def test_no_budget_where_the_smallest_full_step_is_too_long():
    assert largest_budget(CASE, DEMAND, 20.0, 0.001) is None


def test_more_running_sequences_never_leave_a_larger_budget():
    sizes = [largest_budget(CASE, DEMAND, running, 0.08) for running in (1.0, 16.0, 64.0, 120.0)]
    tokens = [size.tokens if size else 0 for size in sizes]
    assert tokens == sorted(tokens, reverse=True)


def test_a_step_counts_through_all_stages():
    staged = replace(CASE, layout=Layout(4, 2))
    one, two = budget_of(CASE, DEMAND, 1024, 8.0), budget_of(staged, DEMAND, 1024, 8.0)
    assert two.step_s == pytest.approx(one.step_s, rel=0.2)
    assert two.prefill_tokens_per_s > 1.5 * one.prefill_tokens_per_s


def test_a_prompt_is_prefilled_by_one_rank():
    ranks = replace(CASE, facts=facts("DeepSeek-V3"), layout=Layout(1, 1, 4, expert=True))
    got = budget_of(ranks, DEMAND, 1024, 8.0)
    assert got.prompt_s(4000.0) == pytest.approx(4000.0 / (got.prefill_tokens_per_s / 4))


def test_a_plan_prefills_its_long_prompts_in_time():
    asked = question(
        variants=variants("Llama-3.3-70B-Instruct"),
        objectives=(objective(ttft_s=0.8, tpot_s=0.05, input_p50_tokens=2000, input_p95_tokens=6000),),
    )
    got = answer(asked)
    assert got.chosen is not None
    late = [one.sentence for one in got.rejected if one.check is Check.TTFT]
    assert any("a prompt of 6,000 tokens" in sentence for sentence in late)


def test_the_load_lies_below_the_knee_of_the_budget_that_runs():
    got = answer(question(objectives=(objective(load_rps=50.0),))).chosen
    assert got is not None
    assert got.pool.predicted.requests_per_s <= got.pool.predicted.knee_rps
    assert got.pool.predicted.step_s * (1 + got.pool.predicted.uncertainty) <= 0.1


def test_a_pinned_budget_that_stalls_answers_is_told():
    got = answer(question(pins=Pins(token_budget=16384), objectives=(objective(tpot_s=0.05),))).chosen
    assert got is not None
    told = next(one.sentence for one in got.reasons if one.check is Check.TOKEN_BUDGET)
    assert "spec.engine.args.max-num-batched-tokens" in told
    assert "stall" in told


def _tight(tpot_s, **pins):
    """Weights that leave little room for activation and cache."""
    lengths = {
        "input_p50_tokens": 50,
        "input_p95_tokens": 150,
        "output_p50_tokens": 10,
        "output_p95_tokens": 10,
    }
    return question(
        variants=variants("Qwen3-32B"),
        candidates=(on(CATALOG["rtx-4090"].hardware),),
        objectives=(objective(tpot_s=tpot_s, share=0.95, load_rps=100.0, **lengths),),
        pins=Pins(**pins),
        max_context_tokens=None,
        engine_version="",
    )


def test_a_looser_tpot_never_costs_more_though_its_budget_would_leave_no_cache():
    plans = [answer(_tight(tpot_s)).chosen for tpot_s in (0.2, 0.215, 0.23, 0.26, 0.4, 1.0, 4.0)]
    taken = [plan.accelerators if plan else None for plan in plans]
    assert taken == sorted(taken, reverse=True)


def test_a_pinned_budget_that_leaves_no_cache_is_called_a_lack_of_memory():
    asked = _tight(0.26, tensor=4, pipeline=1)
    got = answer(replace(asked, pins=replace(asked.pins, token_budget=1024)))
    assert got.infeasible is not None
    assert got.infeasible.check is Check.MEMORY
