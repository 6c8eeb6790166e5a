"""A config.json in its varieties: what layers keep, where sizes hide, how long a context is."""

from typing import Any

import pytest

from modelfleet.core.model.config import read_config
from modelfleet.core.model.facts import Attention, ModelFacts

DENSE = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def _read(**changed: Any) -> ModelFacts:
    return read_config({**DENSE, **changed}, name="m", source="s")


def _kinds(facts: ModelFacts) -> dict[Attention, int]:
    return {part.kind: part.count for part in facts.attention}


def test_without_kv_heads_there_are_as_many_as_heads():
    assert _read(num_key_value_heads=None).attention[0].kv_heads == 8


def test_a_head_may_be_wider_than_hidden_over_heads():
    assert _read(head_dim=128).attention[0].head_dim == 128
    assert _read().attention[0].head_dim == 64


@pytest.mark.parametrize(
    ("changed", "full", "sliding"),
    [
        pytest.param({"model_type": "mistral", "sliding_window": 64}, 0, 8, id="Mistral: all layers slide"),
        pytest.param({"model_type": "mistral", "sliding_window": None}, 8, 0, id="Mistral: none without a window"),
        pytest.param({"model_type": "gemma2", "sliding_window": 64}, 4, 4, id="Gemma 2: every second"),
        pytest.param({"model_type": "gemma3_text", "sliding_window": 64}, 1, 7, id="Gemma 3: all but every sixth"),
        pytest.param(
            {"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": False}, 8, 0, id="Qwen: switched off"
        ),
        pytest.param(
            {"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True, "max_window_layers": 6},
            6,
            2,
            id="Qwen: the upper layers",
        ),
        pytest.param(
            {"model_type": "gemma3_text", "sliding_window": 64, "layer_types": ["full_attention"] * 8},
            8,
            0,
            id="named layers win over the pattern",
        ),
    ],
)
def test_which_layers_slide(changed, full, sliding):
    kinds = _kinds(_read(**changed))
    assert (kinds.get(Attention.FULL, 0), kinds.get(Attention.SLIDING, 0)) == (full, sliding)


@pytest.mark.parametrize(
    ("changed", "mixtures"),
    [
        pytest.param({}, 8, id="all"),
        pytest.param({"decoder_sparse_step": 2}, 4, id="every second"),
        pytest.param({"mlp_only_layers": [0, 1]}, 6, id="but two"),
    ],
)
def test_which_layers_are_mixtures(changed, mixtures):
    facts = _read(model_type="qwen3_moe", num_experts=16, num_experts_per_tok=2, moe_intermediate_size=128, **changed)
    assert sum(part.count for part in facts.feed_forward if part.experts) == mixtures
    assert facts.is_mixture


def test_sizes_may_be_nested_with_a_tower_beside():
    tower = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "patch_size": 14, "image_size": 28}
    nested = {"model_type": "mistral3", "text_config": {**DENSE, "model_type": "mistral"}, "vision_config": tower}
    facts, plain = read_config(nested, name="m", source="s"), _read(model_type="mistral")
    assert facts.attention == plain.attention
    assert facts.other_parameters > plain.other_parameters


def test_a_tie_may_be_stated_outside_the_text_part():
    nested = {"model_type": "mistral3", "text_config": {**DENSE, "model_type": "mistral"}, "tie_word_embeddings": True}
    assert read_config(nested, name="m", source="s").tied_embeddings


@pytest.mark.parametrize(
    ("scaling", "tokens"),
    [
        pytest.param(None, 4096, id="none"),
        pytest.param({"rope_type": "llama3", "factor": 8.0}, 4096, id="Llama's is in the stated length"),
        pytest.param({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, 16384, id="yarn"),
        pytest.param({"rope_type": "yarn", "factor": 2.0}, 8192, id="yarn over the stated length"),
    ],
)
def test_how_long_a_context_is(scaling, tokens):
    assert _read(rope_scaling=scaling).max_context_tokens == tokens


def test_the_kind_may_be_known_by_the_architecture_alone():
    facts = _read(model_type="my_llama", architectures=["LlamaForCausalLM"])
    assert facts.architecture == "LlamaForCausalLM"


def test_a_linear_layer_keeps_a_state_whatever_the_length():
    facts = _read(
        model_type="qwen3_5",
        head_dim=64,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        linear_conv_kernel_dim=4,
    )
    linear = next(part for part in facts.attention if part.kind is Attention.LINEAR)
    assert (linear.count, linear.state_elements) == (6, (2 * 2 * 16 + 4 * 16) * 3 + 4 * 16 * 16)


SPARSE = {
    "model_type": "glm_moe_dsa",
    "kv_lora_rank": 64,
    "q_lora_rank": 96,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "index_n_heads": 4,
    "index_head_dim": 32,
    "index_topk": 256,
}


@pytest.mark.parametrize(
    ("changed", "own"),
    [
        pytest.param({}, 8, id="every layer selects"),
        pytest.param({"index_topk_freq": 4, "index_skip_topk_offset": 3}, 4, id="0, 1, 2 and 6"),
        pytest.param({"index_topk_pattern": "FSSSFSSS"}, 2, id="by a pattern"),
    ],
)
def test_layers_that_reuse_a_selection_have_no_indexer(changed, own):
    facts = _read(**SPARSE, **changed)
    assert {part.kind for part in facts.attention} == {Attention.LATENT_SPARSE}
    assert sum(part.count for part in facts.attention if part.index_dim) == own
    assert sum(part.count for part in facts.attention) == 8
    assert all(part.index_tokens == 256 for part in facts.attention)
