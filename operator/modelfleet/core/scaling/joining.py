"""Readings of one pod as one series: counters that never fall, thinned out so that a window of many pods fits. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import gt

from modelfleet.core.perf.cells import Cells
from modelfleet.core.scaling.reading import (
    HISTOGRAMS,
    OUTCOMES,
    STARTING,
    Histogram,
    ObjectiveCounts,
    Outcomes,
    Reading,
)
from modelfleet.core.scaling.samples import WINDOW_S, PodSamples, plus

_Objectives = Mapping[str, ObjectiveCounts]
_Promises = Mapping[str, _Objectives]

_FINE_S, _FINE_STEP_S, _COARSE_STEP_S = 60.0, 4.0, 30.0
"""The last minute is kept as it was read (at an interval of 5 s and its jitter), what is older one in 30 s."""


_MOST_LEFT = 4
"""So many promises are remembered that left the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A pod's samples, and what the next reading is joined to: the last page as it was read, and what earlier lives of
    its processes had counted. Counts live in one place, so if one fell, all of them began anew.

    `left` are promises that were on a page and no longer are: what their last page said, and what it was joined to. One
    that comes back begins anew, or goes on where it stood."""

    pod: PodSamples
    page: Reading | None = None
    promises: _Promises = field(default_factory=dict)
    left: Mapping[str, tuple[_Objectives, _Objectives]] = field(default_factory=dict)

    def failed(self, why: str) -> "Series":
        """A look that brought nothing; the last reading stays, and ages."""
        return replace(self, pod=replace(self.pod, failure=why))

    def stepped(self, steps: Cells, at_s: float) -> "Series":
        """The steps that a page told of."""
        return replace(self, pod=replace(self.pod, steps=steps, steps_at_s=at_s))

    def read(self, page: Reading) -> "Series":
        """One reading more; a failed look where the page lacks what this pod's last one had."""
        before, promises, left, cold = self.pod.last, self.promises, self.left, self.pod.cold
        if self.page is not None and before is not None:
            if page.at_s <= before.at_s:
                return replace(self, pod=replace(self.pod, failure=None))  # the same sample again, or an older one
            lacks = next(_lacking(self.page, page), "")
            if lacks:
                return self.failed(f"its page lacks {lacks}, which the one before had: it was cut")
            if any(_fell(known, page.promises.get(promise, {})) for promise, known in self.page.promises.items()):
                promises, cold = before.promises, _ended(before)
            gone = self.page.promises.keys() - page.promises.keys()
            left = {**left, **{each: (self.page.promises[each], before.promises[each]) for each in gone}}
            promises = {**promises, **_come_back(left, page)}
            left = dict([each for each in left.items() if each[0] not in page.promises][-_MOST_LEFT:])
        joined = page
        if promises:
            joined = replace(joined, promises=_continued(page.promises, promises))
        readings = thinned((*self.pod.readings, joined), page.at_s)
        cold = _ended(joined) if joined.state == STARTING else cold
        pod = replace(self.pod, readings=readings, cold=cold, failure=None)
        return Series(pod=pod, page=page, promises=promises, left=left)


def _ended(reading: Reading) -> Reading:
    """Of a reading what had ended by then: it may be kept for as long as its pod."""
    promises = {
        promise: {name: ObjectiveCounts(ended=counts.ended) for name, counts in objectives.items()}
        for promise, objectives in reading.promises.items()
    }
    return replace(reading, promises=promises)


def thinned(readings: tuple[Reading, ...], now_s: float) -> tuple[Reading, ...]:
    """The readings that windows up to WINDOW_S need: each of the last minute, one in 30 s of what is older, and one at
    the window's beginning or before. The newest is always kept."""
    since_s = now_s - WINDOW_S
    first = next((i for i in range(len(readings) - 1, 0, -1) if readings[i].at_s <= since_s), 0)
    kept = [readings[first]]
    for each in readings[first + 1 :]:
        step_s = _FINE_STEP_S if now_s - each.at_s <= _FINE_S else _COARSE_STEP_S
        if each.at_s - kept[-1].at_s >= step_s or each is readings[-1]:
            kept.append(each)
    return tuple(kept)


def _continued(promises: _Promises, base: _Promises) -> _Promises:
    return {
        promise: {name: _above(counts, base.get(promise, {}).get(name)) for name, counts in objectives.items()}
        for promise, objectives in promises.items()
    }


def _above(counts: ObjectiveCounts, base: ObjectiveCounts | None) -> ObjectiveCounts:
    return counts if base is None else replace(plus(counts, base), in_flight=counts.in_flight)


def _lacking(before: Reading, page: Reading) -> Iterator[str]:
    """What this page lacks and the one before had. The digest of a promise covers its objectives and their edges."""
    if before.promise is not None and page.promise is None:
        yield "its promise"
    for promise, objectives in before.promises.items():
        now = page.promises.get(promise)
        if now is None:
            continue
        yield from (f"objective {name[:64]}" for name in objectives.keys() - now.keys())
        for name in objectives.keys() & now.keys():
            yield from (
                f"buckets of {part} of objective {name[:64]}"
                for part in HISTOGRAMS
                if _edges(getattr(objectives[name], part)) != _edges(getattr(now[name], part))
            )


def _edges(histogram: Histogram | None) -> tuple[float, ...] | None:
    return None if histogram is None else histogram.edges


def _come_back(left: Mapping[str, tuple[_Objectives, _Objectives]], page: Reading) -> _Promises:
    """What promises that come back had counted before they began anew; nothing of those that go on."""
    return {
        promise: joined
        for promise, (last, joined) in left.items()
        if promise in page.promises and _fell(last, page.promises[promise])
    }


def _fell(before: _Objectives, after: _Objectives) -> bool:
    """Whether any count is below what it was."""
    return any(_counts_fell(before[name], after[name]) for name in before.keys() & after.keys())


def _counts_fell(before: ObjectiveCounts, after: ObjectiveCounts) -> bool:
    if after.arrivals < before.arrivals:
        return True
    if any(_outcomes_fell(getattr(before, part), getattr(after, part)) for part in _OUTCOMES):
        return True
    return any(_histogram_fell(getattr(before, part), getattr(after, part)) for part in HISTOGRAMS)


_OUTCOMES = ("ended", "longer", "first_caller")


def _outcomes_fell(before: Outcomes, after: Outcomes) -> bool:
    return before is not after and any(getattr(after, name) < getattr(before, name) for name in OUTCOMES)


def _histogram_fell(before: Histogram | None, after: Histogram | None) -> bool:
    if before is None or after is None or before.edges != after.edges:
        return False
    return any(map(gt, before.counts, after.counts)) or after.sum < before.sum
