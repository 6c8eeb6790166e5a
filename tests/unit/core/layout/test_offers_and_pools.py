"""Offers are near and planned; several objectives share a pool or are told apart; two pools only in a large fleet."""

from dataclasses import replace

import pytest

from modelfleet.core.layout.answer import Change, Check, Role
from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.demand import demand_of
from modelfleet.core.layout.on_class import look
from modelfleet.core.layout.question import Bounds, Evidence, Pins, Strategy
from modelfleet.core.layout.wording import rounded
from modelfleet.core.model.facts import Scheme
from questions import LARGE, nodes, objective, on, question, variants

SEVENTY = "Llama-3.3-70B-Instruct"
FP8 = (on(LARGE, standard_weights=Scheme.FP8),)


def seventy(**changes):
    return question(**({"variants": variants(SEVENTY, Scheme.FP8), "candidates": FP8} | changes))


@pytest.mark.parametrize("tpot_s", [0.003, 0.004, 0.0055])
def test_a_looser_time_is_the_smallest_that_works_to_about_a_twentieth(tpot_s):
    got = answer(seventy(objectives=(objective(tpot_s=tpot_s),)))
    offer = next(one for one in got.offers if one.change is Change.OBJECTIVE and one.field.endswith("tpot"))
    works = float(offer.value.removesuffix("ms")) / 1000
    assert answer(seventy(objectives=(objective(tpot_s=works),))).chosen is not None
    assert answer(seventy(objectives=(objective(tpot_s=works / 1.1),))).chosen is None


def test_less_load_is_the_most_that_works_to_about_a_twentieth():
    bounds = Bounds(max_accelerators=1)
    got = answer(question(objectives=(objective(load_rps=60.0),), bounds=bounds))
    offer = next(one for one in got.offers if one.change is Change.LOAD)
    works = float(offer.value.removesuffix(" requests/s"))
    assert answer(question(objectives=(objective(load_rps=works),), bounds=bounds)).chosen is not None
    assert answer(question(objectives=(objective(load_rps=works * 1.1),), bounds=bounds)).chosen is None


def test_every_offer_has_a_plan_that_can_be_carried_out():
    got = answer(seventy(objectives=(objective(tpot_s=0.002),), bounds=Bounds(max_accelerators=8)))
    assert got.offers
    for offer in got.offers:
        assert offer.plan.pool.replicas >= 1
        assert offer.plan.rolled_out
        assert offer.field.startswith("spec.")


def test_online_quantization_is_offered_where_it_makes_the_model_fit():
    tight = replace(LARGE, domain=2, accelerators_per_node=2)
    asked = question(
        variants=variants(SEVENTY, Scheme.BF16),
        candidates=(on(tight, standard_weights=Scheme.FP8),),
        objectives=(objective(ttft_s=5.0, tpot_s=0.2, load_rps=0.2),),
        bounds=Bounds(max_accelerators=2),
    )
    got = answer(asked)
    assert got.infeasible is not None
    offer = next(one for one in got.offers if one.change is Change.QUANTIZATION)
    assert offer.field == "spec.quantization.online"
    assert offer.plan.pool.flags["quantization"] == "fp8"


def test_an_expired_exception_offers_the_old_engine_and_says_what_to_validate():
    evidence = Evidence(artifact="a", evaluation="b", engine_version="0.31.0")
    asked = seventy(
        variants=variants(SEVENTY, Scheme.FP8, Scheme.INT4), pins=Pins(weights=Scheme.INT4, evidence=evidence)
    )
    got = answer(asked)
    assert got.infeasible is not None
    assert got.infeasible.check is Check.QUANTIZATION
    assert len(got.infeasible.revalidate) == 3
    assert ("spec.engine.version", "0.31.0") in {(one.field, one.value) for one in got.offers}


def test_objectives_that_share_a_pool_need_at_least_what_each_needs_alone():
    chat, batch = objective(load_rps=30.0), objective(name="batch", load_rps=30.0, ttft_s=10.0, tpot_s=0.3)
    both = answer(question(objectives=(chat, batch))).chosen
    assert both is not None
    for one in (chat, batch):
        single = answer(question(objectives=(one,))).chosen
        assert single is not None
        assert both.pool.accelerators >= single.pool.accelerators


def test_a_short_prompt_is_not_charged_for_the_long_ones_it_shares_a_pool_with():
    short = objective(name="short", ttft_s=0.5)
    long = objective(name="long", ttft_s=30.0, input_p50_tokens=10_000, input_p95_tokens=12_000, load_rps=0.2)
    got = answer(question(objectives=(short, long))).chosen
    assert got is not None
    assert got.pool.layout.accelerators == 1


def test_objectives_that_no_pool_keeps_together_are_offered_apart():
    quick = objective(name="quick", tpot_s=0.03, share=0.95, load_rps=5.0)
    lengths = {
        "input_p50_tokens": 48_000,
        "input_p95_tokens": 90_000,
        "output_p50_tokens": 800,
        "output_p95_tokens": 1500,
    }
    reports = objective(name="reports", ttft_s=60.0, tpot_s=0.15, share=0.95, load_rps=1.0, **lengths)
    got = answer(seventy(objectives=(quick, reports), max_context_tokens=None))
    assert got.infeasible is not None
    assert "not all of them in one pool" in got.infeasible.sentence
    assert [one.change for one in got.offers].count(Change.DEPLOYMENT) == 2


@pytest.mark.parametrize(
    ("load", "split"),
    [pytest.param(200.0, True, id="a large fleet"), pytest.param(0.5, False, id="a small fleet")],
)
def test_prefill_and_decode_are_told_apart_only_in_a_large_fleet(load, split):
    got = answer(seventy(objectives=(objective(tpot_s=0.018, share=0.9, load_rps=load),)))
    if split:
        assert got.chosen is not None
        assert [pool.role for pool in got.chosen.pools] == [Role.PREFILL, Role.DECODE]
        assert not got.chosen.rolled_out
        assert "does not roll out" in got.chosen.reasons[0].sentence
    else:
        assert got.chosen is None
        told = [one.sentence for one in got.rejected if one.check is Check.DISAGGREGATION]
        assert told
        assert "fleet is too small" in told[0]
        offer = next(one for one in got.offers if one.change is Change.SPLIT)
        assert (offer.field, offer.value) == ("spec.parallelism.strategy", "Disaggregated")
        assert [pool.role for pool in offer.plan.pools] == [Role.PREFILL, Role.DECODE]
        assert "USD/h; this version does not roll out such a plan" in offer.sentence


def test_a_small_fleet_that_asks_for_two_pools_gets_them():
    asked = seventy(objectives=(objective(tpot_s=0.018, share=0.9, load_rps=0.5),))
    offer = next(one for one in answer(asked).offers if one.change is Change.SPLIT)
    got = answer(replace(asked, pins=Pins(strategy=Strategy.DISAGGREGATED))).chosen
    assert got == offer.plan


@pytest.mark.parametrize(("tpot_s", "less"), [(0.026, True), (0.03, True), (0.05, False), (0.1, False)])
def test_a_single_pool_tells_of_two_that_would_cost_less_and_only_then(tpot_s, less):
    got = answer(seventy(objectives=(objective(tpot_s=tpot_s, share=0.9, load_rps=60.0),)))
    assert got.chosen is not None
    assert got.chosen.rolled_out
    told = [one.sentence for one in got.reasons if one.check is Check.DISAGGREGATION]
    assert bool(told) is less
    for sentence in told:
        assert f"in place of {rounded(float(got.chosen.cost_per_hour), 3)} USD/h" in sentence
        assert "does not roll out" in sentence


def test_both_pools_keep_their_time_at_the_slow_end():
    got = answer(seventy(objectives=(objective(tpot_s=0.018, share=0.9, load_rps=200.0),))).chosen
    assert got is not None
    prefill, decode = (pool.predicted for pool in got.pools)
    assert prefill.ttft_at_share_s * (1 + prefill.ttft_uncertainty) <= 1.0
    assert decode.tpot_at_share_s * (1 + decode.uncertainty) <= 0.018


def test_a_layout_for_which_there_are_nodes_comes_before_a_cheaper_one_without():
    asked = seventy(
        candidates=(on(LARGE, standard_weights=Scheme.FP8, nodes=nodes(4, 8, free=2)),),
        objectives=(objective(load_rps=1.0),),
    )
    got = answer(asked).chosen
    assert got is not None
    assert got.shortfall == 0
    assert got.pool.layout.accelerators <= 2


def test_one_class_can_be_looked_at_alone():
    asked = question()
    looked = look(asked, asked.candidates[0], demand_of(asked))
    assert looked.best is not None
    assert looked.best.accelerators == answer(asked).plans[0].accelerators
