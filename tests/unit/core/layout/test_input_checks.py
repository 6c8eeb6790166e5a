"""Bad input: one sentence with the field path each, and a plan for what would work."""

from dataclasses import replace
from typing import Any

import pytest

from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.input_checks import problems_of
from modelfleet.core.layout.prose import tell
from modelfleet.core.layout.question import Bounds, Pins, Question, Strategy
from questions import objective, question


def one(**changes: Any) -> Question:
    return question(objectives=(objective(**changes),))


FATAL = [
    pytest.param(one(ttft_s=0.0), "spec.objectives[0].ttft", "above zero", id="a ttft of zero"),
    pytest.param(one(tpot_s=-1.0), "spec.objectives[0].tpot", "above zero", id="a negative tpot"),
    pytest.param(one(tpot_s=float("nan")), "spec.objectives[0].tpot", "above zero", id="a tpot that is no number"),
    pytest.param(one(ttft_s=float("inf")), "spec.objectives[0].ttft", "above zero", id="an endless ttft"),
    pytest.param(one(share=1.0), "spec.objectives[0].share", "below 100%", id="a share of all requests"),
    pytest.param(one(load_rps=0.0), "spec.objectives[0].load", "above 0", id="no load"),
    pytest.param(one(load_rps=1e12), "spec.objectives[0].load", "at most 1,000,000", id="a load beyond any fleet"),
    pytest.param(one(load_rps=None), "spec.objectives[0].load", "exactly one", id="neither kind of load"),
    pytest.param(
        replace(question(), objectives=(replace(objective(), load_concurrency=3.0),)),
        "spec.objectives[0].load",
        "exactly one",
        id="both kinds of load",
    ),
    pytest.param(
        one(input_p50_tokens=0), "spec.objectives[0].lengths.inputTokens.p50", "at least 1", id="empty prompts"
    ),
    pytest.param(
        one(input_p50_tokens=5000),
        "spec.objectives[0].lengths.inputTokens.p95",
        "p95 is at least p50",
        id="p95 below p50",
    ),
    pytest.param(
        one(input_max_tokens=3000), "spec.objectives[0].lengths.inputTokens.max", "below p95", id="max below p95"
    ),
    pytest.param(
        one(shared_prefix_tokens=950),
        "spec.objectives[0].lengths.sharedPrefixTokens",
        "at most its p50",
        id="a prefix longer than the prompt",
    ),
    pytest.param(
        one(input_p50_tokens=15000, input_p95_tokens=16000, output_p50_tokens=2000, output_p95_tokens=2000),
        "spec.objectives[0].lengths",
        "context limit is 16,384",
        id="lengths past the context limit",
    ),
    pytest.param(
        question(max_context_tokens=1_000_000),
        "spec.model.maxContextTokens",
        "has a context of 131,072",
        id="a context longer than the model's",
    ),
    pytest.param(
        question(pins=Pins(engine_context_tokens=8192)),
        "spec.engine.args.max-model-len",
        "leave one of them out",
        id="two context limits",
    ),
    pytest.param(
        question(pins=Pins(strategy=Strategy.REPLICAS, tensor=4)),
        "spec.parallelism.strategy",
        "spec.parallelism.tensor is 4",
        id="replicas that are sharded",
    ),
    pytest.param(
        question(pins=Pins(strategy=Strategy.SHARDED, tensor=1, pipeline=1, data=1)),
        "spec.parallelism.strategy",
        "leave one of them",
        id="shards of one",
    ),
    pytest.param(
        question(pins=Pins(token_budget=64, sequence_cap=128)),
        "spec.engine.args.max-num-batched-tokens",
        "below spec.engine.args.max-num-seqs",
        id="a step with fewer tokens than sequences",
    ),
    pytest.param(
        question(pins=Pins(memory_fraction=90.0)),
        "spec.engine.args.gpu-memory-utilization",
        "such as 0.9",
        id="a fraction in percent",
    ),
    pytest.param(question(pins=Pins(tensor=0)), "spec.parallelism.tensor", "from 1", id="no accelerators"),
    pytest.param(question(pins=Pins(block_tokens=17)), "spec.engine.args.block-size", "multiples", id="an odd block"),
    pytest.param(
        question(bounds=Bounds(min_replicas=4, max_replicas=2)),
        "spec.scaling.maxReplicas",
        "below spec.scaling.minReplicas",
        id="bounds the wrong way round",
    ),
    pytest.param(
        question(pins=Pins(tensor=8), bounds=Bounds(max_accelerators=4)),
        "spec.scaling.maxAccelerators",
        "take 8",
        id="fewer accelerators than the pinned layout",
    ),
    pytest.param(
        replace(question(), objectives=tuple(objective(name=f"chat-{index}") for index in range(5))),
        "spec.objectives",
        "at most 4",
        id="five promises",
    ),
    pytest.param(replace(question(), candidates=()), "spec.accelerators.classes", "is empty", id="no class"),
    pytest.param(replace(question(), variants=()), "spec.model", "is empty", id="no weights"),
    pytest.param(replace(question(), objectives=()), "spec.objectives", "is empty", id="no promise"),
]


@pytest.mark.parametrize(("asked", "field", "says"), FATAL)
def test_bad_input_is_one_sentence_with_its_field(asked, field, says):
    got = answer(asked)
    fatal = [problem for problem in got.problems if problem.fatal]
    assert [problem.field for problem in fatal] == [field]
    assert says in fatal[0].sentence
    assert field in fatal[0].sentence
    assert got.plans == ()
    assert fatal[0].sentence.split(":")[0] in tell(asked, got).replace("\n", " ").replace("  ", " ")


ADVICE = [
    pytest.param(one(ttft_s=500 * 3600.0), "spec.objectives[0].ttft", "write 500ms", id="500 hours for 500ms"),
    pytest.param(one(ttft_s=800.0), "spec.objectives[0].ttft", "write 800ms", id="800 seconds for 800ms"),
    pytest.param(one(tpot_s=50.0), "spec.objectives[0].tpot", "write 50ms", id="50 seconds for 50ms"),
    pytest.param(one(tpot_s=5e-6), "spec.objectives[0].tpot", "write 5ms", id="5 microseconds for 5ms"),
    pytest.param(one(ttft_s=0.0005), "spec.objectives[0].ttft", "write 500ms", id="500 microseconds for 500ms"),
    pytest.param(
        one(input_p95_tokens=16000, output_p95_tokens=1000),
        "spec.objectives[0].lengths",
        "past the context limit",
        id="the longest answers are cut",
    ),
]


@pytest.mark.parametrize(("asked", "field", "says"), ADVICE)
def test_sizes_that_a_wrong_unit_explains_are_advice(asked, field, says):
    got = problems_of(asked)
    assert [(problem.field, problem.fatal) for problem in got] == [(field, False)]
    assert says in got[0].sentence


def test_sound_questions_have_no_problems():
    assert problems_of(question()) == ()


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        pytest.param(question(max_context_tokens=1_000_000), "131072", id="the model's own context"),
        pytest.param(question(pins=Pins(strategy=Strategy.REPLICAS, tensor=4)), "", id="one of two pins left out"),
    ],
)
def test_what_would_work_is_planned(asked, value):
    got = answer(asked)
    assert [offer.value for offer in got.offers] == [value]
    assert got.offers[0].plan.pool.replicas >= 1


def test_more_replicas_than_accelerators_are_told_without_a_pin_and_both_ways_out_are_offered():
    got = answer(question(bounds=Bounds(min_replicas=12, max_replicas=12, max_accelerators=4)))
    (problem,) = got.problems
    assert "pinned" not in problem.sentence
    assert "take at least 12" in problem.sentence
    assert [(one.field, one.value) for one in got.offers] == [
        ("spec.scaling.maxAccelerators", "12"),
        ("spec.scaling.minReplicas", "1"),
    ]
