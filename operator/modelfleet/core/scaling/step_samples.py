"""The steps on a worker's page (docs/metrics.md): which samples they are, and the cells that they make. Pure.

They are many, and what is learned from them changes slowly, so they are read once a minute and only the newest are
kept: counts since the engine's start.
"""

from collections.abc import Iterable

from modelfleet.core.perf.cells import Cell, Cells, Composition

STEPS_S = 60.0
"""How often the steps of a worker are read."""

_PARTS = {
    "modelfleet_engine_steps_total": "steps",
    "modelfleet_engine_step_seconds_total": "seconds",
    "modelfleet_engine_step_decode_sequences_total": "decode_sequences",
    "modelfleet_engine_step_prefill_tokens_total": "prefill_tokens",
}
NAMES = tuple(_PARTS)
"""Every series that cells are made of."""
LABELS = ("decode", "prefill")
PREFIX = "cell."
"""Of a slot's part that belongs to a cell."""


def part_of(name: str) -> str:
    """The slot's part of a series; empty for one that says nothing of steps."""
    return PREFIX + _PARTS[name] if name in _PARTS else ""


def cells(found: Iterable[tuple[tuple[str, str, str, str], float]]) -> Cells | None:
    """The cells among the slots of a page (part, decode, prefill, _), with their numbers; those without a step are left
    out. None where it has none at all: steps were not asked for, or are not told of."""
    parts: dict[Composition, dict[str, float]] = {}
    for (part, decode, prefill, _), value in found:
        if part.startswith(PREFIX):
            parts.setdefault((decode, prefill), {})[part.removeprefix(PREFIX)] = value
    if not parts:
        return None
    return {each: Cell(**numbers) for each, numbers in parts.items() if numbers.get("steps", 0.0) > 0}
