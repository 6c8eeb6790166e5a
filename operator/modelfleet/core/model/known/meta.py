"""Llama in all its generations, and models with Llama's layers. Sources: the config.json of each repository."""

from modelfleet.core.model.known.entry import FP8, FP8_NOT_ATTENTION, KnownModel, plain

_HUB = "config.json on huggingface.co"

_8B = (32, 4096, 14336, 32, 8, 128256)
_70B = (80, 8192, 28672, 64, 8, 128256)
_405B = (126, 16384, 53248, 128, 8, 128256)

_LLAMA4_VISION = {
    "hidden_size": 1408,
    "intermediate_size": 5632,
    "num_hidden_layers": 34,
    "patch_size": 14,
    "image_size": 336,
}


def _llama4(step: int, experts: int, context: int) -> dict[str, object]:
    text = plain(
        "llama4_text",
        (48, 5120, 8192, 40, 8, 202048, context),
        head_dim=128,
        intermediate_size_mlp=16384,
        interleave_moe_layer_step=step,
        num_local_experts=experts,
        num_experts_per_tok=1,
        attention_chunk_size=8192,
    )
    return {
        "model_type": "llama4",
        "architectures": ["Llama4ForConditionalGeneration"],
        "text_config": text,
        "vision_config": _LLAMA4_VISION,
    }


MODELS = {
    "Llama-2-7b-hf": KnownModel(plain("llama", (32, 4096, 11008, 32, 32, 32000, 4096), dtype="float16"), _HUB),
    "Llama-2-13b-hf": KnownModel(plain("llama", (40, 5120, 13824, 40, 40, 32000, 4096), dtype="float16"), _HUB),
    "Llama-2-70b-hf": KnownModel(plain("llama", (80, 8192, 28672, 64, 8, 32000, 4096), dtype="float16"), _HUB),
    "Llama-3-8B": KnownModel(plain("llama", (*_8B, 8192)), _HUB, ("Meta-Llama-3-8B",)),
    "Llama-3-70B": KnownModel(plain("llama", (*_70B, 8192)), _HUB, ("Meta-Llama-3-70B",)),
    "Llama-3.1-8B": KnownModel(plain("llama", (*_8B, 131072)), _HUB, ("DeepSeek-R1-Distill-Llama-8B",)),
    "Llama-3.1-70B": KnownModel(plain("llama", (*_70B, 131072)), _HUB),
    "Llama-3.3-70B": KnownModel(plain("llama", (*_70B, 131072)), _HUB, ("DeepSeek-R1-Distill-Llama-70B",)),
    "Llama-3.1-405B": KnownModel(plain("llama", (*_405B, 131072)), _HUB),
    "Llama-3.1-405B-FP8": KnownModel(
        plain("llama", (*_405B, 131072), quantization_config=FP8_NOT_ATTENTION),
        "config.json of meta-llama/Llama-3.1-405B-FP8: attention stays 16 bit, which weights of 56.8 GiB a GPU "
        "under tp8 confirm (dstackai/benchmarks)",
    ),
    "nvidia/Llama-3.1-405B-Instruct-FP8": KnownModel(plain("llama", (*_405B, 131072), quantization_config=FP8), _HUB),
    "amd/Llama-3.1-405B-Instruct-FP8-KV": KnownModel(plain("llama", (*_405B, 131072), quantization_config=FP8), _HUB),
    "Llama-3.2-1B": KnownModel(
        plain("llama", (16, 2048, 8192, 32, 8, 128256, 131072), head_dim=64, tie_word_embeddings=True), _HUB
    ),
    "Llama-3.2-3B": KnownModel(
        plain("llama", (28, 3072, 8192, 24, 8, 128256, 131072), head_dim=128, tie_word_embeddings=True), _HUB
    ),
    "Llama-4-Scout-17B-16E": KnownModel(_llama4(1, 16, 10485760), _HUB, ("Llama-4-Scout",)),
    "Llama-4-Maverick-17B-128E": KnownModel(_llama4(2, 128, 1048576), _HUB, ("Llama-4-Maverick",)),
    "CodeLlama-34b-hf": KnownModel(plain("llama", (48, 8192, 22016, 64, 8, 32000, 16384)), _HUB),
    "deepseek-coder-6.7b": KnownModel(plain("llama", (32, 4096, 11008, 32, 32, 32256, 16384)), _HUB),
    "Yi-34B": KnownModel(plain("llama", (60, 7168, 20480, 56, 8, 64000, 4096)), _HUB),
    "internlm-20b": KnownModel(plain("internlm", (60, 5120, 13824, 40, 40, 103168, 4096)), _HUB),
    "TinyLlama-1.1B": KnownModel(
        plain("llama", (22, 2048, 5632, 32, 4, 32000, 2048)), _HUB, ("TinyLlama-1.1B-Chat-v1.0",)
    ),
    "SmolLM2-135M": KnownModel(plain("llama", (30, 576, 1536, 9, 3, 49152, 8192), tie_word_embeddings=True), _HUB),
}
