"""What is remembered between decisions about replicas, and how it is kept in NAME-state. Pure.

In the process it is kept by key; in NAME-state it is written when the number changes, and else now and again. A process
that starts goes on from there, and never below what had been decided. Losing it costs what was learned.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import Any

from pydantic import TypeAdapter, ValidationError

from modelfleet.api.reasons import ScalingReason
from modelfleet.core import raw
from modelfleet.core.scaling import ledger as books
from modelfleet.core.scaling.ledger import CHANGES, Ledger
from modelfleet.core.scaling.observed import Cursors, Tally
from modelfleet.core.scaling.terms import with_start

WRITE_S = 300.0
"""What was learned is written so often while the number and its reason stay; a change of them is written at once."""

LEARN_S = 600.0
"""Without a memory none leaves for so long: what is there was decided by somebody who knew more."""

_SAID = 400  # characters of a change's detail that are kept
_AT_ZERO_SINCE = "atZeroSince"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A decision as it is told: it stands until the number or the bound changes."""

    at: datetime
    before: int
    to: int
    reason: ScalingReason
    detail: str
    bound: str | None = None


class Fault(StrEnum):
    """What is found besides the load, and told once."""

    SLOW_REPLICA = "SlowReplica"
    """One replica, which is replaced."""
    LATE_WITHOUT_LOAD = "LateWithoutLoad"
    """Replicas that are not busy: no further one mends it."""
    YIELDED = "Yielded"
    """Replicas that are left to another model."""
    GRANTED = "Granted"
    """Replicas that another model leaves."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that replicas are not bought for. `about` is the pod's uid, or empty; `at_s` is by the policy's clock;
    `count` says how many of its kind came before it, without a long pause between them."""

    fault: Fault
    about: str
    sentence: str
    at_s: float
    count: int = 0


@dataclass(frozen=True, kw_only=True)
class Kept:
    """`replicas` are decided; `shown` says why; `changes` are the last ones, the newest last. `slow` is the replica
    that is replaced, or was the last time; `late` says that requests are late without a load; `given` and `got` are
    replicas that went to or came from another model. None of the `begun` at the beginning leaves before
    `learns_until_s`, by the policy's clock, because the load was not known. `at_zero_since`: nobody has served since,
    because nobody asked; what that did to the load the policy is not told yet.

    Of this process alone: `rested_s` is how long that was, once a replica serves; `suspect` may be a slow replica,
    looked for at `searched_s`; `broken` are late in most of what they do, the others not; `starting` are replicas whose
    start is watched; `offset_s` takes its clock to the policy's; `looked_s` and `heard_s` are when workers were last
    looked at, and when one last said something;
    `cursors` and `tallies` are what was counted and not yet decided on.
    Of the last decision, for telling: `need`, `load_rps`, `peak_rps`, `margin`, `now` (its sentence), `binding` (the
    objective that binds), `evidence` (ended requests behind the margin).
    """

    replicas: int
    shown: Change | None = None
    changes: tuple[Change, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    starts_s: tuple[float, ...] = ()
    input_mean: float = 0.0
    evidence: int = 0
    begun: int = 0
    learns_until_s: float = 0.0
    at_zero_since: datetime | None = None
    rested_s: float = 0.0
    starting: frozenset[str] = frozenset()
    offset_s: float | None = None
    looked_s: float | None = None
    heard_s: float | None = None
    cursors: Cursors = field(default_factory=dict)
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    suspect: Finding | None = None
    broken: frozenset[str] = frozenset()
    searched_s: float = float("-inf")
    slow: Finding | None = None
    late: Finding | None = None
    given: Finding | None = None
    got: Finding | None = None
    waiting: int = 0
    need: int = 0
    load_rps: float = 0.0
    peak_rps: float = 0.0
    margin: float = 1.0
    binding: str = ""
    now: str = ""

    @property
    def clock_s(self) -> float:
        """The policy's clock at the last decision."""
        return self.ledger.memory.last_s or 0.0

    def at_zero_s(self, now: datetime) -> float:
        """For how long nobody has served because nobody asked; 0 where that is not so."""
        return max(0.0, (now - self.at_zero_since).total_seconds()) if self.at_zero_since is not None else 0.0


def with_starts(known: tuple[float, ...], seen: tuple[float, ...]) -> tuple[float, ...]:
    """The starts remembered after those that were seen."""
    for each in seen:
        known = with_start(known, each)
    return known


def with_change(changes: tuple[Change, ...], change: Change) -> tuple[Change, ...]:
    """The changes remembered after one more."""
    return (*changes, change)[-CHANGES:]


def due(kept: Kept, stored: Mapping[str, Any]) -> bool:
    """Whether it is to be written."""
    if not stored or raw.integer(stored, "replicas", default=-1) != kept.replicas:
        return True
    if _found(kept) != _said(stored) or (kept.at_zero_since is None) != (_AT_ZERO_SINCE not in stored):
        return True
    clock = stored.get("clock_s")
    told = raw.text(stored, "shown", "reason") == (kept.shown.reason if kept.shown else "")
    return not told or not isinstance(clock, int | float) or not 0 <= kept.clock_s - clock < WRITE_S


def new_findings(kept: Kept, stored: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Those that are not told yet: what is stored was told."""
    told = _said(stored)
    return tuple(each for each in _findings(kept) if (each.fault, each.about) not in told)


def _findings(kept: Kept) -> tuple[Finding, ...]:
    return tuple(filter(None, (kept.slow, kept.late, kept.given, kept.got)))


def _found(kept: Kept) -> set[tuple[str, str]]:
    return {(str(each.fault), each.about) for each in _findings(kept)}


def _said(stored: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(raw.text(each, "fault"), raw.text(each, "about")) for each in raw.items(stored, "findings")}


def dumped(kept: Kept) -> dict[str, Any]:
    """What NAME-state holds."""
    return {
        "replicas": kept.replicas,
        "clock_s": round(kept.clock_s, 3),
        "starts_s": list(kept.starts_s),
        "inputMean": round(kept.input_mean, 1),
        "evidence": kept.evidence,
        "begun": kept.begun,
        "learnsUntil_s": round(kept.learns_until_s, 3),
        **({_AT_ZERO_SINCE: kept.at_zero_since.isoformat()} if kept.at_zero_since is not None else {}),
        "shown": _of_change(kept.shown) if kept.shown else None,
        "findings": [_FINDING.dump_python(each, mode="json") for each in _findings(kept)],
        "changes": [_of_change(each) for each in kept.changes],
        "ledger": books.dumped(kept.ledger),
    }


def disowned(stored: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What NAME-state is to hold while somebody else decides: what was learned, without a number. None: it does."""
    if "replicas" not in stored:
        return None
    return {key: value for key, value in stored.items() if key not in ("replicas", "shown")}


def loaded(stored: Mapping[str, Any], standing: int) -> Kept | None:
    """What a process goes on from; None where nothing is stored. `standing` replicas are there, for where somebody else
    has decided since: then no number is stored, and those needed before do not count."""
    if not stored:
        return None
    replicas = raw.integer(stored, "replicas", default=-1)
    ledger = books.loaded(raw.mapping(stored, "ledger"))
    starts: tuple[float, ...] = ()
    listed = stored.get("starts_s")
    for each in listed if isinstance(listed, list) else ():
        seconds = _number(each)
        if seconds is not None:
            starts = with_start(starts, seconds)
    mean, until_s = _number(stored.get("inputMean")), _number(stored.get("learnsUntil_s"))
    clock_s = (ledger.memory.last_s or 0.0) if ledger else 0.0
    learns_until_s = min(until_s, clock_s + LEARN_S) if until_s is not None else LEARN_S
    lost = replicas < 0 or ledger is None
    if lost:
        ledger = (
            Ledger(memory=replace(ledger.memory, needs=()), base=replace(ledger.memory, needs=())) if ledger else None
        )
        learns_until_s = (ledger.memory.last_s or 0.0 if ledger else 0.0) + LEARN_S
    replicas = replicas if replicas >= 0 else standing
    shown = _change(raw.mapping(stored, "shown"))
    return Kept(
        replicas=replicas,
        # What is told is what is done: a number that somebody wrote into the one alone is in no bounds.
        shown=replace(shown, to=replicas) if shown is not None else None,
        changes=tuple(filter(None, map(_change, raw.items(stored, "changes"))))[-CHANGES:],
        ledger=ledger or Ledger(),
        starts_s=starts,
        input_mean=max(0.0, mean or 0.0),
        evidence=max(0, raw.integer(stored, "evidence")) if ledger is not None else 0,
        begun=replicas if lost else raw.integer(stored, "begun", default=replicas),
        learns_until_s=learns_until_s,
        at_zero_since=raw.instant(stored, _AT_ZERO_SINCE),
        slow=_finding(stored, Fault.SLOW_REPLICA, clock_s),
        late=_finding(stored, Fault.LATE_WITHOUT_LOAD, clock_s),
        given=_finding(stored, Fault.YIELDED, clock_s),
        got=_finding(stored, Fault.GRANTED, clock_s),
    )


def _finding(stored: Mapping[str, Any], fault: Fault, clock_s: float) -> Finding | None:
    """One that was found after `clock_s`, the policy's last decision, was found then: the clock was lost."""
    for each in raw.items(stored, "findings"):
        if raw.text(each, "fault") == fault:
            with suppress(ValidationError):
                found = _FINDING.validate_python(each)
                if isfinite(found.at_s) and found.count >= 0:
                    return replace(found, at_s=min(found.at_s, clock_s))
    return None


_FINDING = TypeAdapter(Finding)


def _number(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    return None


def _of_change(change: Change) -> dict[str, Any]:
    return {
        "at": change.at.isoformat(),
        "from": change.before,
        "to": change.to,
        "reason": str(change.reason),
        "detail": change.detail[:_SAID],
        **({"bound": change.bound} if change.bound else {}),
    }


def _change(item: Mapping[str, Any]) -> Change | None:
    at, reason = raw.instant(item, "at"), books.REASONS.get(raw.text(item, "reason"))
    if at is None or reason is None:
        return None
    return Change(
        at=at,
        before=raw.integer(item, "from"),
        to=raw.integer(item, "to"),
        reason=reason,
        detail=raw.text(item, "detail"),
        bound=raw.text(item, "bound") or None,
    )
