"""Who may lead, decided from a Lease's record, our own identity and our own monotonic clock. Pure.

No clock of another machine is believed: a record's times are compared, never read. The scheme is that of client-go's
leaderelection; where it departs from that, the tables say why.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds; the defaults are those of Kubernetes' own components.

    `duration_s`: a record that did not change for so long is expired. `deadline_s`: a leader that could not renew for
    so long gives up; what lies between the two is its time to end. `retry_s`: between two attempts. `attempt_s`: the
    longest attempt.
    """

    duration_s: float = 15.0
    deadline_s: float = 10.0
    retry_s: float = 2.0
    attempt_s: float = 5.0


@dataclass(frozen=True)
class Record:
    """A Lease's spec. `holder` "" is nobody; `duration_s` 0 is not said."""

    holder: str = ""
    duration_s: int = 0
    transitions: int = 0
    acquired: str = ""
    renewed: str = ""


@dataclass(frozen=True)
class Sight:
    """What is known of the Lease: the last record that was seen, and since when it has not been seen to change.

    `exists` is False when the Lease is not there (any more); then `record` is what it last said.
    """

    record: Record
    since_s: float
    exists: bool = True


@dataclass(frozen=True)
class Held:
    """This process leads; `renewed_s` is when the request was sent that last renewed the Lease."""

    renewed_s: float


class Step(StrEnum):
    """What to do about the Lease now."""

    CREATE = "Create"
    TAKE = "Take"
    RENEW = "Renew"
    WAIT = "Wait"


@dataclass(frozen=True)
class Decision:
    """A step and its reason; `expires_s`: when a WAIT can be over at the earliest."""

    step: Step
    reason: str
    expires_s: float | None = None


def see(before: Sight | None, record: Record | None, now_s: float) -> Sight:
    """What is known after a read that gave `record` (None: there is no Lease)."""
    if record is None:
        return Sight(Record(), now_s, exists=False) if before is None else Sight(before.record, before.since_s, False)
    if before is not None and before.record == record:
        return Sight(record, before.since_s)
    return Sight(record, now_s)


def decide(sight: Sight, identity: str, now_s: float, timing: Timing) -> Decision:
    """The next step towards leading or to go on leading.

    | holder last seen | unexpired | the Lease is there | it is gone |
    | --- | --- | --- | --- |
    | this process | | Renew (also where our own write was stored and its answer lost) | Create |
    | nobody | | Take | Create |
    | another | no | Take | Create |
    | another | yes | Wait | Wait: it leads until then (client-go would create at once, and two would lead) |
    """
    record = sight.record
    expires_s = sight.since_s + (record.duration_s or timing.duration_s)
    if record.holder not in ("", identity) and now_s < expires_s:
        return Decision(Step.WAIT, f"{record.holder} leads", expires_s)
    if not sight.exists:
        return Decision(Step.CREATE, "there is no Lease")
    if record.holder == identity:
        return Decision(Step.RENEW, "this process leads")
    if not record.holder:
        return Decision(Step.TAKE, "nobody leads")
    return Decision(Step.TAKE, f"{record.holder} did not renew for {now_s - sight.since_s:.0f} s")


def decide_loss(held: Held, sight: Sight, identity: str, now_s: float, timing: Timing) -> str | None:
    """Why a leader no longer leads; None: it does.

    | the Lease names | last renewed | still leads |
    | --- | --- | --- |
    | this process, or it is gone | before the deadline | yes |
    | this process, or it is gone | at the deadline or later | no |
    | another, or nobody (taken from us by hand) | | no |
    """
    if sight.record.holder != identity:
        return f"it is held by {sight.record.holder}" if sight.record.holder else "somebody took it away by hand"
    if now_s - held.renewed_s >= timing.deadline_s:
        return f"it could not be renewed for {now_s - held.renewed_s:.0f} s"
    return None


def write_left_s(held: Held | None, now_s: float, timing: Timing) -> float:
    """For how long this process may still write. It counts from before the renewal was sent, so that it ends first."""
    return 0.0 if held is None else held.renewed_s + timing.duration_s - now_s


def record_for(sight: Sight, identity: str, at: datetime, timing: Timing) -> Record:
    """What the Lease says when this process has taken or renewed it. A change of holder is a transition."""
    old, now = sight.record, _micro_time(at)
    duration_s = int(timing.duration_s)
    if old.holder == identity:
        return Record(identity, duration_s, old.transitions, old.acquired, now)
    first = not sight.exists and old == Record()
    return Record(identity, duration_s, 0 if first else old.transitions + 1, now, now)


def released(sight: Sight, at: datetime) -> Record:
    """What the Lease says when its holder has given it up (as client-go: nobody's, for one second)."""
    now = _micro_time(at)
    return Record("", 1, sight.record.transitions, now, now)


def spec_of(record: Record) -> dict[str, Any]:
    """The spec of a coordination.k8s.io/v1 Lease."""
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_s,
        "leaseTransitions": record.transitions,
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
    }


def read(spec: Mapping[str, Any] | None) -> Record:
    """The record of a Lease's spec; whatever is absent reads as nobody, not said, none."""
    spec = spec or {}
    return Record(
        spec.get("holderIdentity") or "",
        spec.get("leaseDurationSeconds") or 0,
        spec.get("leaseTransitions") or 0,
        spec.get("acquireTime") or "",
        spec.get("renewTime") or "",
    )


def _micro_time(at: datetime) -> str:
    """A MicroTime: RFC 3339 in UTC with six digits, as client-go writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
