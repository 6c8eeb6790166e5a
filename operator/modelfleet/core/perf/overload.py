"""How many requests in flight an engine may be held at in overload. Pure.

An engine that refuses above a number in flight is held at that number for as long as an overload lasts: whoever leaves
is replaced at once, as in a closed loop. So the right limit is not how high a count swings at the knee, but the largest
number that may be held all the time.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, sqrt

from modelfleet.core.perf.case import Limits
from modelfleet.core.perf.pace import prompts_at_once
from modelfleet.core.perf.prediction import Knee
from modelfleet.core.perf.serving import Replica, served_rps
from modelfleet.core.perf.spread import Spread
from modelfleet.core.perf.tails import closed_spread, open_spread

HELD = 0.9
"""Of the knee's goodput, that overload has to keep."""
_MOST = 1 << 16


def most_in_flight(it: Replica, knee: Knee, goals: Sequence[Limits]) -> int:
    """The largest number that, held all the time, still gives `HELD` of the knee's goodput to each of `goals`; at least
    the number at the knee. Where `goals` are at the pessimistic end of a prediction, so is the answer."""
    low, high = max(1, ceil(knee.concurrency)), _MOST
    while high - low > 1:
        middle = (low + high) // 2
        if all(_goodput_rps(it, middle, goal) >= HELD * knee.requests_per_s * goal.share for goal in goals):
            low = middle
        else:
            high = middle
    return low


def _goodput_rps(it: Replica, in_flight: int, limits: Limits) -> float:
    return served_rps(it, min(in_flight, it.most)) * _spread(it, in_flight).share(limits.ttft_s, limits.tpot_s)


def _spread(it: Replica, in_flight: int) -> Spread:
    """Tokens come as in a closed loop. Prompts come at random, as in an open loop; and who finds no room waits for all
    before it to be through: k departures take k / rate, give or take √k / rate."""
    running = min(float(in_flight), it.most)
    now, rate, ahead = it.pace(running), served_rps(it, running), max(0.0, in_flight - it.most)
    first = open_spread(now, it.factors, rate / prompts_at_once(it.case.layout), 0.0, 0.0)
    still = closed_spread(now, it.factors, 0.0)
    ttft_s = first.ttft_s + ahead / rate
    deviation_s = sqrt((first.ttft_cv * first.ttft_s) ** 2 + ahead / rate**2)
    return replace(first, ttft_s=ttft_s, ttft_cv=deviation_s / ttft_s, tpot_s=still.tpot_s, tpot_cv=still.tpot_cv)
