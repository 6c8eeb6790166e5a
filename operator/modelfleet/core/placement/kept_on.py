"""What a node's cache holds, as a pod tells that fetched into it: its termination message. Pure; nothing raises.

Anybody who may write pods of a namespace can say so for it, and moves nothing but a preference of that namespace.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from modelfleet.core import raw
from modelfleet.core.failures import fetch_status, is_fetched

_MOST = 64  # keys of a kind; a worker tells at most 50


@dataclass(frozen=True, slots=True)
class Kept:
    """What one namespace's folder on a node held at one moment: keys of weights, and of plans whose compiled code."""

    at: datetime
    weights: frozenset[str]
    compiled: frozenset[str]


def told_by(pod: Any) -> Kept | None:
    """What the pod's fetch found when it was done; None where it says nothing."""
    ended = raw.mapping(fetch_status(pod), "state", "terminated")
    at, text = raw.instant(ended, "finishedAt"), raw.text(ended, "message")
    if at is None or not text or not is_fetched(pod):
        return None
    listed = _listed(text)
    return Kept(at, *listed) if listed is not None else None


@lru_cache(maxsize=4096)
def _listed(text: str) -> tuple[frozenset[str], frozenset[str]] | None:
    """Pods of one node repeat each other, and each event of a pod repeats its message."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or not isinstance(told.get("weights"), list):
        return None
    return _keys(told["weights"]), _keys(told.get("compiled"))


def _keys(value: Any) -> frozenset[str]:
    return frozenset(str(each)[:64] for each in value[:_MOST]) if isinstance(value, list) else frozenset()
