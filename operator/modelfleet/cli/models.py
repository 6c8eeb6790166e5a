"""The model that a user names: a config.json, a folder with one, or a name that the planner knows."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from modelfleet.cli.fields import clipped
from modelfleet.cli.yaml_io import UnreadableError, json_value
from modelfleet.core.model.config import ConfigError, read_config
from modelfleet.core.model.facts import ModelFacts
from modelfleet.core.model.known import known, nearest

_CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_LARGEST_BYTES = 64 << 20


class ModelError(ValueError):
    """A model whose facts cannot be had; the message is a sentence for the user."""


def lookup(beside: Path | None = None) -> Callable[[str], ModelFacts]:
    """A function from what a user wrote to the model's facts, which reads each file once.

    Paths are relative to the working folder or, if nothing is there, to the folder `beside`. It raises ModelError.
    """
    return lru_cache(maxsize=1024)(lambda text: model_facts(text, beside))


def model_facts(text: str, beside: Path | None = None) -> ModelFacts:
    """The facts of a config.json (the file or its folder), or of a model that is known by name. Raises ModelError."""
    path = _config_path(Path(text)) or (_config_path(beside / text) if beside else None)
    if path is not None:
        return _read(path, text)
    facts = known(text)
    if facts is not None:
        return facts
    if text.endswith(".json") or text.startswith((".", "/", "~")):
        raise ModelError(f"{clipped(text, 200)}: there is no such file; write the path of a {_CONFIG} or of its folder")
    near = nearest(text)
    hint = f"did you mean {' or '.join(near)}? Else give" if near else "give"
    raise ModelError(f"{clipped(text)} is not a model known by name; {hint} the path of its {_CONFIG}")


def _config_path(path: Path) -> Path | None:
    try:
        if path.is_dir():
            path = path / _CONFIG
        return path if path.is_file() else None
    except (OSError, ValueError):  # a name that no file can have
        return None


def _read(path: Path, source: str) -> ModelFacts:
    config = json_file(path, clipped(source, 200))
    index = None
    if path.name == _CONFIG and path.with_name(_INDEX).is_file():
        index = json_file(path.with_name(_INDEX), clipped(str(path.with_name(_INDEX)), 200))
    name = path.resolve().parent.name if path.name == _CONFIG else path.stem
    try:
        return read_config(config, name=name, source=source, index=index)
    except ConfigError as error:
        raise ModelError(str(error)) from error


def json_file(path: Path, shown: str) -> dict[str, Any]:
    """The JSON object in a file. Raises ModelError."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ModelError(f"{shown}: it is larger than {_LARGEST_BYTES >> 20} MiB; this is no {_CONFIG}")
        content = json_value(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{shown}: {(error.strerror or str(error)).lower()}") from error
    except UnreadableError as error:
        raise ModelError(f"{shown}: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{shown}: it is not a JSON object, as a {_CONFIG} is")
    return content
