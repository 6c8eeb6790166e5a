"""Memory is monotone where physics is, for every model and layout, and never raises."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.config import read_config
from modelfleet.core.model.facts import Scheme
from modelfleet.core.model.known import KNOWN
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import longest_context_that_fits, max_concurrent_sequences, memory_use
from modelfleet.core.perf.workload import Lengths
from unit.core.perf.memory_cases import case, with_memory


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any known model in any layout; the step's limits are set, as vLLM's own defaults jump with the memory."""
    one = case(
        draw(st.sampled_from(sorted(KNOWN))),
        hardware=draw(st.sampled_from(["l4", "a100-80", "h100-sxm", "b200", "gb200", "mi300x"])),
        version=draw(st.sampled_from(["", "0.6.4", "0.11.0", "0.15.1", "0.32.0"])),
        kv=draw(st.sampled_from([Scheme.BF16, Scheme.FP8])),
        memory_fraction=draw(st.floats(0.1, 1.0)),
        token_budget=draw(st.integers(128, 65_536)),
        sequence_cap=draw(st.integers(1, 2048)),
        context_limit_tokens=draw(st.none() | st.integers(1, 2_000_000)),
    )
    layout = Layout(
        draw(st.sampled_from([1, 2, 4, 8, 16])),
        draw(st.sampled_from([1, 2, 3, 8])),
        draw(st.sampled_from([1, 2, 8])),
        expert=draw(st.booleans()),
    )
    scheme = draw(st.sampled_from([one.facts.native, *Scheme]))
    return replace(one, layout=layout, setup=replace(one.setup, weights=scheme))


@settings(max_examples=150, deadline=None)
@given(one=cases(), less=st.floats(1, 400), more=st.floats(0, 400))
def test_more_memory_never_gives_fewer_kv_tokens(one, less, more):
    assert memory_use(with_memory(one, less)).kv_tokens <= memory_use(with_memory(one, less + more)).kv_tokens


@settings(max_examples=150, deadline=None)
@given(one=cases(), high=st.floats(0.1, 1.0))
def test_a_higher_fraction_never_gives_fewer_kv_tokens(one, high):
    low, high = sorted((one.setup.memory_fraction, high))
    with_low, with_high = (replace(one, setup=replace(one.setup, memory_fraction=value)) for value in (low, high))
    assert memory_use(with_low).kv_tokens <= memory_use(with_high).kv_tokens


@settings(max_examples=150, deadline=None)
@given(one=cases(), narrow=st.sampled_from([Scheme.FP8]))
def test_a_narrower_cache_never_holds_fewer_sequences(one, narrow):
    lengths = Lengths(input_tokens=2000, output_tokens=200)
    wide = replace(one, setup=replace(one.setup, kv=Scheme.BF16))
    slim = replace(one, setup=replace(one.setup, kv=narrow))
    # Blocks of a narrower cache grow to hold a linear layer's state, and the last one is half empty on average.
    assert max_concurrent_sequences(slim, lengths) >= 0.7 * max_concurrent_sequences(wide, lengths) - 1


@settings(max_examples=100, deadline=None)
@given(one=cases(), longer=st.floats(1, 5))
def test_longer_sequences_are_never_more(one, longer):
    short = Lengths(input_tokens=500, output_tokens=100)
    long = Lengths(input_tokens=500 * longer, output_tokens=100 * longer)
    assert max_concurrent_sequences(one, long) <= max_concurrent_sequences(one, short)


@settings(max_examples=150, deadline=None)
@given(one=cases())
def test_what_fits_is_within_the_budget_and_what_does_not_says_so(one):
    use = memory_use(one)
    spent = use.weights_bytes + use.activation_bytes + use.graphs_bytes + use.other_bytes
    assert use.fits == use.reason.startswith("fits:")
    assert not use.fits or spent < use.budget_bytes
    assert "\n" not in use.reason
    assert 0 <= longest_context_that_fits(one) <= one.facts.max_context_tokens


SIZE = st.integers(1, 10**6) | st.sampled_from([1, 2, 3, 10**7, 10**9])


@st.composite
def odd_configs(draw: st.DrawFn) -> dict[str, object]:
    """Configs that can be read, with sizes that no model has."""
    kv_heads, repeat = draw(st.integers(1, 300)), draw(st.integers(1, 300))
    kind = draw(st.sampled_from(["llama", "qwen3_moe", "deepseek_v32", "gemma3_text", "qwen3_next", "gpt_oss"]))
    return {
        "model_type": kind,
        "num_hidden_layers": draw(st.integers(1, 1000)),
        "hidden_size": draw(st.integers(1, 10**6)),
        "num_attention_heads": kv_heads * repeat,
        "num_key_value_heads": kv_heads,
        "head_dim": draw(st.integers(1, 10_000)),
        "vocab_size": draw(st.integers(1, 10**8)),
        "num_experts": draw(st.integers(8, 10_000)),
        "num_experts_per_tok": draw(st.integers(1, 8)),
        **{
            key: draw(SIZE)
            for key in ("intermediate_size", "moe_intermediate_size", "max_position_embeddings", "sliding_window")
        },
        **{key: draw(st.integers(1, 10_000)) for key in ("kv_lora_rank", "q_lora_rank", "index_n_heads")},
        **{key: draw(st.integers(1, 10_000)) for key in ("index_head_dim", "index_topk", "v_head_dim")},
        **{key: draw(st.integers(1, 10_000)) for key in ("qk_nope_head_dim", "qk_rope_head_dim")},
    }


@settings(max_examples=200, deadline=None)
@given(config=odd_configs(), one=cases())
def test_sizes_that_no_model_has_are_reckoned_all_the_same(config, one):
    facts = read_config(config, name="odd", source="test")
    odd = replace(one, facts=facts)
    use = memory_use(odd)
    assert use.fits == use.reason.startswith("fits:")
    assert max_concurrent_sequences(odd, Lengths(input_tokens=1, output_tokens=1)) >= 0
    assert longest_context_that_fits(odd) <= facts.max_context_tokens
