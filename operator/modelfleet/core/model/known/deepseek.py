"""DeepSeek, Kimi, GLM and MiniMax: large mixtures, most with a compressed cache. Sources: each config.json."""

from typing import Any

from modelfleet.core.model.known.entry import FP8, INT4_EXPERTS, KnownModel, plain

_HUB = "config.json on huggingface.co"


def _latent(sizes: tuple[int, ...], ranks: tuple[int, ...], experts: tuple[int, ...], **more: Any) -> dict[str, Any]:
    """Sizes: layers, hidden, intermediate, heads, vocabulary, context. Ranks: of queries and keys, plain key
    dimensions, value dimensions. Experts: number, width, shared, each token's, dense layers before them."""
    layers, hidden, intermediate, heads, vocabulary, context = sizes
    query_rank, key_rank, key_dim, value_dim = ranks
    count, width, shared, each_token, dense = experts
    return plain(
        more.pop("model_type", "deepseek_v3"),
        (layers, hidden, intermediate, heads, heads, vocabulary, context),
        q_lora_rank=query_rank,
        kv_lora_rank=key_rank,
        qk_nope_head_dim=key_dim,
        qk_rope_head_dim=64,
        v_head_dim=value_dim,
        n_routed_experts=count,
        moe_intermediate_size=width,
        n_shared_experts=shared,
        num_experts_per_tok=each_token,
        first_k_dense_replace=dense,
        **more,
    )


def _glm4(sizes: tuple[int, ...], experts: tuple[int, ...], **more: Any) -> dict[str, Any]:
    """Experts: number, width, dense layers before them; 8 of them take a token."""
    count, width, dense = experts
    return plain(
        "glm4_moe",
        sizes,
        head_dim=128,
        attention_bias=True,
        n_routed_experts=count,
        moe_intermediate_size=width,
        n_shared_experts=1,
        num_experts_per_tok=8,
        first_k_dense_replace=dense,
        **more,
    )


_V2 = _latent(
    (60, 5120, 12288, 128, 102400, 163840), (1536, 512, 128, 128), (160, 1536, 2, 6, 1), model_type="deepseek_v2"
)
_V2_LITE = _latent(
    (27, 2048, 10944, 16, 102400, 163840), (0, 512, 128, 128), (64, 1408, 2, 6, 1), model_type="deepseek_v2"
)
_V3_SIZES = (61, 7168, 18432, 128, 129280, 163840)
_V3_RANKS = (1536, 512, 128, 128)
_V3_EXPERTS = (256, 2048, 1, 8, 3)
_V3 = _latent(_V3_SIZES, _V3_RANKS, _V3_EXPERTS, quantization_config=FP8)
_V32 = _latent(
    _V3_SIZES,
    _V3_RANKS,
    _V3_EXPERTS,
    model_type="deepseek_v32",
    quantization_config=FP8,
    index_n_heads=64,
    index_head_dim=128,
    index_topk=2048,
)


def _kimi(context: int, scheme: dict[str, Any]) -> dict[str, Any]:
    return _latent(
        (61, 7168, 18432, 64, 163840, context),
        (1536, 512, 128, 128),
        (384, 2048, 1, 8, 1),
        model_type="kimi_k2",
        quantization_config=scheme,
    )


_KIMI_VISION = {"vt_hidden_size": 1152, "vt_intermediate_size": 4304, "vt_num_hidden_layers": 27, "patch_size": 14}


def _glm5(context: int, **more: int) -> dict[str, Any]:
    return _latent(
        (78, 6144, 12288, 64, 154880, context),
        (2048, 512, 192, 256),
        (256, 2048, 1, 8, 3),
        model_type="glm_moe_dsa",
        index_n_heads=32,
        index_head_dim=128,
        index_topk=2048,
        **more,
    )


_GLM45 = (92, 5120, 12288, 96, 8, 151552)
_MINIMAX = plain(
    "minimax_m2",
    (62, 3072, 1536, 48, 8, 200064, 196608),
    head_dim=128,
    num_local_experts=256,
    num_experts_per_tok=8,
    quantization_config=FP8,
)

MODELS = {
    "DeepSeek-V2": KnownModel(_V2, _HUB, ("DeepSeek-V2.5", "DeepSeek-Coder-V2")),
    "DeepSeek-V2-Lite": KnownModel(_V2_LITE, _HUB, ("DeepSeek-Coder-V2-Lite",)),
    "DeepSeek-V3": KnownModel(_V3, _HUB, ("DeepSeek-V3.1",)),
    "DeepSeek-R1": KnownModel(_V3, _HUB),
    "DeepSeek-V3.2": KnownModel(_V32, _HUB, ("DeepSeek-V3.2-Exp",)),
    "Kimi-K2": KnownModel(_kimi(131072, FP8), _HUB, ("Kimi-K2-Instruct",)),
    "Kimi-K2-Instruct-0905": KnownModel(_kimi(262144, FP8), _HUB),
    "Kimi-K2-Thinking": KnownModel(_kimi(262144, INT4_EXPERTS), _HUB),
    "Kimi-K2.5": KnownModel(
        {
            "model_type": "kimi_k25",
            "architectures": ["KimiK25ForConditionalGeneration"],
            "text_config": _kimi(262144, INT4_EXPERTS),
            "vision_config": _KIMI_VISION,
        },
        _HUB,
    ),
    "GLM-4.5": KnownModel(
        _glm4((*_GLM45, 131072), (160, 1536, 3), use_qk_norm=True),
        "public training scripts of slime and code that serves GLM-4.7; the total of parameters confirms them",
    ),
    "GLM-4.5-Air": KnownModel(_glm4((46, 4096, 10944, 96, 8, 151552, 131072), (128, 1408, 1)), _HUB),
    "GLM-4.6": KnownModel(
        _glm4((*_GLM45, 202752), (160, 1536, 3), use_qk_norm=True), "as GLM-4.5, with a longer context", ("GLM-4.7",)
    ),
    "GLM-5": KnownModel(_glm5(202752), _HUB, ("GLM-5.1",)),
    "GLM-5.2": KnownModel(
        _glm5(1048576, index_topk_freq=4, index_skip_topk_offset=3),
        "public code that serves it: 78 layers, hidden 6144, 64 heads of 256, an indexer in layers 0, 1, 2, 6, 10 and "
        "so on; the rest as GLM-5; the context is what hosts offer",
    ),
    "MiniMax-M2": KnownModel(_MINIMAX, _HUB, ("MiniMax-M2.1", "MiniMax-M2.5")),
}
