"""Which weights a class runs, and when a departure from its standard is accepted, refused or expired."""

from dataclasses import replace
from typing import Any

import pytest

from modelfleet.core.layout.answer import Departure
from modelfleet.core.layout.question import Candidate, Evidence, Pins
from modelfleet.core.model.facts import Scheme
from modelfleet.core.quantization import Chosen, NotChosen, computes_in, decide_quantization, runs_on
from questions import LARGE, SMALL, on, question, variants

OLD = replace(LARGE, name="old", compute_capability=(7, 5), flops={"bf16": 65e12, "int8": 130e12})
AMPERE = replace(LARGE, name="ampere", compute_capability=(8, 0), flops={"bf16": 312e12, "int8": 624e12})
FULL = Evidence(artifact="hf://org/chat-int4@1", evaluation="s3://evals/chat-int4.json", engine_version="0.32.0")
MODEL = "Llama-3.3-70B-Instruct"


def decide(candidate: Candidate, *schemes: Scheme, **changes: Any) -> Chosen | NotChosen:
    return decide_quantization(question(variants=variants(MODEL, *schemes), **changes), candidate)


FP8 = on(LARGE, standard_weights=Scheme.FP8)


@pytest.mark.parametrize(
    ("candidate", "schemes", "changes", "weights"),
    [
        pytest.param(FP8, (Scheme.BF16, Scheme.FP8), {}, Scheme.FP8, id="the standard wins among those offered"),
        pytest.param(FP8, (Scheme.BF16,), {}, Scheme.BF16, id="unquantized weights need no evidence"),
        pytest.param(FP8, (Scheme.BF16, Scheme.INT4), {}, Scheme.BF16, id="another quantized scheme is not taken"),
        pytest.param(
            FP8, (Scheme.BF16,), {"allow_online_quantization": True}, Scheme.FP8, id="made online where allowed"
        ),
        pytest.param(
            FP8,
            (Scheme.BF16, Scheme.FP8),
            {"pins": Pins(weights=Scheme.BF16)},
            Scheme.BF16,
            id="unquantized weights can be pinned without evidence",
        ),
        pytest.param(
            FP8,
            (Scheme.BF16, Scheme.INT4),
            {"pins": Pins(weights=Scheme.INT4, evidence=FULL)},
            Scheme.INT4,
            id="an exception with evidence is accepted",
        ),
        pytest.param(on(LARGE), (Scheme.BF16, Scheme.FP8), {}, Scheme.FP8, id="no standard: narrowest in arithmetic"),
        pytest.param(
            on(AMPERE), (Scheme.BF16, Scheme.INT4), {}, Scheme.BF16, id="no standard: widened weights are not preferred"
        ),
        pytest.param(on(OLD), (Scheme.BF16,), {}, Scheme.FP16, id="a chip without bf16 runs such weights in fp16"),
    ],
)
def test_the_weights_of_a_class(candidate, schemes, changes, weights):
    got = decide(candidate, *schemes, **changes)
    assert isinstance(got, Chosen), got
    assert got.decision.weights is weights
    assert str(weights) in got.decision.sentence or weights is Scheme.FP16


@pytest.mark.parametrize(
    ("evidence", "departure", "says"),
    [
        pytest.param(None, Departure.REFUSED, "no artifact, evaluation or engineVersion", id="no evidence at all"),
        pytest.param(
            replace(FULL, evaluation=""), Departure.REFUSED, "has no evaluation", id="evidence without a result"
        ),
        pytest.param(
            replace(FULL, engine_version="0.31.0"),
            Departure.EXPIRED,
            "for engine 0.31.0 while engine 0.32.0 would run",
            id="evidence of another engine version",
        ),
    ],
)
def test_an_exception_without_valid_evidence_is_not_run(evidence, departure, says):
    pins = Pins(weights=Scheme.INT4, evidence=evidence)
    got = decide(FP8, Scheme.BF16, Scheme.INT4, pins=pins)
    assert isinstance(got, NotChosen)
    assert got.departure is departure
    assert says in got.sentence
    assert got.field.startswith("spec.quantization.evidence")
    assert bool(got.revalidate) == (departure is Departure.EXPIRED)


def test_an_expired_exception_says_what_to_validate_again():
    pins = Pins(weights=Scheme.INT4, evidence=replace(FULL, engine_version="0.31.0"))
    got = decide(FP8, Scheme.INT4, pins=pins)
    assert isinstance(got, NotChosen)
    assert [line.split(":")[0] for line in got.revalidate] == ["quality", "kernels", "speed"]
    assert all("0.32.0" in line for line in got.revalidate[:2])


@pytest.mark.parametrize(
    ("candidate", "schemes", "pins", "says"),
    [
        pytest.param(
            FP8, (Scheme.BF16,), Pins(weights=Scheme.FP8), "offered in bf16: add a variant in fp8", id="not offered"
        ),
        pytest.param(
            on(OLD),
            (Scheme.BF16, Scheme.MXFP4),
            Pins(weights=Scheme.MXFP4),
            "compute capability 8.0",
            id="not runnable",
        ),
        pytest.param(on(OLD), (Scheme.MXFP4,), Pins(), "none of the weights", id="nothing offered runs on the chip"),
        pytest.param(FP8, (Scheme.INT4,), Pins(), "no artifact", id="the only weights depart and have no evidence"),
        pytest.param(on(OLD), (Scheme.BF16,), Pins(kv=Scheme.FP8), "no cache on class old", id="no such KV cache"),
        pytest.param(
            on(LARGE, standard_kv=Scheme.BF16),
            (Scheme.BF16,),
            Pins(kv=Scheme.FP8),
            "not the standard bf16",
            id="a narrower KV cache than the standard needs evidence",
        ),
    ],
)
def test_what_cannot_run_says_why(candidate, schemes, pins, says):
    got = decide(candidate, *schemes, pins=pins)
    assert isinstance(got, NotChosen)
    assert says in got.sentence


def test_what_the_authors_publish_is_no_departure():
    offered = variants("DeepSeek-V3", Scheme.FP8)
    got = decide_quantization(question(variants=offered), on(LARGE, standard_weights=Scheme.INT8))
    assert isinstance(got, Chosen)
    assert got.decision.departure is Departure.NONE
    assert "as published" in got.decision.sentence


def test_the_standard_kv_cache_is_used_where_the_chip_has_one():
    here = decide(on(LARGE, standard_kv=Scheme.FP8), Scheme.BF16)
    old = decide(on(OLD, standard_kv=Scheme.FP8), Scheme.BF16)
    assert isinstance(here, Chosen)
    assert isinstance(old, Chosen)
    assert (here.decision.kv, old.decision.kv) == (Scheme.FP8, Scheme.FP16)
    assert "no fp8 cache" in old.decision.sentence


def test_a_chip_of_unknown_capability_runs_what_it_has_units_for():
    unknown = replace(SMALL, compute_capability=None, flops={"bf16": 1e14, "fp8": 2e14})
    assert [runs_on(one, unknown) for one in (Scheme.BF16, Scheme.FP8, Scheme.INT4, Scheme.NVFP4)] == [
        True,
        True,
        True,
        False,
    ]
    assert [computes_in(one, unknown) for one in (Scheme.BF16, Scheme.FP8, Scheme.INT4)] == [True, True, False]
