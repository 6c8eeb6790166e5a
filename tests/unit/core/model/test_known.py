"""Models known by name: their sizes add up to the published number of parameters, and names are read as people write
them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelfleet.core.model.facts import Attention, Scheme
from modelfleet.core.model.known import KNOWN, known, nearest

# Counts as the model cards or the checkpoints' indexes state them.
PUBLISHED = {
    "Llama-2-7b-hf": 6_738_415_616,
    "Llama-2-13b-hf": 13_015_864_320,
    "Llama-2-70b-hf": 68_976_648_192,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.3-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Yi-34B": 34_388_917_248,
    "CodeLlama-34b-hf": 33_743_970_304,
    "TinyLlama-1.1B": 1_100_048_384,
    "SmolLM2-135M": 134_515_008,
    "Qwen1.5-7B": 7_721_324_544,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-14B": 14_770_033_664,
    "Qwen2.5-32B": 32_763_876_352,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
    "Qwen3-Coder-480B-A35B": 480_154_875_392,
    "DeepSeek-V2": 235_741_434_880,
    "DeepSeek-V2-Lite": 15_706_484_224,
    "DeepSeek-V3": 671_026_419_200,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-27b": 27_432_406_640,
    "gemma-3-4b": 4_300_079_472,
    "Mistral-7B-v0.1": 7_241_732_096,
    "Mistral-7B-v0.3": 7_248_023_552,
    "Mistral-Nemo-2407": 12_247_782_400,
    "Mistral-Small-24B-2501": 23_572_403_200,
    "Mistral-Large-2407": 122_610_069_504,
    "Mixtral-8x7B-v0.1": 46_702_792_704,
    "Mixtral-8x22B-v0.1": 140_620_634_112,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "phi-4": 14_659_507_200,
    "Phi-4-mini": 3_836_021_760,
    "bloom": 176_247_271_424,
    "internlm2-20b": 19_861_149_696,
    "SmolLM3-3B": 3_075_098_624,
    "Seed-OSS-36B": 36_151_104_512,
    "OLMo-2-7B": 7_298_617_344,
    "c4ai-command-r-v01": 34_980_831_232,
    "starcoder2-3b": 3_030_371_328,
    "starcoder2-15b": 15_957_889_024,
}
# Cards that round: billions in all and billions active, held to half a billion or 1.5 %.
ROUNDED = {
    "Qwen3-Next-80B-A3B": (80, 3),
    "Qwen3.5-397B-A17B": (397, 17),
    "Qwen3.5-35B-A3B": (35, 3),
    "Qwen3.5-27B": (27, 27),
    "Qwen3.5-9B": (9, 9),
    "Kimi-K2": (1026, 32),
    "GLM-4.5": (355, 32),
    "GLM-4.5-Air": (106, 12),
    "GLM-5": (744, 40),
    "DeepSeek-V3.2": (671, 37),
    "MiniMax-M2": (230, 10),
    "Llama-4-Scout-17B-16E": (109, 17),
    "Llama-4-Maverick-17B-128E": (400, 17),
    "gemma-4-26B-A4B": (26, 4),
    "gemma-4-31B": (31, 31),
    "Nemotron-3-Nano-30B-A3B": (31.6, 3.6),
}


def _active(name: str) -> int:
    facts = known(name)
    return facts.parameters - sum(
        part.count * (part.parameters - part.active_parameters) for part in facts.feed_forward
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_add_up_to_the_published_parameters_exactly(name):
    assert known(name).parameters == PUBLISHED[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_sizes_add_up_to_a_rounded_card(name):
    billions, active = ROUNDED[name]
    assert known(name).parameters / 1e9 == pytest.approx(billions, rel=0.015, abs=0.5)
    assert _active(name) / 1e9 == pytest.approx(active, rel=0.12, abs=1)  # cards leave embeddings out


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("Llama 3.3 70B", "Llama-3.3-70B"),
        ("LLaMA v3.3 70B", "Llama-3.3-70B"),
        ("llama2-70b", "Llama-2-70b-hf"),
        ("Meta-Llama-3-70B-Instruct", "Llama-3-70B"),
        ("Llama 4 Maverick", "Llama-4-Maverick-17B-128E"),
        ("GPT-OSS 120B", "gpt-oss-120b"),
        ("workspace/DeepSeek-v3.2", "DeepSeek-V3.2"),
        ("Deepseek R1 0528", "DeepSeek-R1"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "Qwen2.5-14B"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "Qwen3-235B-A22B-2507"),
        ("Qwen/Qwen3-235B-A22B-FP8", "Qwen3-235B-A22B"),
        ("moonshotai/Kimi-K2-Instruct", "Kimi-K2"),
        ("zai-org/GLM-4.5-Air-FP8", "GLM-4.5-Air"),
        ("zai-org/GLM-5.2-FP8", "GLM-5.2"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "Mistral-7B-v0.3"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
        ("bloom-176b", "bloom"),
        ("Llama 3.1 405B", "Llama-3.1-405B"),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "Llama-3.1-405B-FP8"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8", "Nemotron-3-Nano-30B-A3B"),
        ("nvidia/Kimi-K2-Thinking-NVFP4", "Kimi-K2-Thinking"),
        ("microsoft/Phi-4-mini-instruct", "Phi-4-mini"),
    ],
)
def test_a_name_as_people_write_it_means_the_model(written, meant):
    found, model = known(written), known(meant)
    assert (found.parameters, found.max_context_tokens) == (model.parameters, model.max_context_tokens)
    assert found.name == written


@pytest.mark.parametrize(
    ("name", "scheme", "attention"),
    [
        pytest.param("Qwen/Qwen3-32B", Scheme.BF16, True, id="no ending is the published checkpoint"),
        pytest.param("Qwen/Qwen3-32B-FP8", Scheme.FP8, True, id="an ending says how it is stored"),
        pytest.param("nvidia/Qwen3-32B-NVFP4", Scheme.NVFP4, True, id="four bits, attention too"),
        pytest.param("nvidia/DeepSeek-R1-NVFP4", Scheme.NVFP4, False, id="four bits, attention left alone"),
        pytest.param("Qwen/Qwen3-14B-AWQ", Scheme.INT4, True, id="awq"),
        pytest.param("unsloth/DeepSeek-R1-BF16", Scheme.BF16, True, id="a checkpoint turned back"),
        pytest.param("moonshotai/Kimi-K2.5", Scheme.INT4, False, id="experts of four bits"),
        pytest.param("openai/gpt-oss-120b", Scheme.MXFP4, False, id="experts of four bits with a shared exponent"),
        pytest.param("meta-llama/Llama-3.1-405B-FP8", Scheme.FP8, False, id="Meta leaves attention alone"),
        pytest.param("nvidia/Llama-3.1-405B-Instruct-FP8", Scheme.FP8, True, id="another vendor does not"),
    ],
)
def test_the_ending_says_how_the_checkpoint_is_stored(name, scheme, attention):
    facts = known(name)
    assert (facts.native, facts.quantized_attention) == (scheme, attention)


@pytest.mark.parametrize("name", ["", "/", "llama", "Llama-3.1-Nemotron-70B", "DeepSeek-V4-Flash", "gpt-oss", "Qwen3"])
def test_an_unknown_or_ambiguous_name_is_nobody(name):
    assert known(name) is None


def test_a_near_name_is_offered():
    assert "Llama-3.1-8B" in nearest("meta-llama/Lama-3.1-8B")
    assert nearest("zzzz") == ()


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_name_is_found_and_says_where_its_sizes_are_public(name):
    facts = known(name)
    assert facts is not None
    assert facts.source.removeprefix("known by name: ")
    looking_back = sum(part.count for part in facts.attention)
    alone = sum(part.count for part in facts.feed_forward)
    assert facts.layers in (looking_back, looking_back + alone)


def test_what_layers_keep_is_told_apart():
    kinds = {name: {part.kind for part in known(name).attention} for name in KNOWN}
    assert kinds["Llama-3.1-8B"] == {Attention.FULL}
    assert kinds["gpt-oss-120b"] == {Attention.FULL, Attention.SLIDING}
    assert kinds["DeepSeek-V3"] == {Attention.LATENT}
    assert kinds["GLM-5"] == {Attention.LATENT_SPARSE}
    assert kinds["Qwen3.5-397B-A17B"] == {Attention.FULL, Attention.LINEAR}


@given(st.text(max_size=40))
def test_any_text_is_a_name_or_none(text):
    facts = known(text)
    assert facts is None or facts.parameters > 0
    assert len(nearest(text)) <= 3
