"""How one replica is driven to find its knee: which rate comes next, and what the steps say. Pure.

| what was seen | the next rate |
| --- | --- |
| nothing | an eighth of the target load |
| every rate was kept | twice the last, at most MOST_TARGETS target loads |
| the lightest broke | a quarter of it, LIGHTER times |
| some kept, some broke | between the highest kept and the lowest broken (geometric mean), until they are CLOSE |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

FIRST = 1 / 8
"""Of the target load."""
MOST_TARGETS = 8.0
LIGHTER = 2
CLOSE = 1.12
"""The lowest broken rate over the highest kept one."""
NOISE = 0.05
"""Relative half-width of what one step says, beside that bracket: a step has some hundred requests."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What came of one rate. `counted` requests ended and `good` of them kept the promise; times are means in seconds,
    None where no request was answered; `running` is the mean number in flight."""

    rate_rps: float
    counted: int
    good: int
    ttft_s: float | None
    tpot_s: float | None
    running: float

    @property
    def share(self) -> float:
        """The share that kept the promise."""
        return self.good / self.counted if self.counted else 0.0


@dataclass(frozen=True, kw_only=True)
class Goal:
    """`share` of the requests are to keep the promise; `target_rps` is what the plan gives one replica."""

    share: float
    target_rps: float


@dataclass(frozen=True, kw_only=True)
class Knee:
    """The knee as the steps have it. `kept_rps` is the highest rate that was kept, `broken_rps` the lowest that was
    not; None: none broke, and the knee is above."""

    kept_rps: float
    broken_rps: float | None
    samples: int

    @property
    def rps(self) -> float:
        """The best guess; without a rate that broke the least that it can be."""
        return self.kept_rps if self.broken_rps is None else sqrt(self.kept_rps * self.broken_rps)

    @property
    def uncertainty(self) -> float:
        """The relative half-width of its interval."""
        if self.broken_rps is None:
            return NOISE
        return (self.broken_rps - self.kept_rps) / (2 * self.rps) + NOISE


def next_rate(steps: Sequence[Step], goal: Goal) -> float | None:
    """The rate of the next step; None: no further one says more."""
    if not steps:
        return goal.target_rps * FIRST
    knee = knee_of(steps, goal)
    if knee is None:
        lightest = min(each.rate_rps for each in steps)
        return lightest / 4 if len(steps) <= LIGHTER else None
    if knee.broken_rps is None:
        most = goal.target_rps * MOST_TARGETS
        return min(knee.kept_rps * 2, most) if knee.kept_rps < most * 0.999 else None
    return knee.rps if knee.broken_rps / knee.kept_rps > CLOSE else None


def knee_of(steps: Sequence[Step], goal: Goal) -> Knee | None:
    """The knee; None where no rate was kept. A rate that was kept above one that broke was luck and does not count."""
    broken = min((each.rate_rps for each in steps if each.share < goal.share), default=None)
    below = [each.rate_rps for each in steps if each.share >= goal.share and (broken is None or each.rate_rps < broken)]
    if not below:
        return None
    return Knee(kept_rps=max(below), broken_rps=broken, samples=sum(each.counted for each in steps))
