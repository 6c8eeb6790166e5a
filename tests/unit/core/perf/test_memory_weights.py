"""Weights in one accelerator: what a layout splits, what every accelerator keeps whole, and what engines logged."""

from dataclasses import replace

import pytest

from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import Scheme
from modelfleet.core.model.known import known
from modelfleet.core.perf.memory import weights_bytes
from modelfleet.core.perf.memory_weights import stage_layers, stage_weights_bytes

GIB = 2**30


def _gib(name: str, layout: str, scheme: Scheme | None = None) -> float:
    facts = known(name)
    return weights_bytes(facts, scheme or facts.native, Layout.parse(layout)) / GIB


@pytest.mark.parametrize(
    ("name", "layout", "gib"),
    [
        pytest.param("Qwen3-0.6B", "tp1", 1.12, id="tied embeddings are there once"),
        pytest.param("Llama-3.1-8B", "tp1", 14.99, id="dense"),
        pytest.param("Qwen3-8B-FP8", "tp1", 8.80, id="fp8 leaves embeddings in 16 bit"),
        pytest.param("Qwen3-32B", "tp1", 61.03, id="dense, large"),
        pytest.param("Qwen3-32B", "tp2", 30.59, id="split in two"),
        pytest.param("Qwen2.5-14B", "tp2", 13.95, id="split in two, another"),
        pytest.param("gpt-oss-120b", "tp1", 64.38, id="mxfp4 is padded, and covers the experts only"),
        pytest.param("Mistral-Small-3.2-24B", "tp1", 44.76, id="a vision tower rides along"),
        pytest.param("meta-llama/Llama-3.1-405B-FP8", "tp8", 56.77, id="Meta's fp8 leaves attention in 16 bit"),
        pytest.param("gemma-4-26B-A4B", "tp1", 48.5, id="experts beside a dense part"),
    ],
)
def test_weights_are_what_vllm_logged(name, layout, gib):
    assert _gib(name, layout) == pytest.approx(gib, rel=0.012)


def test_kv_heads_fewer_than_accelerators_are_copied():
    facts = known("Qwen3-235B-A22B")  # 4 KV heads
    part = facts.attention[0]
    projections = facts.hidden * part.kv_heads * (part.head_dim + part.value_head_dim)
    halves = weights_bytes(facts, Scheme.BF16, Layout(4)) - weights_bytes(facts, Scheme.BF16, Layout(8))
    split = weights_bytes(facts, Scheme.BF16, Layout(4)) - facts.other_parameters * 2
    kept = facts.layers * projections / 4 * 2
    routers = facts.layers * 128 * facts.hidden * 2
    table = facts.max_context_tokens * part.head_dim * 2
    assert halves == pytest.approx((split - kept - routers - table) / 2, rel=1e-6)


def test_latent_down_projections_are_copied_under_tensor_parallelism():
    one, eight = _gib("DeepSeek-V3", "tp1"), _gib("DeepSeek-V3", "tp8")
    part = known("DeepSeek-V3").attention[0]
    down = 61 * 7168 * (part.latent_dim + part.rope_dim + part.query_latent_dim) / GIB
    assert eight > one / 8 + down * 7 / 8
    assert eight == pytest.approx(one / 8, rel=0.03)


def test_experts_are_split_over_tensor_times_data_and_the_rest_is_copied_over_data():
    whole = _gib("DeepSeek-V3", "tp1")
    spread = _gib("DeepSeek-V3", "tp1-dp16-ep16")
    experts = 58 * 256 * 3 * 7168 * 2048 * (1 + 4 / 128**2) / GIB
    assert spread == pytest.approx(whole - experts * 15 / 16, rel=1e-6)


@pytest.mark.parametrize("layout", ["tp8", "tp8-ep8"])
def test_whole_experts_and_split_ones_weigh_the_same(layout):
    assert _gib("DeepSeek-V3", layout) == pytest.approx(_gib("DeepSeek-V3", "tp8"), rel=1e-9)


def test_experts_that_do_not_divide_fill_one_accelerator_more():
    assert _gib("Qwen3-Coder-480B-A35B-FP8", "tp1-dp3-ep3") > _gib("Qwen3-Coder-480B-A35B-FP8", "tp1-dp3")


@pytest.mark.parametrize(
    ("layers", "stages", "counts"),
    [
        pytest.param(126, 2, (63, 63), id="even"),
        pytest.param(61, 2, (31, 30), id="not on the last"),
        pytest.param(61, 4, (15, 15, 16, 15), id="in the middle first"),
        pytest.param(62, 4, (15, 16, 16, 15), id="two in the middle"),
        pytest.param(3, 8, (0, 0, 0, 0, 1, 1, 1, 0), id="more stages than layers"),
    ],
)
def test_layers_of_stages_as_vllm_deals_them(layers, stages, counts):
    assert stage_layers(layers, stages) == counts


def test_embeddings_are_on_the_first_stage_and_the_head_on_the_last():
    facts = known("Llama-3.1-405B")
    stages = stage_weights_bytes(facts, Scheme.BF16, Layout(8, 3))
    matrix = facts.vocabulary * facts.hidden * 2 / 8
    assert stages[0] - stages[1] == pytest.approx(matrix)
    assert stages[2] - stages[1] == pytest.approx(matrix)


def test_a_tied_embedding_is_on_both_ends():
    facts = known("Llama-3.2-3B")
    first, middle, last = stage_weights_bytes(facts, Scheme.BF16, Layout(1, 3))
    assert first == last > middle or first > middle < last


@pytest.mark.parametrize("scheme", [Scheme.FP8, Scheme.INT8, Scheme.INT4, Scheme.NVFP4])
def test_a_narrower_scheme_weighs_less(scheme):
    assert _gib("Llama-3.1-70B", "tp1", scheme) < 0.55 * _gib("Llama-3.1-70B", "tp1")


@pytest.mark.parametrize(
    ("gigabytes", "factor"),
    [
        pytest.param(72.0, 1.0, id="as the scheme says"),
        pytest.param(90.0, 1.24, id="parts are wider than config.json says"),
        pytest.param(500.0, 1.0, id="not this model's index"),
        pytest.param(10.0, 1.0, id="smaller is not believed"),
    ],
)
def test_the_index_tells_of_parts_in_a_wider_scheme(gigabytes, factor):
    facts = known("Llama-3.3-70B-FP8")
    stated = replace(facts, checkpoint_bytes=int(gigabytes * 1e9))
    ratio = weights_bytes(stated, Scheme.FP8, Layout(8)) / weights_bytes(facts, Scheme.FP8, Layout(8))
    assert ratio == pytest.approx(factor, abs=0.02)


def test_four_bit_floats_leave_mla_in_16_bit():
    gained = _gib("DeepSeek-V3", "tp1") - _gib("DeepSeek-V3", "tp1", Scheme.NVFP4)
    assert gained < (1 - 0.5625) * _gib("DeepSeek-V3", "tp1")
