"""One accelerator's memory: the budget, what is left, whether the engine starts, and sentences with the numbers."""

import re
from dataclasses import replace

import pytest

from modelfleet.core.model.facts import Scheme
from modelfleet.core.perf.memory import (
    longest_context_that_fits,
    max_concurrent_sequences,
    memory_use,
    reported_kv_tokens,
    with_context_that_fits,
)
from modelfleet.core.perf.workload import Lengths
from unit.core.perf.memory_cases import GIB, case, with_memory


@pytest.mark.parametrize(
    ("one", "gib"),
    [
        pytest.param(case("Llama-3.1-8B", version="0.11"), 51.4, id="8B on one"),
        pytest.param(case("Qwen3-32B", "tp2", version="0.11"), 34.5, id="32B on two"),
        pytest.param(
            case("Llama-3.1-70B", "tp4", version="0.15.1", token_budget=8192, sequence_cap=128), 36.9, id="70B on four"
        ),
        pytest.param(
            case("Mistral-Nemo-2407", "tp2", version="0.15.1", token_budget=1024, sequence_cap=128), 58.6, id="12B on 2"
        ),
    ],
)
def test_room_for_kv_is_near_what_engines_logged(one, gib):
    assert memory_use(one).kv_bytes / GIB == pytest.approx(gib, rel=0.02)


def test_the_parts_add_up_to_the_budget():
    use = memory_use(case("Llama-3.1-70B", "tp4"))
    spent = use.weights_bytes + use.activation_bytes + use.graphs_bytes + use.other_bytes
    assert spent + use.kv_bytes == pytest.approx(use.budget_bytes)
    assert use.budget_bytes == pytest.approx(0.9 * 79.18 * GIB, rel=1e-6)


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        pytest.param(
            case("Llama-3.1-8B"),
            r"fits: 0\.9 of 79\.2 GiB is 71\.3 GiB, weights 15\.0, activation [\d.]+, other [\d.]+ leave [\d.]+ GiB "
            r"for KV, [\d,]+ tokens or 3\.\d sequences of 131,072",
            id="what fits",
        ),
        pytest.param(
            case("Llama-3.1-70B"),
            r"does not fit: .*, weights 131\.4, .* GiB need 6\d\.\d GiB more",
            id="weights too large, and by how much",
        ),
        pytest.param(
            case("Qwen3-32B", version="0.11", context_limit_tokens=32_000),
            r"does not fit: .* leave 4\.\d GiB for KV, one sequence of 32,000 tokens needs 7\.8 GiB",
            id="not one sequence of the longest context",
        ),
    ],
)
def test_the_reason_has_the_numbers(one, sentence):
    use = memory_use(one)
    assert use.fits == use.reason.startswith("fits")
    assert re.fullmatch(sentence, use.reason)


@pytest.mark.parametrize(
    ("one", "fits"),
    [
        pytest.param(case("Qwen3-32B", version="0.11", context_limit_tokens=16_000), True, id="16,000 tokens fit"),
        pytest.param(case("Qwen3-32B", version="0.11", context_limit_tokens=32_000), False, id="32,000 do not"),
        pytest.param(case("DeepSeek-R1", "tp8"), False, id="R1 in fp8 does not fit eight H100"),
        pytest.param(case("DeepSeek-R1", "tp8", "h200"), True, id="it fits eight H200"),
        pytest.param(case("meta-llama/Llama-3.1-405B-FP8", "tp8"), True, id="405B in fp8 fits eight H100"),
        pytest.param(case("Llama-3.1-405B", "tp8"), False, id="in 16 bit it does not"),
        pytest.param(case("Llama-3.1-405B", "tp8-pp2"), True, id="over two nodes it does"),
    ],
)
def test_the_engine_would_start_or_not(one, fits):
    assert memory_use(one).fits is fits


def test_data_ranks_each_have_a_cache():
    one, four = memory_use(case("DeepSeek-R1", "tp8", "h200")), memory_use(case("DeepSeek-R1", "tp8-dp4-ep32", "h200"))
    assert four.kv_tokens > 4 * one.kv_tokens


def test_an_mla_cache_gains_nothing_from_more_tensor_parallelism():
    use = memory_use(case("DeepSeek-V2-Lite", "tp4", "h200"))
    assert use.kv_bytes_per_token == memory_use(case("DeepSeek-V2-Lite", "tp1", "h200")).kv_bytes_per_token


def test_the_largest_context_that_fits_is_the_border():
    one = case("gemma-3-27b")
    longest = longest_context_that_fits(one)
    for context, fits in ((longest, True), (longest + 32, False)):
        limited = replace(one, setup=replace(one.setup, context_limit_tokens=context))
        assert memory_use(limited).fits is fits


@pytest.mark.parametrize(
    ("one", "context"),
    [
        pytest.param(case("Llama-3.1-8B"), None, id="the model's own fits"),
        pytest.param(case("Llama-3.1-405B"), None, id="none fits"),
        pytest.param(case("gemma-3-27b", context_limit_tokens=500), 500, id="one is stated"),
        pytest.param(case("gemma-3-27b"), longest_context_that_fits(case("gemma-3-27b")), id="the longest that fits"),
    ],
)
def test_an_unstated_context_may_be_made_to_fit(one, context):
    assert with_context_that_fits(one).setup.context_limit_tokens == context


@pytest.mark.parametrize("name", ["Llama-3.1-8B", "gpt-oss-20b", "Qwen3.5-35B-A3B-FP8", "gemma-3-12b"])
def test_concurrent_sequences_fill_the_cache(name):
    one, lengths = case(name, context_limit_tokens=32_768), Lengths(input_tokens=3000, output_tokens=1000)
    use, sequences = memory_use(one), max_concurrent_sequences(one, lengths)
    grown = sequences * (3500 * use.kv_bytes_per_token)
    assert sequences > 10
    assert grown <= use.kv_bytes
    assert sequences * (3516 * use.kv_bytes_per_token + 2 * use.kv_bytes_per_sequence) > 0.7 * use.kv_bytes


def test_a_shared_prefix_is_held_once():
    one = case("Llama-3.1-8B")
    alone = Lengths(input_tokens=4000, output_tokens=200)
    shared = replace(alone, shared_prefix_tokens=3600.0)
    assert max_concurrent_sequences(one, shared) > 5 * max_concurrent_sequences(one, alone)


def test_what_does_not_fit_holds_nobody():
    one = case("Llama-3.1-405B")
    assert max_concurrent_sequences(one, Lengths(input_tokens=10, output_tokens=10)) == 0
    assert longest_context_that_fits(one) == 0
    assert memory_use(one).kv_tokens == 0


def test_an_older_engine_logged_hybrids_in_another_way():
    # gemma-4-31B in awq on an A100: 55,000 tokens at 0.20 and about 525,000 at 0.21 of the same memory.
    old = case("gemma-4-31B", hardware="a100-80", version="0.20", weights=Scheme.INT4)
    new = replace(old, setup=replace(old.setup, version="0.21"))
    assert reported_kv_tokens(old) == pytest.approx(55_000, rel=0.05)
    assert reported_kv_tokens(new) == pytest.approx(525_000, rel=0.1)


def test_more_room_for_each_step_leaves_less_for_kv():
    small, large = (memory_use(case("Llama-3.1-8B", token_budget=tokens)) for tokens in (2048, 65_536))
    assert small.kv_bytes > large.kv_bytes


def test_whole_mla_heads_need_more_for_a_cut_prompt():
    shared, whole = (memory_use(case("DeepSeek-R1", layout, "h200")) for layout in ("tp8", "tp1-dp8-ep8"))
    assert whole.activation_bytes - shared.activation_bytes > 1.5 * GIB


def test_a_sampler_over_more_sequences_needs_more():
    few, many = (memory_use(case("Llama-3.1-8B", sequence_cap=cap)) for cap in (64, 1024))
    assert many.activation_bytes - few.activation_bytes > 1.3 * GIB


@pytest.mark.parametrize("version", ["0.5.3", "1.2.0rc3", ""])
def test_another_engines_version_says_nothing_of_vllms(version):
    one = case("Llama-3.1-8B", engine="sglang", version=version)
    assert memory_use(one).activation_bytes == memory_use(case("Llama-3.1-8B", version="0.19")).activation_bytes


def test_memory_decides():
    assert memory_use(with_memory(case("Llama-3.1-8B", context_limit_tokens=8192), 24)).fits
    assert not memory_use(with_memory(case("Llama-3.1-8B", context_limit_tokens=8192), 16)).fits
