"""What a model is made of, from what a worker read or from what the user stated. Pure."""

from collections.abc import Mapping
from typing import Any

from modelfleet.api.model import StatedFacts
from modelfleet.core import raw
from modelfleet.core.model.config import ConfigError, read_config
from modelfleet.core.model.facts import ModelFacts

INSPECTED, STATED = "Inspected", "Stated"


def inspected(report: Mapping[str, Any], source: str) -> ModelFacts:
    """The facts in a worker's report. Raises ConfigError, which says what is not known."""
    size = raw.at(report, "checkpointBytes")
    index = {"metadata": {"total_size": size}} if size else None
    return read_config(raw.mapping(report, "config"), name=source, source=INSPECTED, index=index)


def stated(facts: StatedFacts, name: str) -> ModelFacts:
    """The facts that a user wrote. Raises ConfigError where they make no model."""
    return read_config(_config(facts), name=name, source=STATED)


def _config(facts: StatedFacts) -> dict[str, Any]:
    """The facts as the config.json of a model of the best-known dense or mixture kind."""
    config: dict[str, Any] = {
        "model_type": "llama",
        "num_hidden_layers": facts.layers,
        "hidden_size": facts.hidden_size,
        "num_attention_heads": facts.heads,
        "num_key_value_heads": facts.kv_heads,
        "intermediate_size": facts.intermediate_size,
        "vocab_size": facts.vocabulary_size,
        "max_position_embeddings": facts.max_context_tokens,
    }
    if facts.head_size is not None:
        config["head_dim"] = facts.head_size
    if facts.mixture is not None:
        config |= {
            "model_type": "qwen3_moe",
            "num_experts": facts.mixture.experts,
            "num_experts_per_tok": facts.mixture.experts_per_token,
            "moe_intermediate_size": facts.mixture.expert_intermediate_size,
        }
    stored = _STORED.get(facts.weights.value)
    return config | ({"quantization_config": stored} if stored else {})


_STORED = {
    "fp8": {"quant_method": "fp8"},
    "int8": {"quant_method": "gptq", "bits": 8},
    "int4": {"quant_method": "awq", "bits": 4},
    "mxfp4": {"quant_method": "mxfp4"},
    "nvfp4": {"quant_method": "nvfp4"},
}

__all__ = ["INSPECTED", "STATED", "ConfigError", "inspected", "stated"]
