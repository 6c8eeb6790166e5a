"""What the planner answers to whole questions: plans, bounds that cannot hold, offers, pins, nodes, profiles."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from modelfleet.core.layout.answer import Answer, Change, Check, to_json
from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.question import Bounds, Measured, Pins, Prefer, Strategy
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import Scheme
from modelfleet.core.perf.prediction import Source
from modelfleet.core.perf.profile import Profile
from questions import GIB, LARGE, SMALL, nodes, objective, on, question, variants

HUGE = replace(LARGE, name="huge", memory_bytes=141 * GIB, price_per_hour=Decimal("7.91"))
TINY = replace(SMALL, name="tiny", memory_bytes=1 * GIB)


def checks(got: Answer) -> set[Check]:
    assert got.chosen is not None, got.infeasible
    return {one.check for one in got.chosen.reasons}


def test_a_model_that_fits_runs_as_whole_replicas():
    got = answer(question())
    assert got.chosen is not None
    assert got.chosen.pool.layout == Layout()
    assert Check.FITS_ONE in checks(got)


def test_every_decision_has_its_reason():
    wanted = {Check.VARIANT, Check.TOKEN_BUDGET, Check.SEQUENCE_CAP, Check.BLOCK_SIZE, Check.ADMISSION, Check.LOAD}
    assert wanted <= checks(answer(question()))


def test_more_load_needs_more_replicas():
    few = answer(question(objectives=(objective(load_rps=2.0),))).chosen
    many = answer(question(objectives=(objective(load_rps=200.0),))).chosen
    assert few is not None
    assert many is not None
    assert many.pool.replicas > few.pool.replicas
    assert many.pool.predicted.knee_rps * many.pool.replicas >= 200.0


def test_a_stated_concurrency_is_a_load_too():
    got = answer(question(objectives=(objective(load_concurrency=4.0),))).chosen
    assert got is not None
    assert got.pool.predicted.concurrency == pytest.approx(4.0 / got.pool.replicas)


def test_at_least_min_replicas_run():
    got = answer(question(bounds=Bounds(min_replicas=3))).chosen
    assert got is not None
    assert got.pool.replicas == 3


def test_the_cheapest_class_is_first_and_the_others_are_planned_too():
    calm = objective(ttft_s=4.0, tpot_s=0.3, load_rps=0.1)
    candidates = (on(LARGE), on(SMALL))
    model = variants("Llama-3.2-3B-Instruct")
    cheap = answer(question(variants=model, candidates=candidates, objectives=(calm,)))
    ordered = answer(question(variants=model, candidates=candidates, objectives=(calm,), prefer=Prefer.ORDER))
    assert [plan.class_name for plan in cheap.plans] == ["small", "large"]
    assert [plan.class_name for plan in ordered.plans] == ["large", "small"]
    assert "prefer is Order" in ordered.reasons[0].sentence


def test_without_prices_in_one_currency_the_order_decides():
    free = on(replace(SMALL, price_per_hour=None))
    calm = objective(ttft_s=4.0, tpot_s=0.3, load_rps=0.1)
    got = answer(question(variants=variants("Llama-3.2-3B-Instruct"), candidates=(on(LARGE), free), objectives=(calm,)))
    assert got.plans[0].class_name == "large"
    assert got.plans[0].score.unit == "accelerators"
    assert "one currency" in got.reasons[0].sentence


def test_a_class_without_room_is_planned_and_comes_after_one_with_room():
    empty, full = on(LARGE, nodes=()), on(HUGE, nodes=nodes(1, 8))
    got = answer(question(candidates=(empty, full)))
    assert [plan.class_name for plan in got.plans] == ["huge", "large"]
    assert got.plans[1].shortfall == got.plans[1].accelerators
    assert "has no nodes" in got.plans[1].shortfall_sentence
    assert got.plans[0].shortfall == 0


def test_a_bound_on_accelerators_is_named_with_what_the_load_needs():
    got = answer(question(objectives=(objective(load_rps=300.0),), bounds=Bounds(max_replicas=1)))
    assert got.infeasible is not None
    assert got.infeasible.check is Check.CAPACITY
    assert got.infeasible.field == "spec.scaling.maxReplicas"
    assert got.infeasible.wanted > got.infeasible.reached == 1.0
    assert Change.ACCELERATORS in {offer.change for offer in got.offers}


def test_a_time_that_nothing_keeps_is_named_with_the_time_that_works():
    got = answer(question(objectives=(objective(tpot_s=0.001),)))
    assert got.chosen is None
    assert got.infeasible is not None
    assert got.infeasible.field == "spec.objectives[0].tpot"
    looser = [offer for offer in got.offers if offer.change is Change.OBJECTIVE]
    assert looser
    assert looser[0].plan.pool.predicted.tpot_s <= 0.1


def test_a_model_that_fits_nowhere_is_offered_another_class():
    got = answer(question(candidates=(on(TINY),), alternatives=(on(LARGE),)))
    assert got.infeasible is not None
    assert got.infeasible.check is Check.MEMORY
    assert [offer.value for offer in got.offers if offer.change is Change.CLASS] == ["large"]


def test_a_context_that_leaves_no_room_is_offered_a_smaller_one():
    calm = objective(tpot_s=0.4, ttft_s=30.0, load_rps=0.2)
    got = answer(question(candidates=(on(SMALL),), max_context_tokens=None, objectives=(calm,), pins=Pins(pipeline=1)))
    smaller = [offer for offer in got.offers if offer.change is Change.CONTEXT]
    assert got.infeasible is not None
    assert got.infeasible.check is Check.MEMORY
    assert smaller
    assert smaller[0].plan.pool.setup.context_limit_tokens == int(smaller[0].value)


def test_the_pin_that_makes_it_infeasible_is_named():
    got = answer(question(pins=Pins(tensor=16)))
    assert got.infeasible is not None
    assert got.infeasible.field == "spec.parallelism.tensor"
    assert "fabric domain" in got.infeasible.sentence
    assert ("spec.parallelism.tensor", "") in {(offer.field, offer.value) for offer in got.offers}


def test_a_pinned_layout_that_the_model_does_not_fit_names_the_pin():
    got = answer(question(variants=variants("Llama-3.3-70B-Instruct"), pins=Pins(tensor=1, pipeline=1)))
    assert got.infeasible is not None
    assert got.infeasible.check is Check.MEMORY
    assert got.infeasible.field == "spec.parallelism.tensor"
    assert "it is spec.parallelism.tensor that makes it so" in got.infeasible.sentence


def test_heads_that_cannot_be_shared_out_say_which_degrees_can():
    got = answer(question(pins=Pins(tensor=3)))
    assert got.infeasible is not None
    assert got.infeasible.check is Check.DIVISIBILITY
    assert "1, 2, 4, 8, 16 and 32" in got.infeasible.sentence


@pytest.mark.parametrize(
    ("pins", "layout"),
    [
        pytest.param(Pins(tensor=4), Layout(4), id="a tensor degree"),
        pytest.param(Pins(strategy=Strategy.SHARDED), Layout(2), id="sharded: the smallest"),
        pytest.param(Pins(strategy=Strategy.REPLICAS), Layout(1), id="replicas"),
        pytest.param(Pins(tensor=2, pipeline=2), Layout(2, 2), id="stages in one node"),
    ],
)
def test_pinned_layouts_are_kept(pins, layout):
    got = answer(question(pins=pins)).chosen
    assert got is not None
    assert got.pool.layout == layout


def test_engine_values_that_the_user_sets_reach_the_flags():
    pins = Pins(sequence_cap=24, token_budget=700, memory_fraction=0.8, block_tokens=32)
    got = answer(question(pins=pins)).chosen
    assert got is not None
    flags = got.pool.flags
    assert flags["max-num-seqs"] == "24"
    assert flags["max-num-batched-tokens"] == "700"
    assert flags["gpu-memory-utilization"] == "0.8"
    assert flags["block-size"] == "32"


def test_an_engine_version_that_the_class_does_not_allow_is_refused():
    got = answer(question(candidates=(on(LARGE, engine_versions=("0.31.0", "0.31.1")),)))
    assert got.infeasible is not None
    assert got.infeasible.field == "spec.engine.version"
    assert "0.31.0 or 0.31.1" in got.infeasible.sentence


def test_a_measured_profile_replaces_the_prediction_and_the_plan_says_so():
    measured = Measured(
        class_name="large",
        layout=Layout(),
        weights=Scheme.BF16,
        engine_version="0.32.0",
        profile=Profile(prefill=1.5, decode=1.5, prefill_samples=20, decode_samples=20),
        name="chat-large",
    )
    got = answer(question(profiles=(measured,))).chosen
    plain = answer(question()).chosen
    assert got is not None
    assert plain is not None
    assert got.pool.predicted.source is Source.MEASURED
    assert got.pool.predicted.tpot_s > plain.pool.predicted.tpot_s
    assert any(one.check is Check.PROFILE and "chat-large" in one.sentence for one in got.reasons)
    old = answer(question(profiles=(replace(measured, engine_version="0.31.0"),))).chosen
    assert old is not None
    assert old.pool.predicted.source is Source.PREDICTED


def test_the_tighter_of_two_objectives_binds():
    loose = objective(name="batch", ttft_s=10.0, tpot_s=0.5)
    got = answer(question(objectives=(loose, objective(name="chat")))).chosen
    assert got is not None
    assert got.binding_objective == "chat"


def test_a_host_that_is_too_small_is_advice():
    poor = on(LARGE, host_memory_bytes_per_accelerator=8 * GIB, host_cpus_per_accelerator=0.5)
    got = answer(question(candidates=(poor,))).chosen
    assert got is not None
    told = [one.sentence for one in got.reasons if one.check is Check.HOST]
    assert len(told) == 2
    assert "host memory" in told[0]
    assert "cores" in told[1]
    assert Check.HOST not in checks(answer(question()))


def test_an_answer_is_json():
    got = answer(question(objectives=(objective(tpot_s=0.001),)))
    text = json.dumps(to_json(answer(question())))
    value = json.loads(text)
    assert value["plans"][0]["pools"][0]["layout"] == "tp1"
    assert value["plans"][0]["pools"][0]["predicted"]["ttft_s"] > 0
    assert json.loads(json.dumps(to_json(got)))["infeasible"]["field"] == "spec.objectives[0].tpot"


def test_noise_in_the_load_changes_no_layout_and_no_flag():
    def told(load: float) -> tuple[object, ...]:
        got = answer(question(objectives=(objective(load_rps=load),))).chosen
        assert got is not None
        return got.pool.layout, got.pool.replicas, dict(got.pool.flags)

    assert told(40.0 * 0.995) == told(40.0) == told(40.0 * 1.005)
