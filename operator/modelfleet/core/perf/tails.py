"""How times of single requests spread around their means. Pure.

TTFT is a part that every request pays plus a waiting part; TPOT moves with the number of requests that run. Both are
taken as lognormal with the mean and variance of their parts: both are above 0 and skewed to the right.
"""

from dataclasses import dataclass
from math import exp, inf, pi, sqrt
from statistics import NormalDist

from modelfleet.core.perf.pace import Factors, Pace
from modelfleet.core.perf.spread import Spread

_NORMAL = NormalDist()
_STEP_NOISE = 0.05
"""Relative deviation of a request's mean step under a constant load: lengths differ, and hosts do."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Waiting for one of `most` places."""

    probability: float
    mean_share: float
    """The mean waiting time of those that wait, in service times of one place divided by the places."""


def waiting(running: float, most: float) -> Waiting:
    """The chance to wait and how long, with Poisson arrivals and `running` places taken on average.

    Halfin and Whitt's approximation of Erlang's formula: with β = (1 - ρ) √c places to spare, the chance is
    1 / (1 + β Φ(β) / φ(β)).
    """
    if most == inf:
        return Waiting(probability=0.0, mean_share=0.0)
    busy = min(running / most, 0.999)
    beta = (1 - busy) * sqrt(most)
    density = exp(-beta * beta / 2) / sqrt(2 * pi)
    probability = 1 / (1 + beta * _NORMAL.cdf(beta) / density) if density > 1e-300 else 0.0
    return Waiting(probability=probability, mean_share=1 / (1 - busy))


def closed_spread(now: Pace, factors: Factors, waits_s: float) -> Spread:
    """Of a closed loop. `waits_s` is the mean wait for room; those of the first crowd wait up to twice their mean."""
    base = now.first_token_s(factors, ahead=0.0)
    mean = now.first_token_s(factors) + waits_s
    crowd = mean - base
    return Spread(
        ttft_s=mean,
        tpot_s=now.step_s(factors),
        ttft_cv=sqrt((0.3 * base) ** 2 + (1.5 * crowd) ** 2) / mean,
        tpot_cv=_tpot_cv(now, factors, still=True),
    )


def open_spread(now: Pace, factors: Factors, rate: float, queue_s: float, queued: float) -> Spread:
    """Of an open loop with `rate` Poisson arrivals a second for each prompt that is worked on at once.

    `queue_s` is the mean wait for room, that a request has with chance `queued`.
    Prompts before one's own: Pollaczek and Khinchine's mean, ρ / 2 (1 - ρ) of a prompt's time, with its deviation.
    """
    prompt = now.prompt_s * factors.prefill
    busy = min(rate * prompt, 0.98)
    ahead = busy / (2 * (1 - busy))
    mean = now.first_token_s(factors, ahead=ahead) + queue_s
    crowd_variance = (ahead * prompt) ** 2 + prompt**2 * busy / (3 * (1 - busy))
    room_variance = queue_s * queue_s * (2 / queued - 1) if queued > 1e-9 else 0.0
    step = now.decode_s * factors.decode
    variance = crowd_variance + room_variance + step * step / 12 + (0.25 * prompt) ** 2
    return Spread(
        ttft_s=mean,
        tpot_s=now.step_s(factors),
        ttft_cv=sqrt(variance) / mean,
        tpot_cv=_tpot_cv(now, factors, still=False),
    )


def overloaded_spread(now: Pace, factors: Factors, waits_s: float) -> Spread:
    """Of a queue that grows from nothing: waits are spread evenly up to twice their mean."""
    mean = now.first_token_s(factors) + waits_s
    return Spread(
        ttft_s=mean,
        tpot_s=now.step_s(factors),
        ttft_cv=waits_s / sqrt(3) / mean,
        tpot_cv=_tpot_cv(now, factors, still=True),
    )


def _tpot_cv(now: Pace, factors: Factors, *, still: bool) -> float:
    """Arrivals are counted anew in every request's life: N of them on average, so 1 / √N of the prompts' part moves;
    in an open loop the number that run moves as much, and with it all of a step that grows with the load."""
    step = now.step_s(factors)
    fixed = now.decode_s if still else now.alone_s
    moving = max(step - fixed * factors.decode, 0.0) / step
    return sqrt(_STEP_NOISE**2 + moving * moving / max(now.running, 1.0))
