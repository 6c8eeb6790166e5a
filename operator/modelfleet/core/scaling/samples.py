"""What is known of the workers of one ModelDeployment: readings by pod, and what they say about a window. Pure.

Counters are made continuous when they are read (joining.py), so that any two readings of a pod can be subtracted. What
a pod counted before it went is in its readings and belongs to the window; what it held at the moment (gauges) does not
count any more.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from modelfleet.core.perf.cells import Cells
from modelfleet.core.scaling.reading import HISTOGRAMS, OUTCOMES, Histogram, ObjectiveCounts, Outcomes, Reading

UNREAD = "it was not read yet"
"""The failure of a pod that this process has not tried to read."""

WINDOW_S = 300.0
"""The window that a promise is judged over (design: a 5-minute window)."""

FRESH_S = 30.0
"""A pod whose last reading is older says nothing about now: six readings at the default interval were missed."""

MISSED = 3
"""One that is read more seldom may miss so many readings."""

LONGEST_FRESH_S = 180.0
"""However seldom it is read: three readings at the longest interval, or of a Prometheus that scrapes once a minute."""

_GAP_S = 60.0
"""Readings that are further apart, more than thinning makes them, have a silence between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSamples:
    """One pod: its readings, oldest first, thinned out; `failure` says why the last look failed, None if it did not.
    `steps` are those that its engine took since its start, as read at `steps_at_s`. It is looked at every `every_s`.
    `cold` is the reading up to which an engine before this one ran, or this one started: None where that was not seen.
    It outlives the thinned readings, because a start may be shorter than their steps."""

    uid: str
    name: str
    revision: str
    readings: tuple[Reading, ...] = ()
    cold: Reading | None = None
    failure: str | None = None
    steps: Cells = field(default_factory=dict)
    steps_at_s: float | None = None
    every_s: float = 0.0

    @property
    def last(self) -> Reading | None:
        """The newest reading."""
        return self.readings[-1] if self.readings else None

    def age_s(self, now_s: float) -> float | None:
        """Seconds since the newest reading; None: there was none."""
        return now_s - self.readings[-1].at_s if self.readings else None

    def fresh(self, now_s: float) -> bool:
        """Whether it says something about now."""
        age_s = self.age_s(now_s)
        return age_s is not None and (age_s <= FRESH_S or age_s <= self.fresh_s)

    @property
    def fresh_s(self) -> float:
        """How old its last reading may be. It follows the steps in which readings come: a Prometheus may scrape more
        seldom than it is asked. Of the last two steps the shorter counts, so that a silence is none of them."""
        ends = self.readings[-3:]
        step_s = min(after.at_s - before.at_s for before, after in pairwise(ends)) if len(ends) == 3 else 0.0
        return min(max(FRESH_S, MISSED * max(self.every_s, step_s)), LONGEST_FRESH_S)

    def ends(self, now_s: float, window_s: float) -> tuple[Reading, Reading] | None:
        """The first and the last reading of the window, the first at its beginning or before; None: not two of them.

        Of a silence that the window begins in, what came evenly since its beginning counts."""
        since_s = now_s - window_s
        if len(self.readings) < 2 or self.readings[-1].at_s <= since_s:
            return None
        at = next((i for i in range(len(self.readings) - 1, 0, -1) if self.readings[i].at_s <= since_s), 0)
        first, after = self.readings[at], self.readings[at + 1]
        if first.at_s < since_s and after.at_s - first.at_s > max(_GAP_S, self.fresh_s):
            first = between(first, after, since_s)
        return first, self.readings[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Everything that was read of one ModelDeployment's workers. `at_s` is the monotonic clock of this process now.

    `pods` are those that exist, by uid, also where none of them could be read; `gone` those that ended while the
    window still knows them.
    """

    at_s: float
    pods: Mapping[str, PodSamples] = field(default_factory=dict)
    gone: tuple[PodSamples, ...] = ()

    def fresh(self) -> tuple[PodSamples, ...]:
        """Pods that say something about now."""
        return tuple(pod for pod in self.pods.values() if pod.fresh(self.at_s))

    def silent(self, uids: Iterable[str]) -> tuple[str, ...]:
        """Those of `uids` that say nothing about now, whether they were ever read or not."""
        fresh = {pod.uid for pod in self.fresh()}
        return tuple(uid for uid in uids if uid not in fresh)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What happened within a window, over the pods that were read. `span_s` is how much of it is known (the longest of
    the pods); `counts.in_flight` is of now. `pods` were counted."""

    span_s: float
    pods: int
    counts: ObjectiveCounts

    @property
    def arrivals_rps(self) -> float:
        """Arrivals a second."""
        return self.counts.arrivals / self.span_s if self.span_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """What waits and runs now, over the pods that are fresh: sums, and the oldest. None: no page says so."""

    pods: int
    in_flight: int | None
    waiting: int | None
    oldest_waiting_s: float | None
    running: int | None
    kv_total_tokens: int | None
    kv_used_tokens: int | None


def counted(
    samples: Samples,
    promise: str,
    objective: str,
    *,
    window_s: float = WINDOW_S,
    of: Iterable[PodSamples] | None = None,
) -> Counted | None:
    """What an objective counted in the window, over `of` or all pods, those that are gone too; None is no data."""
    pods, span_s, total = 0, 0.0, ObjectiveCounts()
    for pod in (*samples.pods.values(), *samples.gone) if of is None else of:
        ends = pod.ends(samples.at_s, window_s)
        change = _change(ends, promise, objective) if ends else None
        if ends is None or change is None:
            continue
        first, last = ends
        pods, span_s = pods + 1, max(span_s, last.at_s - first.at_s)
        lives = pod.uid in samples.pods and pod.fresh(samples.at_s)
        total = plus(total, change if lives else replace(change, in_flight=0))
    return Counted(span_s=span_s, pods=pods, counts=total) if pods else None


def queued(samples: Samples, of: Iterable[PodSamples] | None = None) -> Queued | None:
    """What waits and runs now; None is no data: no pod is fresh."""
    last = [pod.readings[-1] for pod in (samples.pods.values() if of is None else of) if pod.fresh(samples.at_s)]
    if not last:
        return None
    oldest = [each.oldest_waiting_s for each in last if each.oldest_waiting_s is not None]
    return Queued(
        pods=len(last),
        in_flight=_sum(each.in_flight for each in last),
        waiting=_sum(each.waiting for each in last),
        oldest_waiting_s=max(oldest, default=None),
        running=_sum(each.running for each in last),
        kv_total_tokens=_sum(each.kv_total_tokens for each in last),
        kv_used_tokens=_sum(each.kv_used_tokens for each in last),
    )


def _sum(values: Iterator[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def plus(a: ObjectiveCounts, b: ObjectiveCounts) -> ObjectiveCounts:
    """Both together; histograms of other edges than the first's are of another promise and left out."""
    return _combined(a, b, 1)


def between(before: Reading, after: Reading, at_s: float) -> Reading:
    """A pod's counts at a moment between two readings, as if all had come evenly."""
    share = (at_s - before.at_s) / (after.at_s - before.at_s)
    promises = {
        promise: {name: _midway(before.of(promise, name), counts, share) for name, counts in objectives.items()}
        for promise, objectives in after.promises.items()
    }
    return replace(before, at_s=at_s, promises={**before.promises, **promises})


def _midway(before: ObjectiveCounts | None, after: ObjectiveCounts, share: float) -> ObjectiveCounts:
    was = before or ObjectiveCounts()
    grown = _combined(after, was, -1)
    part = ObjectiveCounts(
        arrivals=round(grown.arrivals * share),
        in_flight=was.in_flight,
        ended=_part(grown.ended, share),
        longer=_part(grown.longer, share),
        first_caller=_part(grown.first_caller, share),
        **{name: _part_of_histogram(getattr(grown, name), share) for name in HISTOGRAMS},
    )
    return plus(replace(was, in_flight=0), part)


def _part(outcomes: Outcomes, share: float) -> Outcomes:
    return Outcomes(**{name: round(getattr(outcomes, name) * share) for name in OUTCOMES})


def _part_of_histogram(of: Histogram | None, share: float) -> Histogram | None:
    return of and Histogram(of.edges, tuple(round(count * share) for count in of.counts), of.sum * share)


def _change(ends: tuple[Reading, Reading], promise: str, objective: str) -> ObjectiveCounts | None:
    before, after = (each.of(promise, objective) for each in ends)
    if after is None:
        return None
    return _combined(after, before, -1) if before is not None else after  # a promise that came within the window


def _combined(a: ObjectiveCounts, b: ObjectiveCounts, sign: int) -> ObjectiveCounts:
    return ObjectiveCounts(
        arrivals=a.arrivals + sign * b.arrivals,
        in_flight=a.in_flight if sign < 0 else a.in_flight + b.in_flight,
        ended=a.ended + b.ended if sign > 0 else a.ended - b.ended,
        longer=a.longer + b.longer if sign > 0 else a.longer - b.longer,
        first_caller=a.first_caller + b.first_caller if sign > 0 else a.first_caller - b.first_caller,
        **{name: _histograms(getattr(a, name), getattr(b, name), sign) for name in HISTOGRAMS},
    )


def _histograms(a: Histogram | None, b: Histogram | None, sign: int) -> Histogram | None:
    if a is None or b is None:
        return (a or b) if sign > 0 else a
    if a.edges != b.edges:
        return a
    return a + b if sign > 0 else a - b
