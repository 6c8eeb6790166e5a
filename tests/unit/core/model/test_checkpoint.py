"""How checkpoints say that they are quantized, in each of the forms in use."""

from typing import Any

import pytest

from modelfleet.core.model.config import read_config
from modelfleet.core.model.facts import Scheme

SIZES = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}


def _compressed(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}, **more}


@pytest.mark.parametrize(
    ("stated", "scheme", "attention"),
    [
        pytest.param(None, Scheme.BF16, True, id="nothing stated"),
        pytest.param({"quant_method": "fp8", "weight_block_size": [128, 128]}, Scheme.FP8, True, id="fp8 in blocks"),
        pytest.param({"quant_method": "awq", "bits": 4, "group_size": 128}, Scheme.INT4, True, id="awq"),
        pytest.param({"quant_method": "gptq", "bits": 8}, Scheme.INT8, True, id="gptq of eight bits"),
        pytest.param(_compressed({"num_bits": 8, "type": "float"}), Scheme.FP8, True, id="compressed fp8"),
        pytest.param(_compressed({"num_bits": 8, "type": "int"}), Scheme.INT8, True, id="compressed int8"),
        pytest.param(_compressed({"num_bits": 4, "type": "int"}), Scheme.INT4, True, id="compressed int4"),
        pytest.param(
            _compressed({"num_bits": 4, "type": "float"}, format="nvfp4-pack-quantized"),
            Scheme.NVFP4,
            True,
            id="compressed nvfp4",
        ),
        pytest.param(
            _compressed({"num_bits": 4, "type": "float"}, format="mxfp4-pack-quantized"),
            Scheme.MXFP4,
            True,
            id="compressed mxfp4",
        ),
        pytest.param(
            _compressed({"num_bits": 4, "type": "int"}, ignore=["lm_head", "re:.*self_attn.*"]),
            Scheme.INT4,
            False,
            id="attention left alone by a pattern",
        ),
        pytest.param(
            {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.0.self_attn.q_proj"]},
            Scheme.FP8,
            True,
            id="one layer left alone is not attention left alone",
        ),
        pytest.param(
            {
                "quant_method": "fbgemm_fp8",
                "modules_to_not_convert": [f"model.layers.{n}.self_attn.q_proj" for n in range(32)],
            },
            Scheme.FP8,
            False,
            id="every layer left alone by name",
        ),
        pytest.param({"quant_method": "modelopt", "quant_algo": "NVFP4"}, Scheme.NVFP4, True, id="modelopt nvfp4"),
        pytest.param({"quant_method": "modelopt", "quant_algo": "FP8"}, Scheme.FP8, True, id="modelopt fp8"),
        pytest.param({"quant_method": "bitsandbytes", "load_in_4bit": True}, Scheme.INT4, True, id="bitsandbytes 4"),
        pytest.param({"quant_method": "bitsandbytes", "load_in_8bit": True}, Scheme.INT8, True, id="bitsandbytes 8"),
        pytest.param(
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
            Scheme.MXFP4,
            False,
            id="mxfp4 of gpt-oss",
        ),
        pytest.param(
            {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}},
            Scheme.FP8,
            True,
            id="quark",
        ),
    ],
)
def test_a_checkpoint_says_how_it_is_stored(stated, scheme, attention):
    facts = read_config({**SIZES, "quantization_config": stated}, name="m", source="s")
    assert (facts.native, facts.quantized_attention) == (scheme, attention)


@pytest.mark.parametrize(
    ("dtype", "scheme"),
    [("float16", Scheme.FP16), ("bfloat16", Scheme.BF16), ("float32", Scheme.BF16), (None, Scheme.BF16)],
)
def test_without_quantization_numbers_have_16_bits(dtype, scheme):
    assert read_config({**SIZES, "torch_dtype": dtype}, name="m", source="s").native is scheme


def test_the_index_states_the_checkpoints_size():
    facts = read_config(SIZES, name="m", source="s", index={"metadata": {"total_size": 16_060_522_496}})
    assert facts.checkpoint_bytes == 16_060_522_496
    assert read_config(SIZES, name="m", source="s", index={"weight_map": {}}).checkpoint_bytes is None
