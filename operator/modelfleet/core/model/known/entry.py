"""One known model: the keys of its config.json that sizes depend on, and where they are public. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]

_PLAIN_KEYS = (
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "max_position_embeddings",
)


@dataclass(frozen=True)
class KnownModel:
    """`source` says where the figures are public. `also` are other names of the same sizes."""

    config: Config
    source: str
    also: tuple[str, ...] = ()


def plain(model_type: str, sizes: tuple[int, ...], **more: Any) -> dict[str, Any]:
    """A config from its seven usual sizes: layers, hidden, intermediate, heads, KV heads, vocabulary, context."""
    return {"model_type": model_type, **dict(zip(_PLAIN_KEYS, sizes, strict=True)), **more}


FP8 = {"quant_method": "fp8"}
FP8_NOT_ATTENTION = {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.*.self_attn"]}
INT4_EXPERTS = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
    "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"],
}
MXFP4_EXPERTS = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
INT4 = {"quant_method": "awq", "bits": 4}
INT8 = {"quant_method": "gptq", "bits": 8}
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}
NVFP4_NOT_ATTENTION = {**NVFP4, "exclude_modules": ["lm_head", "*self_attn*"]}
