"""The tiny model with a vocabulary so large that the logits of a prompt are: a copy with rows of zeros added."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

ROWS = 65_536
_GROWN = ("model.embed_tokens.weight", "lm_head.weight")


def with_large_vocabulary(model: Path, folder: Path) -> Path:
    """Writes the copy of `model` into `folder`."""
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text())
    rows = config["vocab_size"]
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": ROWS}))
    raw = (model / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, body = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    (folder / "model.safetensors").write_bytes(_grown(header, body, rows))
    return folder


def _grown(header: dict[str, Any], body: bytes, rows: int) -> bytes:
    parts, at = [], 0
    told: dict[str, Any] = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        data, shape = body[begin:end], list(tensor["shape"])
        if name in _GROWN:
            assert shape[0] == rows
            data += bytes((ROWS - rows) * len(data) // rows)
            shape[0] = ROWS
        assert len(data) == 2 * math.prod(shape), "the tiny model is bfloat16"
        told[name] = {"dtype": tensor["dtype"], "shape": shape, "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(told).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
