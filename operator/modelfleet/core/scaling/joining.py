"""Readings of one pod as one series: counters that never fall, thinned out so that a window of many pods fits. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from modelfleet.core.perf.cells import Cells
from modelfleet.core.scaling.reading import OUTCOMES, ObjectiveCounts, Reading
from modelfleet.core.scaling.samples import WINDOW_S, PodSamples, plus

_Promises = Mapping[str, Mapping[str, ObjectiveCounts]]

_FINE_S, _FINE_STEP_S, _COARSE_STEP_S = 60.0, 4.0, 30.0
"""The last minute is kept as it was read (at an interval of 5 s and its jitter), what is older one in 30 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A pod's samples, and what the next reading is joined to: the last page as it was read, and what earlier lives of
    its processes had counted. Counts live in one place, so if one fell, all of them began anew."""

    pod: PodSamples
    page: Reading | None = None
    promises: _Promises = field(default_factory=dict)

    def failed(self, why: str) -> "Series":
        """A look that brought nothing; the last reading stays, and ages."""
        return replace(self, pod=replace(self.pod, failure=why))

    def stepped(self, steps: Cells, at_s: float) -> "Series":
        """The steps that a page told of."""
        return replace(self, pod=replace(self.pod, steps=steps, steps_at_s=at_s))

    def read(self, page: Reading) -> "Series":
        """One reading more."""
        before, promises = self.pod.last, self.promises
        if self.page is not None and before is not None:
            if page.at_s <= before.at_s:
                return replace(self, pod=replace(self.pod, failure=None))  # the same sample again, or an older one
            if _promises_fell(self.page.promises, page.promises):
                promises = before.promises
        joined = page
        if promises:
            joined = replace(joined, promises=_continued(page.promises, promises))
        readings = thinned((*self.pod.readings, joined), page.at_s)
        return Series(pod=replace(self.pod, readings=readings, failure=None), page=page, promises=promises)


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


def _promises_fell(before: _Promises, after: _Promises) -> bool:
    return any(
        _fell(known, counts)
        for promise, objectives in after.items()
        for name, counts in objectives.items()
        if (known := before.get(promise, {}).get(name)) is not None
    )


def _fell(before: ObjectiveCounts, after: ObjectiveCounts) -> bool:
    if after.arrivals < before.arrivals:
        return True
    return any(getattr(after.ended, name) < getattr(before.ended, name) for name in OUTCOMES)
