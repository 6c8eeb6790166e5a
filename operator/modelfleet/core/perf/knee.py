"""The highest load at which a replica keeps its promise. Pure."""

from modelfleet.core.perf.case import Case, Limits
from modelfleet.core.perf.prediction import Knee, Prediction
from modelfleet.core.perf.profile import Profile
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import Lengths, Load

_MOST = 16384


def find_knee(case: Case, lengths: Lengths, limits: Limits, profile: Profile | None = None) -> Knee | None:
    """The highest closed-loop load inside `limits`; None when a single request alone breaks them.

    Both times grow with the load, so bisection finds the last load that keeps them.
    """

    def at(concurrency: float) -> Prediction:
        return predict(case, lengths, Load(concurrency=concurrency), profile)

    best = at(1)
    if _broken(best, limits):
        return None
    low, high = 1.0, 2.0
    while high <= _MOST and not _broken(at(high), limits):
        low, high = high, high * 2
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if _broken(at(middle), limits) else (middle, high)
    best, past = at(low), at(high)
    return Knee(
        requests_per_s=best.requests_per_s, concurrency=low, bound=_broken(past, limits) or "throughput", at=best
    )


def _broken(at: Prediction, limits: Limits) -> str | None:
    if at.saturated:
        return "kv"
    if at.ttft_s > limits.ttft_s:
        return "ttft"
    return "tpot" if at.tpot_s > limits.tpot_s else None
