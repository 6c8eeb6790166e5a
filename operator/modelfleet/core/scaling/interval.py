"""How sure a share is. Pure."""

from dataclasses import dataclass
from math import sqrt

Z_95 = 1.959964
"""The 97.5 % quantile of the standard normal distribution: two-sided 95 %."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The 95 % interval of a share, between 0 and 1."""

    low: float
    high: float


def wilson(good: int, of: int) -> Interval:
    """The 95 % score interval of a binomial share (Wilson 1927), which stays inside 0 and 1 and holds for few requests
    too. Requests of one burst are late together, so that the true interval is wider; nothing here narrows it."""
    if of <= 0:
        return Interval(0.0, 1.0)
    share, z2 = good / of, Z_95 * Z_95
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z_95 / (1 + z2 / of) * sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def with_silent(known: Interval, fresh: int, silent: int) -> Interval:
    """The interval over all pods when only `fresh` of them could be read: the worst and the best that the silent ones,
    with their part of the requests, may have done."""
    if not silent:
        return known
    part = fresh / (fresh + silent)
    return Interval(known.low * part, known.high * part + (1 - part))
