"""What is to be fetched, as the plan says it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet.api import names
from modelfleet.api.sources import ModelSource
from modelfleet_worker.json_fields import Reader, parsed, seconds, whole


class OrderError(Exception):
    """plan.json's `weights` cannot be used; the text is a sentence."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """Weights to fetch. `key` names them in a store; equal keys are equal bytes. `shared`: other pods use the store
    too, so there are locks and marks of use; `size_bytes` and `max_age_s` bound it (0: no bound)."""

    source: ModelSource
    revision: str
    endpoint: str
    key: str
    root: Path
    shared: bool
    size_bytes: int = 0
    max_age_s: float = 0.0
    pickled: bool = False
    code: bool = False


def parse_order(text: str) -> Order | None:
    """The order in a plan.json; None where its weights are not fetched. Raises OrderError."""
    root = parsed(text, "plan.json", OrderError)
    if not isinstance(root, dict):
        raise OrderError("plan.json is no JSON object")
    weights = root.get("weights")
    if not isinstance(weights, dict) or "source" not in weights:
        return None
    read = Reader(weights, "plan.json", OrderError, "weights.")
    return Order(
        source=read.field("source", _source),
        revision=read.field("revision", _text),
        endpoint=read.field("endpoint", _text, ""),
        key=read.field("key", _key),
        root=read.field("root", _folder, Path(names.WEIGHTS_MOUNT)),
        shared=read.field("shared", _truth, False),
        size_bytes=read.field("sizeBytes", _size, 0),
        max_age_s=read.field("maxAge_s", seconds, 0.0),
        pickled=weights.get("pickledWeights") == "Allow",
        code=weights.get("remoteCode") == "Allow",
    )


def credentials(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The keys of the user's Secret, without the line break that an editor or `echo` puts behind a value."""
    prefix = names.CREDENTIAL_PREFIX
    found = {name.removeprefix(prefix): value for name, value in environment.items() if name.startswith(prefix)}
    return {name: value.strip("\r\n") for name, value in found.items()}


def _source(value: Any) -> ModelSource:
    source = ModelSource(_text(value))
    if not source.is_fetched:
        raise ValueError("an address that weights are fetched from (hf://, s3:// or oci://)")
    return source


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def _key(value: Any) -> str:
    if not isinstance(value, str) or re.fullmatch("[0-9A-Za-z]{1,64}", value) is None:
        raise ValueError("1 to 64 letters and digits")
    return value


def _folder(value: Any) -> Path:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError("an absolute path")
    return Path(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _size(value: Any) -> int:
    return whole(value, least=0)
