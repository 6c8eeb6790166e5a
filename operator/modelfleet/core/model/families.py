"""The kinds of model that can be sized, and how each departs from the plain transformer of Llama. Pure.

Source of each line: the model's code in transformers (modeling_*.py); the counts that follow are held to the published
numbers of parameters by the tests.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class Windows(StrEnum):
    """Which layers look back at a window only, where config.json has no `layer_types`."""

    NEVER = "never"
    ALL = "all"
    """All, where `sliding_window` is set."""
    UPPER = "upper"
    """Those from `max_window_layers` on, where `use_sliding_window` is true."""
    ALTERNATE = "alternate"
    """Every second one, the first included."""
    PATTERN = "pattern"
    """All but every `sliding_window_pattern`-th."""
    CHUNKS = "chunks"
    """All but every fourth, in chunks of `attention_chunk_size`."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """How one model_type departs from Llama."""

    architecture: str
    qkv_bias: bool | None = None
    """None: as the key `attention_bias` says."""
    output_bias: bool | None = False
    head_norms: bool | None = False
    """A norm over each head's query and key, shared by the heads. None: as the key `use_qk_norm` says."""
    layer_norms: bool = False
    """A norm over all heads' queries and keys together."""
    norms: int = 2
    """Norms of `hidden` in one layer."""
    norm_bias: bool = False
    gate: bool = True
    """Three matrices in the feed-forward part, not two."""
    feed_forward_bias: bool = False
    tied: bool = False
    """Default of `tie_word_embeddings`."""
    windows: Windows = Windows.NEVER
    latent: bool = False
    sparse: bool = False
    linear: bool = False
    sinks: bool = False
    mixture: bool = False
    dense_first: bool = False
    """The first `first_k_dense_replace` layers are dense."""
    routing_bias: bool = False
    expert_bias: bool = False
    shared_gate: bool = False
    both: bool = False
    """Each layer has a dense part and experts beside each other (Gemma 4)."""
    embedding_norm: bool = False
    bloom_sizes: bool = False
    state_space: bool = False
    """Each layer is one thing: a Mamba-2 mixer, attention, a mixture or a dense part."""


_DEEPSEEK = Family(architecture="DeepseekV3ForCausalLM", latent=True, mixture=True, dense_first=True, routing_bias=True)

FAMILIES = {
    "llama": Family(architecture="LlamaForCausalLM", output_bias=None),
    "mistral": Family(architecture="MistralForCausalLM", windows=Windows.ALL),
    "internlm": Family(architecture="InternLMForCausalLM"),
    "internlm2": Family(architecture="InternLM2ForCausalLM"),
    "granite": Family(architecture="GraniteForCausalLM", output_bias=None),
    "smollm3": Family(architecture="SmolLM3ForCausalLM", tied=True, output_bias=None),
    "seed_oss": Family(architecture="SeedOssForCausalLM", qkv_bias=True),
    "olmo2": Family(architecture="Olmo2ForCausalLM", layer_norms=True),
    "cohere": Family(architecture="CohereForCausalLM", tied=True, norms=1),
    "starcoder2": Family(
        architecture="Starcoder2ForCausalLM",
        qkv_bias=True,
        output_bias=True,
        norm_bias=True,
        gate=False,
        feed_forward_bias=True,
        tied=True,
        windows=Windows.ALL,
    ),
    "qwen2": Family(architecture="Qwen2ForCausalLM", qkv_bias=True, windows=Windows.UPPER),
    "qwen3": Family(architecture="Qwen3ForCausalLM", head_norms=True, output_bias=None, windows=Windows.UPPER),
    "phi3": Family(architecture="Phi3ForCausalLM", windows=Windows.ALL),
    "gemma": Family(architecture="GemmaForCausalLM", tied=True),
    "gemma2": Family(architecture="Gemma2ForCausalLM", tied=True, norms=4, windows=Windows.ALTERNATE),
    "gemma3_text": Family(
        architecture="Gemma3ForCausalLM", tied=True, norms=4, head_norms=True, windows=Windows.PATTERN
    ),
    "gemma4_text": Family(
        architecture="Gemma4ForCausalLM", tied=True, norms=4, head_norms=True, windows=Windows.PATTERN, both=True
    ),
    "bloom": Family(
        architecture="BloomForCausalLM",
        qkv_bias=True,
        output_bias=True,
        norm_bias=True,
        gate=False,
        feed_forward_bias=True,
        tied=True,
        embedding_norm=True,
        bloom_sizes=True,
    ),
    "mixtral": Family(architecture="MixtralForCausalLM", mixture=True, windows=Windows.ALL),
    "qwen2_moe": Family(
        architecture="Qwen2MoeForCausalLM", qkv_bias=True, mixture=True, shared_gate=True, windows=Windows.UPPER
    ),
    "qwen3_moe": Family(architecture="Qwen3MoeForCausalLM", head_norms=True, mixture=True, windows=Windows.UPPER),
    "qwen3_next": Family(
        architecture="Qwen3NextForCausalLM", head_norms=True, linear=True, mixture=True, shared_gate=True
    ),
    "qwen3_5_text": Family(architecture="Qwen3_5ForCausalLM", head_norms=True, linear=True),
    "qwen3_5_moe_text": Family(
        architecture="Qwen3_5MoeForCausalLM", head_norms=True, linear=True, mixture=True, shared_gate=True
    ),
    "gpt_oss": Family(
        architecture="GptOssForCausalLM",
        qkv_bias=True,
        output_bias=True,
        sinks=True,
        mixture=True,
        routing_bias=True,
        expert_bias=True,
        windows=Windows.ALTERNATE,
    ),
    "llama4_text": Family(architecture="Llama4ForCausalLM", mixture=True, windows=Windows.CHUNKS),
    "minimax_m2": Family(architecture="MiniMaxM2ForCausalLM", layer_norms=True, mixture=True, routing_bias=True),
    "glm4_moe": Family(
        architecture="Glm4MoeForCausalLM", head_norms=None, mixture=True, dense_first=True, routing_bias=True
    ),
    "glm4_moe_lite": replace(_DEEPSEEK, architecture="Glm4MoeLiteForCausalLM"),
    "nemotron_h": Family(architecture="NemotronHForCausalLM", norms=1, state_space=True),
    "deepseek_v2": Family(architecture="DeepseekV2ForCausalLM", latent=True, mixture=True, dense_first=True),
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "deepseek_v32": Family(
        architecture="DeepseekV32ForCausalLM",
        latent=True,
        sparse=True,
        mixture=True,
        dense_first=True,
        routing_bias=True,
    ),
    "glm_moe_dsa": Family(
        architecture="GlmMoeDsaForCausalLM", latent=True, sparse=True, mixture=True, dense_first=True, routing_bias=True
    ),
}

SAME_AS = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "kimi_k25": "kimi_k2",
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "glm4v_moe_text": "glm4_moe",
    "ministral": "mistral",
    "ministral3": "mistral",
}
"""Other names of the same kind: the outer model of a nested one, and later ones that changed nothing that counts."""
