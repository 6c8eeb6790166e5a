"""What a shared folder holds now, for the operator: it places replicas where their weights are. Does I/O.

It stands in the termination message of the container that fetched, which is all that the operator reads of a node.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from modelfleet_worker.failure import LIMIT_BYTES
from modelfleet_worker.fetch.store import MANIFEST, Store
from modelfleet_worker.json_fields import parsed

_KEY_CHARACTERS = 32
_MOST = 50  # keys of each kind; with their quotes they fit the message
COMPILED = "compiled"
"""The folder, inside the one for weights, where compiled code is kept as models are."""


def kept(root: Path) -> str:
    """The keys of whole models, and the plans' keys of compiled code, those that were used last first; a JSON text that
    fits a termination message. Empty where the folder cannot be read."""
    try:
        told = {"weights": _newest(Store(root)), "compiled": list(_plan_keys(Store(root / COMPILED)))}
    except OSError:
        return ""
    text = json.dumps(told, separators=(",", ":"))
    return text if len(text) <= LIMIT_BYTES else ""


def _newest(store: Store) -> list[str]:
    folder = store.root / "models"
    keys = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    return sorted(keys, key=store.last_used, reverse=True)[:_MOST]


def _plan_keys(store: Store) -> Iterator[str]:
    for key in _newest(store):
        try:
            manifest = parsed((store.model(key) / MANIFEST).read_text(), MANIFEST, ValueError)
        except (OSError, ValueError):
            continue
        if isinstance(manifest, dict) and isinstance(manifest.get("planKey"), str):
            yield manifest["planKey"][:_KEY_CHARACTERS]
