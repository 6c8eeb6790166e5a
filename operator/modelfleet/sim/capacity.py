"""What one simulated replica can do, measured on it: its knee under Poisson arrivals of the trace's own lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from modelfleet.sim.engine import Engine, EngineSpec
from modelfleet.sim.requests import Outcome, Request

_REQUESTS = 1500
_ROUNDS = 12


@dataclass(frozen=True, kw_only=True)
class Promise:
    """`share` of the requests are inside both times."""

    ttft_s: float
    tpot_s: float
    share: float


def measured_knee_rps(spec: EngineSpec, requests: Sequence[Request], promise: Promise, seed: int) -> float:
    """The highest rate at which one replica keeps the promise; 0 where it does not even keep it for one at a time."""
    if share_at(spec, requests, promise, 0.01, seed) < promise.share:
        return 0.0
    low, high = 0.01, 0.02
    while share_at(spec, requests, promise, high, seed) >= promise.share and high < 1e5:
        low, high = high, high * 2
    for _ in range(_ROUNDS):
        middle = (low * high) ** 0.5
        if share_at(spec, requests, promise, middle, seed) >= promise.share:
            low = middle
        else:
            high = middle
    return low


def share_at(spec: EngineSpec, requests: Sequence[Request], promise: Promise, rate_rps: float, seed: int) -> float:
    """The share inside the promise under Poisson arrivals."""
    random = Random(seed)
    outcomes: list[Outcome] = []
    engine = Engine(spec, 0, 0.0, outcomes.append)
    now_s = 0.0
    for _ in range(_REQUESTS):
        now_s += random.expovariate(rate_rps)
        engine.advance(now_s)
        like = requests[random.randrange(len(requests))]
        engine.arrive(Request(now_s, like.input_tokens, like.output_tokens, like.prefix_tokens))
    while engine.in_flight:
        engine.advance(engine.now_s + 60.0)
    return sum(one.inside(promise.ttft_s, promise.tpot_s) for one in outcomes) / len(outcomes)
