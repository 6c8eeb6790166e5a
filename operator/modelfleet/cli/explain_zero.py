"""What `modelfleet explain` says of going to zero, and of where the seconds of a start go."""

from collections.abc import Iterator, Mapping
from typing import Any

from modelfleet.cli.plan_text import columns, headed, wrapped
from modelfleet.core import raw
from modelfleet.core.scaling.break_even import spoken


def to_zero_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Where the model stands, why a request is refused, what it saves, and the phases of its starts."""
    zero, start = raw.mapping(status, "toZero"), raw.mapping(status, "coldStart")
    if zero:
        yield from headed("To zero")
        yield from wrapped(f"  {raw.text(zero, 'state')} since {raw.text(zero, 'since')}")
        refusal = raw.mapping(zero, "refusal")
        if refusal:
            until = raw.text(refusal, "until")
            yield from wrapped(
                f"  Requests are refused: {raw.text(refusal, 'reason')}, {raw.text(refusal, 'message')}"
                + (f"; until {until}" if until else "")
            )
        if raw.text(zero, "advice"):
            yield from wrapped(f"  {raw.text(zero, 'advice')}")
    if start:
        yield from _start(start)


def _start(start: Mapping[str, Any]) -> Iterator[str]:
    count = raw.integer(start, "starts")
    yield from headed(f"Cold start on {raw.text(start, 'class')}, of {count} measured")
    rows = [
        (raw.text(one, "name"), spoken(raw.integer(one, "p50Seconds")), spoken(raw.integer(one, "p90Seconds")))
        for one in raw.items(start, "phases")
    ]
    if count:
        whole = ("all", spoken(raw.integer(start, "p50Seconds")), spoken(raw.integer(start, "p90Seconds")))
        yield from columns(("phase", "half within", "nine of ten within"), [*rows, whole])
    warm = raw.mapping(start, "warmNodes")
    if warm:
        weights, compiled = (raw.integer(warm, key) for key in ("weights", "compiledCode"))
        yield from wrapped(
            f"  A start finds its weights on {_nodes(weights)}, and what its engine compiled on {_nodes(compiled)}"
        )
    progress = raw.mapping(start, "progress")
    if progress:
        share = f", {raw.integer(progress, 'percent')} %" if "percent" in progress else ""
        left = f", about {spoken(raw.integer(progress, 'leftSeconds'))} left" if "leftSeconds" in progress else ""
        yield from wrapped(f"  A replica starts now: {raw.text(progress, 'phase')}{share}{left}")


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes" if count else "none"
