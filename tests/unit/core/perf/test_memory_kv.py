"""The KV cache: bytes of a token by kind of attention, and blocks as vLLM hands them out."""

import pytest

from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import Scheme
from modelfleet.core.model.known import known
from modelfleet.core.perf.memory import kv_bytes_per_token
from modelfleet.core.perf.memory_kv import KvSettings, Pool, pool
from modelfleet.core.perf.memory_version import Era

GIB = 2**30


def _pool(name: str, layout: str = "tp1", kv: Scheme = Scheme.BF16, budget: int = 8192, version: str = "0.32") -> Pool:
    facts = known(name)
    settings = KvSettings(kv, 16, budget, Era.of(version, facts.architecture))
    return pool(facts, Layout.parse(layout), settings, 0)


@pytest.mark.parametrize(
    ("name", "layout", "kv", "expected"),
    [
        pytest.param("Llama-2-7b-hf", "tp1", Scheme.BF16, 524_288, id="MHA: all heads"),
        pytest.param("Llama-3.1-8B", "tp1", Scheme.BF16, 131_072, id="GQA: the KV heads"),
        pytest.param("Llama-3.1-8B", "tp1", Scheme.FP8, 65_536, id="fp8 halves it"),
        pytest.param("Llama-3.1-70B", "tp4", Scheme.BF16, 81_920, id="heads are split"),
        pytest.param("gemma-2b", "tp1", Scheme.BF16, 18 * 2 * 256 * 2, id="MQA: one head"),
        pytest.param("Qwen3-30B-A3B", "tp8", Scheme.BF16, 24_576, id="four heads over eight are copied"),
        pytest.param("Llama-3.1-405B", "tp8-pp2", Scheme.BF16, 32_256, id="half the layers in a stage"),
        pytest.param("DeepSeek-V3", "tp1", Scheme.BF16, 70_272, id="MLA: one vector"),
        pytest.param("DeepSeek-V3", "tp8", Scheme.BF16, 70_272, id="MLA is not split"),
        pytest.param("DeepSeek-V3", "tp1", Scheme.FP8, 35_136, id="MLA in fp8"),
        pytest.param("DeepSeek-V3.2", "tp1", Scheme.BF16, 70_272 + 61 * 132, id="sparse MLA: the indexer's key too"),
        pytest.param("DeepSeek-V3.2", "tp1", Scheme.FP8, 61 * (656 + 132), id="sparse MLA in fp8"),
        pytest.param("GLM-5.2", "tp1", Scheme.BF16, 78 * 1152 + 21 * 132, id="one layer in four has an indexer"),
        pytest.param("gpt-oss-120b", "tp1", Scheme.BF16, 36_864, id="windows do not grow"),
        pytest.param("Qwen3.5-397B-A17B", "tp1", Scheme.BF16, 15 * 2 * 2 * 256 * 2, id="states do not grow"),
    ],
)
def test_bytes_of_one_more_token(name, layout, kv, expected):
    assert kv_bytes_per_token(known(name), Layout.parse(layout), kv) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "kwargs", "tokens", "gib"),
    [
        pytest.param("gpt-oss-120b", {"budget": 1024, "version": "0.11"}, 131_072, 4.54, id="half the layers slide"),
        pytest.param("Qwen3-Coder-480B-A35B", {}, 262_144, 62.0, id="all layers grow"),
        pytest.param("Llama-3.1-8B", {}, 131_072, 16.0, id="as much as the formula"),
    ],
)
def test_one_sequence_needs_what_vllm_said_when_it_refused(name, kwargs, tokens, gib):
    assert _pool(name, **kwargs).sequence_bytes(tokens) / GIB == pytest.approx(gib, rel=0.005)


def test_a_linear_hybrid_holds_what_vllm_logged():
    # Qwen3.6-35B-A3B, fp8 cache, 6.01 GiB: 4.35 sequences of 131,072 tokens.
    cache = _pool("Qwen3.6-35B-A3B", kv=Scheme.FP8)
    assert int(6.01 * GIB / cache.block_bytes) / cache.blocks(131_072) == pytest.approx(4.35, rel=0.02)


def test_a_window_is_bounded_and_a_full_layer_is_not():
    cache = _pool("gemma-3-27b", budget=2048)
    grown = cache.sequence_bytes(120_000) - cache.sequence_bytes(60_000)
    assert grown == pytest.approx(60_000 * cache.long_token_bytes, rel=0.01)
    assert cache.sequence_bytes(500) > 2 * 500 * cache.long_token_bytes


def test_groups_have_equally_many_layers_and_padding_counts():
    cache = _pool("gemma-3-27b")  # 10 full layers, 52 that slide: seven groups of ten
    assert sum(groups for groups, _, _ in cache.buckets) == 7
    assert cache.block_bytes == 10 * 16 * 16 * 128 * 2 * 2


def test_layers_of_unequal_width_share_blocks_of_equal_size():
    cache = _pool("gemma-4-31B")  # full layers have 4 heads of 512, those that slide 16 of 256
    assert cache.buckets[0][1] == 32
    assert cache.buckets[1][1] == 16


def test_chunks_of_llama_4_were_kept_whole_before():
    before, since = _pool("Llama-4-Scout", version="0.15.1"), _pool("Llama-4-Scout", version="0.32")
    assert before.long_token_bytes == pytest.approx(4 * since.long_token_bytes)


def test_a_window_costs_a_short_sequence_no_more_than_its_tokens():
    cache = _pool("Mistral-7B-v0.1")
    assert cache.blocks(160) == 10
    assert cache.blocks(10**6) == cache.blocks(2 * 10**6)
