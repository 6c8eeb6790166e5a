"""What `modelfleet explain` says of the number of replicas: the last decision made again from its inputs, what would
change it, and the ledger of decisions, which can be saved and replayed.

All of it is in the ConfigMap NAME-state, which is read through kubectl, as the object is.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet.api import names
from modelfleet.api.reasons import ScalingReason
from modelfleet.cli.plan_text import columns, headed, wrapped
from modelfleet.core import raw
from modelfleet.core.kept import entry
from modelfleet.core.scaling import ledger as books
from modelfleet.core.scaling.ledger import Replayed
from modelfleet.core.scaling.memory import WRITE_S
from modelfleet.core.scaling.policy import BUDGET_S
from modelfleet.core.scaling.scaled import SAFE_AFTER_S
from modelfleet.core.scaling.terms import COLD_START_S
from modelfleet.core.scaling.weighing import Limit, Weighed

_CHANGES_SAID = 8
_LEDGER = "ledger"
_TITLE = "The number of replicas"
_ADVISED = "The number of replicas that mode Active would run"
_LAST = "The last number that samples gave"
_AGAIN = (
    "It is decided again every 5 s, and at once after a change of the object. What is shown here was written when the"
    f" number or its reason changed last, or within {WRITE_S / 60:.0f} minutes."
)


class LedgerError(Exception):
    """A ledger cannot be had or read; the message is a sentence for the user."""


def has_numbers(deployment: Mapping[str, Any]) -> bool:
    """Whether what is measured may decide the number of replicas."""
    manual = raw.text(deployment, "spec", "scaling", "mode") == "Manual"
    return not manual and bool(raw.mapping(deployment, "status", "scaling", "lastDecision"))


def scaling_lines(state: Mapping[str, Any], mode: str = "") -> Iterator[str]:
    """The section on the number of replicas, which mode Advisory does not follow. Nothing where none was decided."""
    stored = entry(state, names.SCALING_KEY)
    ledger = books.loaded(raw.mapping(stored, _LEDGER)) if stored else None
    if ledger is None and raw.mapping(stored, _LEDGER):
        yield from headed(_TITLE)
        yield from wrapped(
            "  What decided it cannot be read: it is no ledger of version"
            f" {books.VERSION}. It was written by another version of the operator, or edited; the operator goes on"
            " without it and writes a new one within minutes."
        )
        return
    made = books.replay(ledger)[0] if ledger is not None else ()
    last = made[-1] if made else None
    otherwise, title = _otherwise(stored, last), _ADVISED if mode == "Advisory" else _TITLE
    if otherwise is not None:
        yield from _decided_otherwise(raw.mapping(stored, "shown"), otherwise, title)
    if last is not None:
        yield from _decided_on_samples(stored, last, title if otherwise is None else _LAST)
    if not all(each.same for each in made):
        yield from wrapped("  Made again by this version from the same inputs, it is another: the policy has changed.")
    if last is not None or otherwise is not None:
        yield from _findings(stored)
        yield from _changes(stored)
        yield from headed("What would change the number")
        for sentence in _would_change(last, otherwise):
            yield from wrapped(f"  - {sentence}", "    ")


@dataclass(frozen=True)
class _Otherwise:
    """Why the number is not the one of the last decision on samples, and what would change it."""

    why: str
    changes: str


_READ = "Samples: the load decides again once a serving replica is read."
_OTHERWISE = {
    ScalingReason.NO_DATA: _Otherwise(
        "It is not from samples: no serving replica says anything, so no load counts.",
        f"{_READ} Without any for {SAFE_AFTER_S / 60:.0f} minutes, the declared load is taken to be there.",
    ),
    ScalingReason.SAFE_STATE: _Otherwise(
        "It is not from samples: no serving replica says anything, so the declared load is taken to be there.", _READ
    ),
    ScalingReason.OUT_OF_BOUNDS: _Otherwise(
        "It is not from samples: a bound moved it after the last decision on them.",
        "The bound. Inside it the load decides again with the next samples.",
    ),
}
_OF_CLASSES = _Otherwise(
    "Replicas of several classes stand, and those that would leave first are not the mean one that samples are weighed"
    " against.",
    "The load, by what the replicas of each class carry that would stay (status.plan.pools has their knees).",
)
_NONE_YET = _Otherwise("It is not from samples: nothing that was measured has decided it yet.", _READ)
_LATER = _Otherwise("It is not from samples: it was decided after the last of them.", _READ)
_ON_SAMPLES = {ScalingReason.STEADY, ScalingReason.LOAD_GREW, ScalingReason.BACKLOG_GREW, ScalingReason.LOAD_FELL}


def _otherwise(stored: Mapping[str, Any], last: Replayed | None) -> _Otherwise | None:
    """What decided the number that is stored, where that is not the last decision of the ledger."""
    shown = raw.mapping(stored, "shown")
    reason, at = books.REASONS.get(raw.text(shown, "reason")), raw.instant(shown, "at")
    if reason is None or at is None:
        return None
    found = None if reason in _ON_SAMPLES else _OTHERWISE.get(reason, _LATER)
    if last is None:
        return found or _NONE_YET
    if found is not None and at > last.was.at:
        return found
    return None if raw.integer(stored, "replicas", default=last.was.replicas) == last.was.replicas else _OF_CLASSES


def _decided_otherwise(shown: Mapping[str, Any], otherwise: _Otherwise, title: str) -> Iterator[str]:
    yield from headed(f"{title}, as decided at {raw.text(shown, 'at')[:19]}")
    bound = raw.text(shown, "bound")
    yield from wrapped(
        f"  {raw.integer(shown, 'to')}: {raw.text(shown, 'reason')}, {raw.text(shown, 'detail')}"
        + (f" ({bound})" if bound else "")
    )
    yield from wrapped(f"  {otherwise.why}")


def _decided_on_samples(stored: Mapping[str, Any], last: Replayed, title: str) -> Iterator[str]:
    yield from headed(f"{title}, as decided at {last.was.at.isoformat(timespec='seconds')}")
    yield from wrapped(f"  {last.now.replicas}: {last.now.reason}, {last.now.detail}")
    yield from columns(("input", "value"), list(_inputs(stored, last)))


def _would_change(last: Replayed | None, otherwise: _Otherwise | None) -> Iterator[str]:
    if otherwise is not None:
        yield otherwise.changes
    elif last is not None:
        yield from _thresholds(last)
    yield _AGAIN


def _inputs(stored: Mapping[str, Any], last: Replayed) -> Iterator[tuple[str, str]]:
    sample, terms, now = last.was.inputs.sample, last.was.inputs.terms, last.now
    yield "load", f"{now.load_rps:.3g} requests a second of the mean lengths, {now.peak_rps:.3g} to be expected"
    yield "waiting", f"{sample.waiting} requests in {sample.serving} serving replicas"
    ended = raw.integer(stored, "evidence")
    factor = 1 / now.margin
    learned = f"× {factor:.2f} " + (f"learned from {ended} requests" if ended else "until requests teach it")
    yield "one replica", f"{terms.knee_rps:.3g} requests a second by the plan, {learned}"
    yield "promise", f"{terms.share * 100:.6g}% of the requests"
    starts = stored.get("starts_s")
    count = len(starts) if isinstance(starts, list) else 0
    of = f"the median of {count} starts" if count else f"none was seen yet, so {COLD_START_S:.0f} s is taken"
    yield "cold start", f"{terms.cold_start_s:.0f} s ({of})"
    bounds = [f"{each.name} {each.replicas}" for each in (*last.was.inputs.lows, *last.was.inputs.highs)]
    yield "bounds", ", ".join(bounds) + (f"; {now.bound} won" if now.bound else "; none clips")
    if last.was.inputs.keep:
        spare = last.was.inputs.spare
        yield "none leaves", last.was.inputs.keep + (f"; {spare} that began to start may" if spare else "")


def _findings(stored: Mapping[str, Any]) -> Iterator[str]:
    for finding in raw.items(stored, "findings"):
        yield from wrapped(f"  {raw.text(finding, 'fault')}: {raw.text(finding, 'sentence')}", "    ")


def _changes(stored: Mapping[str, Any]) -> Iterator[str]:
    changes = list(raw.items(stored, "changes"))[-_CHANGES_SAID:]
    if changes:
        yield from headed("Last changes")
        rows = [
            (
                raw.text(each, "at")[:19],
                f"{raw.integer(each, 'from')} → {raw.integer(each, 'to')}",
                raw.text(each, "reason"),
                raw.text(each, "bound") or "-",
                raw.text(each, "detail"),
            )
            for each in changes
        ]
        yield from columns(("at", "replicas", "reason", "bound", "why"), rows)


def _thresholds(last: Replayed) -> Iterator[str]:
    """The loads at which the number would be another, by the policy's formula."""
    terms, now = last.was.inputs.terms, last.now
    one_rps = terms.knee_rps / now.margin
    highest = min(last.was.inputs.highs, key=lambda each: each.replicas, default=Limit("the upper bound", 0))
    high = highest.replicas
    low = min(high, max((each.replicas for each in last.was.inputs.lows), default=1))
    above, below = now.replicas * one_rps, (now.replicas - 1) * one_rps
    if now.replicas < high:
        more = f"a load to be expected above about {above:.3g} requests a second"
        yield f"One more: {more}, or requests that pile up."
    else:
        yield f"Not more: {highest.name} allows {high}; raise it for a load above {above:.3g} requests a second."
    if now.replicas > low:
        yield (
            f"One less: a load to be expected below about {below:.3g} requests a second, for {_hold(now)}, with"
            f" nothing {'ending or silent' if last.was.inputs.spare else 'starting, ending or silent'}."
        )
    else:
        yield f"Not less: {low} is the lower bound."


def exported(state: Mapping[str, Any], name: str) -> str:
    """The ledger as JSON. Raises LedgerError where there is none."""
    ledger = raw.mapping(entry(state, names.SCALING_KEY), _LEDGER)
    if not ledger:
        raise LedgerError(f"{names.state(name)} holds no decisions: nothing that is measured decided the number yet")
    return json.dumps(ledger, indent=1, ensure_ascii=False)


def replayed(path: str) -> tuple[list[str], bool]:
    """Each decision of a saved ledger made again, as lines, and whether the same came of all. Raises LedgerError."""
    try:
        content = json.loads(Path(path).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise LedgerError(f"{path}: it cannot be read as JSON ({error})") from error
    ledger = books.loaded(content) if isinstance(content, Mapping) else None
    if ledger is None:
        raise LedgerError(
            f"{path}: it is no ledger of version {books.VERSION}; `modelfleet explain NAME --ledger` saves one"
        )
    made = books.replay(ledger)[0]
    rows = [
        (
            each.was.at.isoformat(timespec="seconds"),
            str(each.was.replicas),
            str(each.now.replicas) if each.same else f"{each.now.replicas} ({each.now.reason})",
            "same" if each.same else "another",
            each.now.detail,
        )
        for each in made
    ]
    return list(columns(("at", "was", "now", "", "why"), rows)), all(each.same for each in made)


def _hold(now: Weighed) -> str:
    """How long it must be so."""
    if now.hold_s < BUDGET_S:
        return f"{now.hold_s:.0f} s"
    why = "replicas that only followed the last hour's load would have been late for more than the promise allows"
    return f"{now.hold_s:.0f} s ({why})"
