"""Whether a window is one that the promise was made for: its load and its lengths. Pure.

A regime describes a window, not a request. What is above the declared counts only where it is for certain (the 95 %
interval is), so that a short window with little traffic is never outside by chance.
"""

from dataclasses import dataclass
from math import ceil, sqrt

from modelfleet.api.modeldeployment import Load, Objective
from modelfleet.core.promise import TOLERANCE
from modelfleet.core.scaling.interval import Z_95, wilson
from modelfleet.core.scaling.reading import Histogram
from modelfleet.core.scaling.samples import Counted


@dataclass(frozen=True, slots=True)
class Outside:
    """How a window passes what was declared: `what` (load, p50 or p95 of prompts or answers), as a sentence's end."""

    what: str
    sentence: str


def decide_outside(objective: Objective, counted: Counted, in_flight: float | None) -> Outside | None:
    """
    | what is observed for certain | outside |
    | arrivals a second above 1.25 × load.requestsPerSecond | load |
    | requests in flight on average above 1.25 × load.concurrency | load |
    | more than half of the prompts, or of the answers, above 1.25 × p50 | p50 |
    | more than 5 % of them above 1.25 × p95 | p95 |
    | else | None |
    """
    lengths, counts = objective.lengths, counted.counts
    return (
        _load(objective.load, counted, in_flight)
        or _length("prompts", counts.input_tokens, lengths.input_tokens.p50, lengths.input_tokens.p95)
        or _length("answers", counts.output_tokens, lengths.output_tokens.p50, lengths.output_tokens.p95)
    )


def _load(load: Load, counted: Counted, in_flight: float | None) -> Outside | None:
    if load.requests_per_second is not None:
        declared = float(load.requests_per_second.per_second)
        arrivals, most = counted.counts.arrivals, declared * TOLERANCE * counted.span_s
        # Arrivals of many clients are a Poisson count: its deviation is its root.
        if arrivals - Z_95 * sqrt(arrivals) <= most:
            return None
        return Outside(
            "load",
            f"{_rounded(counted.arrivals_rps)} requests arrive a second, and the promise is for {declared:g}",
        )
    if load.concurrency is not None and in_flight is not None and in_flight > load.concurrency * TOLERANCE:
        return Outside(
            "load", f"{_rounded(in_flight)} requests are in flight, and the promise is for {load.concurrency}"
        )
    return None


def _length(what: str, lengths: Histogram | None, p50: int, p95: int) -> Outside | None:
    if lengths is None:
        return None
    for declared, part, name in ((p50, 0.5, "p50"), (p95, 0.05, "p95")):
        edge = ceil(declared * TOLERANCE)
        if _certainly_more(lengths, edge, part):
            return Outside(
                f"{name} of {what}",
                f"more than {part:.0%} of the {what} have over {edge} tokens, and the declared {name} is {declared}",
            )
    return None


def _certainly_more(lengths: Histogram, edge: float, part: float) -> bool:
    share = lengths.share_above(edge)
    return share is not None and wilson(round(share * lengths.count), lengths.count).low > part


def _rounded(number: float) -> str:
    """Two digits that mean something, no exponent."""
    return f"{float(f'{number:.2g}'):g}" if number < 1e4 else f"{round(number, -2):.0f}"
