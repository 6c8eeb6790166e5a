"""The time of one step: a sum of parts that grow with the work and shrink with faster hardware."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perf_cases import CASES, DENSE, MIXTURE, case

from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import Scheme
from modelfleet.core.perf.numbers import flops_per_s, generation, unit
from modelfleet.core.perf.steps import Batch, step_time
from modelfleet.core.perf.terms import experts_of, step_terms

BATCHES = st.builds(
    Batch,
    prefill_tokens=st.floats(0, 8192),
    decode_sequences=st.floats(0, 512),
    decode_context_tokens=st.floats(0, 8192),
)


@given(CASES, BATCHES)
def test_the_parts_add_up_to_the_whole(one, batch):
    step = step_time(one, batch)
    parts = step.compute_s + step.memory_s + step.communication_s + step.overhead_s
    assert step.total_s == pytest.approx(parts)
    assert min(step.compute_s, step.memory_s, step.communication_s, step.overhead_s) >= 0


@given(CASES, BATCHES, st.floats(1, 4))
def test_faster_memory_is_never_slower(one, batch, factor):
    hardware = replace(one.hardware, memory_bytes_per_s=one.hardware.memory_bytes_per_s * factor)
    assert step_time(replace(one, hardware=hardware), batch).total_s <= step_time(one, batch).total_s


@given(CASES, BATCHES, st.floats(0, 256), st.floats(0, 4096))
def test_more_work_is_never_faster(one, batch, sequences, tokens):
    more = replace(
        batch,
        decode_sequences=batch.decode_sequences + sequences,
        prefill_tokens=batch.prefill_tokens + tokens,
    )
    assert step_time(one, more).total_s >= step_time(one, batch).total_s * (1 - 1e-9)


def test_a_lone_sequence_reads_the_weights_once():
    step = step_terms(case(), Batch(decode_sequences=1))
    read = (DENSE.parameters - DENSE.vocabulary * DENSE.hidden) * 2  # the input embedding is looked up, not read
    assert step.weights_s == pytest.approx(read / case().hardware.memory_bytes_per_s, rel=0.01)
    assert step.experts_s == 0


def test_a_mixture_reads_few_experts_for_one_token_and_all_for_many():
    (experts,) = experts_of(case(MIXTURE))
    assert experts.read(1) == pytest.approx(experts.parameters * 8 / 128)
    assert experts.read(5000) == pytest.approx(experts.parameters)


def test_tensor_parallelism_divides_weights_and_adds_two_collectives_a_layer():
    one, four = (step_terms(case(layout=Layout(n)), Batch(decode_sequences=8)) for n in (1, 4))
    assert four.weights_s == pytest.approx(one.weights_s / 4)
    assert (one.exchanges, four.exchanges) == (0, 2 * DENSE.layers)


def test_a_collective_that_leaves_the_fabric_costs_more():
    wide = case(layout=Layout(16))
    inside = replace(wide, hardware=replace(wide.hardware, domain=16))
    batch = Batch(prefill_tokens=2048)
    assert step_time(wide, batch).communication_s > 2 * step_time(inside, batch).communication_s


def test_long_contexts_cost_windows_nothing():
    windowed = replace(
        DENSE, attention=tuple(replace(part, kind="sliding", window_tokens=128) for part in DENSE.attention)
    )
    short, long = (
        step_terms(case(windowed), Batch(decode_sequences=4, decode_context_tokens=n)).kv_s for n in (128, 8192)
    )
    assert short == long


@pytest.mark.parametrize(
    ("scheme", "flops", "expected"),
    [
        pytest.param(Scheme.BF16, {"bf16": 1.0}, "bf16", id="16 bit is multiplied as it is"),
        pytest.param(Scheme.FP8, {"bf16": 1.0, "fp8": 2.0}, "fp8", id="fp8 with a unit for it"),
        pytest.param(Scheme.FP8, {"bf16": 1.0}, "unpacked", id="fp8 without a unit is unpacked"),
        pytest.param(Scheme.NVFP4, {"bf16": 1.0, "fp8": 2.0, "fp4": 4.0}, "fp4", id="nvfp4 with a four-bit unit"),
        pytest.param(Scheme.NVFP4, {"bf16": 1.0, "fp8": 2.0}, "unpacked", id="nvfp4 without one"),
        pytest.param(Scheme.INT4, {"bf16": 1.0, "fp8": 2.0, "fp4": 4.0}, "unpacked", id="int4 is always unpacked"),
        pytest.param(Scheme.INT8, {"bf16": 1.0, "int8": 2.0}, "fp8", id="int8 counts as eight-bit floats"),
    ],
)
def test_the_unit_that_multiplies_a_scheme(scheme, flops, expected):
    hardware = Hardware(name="x", memory_bytes=1, memory_bytes_per_s=1.0, fabric_bytes_per_s=1.0, flops=flops)
    assert unit(hardware, scheme) == expected
    assert flops_per_s(hardware, scheme) == (1.0 if expected == "unpacked" else max(flops.values()))


def test_hardware_without_known_arithmetic_is_refused_by_name():
    hardware = Hardware(name="mystery", memory_bytes=1, memory_bytes_per_s=1.0, fabric_bytes_per_s=1.0, flops={})
    with pytest.raises(ValueError, match=r"mystery.*state flops for bf16"):
        flops_per_s(hardware, Scheme.BF16)
    assert generation(hardware) == "other"
