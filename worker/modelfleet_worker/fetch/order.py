"""What is to be fetched, as the plan says it. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet.api import names
from modelfleet.api.sources import ModelSource


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
    try:
        value = json.loads(text).get("weights") or {}
    except (ValueError, AttributeError) as error:
        raise OrderError(f"plan.json is no JSON object: {error}") from error
    if not isinstance(value, dict) or "source" not in value:
        return None
    try:
        return Order(
            source=ModelSource(value["source"]),
            revision=str(value["revision"]),
            endpoint=str(value.get("endpoint", "")),
            key=_key(value["key"]),
            root=Path(value.get("root", names.WEIGHTS_MOUNT)),
            shared=bool(value.get("shared", False)),
            size_bytes=int(value.get("sizeBytes", 0)),
            max_age_s=float(value.get("maxAge_s", 0)),
            pickled=value.get("pickledWeights") == "Allow",
            code=value.get("remoteCode") == "Allow",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise OrderError(f"plan.json: weights cannot be used: {error}") from error


def credentials(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The keys of the user's Secret."""
    prefix = names.CREDENTIAL_PREFIX
    return {name.removeprefix(prefix): value for name, value in environment.items() if name.startswith(prefix)}


def _key(value: Any) -> str:
    if not isinstance(value, str) or not value.isalnum() or len(value) > 64:
        raise ValueError("key must be letters and digits")
    return value
