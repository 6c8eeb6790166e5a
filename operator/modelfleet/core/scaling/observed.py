"""What happened since the last decision, over all workers of a deployment: one sample for the policy. Pure.

Each pod is read at its own moment, so each has a cursor: the reading up to which it was counted. The sample's clock is
the mean of the moments of the pods that were read, so that a rate is right whether a look came early or late.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from modelfleet.core.scaling.reading import ObjectiveCounts, Reading
from modelfleet.core.scaling.samples import PodSamples, Samples

Cursors = Mapping[str, Reading]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Requests of one objective since the last decision; tokens are of those that finished."""

    arrivals: int = 0
    ended: int = 0
    good: int = 0
    finished: int = 0
    input_tokens: float = 0.0
    output_tokens: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            arrivals=self.arrivals + other.arrivals,
            ended=self.ended + other.ended,
            good=self.good + other.good,
            finished=self.finished + other.finished,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class Seen:
    """`at_s` is the sample's clock, None where no serving pod says anything about now. `silent` are serving pods that
    do not. `tallies` are by objective; `waiting` is of now."""

    at_s: float | None
    serving: int
    silent: tuple[str, ...]
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    waiting: int = 0
    cursors: Cursors = field(default_factory=dict)

    @property
    def total(self) -> Tally:
        """All objectives together."""
        return sum(self.tallies.values(), Tally())


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is looked at: the promise's digest and its objectives, the pods that serve, and those whose good and late
    requests say nothing about the load, because something else is wrong with them."""

    promise: str
    objectives: tuple[str, ...]
    serving: tuple[str, ...]
    aside: frozenset[str] = frozenset()


def see(samples: Samples, cursors: Cursors, look: Look) -> Seen:
    """What happened since `cursors`; without any, only from when on to count."""
    known = [samples.pods[uid] for uid in look.serving if uid in samples.pods]
    fresh = [pod for pod in known if pod.fresh(samples.at_s)]
    tallies = {name: Tally() for name in look.objectives}
    found: dict[str, Reading] = {}
    for pod in (*samples.pods.values(), *samples.gone):
        last = pod.last
        if last is None:
            continue
        found[pod.uid] = last
        before = _before(pod, cursors)
        if before is None or before.at_s >= last.at_s:
            continue
        for name in look.objectives:
            tally = grown(before.of(look.promise, name), last.of(look.promise, name))
            if pod.uid in look.aside:
                tally = replace(tally, ended=0, good=0)
            tallies[name] += tally
    return Seen(
        at_s=sum(pod.readings[-1].at_s for pod in fresh) / len(fresh) if fresh else None,
        serving=len(look.serving),
        silent=samples.silent(look.serving),
        tallies=tallies,
        waiting=sum(pod.readings[-1].waiting or 0 for pod in fresh),
        cursors=found,
    )


def _before(pod: PodSamples, cursors: Cursors) -> Reading | None:
    """The reading up to which the pod was counted. A pod that came since the last decision counts from its first."""
    if pod.uid in cursors:
        return cursors[pod.uid]
    return pod.readings[0] if cursors else None


def grown(before: ObjectiveCounts | None, after: ObjectiveCounts | None) -> Tally:
    """What came to an objective's counts between two readings of a pod."""
    if after is None:
        return Tally()
    was = before or ObjectiveCounts()
    return Tally(
        arrivals=_grown(was.arrivals, after.arrivals),
        ended=_grown(was.ended.counted, after.ended.counted),
        good=_grown(was.ended.met, after.ended.met),
        finished=_grown(was.ended.finished, after.ended.finished),
        input_tokens=_tokens(was, after, "input_tokens"),
        output_tokens=_tokens(was, after, "output_tokens"),
    )


def _grown(before: int, after: int) -> int:
    return max(0, after - before)


def _tokens(before: ObjectiveCounts, after: ObjectiveCounts, name: str) -> float:
    now, then = getattr(after, name), getattr(before, name)
    return max(0.0, now.sum - (then.sum if then else 0.0)) if now else 0.0


def filled_up(tally: Tally, read: int, serving: int) -> Tally:
    """With what pods that said nothing are taken to have had: as much as the others, each."""
    if not read or read >= serving:
        return tally
    more = serving / read
    return replace(tally, arrivals=round(tally.arrivals * more))
