"""Synthetic loads: Poisson arrivals under a rate that is a shape over time."""

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from math import cos, exp, log, pi
from random import Random

from modelfleet.sim.requests import Request
from modelfleet.sim.traces import MOST_REQUESTS, Trace, TraceError

_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_SHAPE = re.compile(rf"(sine|step|burst|spikes|daily):({_NUMBER})-({_NUMBER})(?:,({_NUMBER})(s|m|h))?", re.ASCII)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
HELP = (
    "sine:5-45,600s, step:2-20, burst:2-20,10m, spikes:2-20,10m (at random times) or daily:1-10: from low to high"
    " requests a second, with a period"
)
_SPIKE_LEAST, _SPIKE_MOST = 0.05, 0.3
"""Of a period: how long a spike lasts."""


@dataclass(frozen=True, kw_only=True)
class Regime:
    """Lengths in tokens. With `spread` above 0 they are lognormal around the given medians, else fixed."""

    input_tokens: int
    output_tokens: int
    spread: float = 0.0


def shaped(text: str, regime: Regime, hours: float, seed: int) -> Trace:
    """Requests of the shape that `text` names. Raises TraceError."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise TraceError(f"--shape: {text[:60]} is no shape; write {HELP}")
    kind, low, high = match[1], float(match[2]), float(match[3])
    period_s = float(match[4]) * _UNITS[match[5]] if match[4] else {"daily": 86400.0, "step": 1800.0}.get(kind, 600.0)
    if not 0 <= low <= high or high <= 0 or period_s < 1:
        raise TraceError(f"--shape: {text[:60]}: low is at most high, high is above 0, a period at least 1s")
    if (low + high) / 2 * hours * 3600 > MOST_REQUESTS:
        raise TraceError(
            f"--shape: about {(low + high) / 2 * hours * 3600:.0f} requests are more than {MOST_REQUESTS}, which take"
            " minutes a policy; give fewer --hours or a lower rate"
        )
    if kind == "spikes":
        rate = _spikes((low, high), period_s, hours * 3600, Random(f"spikes {seed}"))
    else:
        rate = _rate(kind, low, high, period_s)
    requests = tuple(_poisson(rate, high, regime, hours * 3600, Random(seed)))
    if len(requests) < 2:
        raise TraceError(f"--shape: {text[:60]} makes fewer than two requests; give more --hours or a higher rate")
    return Trace(requests=requests, duration_s=hours * 3600)


def _rate(kind: str, low: float, high: float, period_s: float) -> Callable[[float], float]:
    if kind in ("sine", "daily"):
        return lambda at_s: (low + high) / 2 - (high - low) / 2 * cos(2 * pi * at_s / period_s)
    if kind == "step":
        return lambda at_s: high if at_s >= period_s else low
    return lambda at_s: high if at_s % period_s >= 0.9 * period_s else low  # a tenth of each period


def _spikes(ends: tuple[float, float], period_s: float, until_s: float, random: Random) -> Callable[[float], float]:
    """Spikes that no clock foretells: gaps are exponential with the period as mean, heights and lengths even."""
    low, high = ends
    starts, ends_s, heights = [], [], []
    at_s = random.expovariate(1 / period_s)
    while at_s < until_s:
        starts.append(at_s)
        ends_s.append(at_s + period_s * random.uniform(_SPIKE_LEAST, _SPIKE_MOST))
        heights.append(random.uniform((low + high) / 2, high))
        at_s = ends_s[-1] + random.expovariate(1 / period_s)

    def rate(at_s: float) -> float:
        index = bisect_right(starts, at_s) - 1
        return heights[index] if index >= 0 and at_s < ends_s[index] else low

    return rate


def _poisson(
    rate: Callable[[float], float], most: float, regime: Regime, until_s: float, random: Random
) -> list[Request]:
    """By thinning (Lewis and Shedler, 1979)."""
    found, at_s = [], 0.0
    while (at_s := at_s + random.expovariate(most)) < until_s:
        if random.random() < rate(at_s) / most:
            found.append(
                Request(
                    at_s, _length(regime.input_tokens, regime, random), _length(regime.output_tokens, regime, random)
                )
            )
    return found


def _length(median: int, regime: Regime, random: Random) -> int:
    if not regime.spread:
        return median
    return max(1, round(exp(log(median) + regime.spread * random.gauss(0.0, 1.0))))
