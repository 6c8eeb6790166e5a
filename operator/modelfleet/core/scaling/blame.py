"""Whose fault late requests are: one replica's, one revision's, the load's, or nobody's that a replica mends. Pure.

A replica is to blame if its share is below that of the others for certain (the 95 % intervals do not touch), and it
breaks the promise for certain where the others together do not. So one of two can be told from the other, and when all
are late none is to blame. Several that are late in most of what they do are no measure for each other (`broken`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from modelfleet.core.scaling.interval import wilson
from modelfleet.core.scaling.observed import Tally, grown
from modelfleet.core.scaling.samples import PodSamples, Samples

WINDOW_S = 120.0
"""Long enough for a burst of a stopped process, short enough to see it before the promise of the day is gone."""

LEAST = 10
"""A pod with fewer requests in the window is not judged."""

MOST = 0.5
"""A share that is below for certain says that most requests are late."""

WARM_S = 120.0
"""An engine compiles, loads and fills things once, with its first requests: so long after them it is warm."""


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """A pod that is worse than the others, and a sentence about it."""

    uid: str
    name: str
    sentence: str


def tally_of(
    pod: PodSamples, at_s: float, promise: str, objectives: Iterable[str], window_s: float = WINDOW_S
) -> Tally:
    """What a pod did in the window."""
    between = pod.ends(at_s, window_s)
    if between is None:
        return Tally()
    first, last = between
    tallies = (grown(first.of(promise, name), last.of(promise, name)) for name in objectives)
    return sum(tallies, Tally())


def warm_s(pod: PodSamples, at_s: float, promise: str, objectives: Iterable[str]) -> float:
    """For how long a pod's engine has been warm; below 0: it is not yet."""
    names, cold = tuple(objectives), pod.cold
    before = {name: cold.of(promise, name) if cold is not None else None for name in names}
    served = (
        each.at_s
        for each in pod.readings
        if (cold is None or each.at_s > cold.at_s)
        and any(grown(before[name], each.of(promise, name)).ended for name in names)
    )
    return at_s - next(served, at_s) - WARM_S


def broken(done: Mapping[str, Tally]) -> frozenset[str]:
    """Of what pods did, those that were late in most of it for certain, where they are fewer than half of those that
    did enough to be judged: a load that is too high does not choose a few."""
    judged = {uid: each for uid, each in done.items() if each.ended >= LEAST}
    found = frozenset(uid for uid, each in judged.items() if wilson(each.good, each.ended).high < MOST)
    return found if 2 * len(found) < len(judged) else frozenset()


def culprit(
    samples: Samples, serving: Iterable[str], promise: str, targets: Mapping[str, float], *, warm: bool = False
) -> Culprit | None:
    """The serving pod that is to blame, the worst of them; None where none is. `targets` are the promised shares by
    objective; the lowest of them counts, because a pod is judged over all of its requests, or of those of a `warm`
    engine."""
    target, at_s = min(targets.values()), samples.at_s
    pods = [samples.pods[uid] for uid in serving if uid in samples.pods]
    windows_s = {pod.uid: min(WINDOW_S, warm_s(pod, at_s, promise, targets) if warm else WINDOW_S) for pod in pods}
    done = {pod.uid: tally_of(pod, at_s, promise, targets, windows_s[pod.uid]) for pod in pods}
    beside = broken(done)
    total = sum((each for uid, each in done.items() if uid not in beside), Tally())
    found = []
    for pod in pods:
        own = done[pod.uid]
        good, ended = total.good, total.ended
        if pod.uid not in beside:
            good, ended = good - own.good, ended - own.ended
        if own.ended < LEAST or ended < LEAST:
            continue
        here, others = wilson(own.good, own.ended), wilson(good, ended)
        if here.high < min(target, others.low) and good / ended >= target - (1 - target):
            sentence = (
                f"at most {here.high:.0%} of the requests of pod {pod.name} keep the promise, and at least"
                f" {others.low:.0%} of those of the others"
            )
            found.append((own.good / own.ended, pod.uid, Culprit(uid=pod.uid, name=pod.name, sentence=sentence)))
    return min(found, key=lambda each: each[:2])[2] if found else None
