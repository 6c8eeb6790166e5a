"""What a decision wants done to the cluster, as data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelfleet.core.placement.view import Reservation

if TYPE_CHECKING:
    from modelfleet.core.active import Scaling

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
    """DELETE with a uid precondition. `grace_s`: seconds from SIGTERM to SIGKILL, None: what the pod itself says."""

    api_version: str
    kind: str
    name: str
    uid: str
    grace_s: int | None = None


@dataclass(frozen=True)
class Lift:
    """JSON merge patch on a pod that waits for our gate: it pins the pod to a node and takes the gate away, in one
    write. It names the uid and the resourceVersion that were read, so that it changes no other pod and no newer one.
    `leads`: the pod is its replica's leader, which goes after the others of it."""

    name: str
    patch: Manifest
    leads: bool = True


@dataclass(frozen=True)
class Forget:
    """Takes a dead activator's entry out of status.demand: an apply of nothing in its name, because each owns its own.
    It names the resourceVersion that was read, so that an entry that was written since stays."""

    activator: str
    manifest: Manifest


@dataclass(frozen=True)
class Note:
    """Writes down what was measured, for later plans: creates the object, or applies it where one of ours was read with
    this `uid`. Nothing waits for it: what cannot be written is logged, and tried again at the next look."""

    manifest: Manifest
    uid: str = ""


Effect = Create | Apply | Delete | Lift | Forget | Note


@dataclass(frozen=True)
class Event:
    """An event on the user's object, made only when a decision changed. `reason` is an enum's value."""

    type: str  # Normal or Warning
    reason: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """Everything a reconcile decided: effects in order, the whole status, events, and when to look again.

    `reservations` is all room that this decision counts on and whose pods may not be seen to hold it yet; they replace
    those of the decision before. `waits_for_room`: a group found no room, so look again when there is more. `scaling`
    is the decision about the number of replicas, for the next world to go on from (`World.scaling`); None without one.
    """

    effects: tuple[Effect, ...]
    status: Mapping[str, Any]
    events: tuple[Event, ...] = ()
    wake_after_s: float | None = None
    reservations: tuple[Reservation, ...] = ()
    waits_for_room: bool = False
    scaling: Scaling | None = None
