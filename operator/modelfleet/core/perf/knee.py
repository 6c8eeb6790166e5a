"""The highest load at which a replica keeps its promise. Pure.

Requests arrive as in an open loop. Both times grow with the number that run, so bisection on the share of requests
inside both limits finds the last number that keeps it, and with it the rate.
"""

from math import sqrt

from modelfleet.core.perf.case import Case, Limits
from modelfleet.core.perf.prediction import Knee, Prediction
from modelfleet.core.perf.profile import Profile
from modelfleet.core.perf.serving import Replica, check, most_running, replica, running_open
from modelfleet.core.perf.workload import Lengths, Load

_ROUNDS = 18
_LEAST = 1e-4
"""Of the most that can run: a replica that breaks its promise here breaks it alone."""


def find_knee(case: Case, lengths: Lengths, limits: Limits, profile: Profile | None = None) -> Knee | None:
    """The highest rate of requests of which `limits.share` are inside both times; None when no rate keeps it.

    ValueError as of `predict`, or for limits that are not above 0 or a share that is not between 0 and 1.
    """
    check(lengths, Load(requests_per_s=1))
    if not (limits.ttft_s > 0 and limits.tpot_s > 0 and 0 < limits.share <= 1):
        raise ValueError("limits have times above 0 and a share above 0 and at most 1")
    it = replica(case, lengths, profile)
    if not it.memory.fits:
        return None
    low, high = most_running(it) * _LEAST, most_running(it)
    best = lightest(it)
    if _share(best, limits) < limits.share:
        return None
    past: Prediction | None = None
    for _ in range(_ROUNDS):
        middle = sqrt(low * high)
        at = running_open(it, middle)
        if _share(at, limits) < limits.share:
            high, past = middle, at
        else:
            low, best = middle, at
    return Knee(
        requests_per_s=best.requests_per_s,
        concurrency=best.concurrency,
        bound=_bound(it, past, limits) if past else "throughput",
        at=best,
    )


def lightest(it: Replica) -> Prediction:
    """The least load that is looked at: requests that come one by one."""
    return running_open(it, most_running(it) * _LEAST)


def _share(at: Prediction, limits: Limits) -> float:
    if at.saturated or at.spread is None:
        return 0.0
    return min(at.spread.share(limits.ttft_s, limits.tpot_s), 0.9999)


def _bound(it: Replica, past: Prediction, limits: Limits) -> str:
    """Which promise breaks first just past the knee; waiting for room shows as TTFT, and is named by what is full."""
    if past.saturated or past.spread is None:
        return "kv" if it.bound == "kv" else "throughput"
    first = past.spread.share(limits.ttft_s, float("inf"))
    step = past.spread.share(float("inf"), limits.tpot_s)
    if step <= first:
        return "tpot"
    if past.running < 0.8 * it.most:
        return "ttft"
    return "kv" if it.bound == "kv" else "throughput"
