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

LOADED = 1.5
"""A pod to which so many times as much comes as to any of the others may be late for its load."""

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


def done_by(
    samples: Samples, serving: Iterable[str], promise: str, objectives: Iterable[str], *, warm: bool = False
) -> dict[str, Tally]:
    """What each serving pod did in the window, or of it since its engine was warm."""
    names, at_s = tuple(objectives), samples.at_s
    pods = [samples.pods[uid] for uid in serving if uid in samples.pods]
    windows_s = (min(WINDOW_S, warm_s(pod, at_s, promise, names) if warm else WINDOW_S) for pod in pods)
    return {pod.uid: tally_of(pod, at_s, promise, names, each_s) for pod, each_s in zip(pods, windows_s, strict=True)}


def broken(done: Mapping[str, Tally], target: float) -> frozenset[str]:
    """The pods that were late in most of what they did for certain, where they are fewer than half of those that did
    enough to be judged and the rest are well: a load that is too high does not choose a few."""
    judged = {uid: each for uid, each in done.items() if each.ended >= LEAST}
    late = {uid: each for uid, each in judged.items() if each.good < MOST * each.ended}  # most fleets have none
    found = {uid: each for uid, each in late.items() if wilson(each.good, each.ended).high < MOST}
    if not found or 2 * len(found) >= len(judged):
        return frozenset()
    rest = _Others.of(each for uid, each in done.items() if uid not in found)
    return frozenset(uid for uid, own in found.items() if _worse(own, rest, target))


@dataclass(frozen=True, kw_only=True)
class _Others:
    """What several pods did: all that ended, of it good, and the most that came to one of them, and to the next."""

    ended: int
    good: int
    most: float
    next: float

    @classmethod
    def of(cls, done: Iterable[Tally]) -> "_Others":
        each = list(done)
        *_, second, first = sorted((0.0, 0.0, *(one.arrivals for one in each)))
        return cls(ended=sum(one.ended for one in each), good=sum(one.good for one in each), most=first, next=second)

    def without(self, own: Tally) -> "_Others":
        """The same without one of them."""
        most = self.next if own.arrivals == self.most else self.most
        return _Others(ended=self.ended - own.ended, good=self.good - own.good, most=most, next=0.0)


def _worse(own: Tally, others: _Others, target: float) -> bool:
    """Whether a pod is worse than the others for certain, which are well, and not only because more comes to it: a
    Service spreads connections, and some bring more than others."""
    if min(own.ended, others.ended) < LEAST or own.good >= target * own.ended:
        return False
    if own.arrivals > LOADED * others.most:
        return False
    here, there = wilson(own.good, own.ended), wilson(others.good, others.ended)
    return here.high < min(target, there.low) and others.good / others.ended >= target - (1 - target)


def culprits(samples: Samples, done: Mapping[str, Tally], beside: frozenset[str], target: float) -> tuple[Culprit, ...]:
    """The pods that are to blame, the worst first; those `beside` are `broken`."""
    measure = _Others.of(each for uid, each in done.items() if uid not in beside)
    found = []
    for uid, own in done.items():
        others = measure if uid in beside else measure.without(own)
        if not _worse(own, others, target):
            continue
        here, there, name = wilson(own.good, own.ended), wilson(others.good, others.ended), samples.pods[uid].name
        sentence = (
            f"at most {here.high:.0%} of the requests of pod {name} keep the promise, and at least"
            f" {there.low:.0%} of those of the others"
        )
        found.append((own.good / own.ended, uid, Culprit(uid=uid, name=name, sentence=sentence)))
    return tuple(each for _, _, each in sorted(found, key=lambda each: each[:2]))
