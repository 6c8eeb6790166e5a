"""What the worker says of a model's folder, in a termination message's 4096 bytes."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from modelfleet.core.described import inspected
from modelfleet.core.model.config import read_config
from modelfleet_worker.failure import LIMIT_BYTES, Failure
from modelfleet_worker.inspect import inspect, sizes
from modelfleet_worker.main import main

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 256,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
NOISE = {"bos_token_id": 1, "auto_map": {"AutoModel": "modeling.X"}, "id2label": {str(i): "x" * 30 for i in range(500)}}
WINDOWS = {"layer_types": ["sliding_attention", "full_attention"] * 60, "sliding_window": 4096}
GPTQ = {"quantization_config": {"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*mlp.*": {}}}}
COMPRESSED = {
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "observer": "x"}}
        },
        "ignore": ["lm_head", *(f"model.layers.{i}.self_attn.q_proj" for i in range(400))],
    }
}
PARTS = {
    "model_type": "gemma3",
    "architectures": ["Gemma3ForConditionalGeneration"],
    "text_config": {**LLAMA, "model_type": "gemma3_text", "sliding_window": 1024, "unheard": [1] * 900},
    "vision_config": {"hidden_size": 64, "num_hidden_layers": 2, "image_size": 28, "patch_size": 14, "x": "y" * 4000},
}


def folder(tmp_path: Path, config: Any, **tensors: tuple[str, int]) -> Path:
    """A model's folder; each of `tensors` is a type and bytes."""
    (tmp_path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    if tensors:
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        start = 0
        for name, (kind, size) in tensors.items():
            header[name] = {"dtype": kind, "shape": [size], "data_offsets": [start, start + size]}
            start += size
        text = json.dumps(header).encode()
        (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(start))
    return tmp_path


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(LLAMA | NOISE, id="much that says no size"),
        pytest.param(LLAMA | WINDOWS | {"model_type": "qwen3", "num_hidden_layers": 120}, id="many layers by kind"),
        pytest.param(LLAMA | GPTQ, id="gptq"),
        pytest.param(LLAMA | COMPRESSED, id="compressed tensors with hundreds of modules kept wide"),
        pytest.param(PARTS | NOISE, id="a text part and a vision part"),
    ],
)
def test_the_facts_are_those_of_the_whole_config(tmp_path: Path, config: dict[str, Any]) -> None:
    text = inspect(folder(tmp_path, config))
    assert isinstance(text, str)
    assert len(text.encode()) <= LIMIT_BYTES
    report = json.loads(text)["model"]
    whole = read_config(config, name="m", source="Inspected")
    assert inspected(report, "m") == whole


def test_bytes_and_types_come_from_the_headers(tmp_path: Path) -> None:
    text = inspect(folder(tmp_path, LLAMA, a=("BF16", 200), b=("F8_E4M3", 50), c=("BF16", 6)))
    assert isinstance(text, str)
    report = json.loads(text)["model"]
    assert (report["checkpointBytes"], report["dtypes"]) == (256, {"BF16": 2, "F8_E4M3": 1})
    assert inspected(report, "m").checkpoint_bytes == 256


@pytest.mark.parametrize(
    ("config", "reason", "words"),
    [
        pytest.param("{", "ModelRefused", "is not valid JSON", id="half a file"),
        pytest.param("[]", "ModelRefused", "is not a JSON object", id="a list"),
        pytest.param('{"hidden_size": NaN}', "ModelRefused", "a size that is not a number", id="no number"),
        pytest.param("[" * 100_000, "ModelRefused", "nested too deep", id="no bottom"),
        pytest.param(
            LLAMA | {"architectures": ["x" * 5000]}, "ModelRefused", "more than 4096 bytes", id="sizes without end"
        ),
    ],
)
def test_what_cannot_be_reported_is_a_reason(tmp_path: Path, config: Any, reason: str, words: str) -> None:
    failure = inspect(folder(tmp_path, config))
    assert isinstance(failure, Failure)
    assert failure.reason == reason
    assert words in failure.message


def test_a_folder_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    failure = inspect(tmp_path / "nowhere")
    assert isinstance(failure, Failure)
    assert failure.reason == "ModelNotFound"


@pytest.mark.parametrize("junk", [b"", b"\xff" * 8, struct.pack("<Q", 4) + b"{{{{", struct.pack("<Q", 2) + b"[]"])
def test_weights_that_are_no_safetensors_are_a_reason(tmp_path: Path, junk: bytes) -> None:
    (folder(tmp_path, LLAMA) / "model.safetensors").write_bytes(junk)
    failure = inspect(tmp_path)
    assert isinstance(failure, Failure)
    assert "model.safetensors" in failure.message


def test_odd_parts_are_handed_over_to_be_complained_about() -> None:
    assert sizes({"quantization_config": 3, "text_config": "x", "hidden_size": None}) == {
        "quantization_config": 3,
        "text_config": "x",
    }


@pytest.mark.parametrize(("config", "status"), [pytest.param(LLAMA, 0, id="a model"), pytest.param("{", 1, id="none")])
def test_the_command_leaves_its_words_in_the_termination_log(tmp_path: Path, config: Any, status: int) -> None:
    log = tmp_path / "log"
    assert main(["inspect", str(folder(tmp_path, config)), f"--termination-log={log}"]) == status
    words = json.loads(log.read_text())
    assert ("model" in words, "reason" in words) == (not status, bool(status))
