"""Qwen from 1.5 to 3.8. Sources: the config.json of each repository."""

from typing import Any

from modelfleet.core.model.known.entry import KnownModel, plain

_HUB = "config.json on huggingface.co"
_VISION = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "depth": 27,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "num_position_embeddings": 2304,
}


def _dense3(sizes: tuple[int, ...], *, tied: bool = False, context: int = 40960) -> dict[str, Any]:
    """Qwen3: layers, hidden, intermediate, heads, KV heads."""
    return plain("qwen3", (*sizes, 151936, context), head_dim=128, tie_word_embeddings=tied)


def _mixture3(sizes: tuple[int, ...], experts: tuple[int, int], context: int) -> dict[str, Any]:
    """Qwen3 with experts: their number and width; 8 of them take a token."""
    return plain(
        "qwen3_moe",
        (*sizes, 151936, context),
        head_dim=128,
        num_experts=experts[0],
        moe_intermediate_size=experts[1],
        num_experts_per_tok=8,
    )


def _hybrid(model_type: str, sizes: tuple[int, ...], value_heads: int, **more: Any) -> dict[str, Any]:
    """Three layers of linear attention for each one of full attention."""
    text = plain(
        model_type,
        sizes,
        head_dim=256,
        full_attention_interval=4,
        linear_num_key_heads=16,
        linear_num_value_heads=value_heads,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
        **more,
    )
    return {"model_type": model_type.removesuffix("_text"), "text_config": text, "vision_config": _VISION}


def _experts(count: int, each_token: int, width: int) -> dict[str, int]:
    return {
        "num_experts": count,
        "num_experts_per_tok": each_token,
        "moe_intermediate_size": width,
        "shared_expert_intermediate_size": width,
    }


_35B = _hybrid("qwen3_5_moe_text", (40, 2048, 512, 16, 2, 248320, 262144), 32, **_experts(256, 8, 512))
_27B = _hybrid("qwen3_5_text", (64, 5120, 17408, 24, 4, 248320, 262144), 48)
_NEXT = _hybrid("qwen3_next", (48, 2048, 5120, 16, 2, 151936, 262144), 32, **_experts(512, 10, 512))["text_config"]

MODELS = {
    "Qwen1.5-7B": KnownModel(plain("qwen2", (32, 4096, 11008, 32, 32, 151936, 32768)), _HUB),
    "Qwen2-7B": KnownModel(plain("qwen2", (28, 3584, 18944, 28, 4, 152064, 32768)), _HUB),
    "Qwen2-72B": KnownModel(plain("qwen2", (80, 8192, 29568, 64, 8, 152064, 32768)), _HUB),
    "Qwen2.5-0.5B": KnownModel(plain("qwen2", (24, 896, 4864, 14, 2, 151936, 32768), tie_word_embeddings=True), _HUB),
    "Qwen2.5-1.5B": KnownModel(plain("qwen2", (28, 1536, 8960, 12, 2, 151936, 131072), tie_word_embeddings=True), _HUB),
    "Qwen2.5-3B": KnownModel(plain("qwen2", (36, 2048, 11008, 16, 2, 151936, 32768), tie_word_embeddings=True), _HUB),
    "Qwen2.5-7B": KnownModel(plain("qwen2", (28, 3584, 18944, 28, 4, 152064, 131072)), _HUB, ("Qwen2.5-Coder-7B",)),
    "Qwen2.5-14B": KnownModel(
        plain("qwen2", (48, 5120, 13824, 40, 8, 152064, 131072)),
        _HUB,
        ("DeepSeek-R1-Distill-Qwen-14B", "Qwen2.5-Coder-14B"),
    ),
    "Qwen2.5-32B": KnownModel(
        plain("qwen2", (64, 5120, 27648, 40, 8, 152064, 131072)),
        _HUB,
        ("DeepSeek-R1-Distill-Qwen-32B", "QwQ-32B", "Qwen2.5-Coder-32B"),
    ),
    "Qwen2.5-72B": KnownModel(plain("qwen2", (80, 8192, 29568, 64, 8, 152064, 131072)), _HUB),
    "Qwen3-0.6B": KnownModel(_dense3((28, 1024, 3072, 16, 8), tied=True), _HUB),
    "Qwen3-1.7B": KnownModel(_dense3((28, 2048, 6144, 16, 8), tied=True), _HUB),
    "Qwen3-4B": KnownModel(_dense3((36, 2560, 9728, 32, 8), tied=True), _HUB),
    "Qwen3-4B-2507": KnownModel(
        _dense3((36, 2560, 9728, 32, 8), tied=True, context=262144),
        _HUB,
        ("Qwen3-4B-Instruct-2507", "Qwen3-4B-Thinking-2507"),
    ),
    "Qwen3-8B": KnownModel(_dense3((36, 4096, 12288, 32, 8)), _HUB),
    "Qwen3-14B": KnownModel(_dense3((40, 5120, 17408, 40, 8)), _HUB),
    "Qwen3-32B": KnownModel(_dense3((64, 5120, 25600, 64, 8)), _HUB),
    "Qwen3-30B-A3B": KnownModel(_mixture3((48, 2048, 6144, 32, 4), (128, 768), 40960), _HUB),
    "Qwen3-30B-A3B-2507": KnownModel(
        _mixture3((48, 2048, 6144, 32, 4), (128, 768), 262144), _HUB, ("Qwen3-Coder-30B-A3B",)
    ),
    "Qwen3-235B-A22B": KnownModel(_mixture3((94, 4096, 12288, 64, 4), (128, 1536), 40960), _HUB),
    "Qwen3-235B-A22B-2507": KnownModel(_mixture3((94, 4096, 12288, 64, 4), (128, 1536), 262144), _HUB),
    "Qwen3-Coder-480B-A35B": KnownModel(_mixture3((62, 6144, 8192, 96, 8), (160, 2560), 262144), _HUB),
    "Qwen3-Next-80B-A3B": KnownModel(_NEXT, _HUB, ("Qwen3-Coder-Next",)),
    "Qwen3.5-9B": KnownModel(
        _hybrid("qwen3_5_text", (32, 4096, 12288, 16, 4, 248320, 262144), 32),
        "public training scripts of miles; linear heads as in its 35B-A3B sibling, from memory",
    ),
    "Qwen3.5-27B": KnownModel(_27B, _HUB, ("Qwen3.6-27B", "Qwen3.8-27B")),
    "Qwen3.5-35B-A3B": KnownModel(_35B, _HUB, ("Qwen3.6-35B-A3B",)),
    "Qwen3.5-397B-A17B": KnownModel(
        _hybrid("qwen3_5_moe_text", (60, 4096, 1024, 32, 2, 248320, 262144), 64, **_experts(512, 10, 1024)), _HUB
    ),
}
