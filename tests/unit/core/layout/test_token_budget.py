"""The token budget: the largest whose full step is inside tpot, prompts in time, through all stages."""

from dataclasses import replace

import pytest

from modelfleet.core.layout.answer import Check
from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.demand import demand_of
from modelfleet.core.layout.question import Pins
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.token_budget import BUDGETS, budget_of, largest_budget
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.workload import EngineSetup
from questions import LARGE, facts, objective, question, variants

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
