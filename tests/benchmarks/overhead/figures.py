"""From pairs of segments to bounds. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, exp

import numpy as np

_RESAMPLES = 5_000
_SEED = 1
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Bound:
    """Of values that are alike but for noise: their median and mean, and what each is at most, one-sided at 95 %.

    `median_upper` is an order statistic (the sign test turned round), which supposes nothing of how values are spread;
    `mean_upper` is by bootstrap, and outliers widen it, as they should.
    """

    count: int
    median: float
    median_upper: float
    mean: float
    mean_upper: float


def bound(values: Sequence[float]) -> Bound:
    """Of independent values. Raises ValueError for fewer than five, whose median has no bound at 95 %."""
    ordered = sorted(values)
    rank = upper_rank(len(ordered))
    numbers = np.array(ordered)
    chosen = np.random.default_rng(_SEED).integers(len(numbers), size=(_RESAMPLES, len(numbers)))
    means = numbers[chosen].mean(axis=1)
    return Bound(
        count=len(ordered),
        median=float(np.median(numbers)),
        median_upper=ordered[rank],
        mean=float(numbers.mean()),
        mean_upper=float(np.quantile(means, CONFIDENCE)),
    )


def upper_rank(count: int) -> int:
    """The index of the smallest of `count` ordered values that is above the median with 95 % certainty: each value is
    above it or not with the chances of a coin. Raises ValueError where there is none."""
    below = 0
    for index in range(count):
        below += comb(count, index)
        if below >= CONFIDENCE * 2**count:
            return index
    raise ValueError(f"{count} values bound no median with {CONFIDENCE:.0%} certainty; five do")


def percent(ratio_log: float) -> float:
    """A logarithm of a ratio in percent above 1."""
    return 100 * (exp(ratio_log) - 1)
