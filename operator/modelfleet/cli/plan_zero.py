"""What `modelfleet plan -f` says of spec.scaling.toZero: which pauses are worth a start. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from modelfleet.api.values import PositiveDuration
from modelfleet.cli.plan_text import headed, wrapped
from modelfleet.core import raw
from modelfleet.core.layout.answer import Answer
from modelfleet.core.scaling.break_even import break_even_s, spoken


def to_zero_text(deployment: Mapping[str, Any] | None, found: Answer) -> str:
    """The section; empty where the model does not go to zero, or no layout works. A saved live object brings the start
    that was measured (status.coldStart)."""
    terms = raw.mapping(deployment, "spec", "scaling", "toZero")
    if not terms or found.chosen is None:
        return ""
    return "\n".join(_lines(deployment, terms, found.chosen.pools[0].accelerators_per_replica)) + "\n"


def _lines(deployment: Mapping[str, Any] | None, terms: Mapping[str, Any], accelerators: int) -> Iterator[str]:
    after = _duration(raw.text(terms, "after") or "15m")
    waits = _duration(raw.text(terms, "firstCallerWaits"))
    start_s = raw.integer(deployment, "status", "coldStart", "p50Seconds")
    yield from headed("To zero")
    count = f"{accelerators} accelerator{'' if accelerators == 1 else 's'}"
    if start_s:
        least = spoken(break_even_s(after, start_s))
        why = f"{spoken(after)} idle, and a start of {spoken(start_s)}, the median of those measured"
        yield from wrapped(f"  A pause longer than {least} saves {count} for what is above it ({why}).")
    else:
        yield from wrapped(
            f"  A pause longer than {spoken(after)} and a start saves {count} for what is above it. How long a start"
            " takes is measured once the model runs (status.coldStart), and nothing is assumed here."
        )
    late_s = raw.integer(deployment, "status", "coldStart", "p90Seconds")
    if waits and late_s > waits:
        yield from wrapped(
            f"  Nine of ten starts take up to {spoken(late_s)}, which is more than firstCallerWaits ({spoken(waits)}):"
            " most first callers are refused and told when to come back. Raise firstCallerWaits, or keep a replica."
        )


def _duration(text: str) -> float:
    """Seconds; 0 where it is none (the spec's faults are told elsewhere)."""
    try:
        return PositiveDuration(text).seconds
    except ValueError:
        return 0.0
