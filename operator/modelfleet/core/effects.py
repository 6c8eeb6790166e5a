"""What a decision wants done to the cluster, as data. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Create:
    """POST a child under its deterministic name; a 409 means: look at the owner at the next reconcile."""

    manifest: Manifest


@dataclass(frozen=True)
class Apply:
    """Server-side apply (forced) on a child that was read and is ours; `uid` is the one that was read."""

    manifest: Manifest
    uid: str


@dataclass(frozen=True)
class Delete:
    """DELETE with a uid precondition."""

    api_version: str
    kind: str
    name: str
    uid: str


Effect = Create | Apply | Delete


@dataclass(frozen=True)
class Event:
    """An event on the user's object, made only when a decision changed. `reason` is an enum's value."""

    type: str  # Normal or Warning
    reason: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """Everything a reconcile decided: effects in order, the whole status, events, and when to look again."""

    effects: tuple[Effect, ...]
    status: Mapping[str, Any]
    events: tuple[Event, ...] = ()
    wake_after_s: float | None = None
