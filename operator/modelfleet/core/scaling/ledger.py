"""The last decisions with all that they depend on, so that they can be exported, replayed and gone on from. Pure.

A ledger is the policy's memory at its beginning and the inputs of each decision since. It is bounded: of every CHUNK
decisions the memory is rounded to what is written, and the oldest CHUNK is let go once there are two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isinf
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from modelfleet.api.reasons import ScalingReason
from modelfleet.core import raw
from modelfleet.core.scaling.forecast import Way
from modelfleet.core.scaling.history import BINS, cut_number
from modelfleet.core.scaling.policy import Memory, Sample, Terms
from modelfleet.core.scaling.weighing import Inputs, Weighed, weigh

CHUNK = 24
CHANGES = 32
VERSION = 1
_SHARED = ("terms", "lows", "highs", "keep")
"""What rarely differs from one decision to the next; it is written once."""

REASONS = {str(reason): reason for reason in ScalingReason}
_Part = TypeVar("_Part", Sample, Terms)

_MEMORY, _INPUTS = TypeAdapter(Memory), TypeAdapter(Inputs)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One decision: its inputs and what came of it."""

    at: datetime
    inputs: Inputs
    replicas: int
    reason: ScalingReason
    bound: str | None


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """`base` is the memory before the first row; `middle` that before row CHUNK, once there are so many; `memory` that
    after the last."""

    base: Memory = field(default_factory=Memory)
    rows: tuple[Row, ...] = ()
    middle: Memory | None = None
    memory: Memory = field(default_factory=Memory)

    def decide(self, inputs: Inputs, at: datetime) -> tuple[Weighed, "Ledger"]:
        """The next decision, and the ledger with it."""
        base, rows, middle, memory = self.base, self.rows, self.middle, self.memory
        if len(rows) == CHUNK:
            middle = memory = rounded(memory)
        elif len(rows) == 2 * CHUNK and middle is not None:
            base, rows = middle, rows[CHUNK:]
            middle = memory = rounded(memory)
        weighed, memory = weigh(inputs, memory)
        row = Row(at=at, inputs=inputs, replicas=weighed.replicas, reason=weighed.reason, bound=weighed.bound)
        return weighed, Ledger(base=base, rows=(*rows, row), middle=middle, memory=memory)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A decision made again: as it was, and as it is now."""

    was: Row
    now: Weighed

    @property
    def same(self) -> bool:
        """Whether the same came of it."""
        return (self.was.replicas, self.was.reason, self.was.bound) == (
            self.now.replicas,
            self.now.reason,
            self.now.bound,
        )


def replay(ledger: Ledger) -> tuple[tuple[Replayed, ...], Ledger]:
    """Every decision of the ledger made again from its inputs, and the ledger that comes of it."""
    again, found = Ledger(base=ledger.base, memory=ledger.base), []
    for row in ledger.rows:
        weighed, again = again.decide(row.inputs, row.at)
        found.append(Replayed(was=row, now=weighed))
    return tuple(found), again


def dumped(ledger: Ledger) -> dict[str, Any]:
    """The ledger as JSON values."""
    shared: list[Any] = []
    rows = []
    for row in ledger.rows:
        inputs = _plain(_INPUTS.dump_python(row.inputs))
        for name in _SHARED:
            value = {name: inputs.pop(name)}
            if value not in shared:
                shared.append(value)
            inputs[name] = shared.index(value)
        rows.append(
            {
                "at": row.at.isoformat(),
                "inputs": inputs,
                "replicas": row.replicas,
                "reason": str(row.reason),
                **({"bound": row.bound} if row.bound else {}),
            }
        )
    return {"version": VERSION, "base": _plain(_MEMORY.dump_python(ledger.base)), "shared": shared, "rows": rows}


def loaded(value: Mapping[str, Any]) -> Ledger | None:
    """The ledger of JSON values, its memory made by replaying it; None where they are not one of this version."""
    try:
        if raw.integer(value, "version") != VERSION or _has_nan(value):
            return None
        base = _MEMORY.validate_python(_of_known_ways(raw.mapping(value, "base")))
        shared = list(value.get("shared", ()))
        rows = tuple(_row(item, shared) for item in raw.items(value, "rows"))
        if len(rows) > 2 * CHUNK:
            return None
        if not is_sane(base):
            return None
        again = replace(replay(Ledger(base=base, rows=rows))[1], rows=rows)
    except (ValidationError, ValueError, KeyError, IndexError, TypeError, ArithmeticError, RecursionError):
        return None  # somebody edited it
    return again if is_sane(again.memory) else None


def _of_known_ways(base: Mapping[str, Any]) -> Mapping[str, Any]:
    """A memory without what forecasts said that there are no more."""
    ways = set(map(str, Way))
    state = raw.mapping(base, "forecaster")
    if not state:
        return base
    scores = [score for score in state.get("scores", ()) if str(score[0]) in ways]
    due = [{**each, "values": [one for one in each["values"] if str(one[0]) in ways]} for each in state.get("due", ())]
    return {**base, "forecaster": {**state, "scores": scores, "due": due}}


def _has_nan(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_nan, value.values()))
    if isinstance(value, list):
        return any(map(_has_nan, value))
    return value != value or (isinstance(value, str) and value.strip().lower().lstrip("+-") == "nan")


_MOST = 1e12
"""No clock in seconds, count or rate of a policy's memory gets there."""
_MOST_LOG = 5.0
"""Nor a logarithm of a correction here: a factor of 150."""
_MOST_REMEMBERED = 10_000
"""Nor a list: a week has 2016 slots."""


def is_sane(memory: Memory) -> bool:
    """Whether a policy can go on from a memory: one that was edited may hold numbers that end or mislead it for ever,
    such as a need that is to come in a thousand years."""
    last_s = memory.last_s if memory.last_s is not None else 0.0
    moments = (*memory.needs, *memory.ahead, *memory.peaks)
    history = memory.history
    return (
        last_s >= 0
        and all(at <= last_s and value >= 0 for at, value in moments)
        and max(map(abs, (memory.log_margin, memory.log_knee))) <= _MOST_LOG
        and memory.knee_sure > 0
        and min((0.0, memory.output_mean, memory.knee_ended or 0, *history.bins, *history.slots)) >= 0
        and max(history.open_since_s, history.slot_since_s) <= last_s
        and 0 <= memory.forecaster.period <= BINS
        and _is_bounded(_MEMORY.dump_python(replace(memory, short_s=max(memory.short_s, 0.0))))
    )


def _is_bounded(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_bounded, value.values()))
    if isinstance(value, list | tuple):
        return len(value) <= _MOST_REMEMBERED and all(map(_is_bounded, value))
    return not isinstance(value, int | float) or abs(value) <= _MOST


def rounded(memory: Memory) -> Memory:
    """The memory as it is after having been written and read. What is long in it was cut when it was added: a fleet's
    models may all come here in one tick."""
    bins, slots = memory.history.bins, memory.history.slots
    short = replace(memory, history=replace(memory.history, bins=(), slots=()))
    again = _MEMORY.validate_python(_plain(_MEMORY.dump_python(short)))
    return replace(again, history=replace(again.history, bins=bins, slots=slots))


def _row(item: Mapping[str, Any], shared: list[Any]) -> Row:
    inputs, at = dict(item["inputs"]), datetime.fromisoformat(str(item["at"]))
    for name in _SHARED:
        inputs[name] = shared[int(inputs[name])][name]
    return Row(
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
        inputs=_INPUTS.validate_python(inputs),
        replicas=int(item["replicas"]),
        reason=REASONS[str(item["reason"])],
        bound=str(item["bound"]) if "bound" in item else None,
    )


def _plain(value: Any) -> Any:
    """JSON values; numbers with a fraction are cut to what matters of them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return str(value) if isinf(value) else cut_number(value)
    return str(value) if isinstance(value, str) else value


def cut(inputs: Inputs) -> Inputs:
    """Inputs as they are after having been written and read, so that a decision made from them can be made again."""
    return replace(inputs, sample=_cut_part(inputs.sample), terms=_cut_part(inputs.terms))


def _cut_part(part: _Part) -> _Part:
    fields = {name: getattr(part, name) for name in type(part).__dataclass_fields__}
    changes: dict[str, Any] = {name: cut_number(value) for name, value in fields.items() if isinstance(value, float)}
    changes |= {name: tuple(map(cut_number, value)) for name, value in fields.items() if isinstance(value, tuple)}
    return replace(part, **changes)
