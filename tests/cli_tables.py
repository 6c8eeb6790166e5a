"""Rows, models and runs that the tests of `modelfleet predict` and `choose` share."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from modelfleet.cli.main import main

DENSE = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
MIXTURE = {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
}

Captured = pytest.CaptureFixture[str]


def model(folder: Path, config: Any = DENSE) -> str:
    """A folder with a config.json; its path."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return str(folder)


def table(path: Path, *rows: dict[str, Any]) -> Path:
    """A CSV file with these rows."""
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def answers(command: str, path: Path | str, *more: str) -> tuple[int, list[dict[str, str]]]:
    """The exit status of a command and the rows that it wrote to a CSV file."""
    output = Path(path).parent / "out.csv"
    status = main([command, "-f", str(path), "-o", str(output), *more])
    if not output.exists():
        return status, []
    with output.open(newline="") as stream:
        return status, list(csv.DictReader(stream))
