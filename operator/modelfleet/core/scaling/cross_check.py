"""Whether two ways to the same counters agree. Pure.

Counters only grow, so one that was read by one way must lie between the two nearest that were read by the other.
"""

from dataclasses import dataclass

from modelfleet.core.scaling.reading import OUTCOMES, ObjectiveCounts, Reading

SLACK_S = 1.0
"""Readings nearer than this are not told apart: clocks and the way of an answer differ by as much."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """Two readings of a pod around a moment."""

    before: Reading
    after: Reading


def nearest(readings: tuple[Reading, ...], at_s: float) -> Nearest | None:
    """The last reading before `at_s` and the first after it, SLACK_S away; None while there are not both."""
    before = next((each for each in reversed(readings) if each.at_s <= at_s - SLACK_S), None)
    after = next((each for each in readings if each.at_s >= at_s + SLACK_S), None)
    return Nearest(before, after) if before is not None and after is not None else None


def disagreement(around: Nearest, other: Reading) -> str | None:
    """Which counter of `other` cannot be, as a sentence's end; None if all can."""
    for promise, objectives in other.promises.items():
        for name, counts in objectives.items():
            low, high = around.before.of(promise, name), around.after.of(promise, name)
            if low is None or high is None:
                continue
            found = _outside(low, counts, high)
            if found:
                return f"{found} of objective {name}"
    return None


def _outside(low: ObjectiveCounts, counts: ObjectiveCounts, high: ObjectiveCounts) -> str:
    if not low.arrivals <= counts.arrivals <= high.arrivals:
        return f"{counts.arrivals} arrivals where the other way has {low.arrivals} to {high.arrivals}"
    for name in OUTCOMES:
        least, here, most = (getattr(each.ended, name) for each in (low, counts, high))
        if not least <= here <= most:
            return f"{here} requests {name} where the other way has {least} to {most}"
    return ""
