"""Google, Mistral, OpenAI, Microsoft and BigScience. Sources: the config.json of each repository."""

from typing import Any

from modelfleet.core.model.known.entry import MXFP4_EXPERTS, KnownModel, plain

_HUB = "config.json on huggingface.co"
_SIGLIP = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "image_size": 896,
}
_GEMMA4_VISION = {
    "model_type": "gemma4_vision",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "patch_size": 16,
    "position_embedding_size": 10240,
}
_PIXTRAL = {
    "model_type": "pixtral",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "patch_size": 16,
}


def _gemma(model_type: str, sizes: tuple[int, ...], **more: Any) -> dict[str, Any]:
    return plain(model_type, sizes, **{"head_dim": 256, **more})


def _gemma3(sizes: tuple[int, ...], head_dim: int) -> dict[str, Any]:
    text = _gemma("gemma3_text", (*sizes, 262208, 131072), head_dim=head_dim, sliding_window=1024)
    return {"model_type": "gemma3", "text_config": text, "vision_config": _SIGLIP}


def _gemma4(sizes: tuple[int, ...], global_kv_heads: int, **more: Any) -> dict[str, Any]:
    text = _gemma(
        "gemma4_text",
        (*sizes, 262144, 262144),
        global_head_dim=512,
        num_global_key_value_heads=global_kv_heads,
        attention_k_eq_v=True,
        sliding_window=1024,
        **more,
    )
    return {"model_type": "gemma4", "text_config": text, "vision_config": _GEMMA4_VISION}


def _gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    return plain(
        "gpt_oss",
        (layers, 2880, 2880, 64, 8, 201088, 131072),
        head_dim=64,
        sliding_window=128,
        num_local_experts=experts,
        num_experts_per_tok=4,
        quantization_config=MXFP4_EXPERTS,
    )


def _mixtral(sizes: tuple[int, ...]) -> dict[str, Any]:
    return plain("mixtral", sizes, num_local_experts=8, num_experts_per_tok=2)


_SMALL = plain("mistral", (40, 5120, 32768, 32, 8, 131072, 131072), head_dim=128)
_NEMO = plain("mistral", (40, 5120, 14336, 32, 8, 131072, 131072), head_dim=128)

MODELS = {
    "gemma-2b": KnownModel(_gemma("gemma", (18, 2048, 16384, 8, 1, 256000, 8192)), _HUB),
    "gemma-7b": KnownModel(_gemma("gemma", (28, 3072, 24576, 16, 16, 256000, 8192)), _HUB),
    "gemma-2-2b": KnownModel(_gemma("gemma2", (26, 2304, 9216, 8, 4, 256000, 8192), sliding_window=4096), _HUB),
    "gemma-2-9b": KnownModel(_gemma("gemma2", (42, 3584, 14336, 16, 8, 256000, 8192), sliding_window=4096), _HUB),
    "gemma-2-27b": KnownModel(
        _gemma("gemma2", (46, 4608, 36864, 32, 16, 256000, 8192), head_dim=128, sliding_window=4096), _HUB
    ),
    "gemma-3-1b": KnownModel(_gemma("gemma3_text", (26, 1152, 6912, 4, 1, 262144, 32768), sliding_window=512), _HUB),
    "gemma-3-4b": KnownModel(_gemma3((34, 2560, 10240, 8, 4), 256), _HUB),
    "gemma-3-12b": KnownModel(_gemma3((48, 3840, 15360, 16, 8), 256), _HUB),
    "gemma-3-27b": KnownModel(_gemma3((62, 5376, 21504, 32, 16), 128), _HUB),
    "gemma-4-26B-A4B": KnownModel(
        _gemma4(
            (30, 2816, 2112, 16, 8),
            2,
            enable_moe_block=True,
            num_experts=128,
            top_k_experts=8,
            moe_intermediate_size=704,
        ),
        _HUB,
    ),
    "gemma-4-31B": KnownModel(_gemma4((60, 5376, 21504, 32, 16), 4), _HUB),
    "Mistral-7B-v0.1": KnownModel(plain("mistral", (32, 4096, 14336, 32, 8, 32000, 32768), sliding_window=4096), _HUB),
    "Mistral-7B-v0.2": KnownModel(plain("mistral", (32, 4096, 14336, 32, 8, 32000, 32768)), _HUB, ("Mistral-7B",)),
    "Mistral-7B-v0.3": KnownModel(plain("mistral", (32, 4096, 14336, 32, 8, 32768, 32768)), _HUB),
    "Mistral-Nemo-2407": KnownModel(_NEMO, _HUB, ("Mistral-Nemo",)),
    "Pixtral-12B-2409": KnownModel(
        {"model_type": "llava", "text_config": _NEMO, "vision_config": _PIXTRAL}, _HUB, ("Pixtral-12B",)
    ),
    "Mistral-Small-24B-2501": KnownModel(
        {**_SMALL, "max_position_embeddings": 32768}, _HUB, ("Mistral-Small-24B", "Mistral-Small-3-24B")
    ),
    "Mistral-Small-3.2-24B": KnownModel(
        {"model_type": "mistral3", "text_config": _SMALL, "vision_config": {**_PIXTRAL, "patch_size": 14}},
        _HUB,
        ("Mistral-Small-3.1-24B",),
    ),
    "Ministral-3-14B": KnownModel(
        {
            "model_type": "mistral3",
            "text_config": plain("mistral", (40, 5120, 16384, 32, 8, 131072, 262144), head_dim=128),
            "vision_config": {**_PIXTRAL, "patch_size": 14},
        },
        "from memory; a reported KV cache (686,320 tokens in 52.36 GiB under tp2) confirms layers and KV heads",
    ),
    "Mistral-Large-2407": KnownModel(
        plain("mistral", (88, 12288, 28672, 96, 8, 32768, 131072), head_dim=128), _HUB, ("Mistral-Large-2411",)
    ),
    "Mixtral-8x7B-v0.1": KnownModel(_mixtral((32, 4096, 14336, 32, 8, 32000, 32768)), _HUB, ("Mixtral-8x7B",)),
    "Mixtral-8x22B-v0.1": KnownModel(_mixtral((56, 6144, 16384, 48, 8, 32000, 65536)), _HUB, ("Mixtral-8x22B",)),
    "gpt-oss-20b": KnownModel(_gpt_oss(24, 32), _HUB),
    "gpt-oss-120b": KnownModel(_gpt_oss(36, 128), _HUB),
    "phi-4": KnownModel(plain("phi3", (40, 5120, 17920, 40, 10, 100352, 16384)), _HUB),
    "Phi-4-mini": KnownModel(plain("phi3", (32, 3072, 8192, 24, 8, 200064, 131072), tie_word_embeddings=True), _HUB),
    "Nemotron-3-Nano-30B-A3B": KnownModel(
        plain(
            "nemotron_h",
            (52, 2688, 1856, 32, 2, 131072, 262144),
            head_dim=128,
            hybrid_override_pattern="MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
            mamba_num_heads=64,
            mamba_head_dim=64,
            n_groups=8,
            ssm_state_size=128,
            conv_kernel=4,
            n_routed_experts=128,
            num_experts_per_tok=6,
            moe_intermediate_size=1856,
            moe_shared_expert_intermediate_size=3712,
        ),
        _HUB,
        ("NVIDIA-Nemotron-3-Nano-30B-A3B",),
    ),
    "internlm2-20b": KnownModel(plain("internlm2", (48, 6144, 16384, 48, 8, 92544, 32768)), _HUB),
    "SmolLM3-3B": KnownModel(plain("smollm3", (36, 2048, 11008, 16, 4, 128256, 65536)), _HUB),
    "Seed-OSS-36B": KnownModel(plain("seed_oss", (64, 5120, 27648, 80, 8, 155136, 524288), head_dim=128), _HUB),
    "OLMo-2-7B": KnownModel(plain("olmo2", (32, 4096, 11008, 32, 32, 100352, 4096)), _HUB, ("OLMo-2-1124-7B",)),
    "c4ai-command-r-v01": KnownModel(
        plain("cohere", (40, 8192, 22528, 64, 64, 256000, 131072), dtype="float16"), _HUB, ("command-r",)
    ),
    "starcoder2-3b": KnownModel(plain("starcoder2", (30, 3072, 12288, 24, 2, 49152, 16384), sliding_window=4096), _HUB),
    "starcoder2-15b": KnownModel(
        plain("starcoder2", (40, 6144, 24576, 48, 4, 49152, 16384), sliding_window=4096, tie_word_embeddings=False),
        _HUB,
    ),
    "bloom": KnownModel(
        {
            "model_type": "bloom",
            "n_layer": 70,
            "hidden_size": 14336,
            "num_attention_heads": 112,
            "vocab_size": 250880,
            "seq_length": 2048,
        },
        _HUB,
        ("bloom-176b",),
    ),
}
