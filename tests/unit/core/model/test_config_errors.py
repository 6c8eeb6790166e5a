"""What is wrong in a config.json is said in one sentence with the key's path, and nothing else is raised."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelfleet.core.model.config import ConfigError, read_config
from modelfleet.core.model.facts import ModelFacts

EIGHT_BITS = {"num_bits": 8, "type": "float"}
DENSE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": EIGHT_BITS}},
    },
}
MIXTURE = {
    "model_type": "deepseek_v32",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 2048,
}
NESTED = {
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text",
        "hidden_size": 2816,
        "intermediate_size": 2112,
        "moe_intermediate_size": 704,
        "enable_moe_block": True,
        "attention_k_eq_v": True,
        "num_experts": 128,
        "top_k_experts": 8,
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 1024,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "num_global_key_value_heads": 2,
        "head_dim": 256,
        "global_head_dim": 512,
        "vocab_size": 262144,
        "max_position_embeddings": 262144,
    },
    "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 16},
    "quantization_config": {"quant_method": "fp8"},
}
LINEAR = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_conv_kernel_dim": 4,
    "moe_intermediate_size": 512,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "shared_expert_intermediate_size": 512,
    "mlp_only_layers": [],
}
STATE_SPACE = {
    "model_type": "nemotron_h",
    "hidden_size": 2688,
    "num_hidden_layers": 4,
    "hybrid_override_pattern": "ME*-",
    "intermediate_size": 1856,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "vocab_size": 131072,
    "max_position_embeddings": 262144,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1856,
}


def _read(config: Any) -> Any:
    return read_config(config, name="some/model", source="config.json")


def _read_or_refusal(config: Any, index: Any = None) -> tuple[ModelFacts | None, str]:
    """Any exception but ConfigError fails the test."""
    try:
        return read_config(config, name="some/model", source="config.json", index=index), ""
    except ConfigError as error:
        return None, str(error)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        pytest.param([], "config.json of some/model is []", id="a list is no config"),
        pytest.param({}, "model_type is None with no architectures", id="an empty config has no kind"),
        pytest.param(
            {"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"]},
            "model_type is 'mamba2' with architectures ['Mamba2ForCausalLM']: a kind that cannot be sized; state the",
            id="an unknown kind is named with what to do",
        ),
        pytest.param({**DENSE, "num_hidden_layers": None}, "num_hidden_layers is missing", id="null is missing"),
        pytest.param({**DENSE, "hidden_size": 0}, "hidden_size is 0: a whole number from 1", id="zero is no size"),
        pytest.param({**DENSE, "hidden_size": -1}, "hidden_size is -1", id="a size is not negative"),
        pytest.param({**DENSE, "hidden_size": 10**12}, "hidden_size is 1000000000000", id="a size may be too large"),
        pytest.param({**DENSE, "hidden_size": "4096"}, "hidden_size is '4096'", id="a string is no size"),
        pytest.param({**DENSE, "hidden_size": True}, "hidden_size is True", id="true is no size"),
        pytest.param({**DENSE, "hidden_size": float("nan")}, "hidden_size is nan", id="nan is no size"),
        pytest.param({**DENSE, "num_key_value_heads": 64}, "more than the 32 of num_attention_heads", id="kv > heads"),
        pytest.param(
            {**DENSE, "num_key_value_heads": 7}, "it does not divide num_attention_heads, 32", id="kv % heads"
        ),
        pytest.param({**DENSE, "num_attention_heads": 24}, "does not divide hidden_size, 4096", id="heads % hidden"),
        pytest.param({**DENSE, "text_config": 3}, "text_config is 3: an object", id="a nested part is an object"),
        pytest.param(
            {**NESTED, "text_config": {**NESTED["text_config"], "layer_types": ["full_attention"]}},
            "text_config.layer_types has 1 entries: num_hidden_layers is 2",
            id="a nested key has its path and layers are counted",
        ),
        pytest.param(
            {**NESTED, "text_config": {**NESTED["text_config"], "layer_types": ["full_attention", "lstm"]}},
            "text_config.layer_types[1] is 'lstm'",
            id="an unknown kind of layer is named",
        ),
        pytest.param(
            {**NESTED, "text_config": {**NESTED["text_config"], "num_kv_shared_layers": 10}},
            "text_config.num_kv_shared_layers is set",
            id="shared KV layers are refused and not guessed",
        ),
        pytest.param(
            {**STATE_SPACE, "hybrid_override_pattern": "ME*"},
            "hybrid_override_pattern has 3 layers: num_hidden_layers is 4",
            id="a pattern has as many layers",
        ),
        pytest.param(
            {**STATE_SPACE, "hybrid_override_pattern": "MEx-"},
            "hybrid_override_pattern is 'MEx-': layers are mamba, attention, moe and mlp",
            id="a pattern knows four letters",
        ),
        pytest.param({**STATE_SPACE, "hybrid_override_pattern": "EE--"}, "has no layer that looks back", id="blind"),
        pytest.param({**MIXTURE, "num_experts_per_tok": 257}, "more than the 256 of n_routed_experts", id="top-k"),
        pytest.param({**MIXTURE, "first_k_dense_replace": 99}, "num_hidden_layers is 61", id="dense layers"),
        pytest.param({**MIXTURE, "kv_lora_rank": None}, "kv_lora_rank is missing", id="MLA needs its ranks"),
        pytest.param(
            {**DENSE, "quantization_config": {"quant_method": "aqlm"}},
            "quantization_config.quant_method is 'aqlm': known are fp8",
            id="an unknown scheme is named with those known",
        ),
        pytest.param(
            {**DENSE, "quantization_config": {"quant_method": "gptq", "bits": 3}},
            "quantization_config.bits is 3: 4 and 8 bit",
            id="three bits cannot be sized",
        ),
        pytest.param(
            {**DENSE, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g": {}}}},
            "quantization_config.config_groups names no weights",
            id="compressed tensors without weights",
        ),
    ],
)
def test_what_is_wrong_is_said_with_the_path(config, sentence):
    with pytest.raises(ConfigError) as raised:
        _read(config)
    message = str(raised.value)
    assert sentence in message
    assert "\n" not in message


@pytest.mark.parametrize("total", [0, -5, "12", True, 1.5, [], 10**18])
def test_a_wrong_total_in_the_index_is_said(total):
    config = {key: value for key, value in DENSE.items() if key != "quantization_config"}
    with pytest.raises(ConfigError, match=r"metadata\.total_size is"):
        read_config(config, name="m", source="s", index={"metadata": {"total_size": total}})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["fp8", "modelopt", "compressed-tensors", "quark", "yarn", "llama", "gpt_oss", "float16"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _places(config: dict[str, Any], before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    places = []
    for key, value in config.items():
        places.append((*before, key))
        if isinstance(value, dict):
            places += _places(value, (*before, key))
    return places


def _with(config: dict[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    changed = dict(config)
    inner = value if len(place) == 1 else _with(config[place[0]], place[1:], value)
    changed[place[0]] = inner
    return changed


@settings(max_examples=400, deadline=None)
@given(data=st.data(), config=st.sampled_from([DENSE, MIXTURE, NESTED, LINEAR, STATE_SPACE]), value=JSON)
def test_one_key_of_any_value_is_read_or_refused_in_one_sentence(data, config, value):
    place = data.draw(st.sampled_from(_places(config)))
    facts, refusal = _read_or_refusal(_with(config, place, value))
    assert (facts is None) == bool(refusal)
    assert refusal == "" or refusal.startswith("config.json of some/model")
    assert "\n" not in refusal
    if facts:
        assert facts.parameters > 0
        looking_back = sum(part.count for part in facts.attention)
        alone = sum(part.count for part in facts.feed_forward)
        assert looking_back + alone == facts.layers * (1 if facts.architecture == "NemotronHForCausalLM" else 2)


@settings(max_examples=200, deadline=None)
@given(config=st.dictionaries(st.sampled_from([*DENSE, *MIXTURE, "text_config", "vision_config"]), JSON), index=JSON)
def test_any_mapping_is_read_or_refused(config, index):
    facts, refusal = _read_or_refusal(config, index)
    assert facts.parameters > 0 if facts else refusal
