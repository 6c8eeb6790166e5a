"""What a model is made of, read where its weights are, small enough for a termination message. Reads files.

The parts of config.json that say sizes, the checkpoint's bytes and how many tensors it stores in which type.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from modelfleet.api import config_keys
from modelfleet_worker.failure import LIMIT_BYTES, Failure, Reason
from modelfleet_worker.preflight import check_model
from modelfleet_worker.safetensors import read_header

_MANY_NAMES = 9
"""Modules that are listed one by one: so many of them say that a whole kind of layer stays 16 bit."""


def inspect(folder: Path) -> str | Failure:
    """The report as JSON of at most LIMIT_BYTES bytes, or why there is none."""
    failure = check_model(folder)
    if failure is not None:
        return failure
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if not isinstance(config, dict):
        return _refused(path, "is not a JSON object")
    try:
        return written(
            {"config": sizes(config), **checkpoint(map(read_header, sorted(folder.glob("*.safetensors"))))}, path
        )
    except (OSError, ValueError) as error:
        return _refused(folder, f"has weights that cannot be read: {error}")


def written(report: Mapping[str, Any], path: object) -> str | Failure:
    """The report as JSON, or that it is too long; `path` is whose sizes it says."""
    try:
        text = json.dumps({"model": report}, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return _refused(path, "says a size that is not a number")
    if len(text.encode()) > LIMIT_BYTES:
        return _refused(path, f"says its sizes in more than {LIMIT_BYTES} bytes; write spec.model.facts instead")
    return text


def sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a config.json that say sizes."""
    kept: dict[str, Any] = {key: config[key] for key in sorted(config_keys.SIZES & config.keys())}
    for key in sorted(config_keys.PARTS & config.keys()):
        part = config[key]
        kept[key] = sizes(part) if isinstance(part, Mapping) else part
    for key in sorted(config_keys.QUANTIZATION & config.keys()):
        part = config[key]
        kept[key] = _storage(part) if isinstance(part, Mapping) else part
    return {key: value for key, value in kept.items() if value is not None}


def _storage(part: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {key: part[key] for key in sorted(config_keys.STORAGE & part.keys())}
    for key in sorted(config_keys.STORAGE_PARTS & part.keys()):
        inner = part[key]
        if key == "config_groups" and isinstance(inner, Mapping):
            kept[key] = {name: _storage(group) for name, group in inner.items() if isinstance(group, Mapping)}
        else:
            kept[key] = _storage(inner) if isinstance(inner, Mapping) else inner
    for key in sorted(config_keys.KEPT_WIDE & part.keys()):
        kept[key] = _kept_wide(part[key])
    return kept


def _kept_wide(names: Any) -> Any:
    """Of a list of modules what counts: patterns for attention, else the first few of its layers."""
    if not isinstance(names, list):
        return names
    attention = [name for name in names if isinstance(name, str) and ("self_attn" in name or "attention" in name)]
    patterns = [name for name in attention if "*" in name]
    return patterns[:_MANY_NAMES] or attention[:_MANY_NAMES]


def checkpoint(headers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Bytes of all tensors and their number by type, from the headers of the safetensors files; empty without such."""
    count: Counter[str] = Counter()
    size = 0
    for header in headers:
        for name, tensor in header.items():
            if name != "__metadata__":
                count[str(tensor["dtype"])] += 1
                size += int(tensor["data_offsets"][1]) - int(tensor["data_offsets"][0])
    return {"checkpointBytes": size, "dtypes": dict(count.most_common(8))} if size else {}


def _refused(path: object, why: str) -> Failure:
    return Failure(
        reason=Reason.MODEL_REFUSED,
        message=f"{path} {why}.",
        remedy="Copy the model's folder again, or write spec.model.facts.",
    )
