"""When status.demand is written: what waits is told at once, and then seldom. Pure.

The watched object shows whether a write arrived, so one that was lost, or undone, is done again.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from modelfleet.core.activation.known import Demand

INTERVAL_S = 2.0
"""Between two writes of one model's demand."""

REFRESH_S = 10.0
"""While something waits, its time is told anew: an entry that grows older belongs to an activator that is gone."""

MOST = 1_000_000


class Step(StrEnum):
    """What to do about a model's demand."""

    WRITE = "Write"
    WAIT = "Wait"
    CURRENT = "Current"


@dataclass(frozen=True)
class Told:
    """What this process wrote last, and when by its own clock; `confirmed`: the API server took it."""

    waiting: int = 0
    at_s: float = float("-inf")
    confirmed: bool = True


@dataclass(frozen=True)
class Decision:
    """A step; after `wait_s` seconds look again, None: when something changes."""

    step: Step
    why: str
    wait_s: float | None = None


def decide_demand(waiting: int, told: Told, seen: Demand | None, now_s: float) -> Decision:
    """What to do where `waiting` requests wait, `told` was written and the watch shows `seen`.

    The first is written at once, since the last write is long ago then; all later ones keep the interval.
    """
    since_s = now_s - told.at_s
    if not told.confirmed:
        return _not_before(INTERVAL_S - since_s, "the last write was not confirmed")
    if waiting != told.waiting:
        return _not_before(INTERVAL_S - since_s, "another number waits")
    if (seen.waiting if seen is not None else 0) != waiting:
        return _not_before(INTERVAL_S - since_s, "the object does not show it")
    if not waiting and seen is not None:
        return _not_before(INTERVAL_S - since_s, "the object still has an entry")
    if waiting:
        return _not_before(REFRESH_S - since_s, "it still waits")
    return Decision(Step.CURRENT, "nothing waits")


def _not_before(wait_s: float, why: str) -> Decision:
    return Decision(Step.WRITE, why) if wait_s <= 0 else Decision(Step.WAIT, why, wait_s)


def entry(activator: str, waiting: int, now: datetime) -> list[dict[str, object]]:
    """This activator's part of status.demand; empty takes it out."""
    if not waiting:
        return []
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return [{"activator": activator, "waiting": min(waiting, MOST), "at": at}]
