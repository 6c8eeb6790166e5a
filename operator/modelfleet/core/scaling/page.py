"""From the samples of a worker's compact page (docs/metrics.md) to a reading, whichever way they came. Pure.

A sample's name and labels make a slot; the slots of a page make a reading. Both sources (the page itself, Prometheus)
come through here, so that they cannot mean different things.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isnan
from typing import NamedTuple

from modelfleet.core.scaling import step_samples
from modelfleet.core.scaling.reading import (
    OUTCOMES,
    Histogram,
    ObjectiveCounts,
    Outcomes,
    Reading,
    Start,
    histogram,
)


class PageError(Exception):
    """A page cannot be one of ours; the text is one sentence."""


class Slot(NamedTuple):
    """Where a sample belongs in a reading: `part` of a worker, or of an objective under a promise; `detail` is an
    outcome, a phase, a state or an upper edge. Of a step's cell, `promise` and `objective` are its edges."""

    part: str
    promise: str = ""
    objective: str = ""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Which pod a page says that it is of: "" where it does not say."""

    pod: str = ""
    uid: str = ""


_WORKER = {
    "modelfleet_worker_in_flight": "in_flight",
    "modelfleet_worker_waiting": "waiting",
    "modelfleet_worker_oldest_waiting_seconds": "oldest_waiting_s",
    "modelfleet_engine_running": "running",
    "modelfleet_worker_start_progress_ratio": "progress",
    "modelfleet_worker_start_left_seconds": "left_s",
}
_HISTOGRAMS = {
    "modelfleet_goodput_ttft_seconds": "ttft_s",
    "modelfleet_goodput_tpot_seconds": "tpot_s",
    "modelfleet_input_tokens": "input_tokens",
    "modelfleet_output_tokens": "output_tokens",
}
_LABELLED = {
    "modelfleet_worker_info": ("revision", "revision"),
    "modelfleet_worker_pod_info": ("origin", "worker_pod"),
    "modelfleet_worker_state": ("state", "state"),
    "modelfleet_worker_start_phase_seconds": ("phase", "phase"),
    "modelfleet_engine_kv_tokens": ("kv", "kv"),
    "modelfleet_promise_info": ("promise", "promise"),
    "modelfleet_worker_compiled_code_info": ("compiled", "state"),
}
_MOST = 1e15
"""No counter of a worker gets there: a million tokens a second for thirty years."""

_APART = ("longer", "first_caller")
_ALL = "all"
"""The outcome that is the sum of the others, of what is apart: those appear with their first request only."""
_SHARED = ("met", "late_ttft", "late_tpot", "late_both", "refused", "failed")
"""Outcomes that a share is made of: each is on every page from the start."""
_MOST_EDGES = 128
"""No histogram of a worker has half as many."""

NAMES = (
    *_WORKER,
    *(f"{name}_{end}" for name in _HISTOGRAMS for end in ("bucket", "sum")),
    *_LABELLED,
    "modelfleet_goodput_arrivals_total",
    "modelfleet_goodput_in_flight",
    "modelfleet_goodput_requests_total",
    "modelfleet_goodput_apart_total",
)
"""Every series that a reading is made of; the others of the page are for people and dashboards."""


def slot(name: str, labels: Mapping[str, str]) -> Slot | None:
    """Where a sample belongs; None for one that no reading has."""
    if name in _WORKER:
        return Slot(_WORKER[name])
    if name in _LABELLED:
        part, label = _LABELLED[name]
        uid = labels.get("worker_pod_uid", "") if part == "origin" else ""
        return Slot(part, detail=labels.get(label, ""), objective=uid)
    if part := step_samples.part_of(name):
        return Slot(part, *(labels.get(each, "") for each in step_samples.LABELS))
    promise, objective = labels.get("promise", ""), labels.get("objective", "")
    match name:
        case "modelfleet_goodput_arrivals_total":
            return Slot("arrivals", promise, objective)
        case "modelfleet_goodput_in_flight":
            return Slot("objective_in_flight", promise, objective)
        case "modelfleet_goodput_requests_total":
            return Slot("ended", promise, objective, labels.get("outcome", ""))
        case "modelfleet_goodput_apart_total":
            return Slot(labels.get("apart", ""), promise, objective, labels.get("outcome", ""))
    stem, _, end = name.rpartition("_")
    if stem in _HISTOGRAMS and end == "bucket":
        return Slot(f"{_HISTOGRAMS[stem]}.bucket", promise, objective, labels.get("le", ""))
    if stem in _HISTOGRAMS and end == "sum":  # an `le` on it is a label of Prometheus' target
        return Slot(f"{_HISTOGRAMS[stem]}.sum", promise, objective)
    return None


def origin(found: Mapping[Slot, float]) -> Origin:
    """Which pod the page says that it is of. Raises PageError where it names several: pages of several pods came as
    one, as from a Prometheus that drops the labels of its targets."""
    named = origins(found)
    if len(named) > 1:
        raise PageError(f"its page names {len(named)} pods, and a page is of one")
    return named[0] if named else Origin()


def origins(found: Mapping[Slot, float]) -> tuple[Origin, ...]:
    """All pods that the page says that it is of."""
    return tuple(Origin(pod=each.detail, uid=each.objective) for each in found if each.part == "origin")


def reading(found: Mapping[Slot, float], pod_uid: str, at_s: float) -> Reading:
    """The reading of pod `pod_uid` at `at_s`. Raises PageError for numbers that no page of ours has, and for a page
    that lacks what each has: what is not there is no zero."""
    draft = _Draft()
    for where, value in found.items():
        if not 0 <= value <= _MOST:  # what is no number is not either
            raise PageError(f"{where.part} is {value:g}, and nothing on the page can be")
        draft.take(where, value)
    try:
        promises = draft.promises()
    except ValueError as error:
        raise PageError(str(error)) from error
    promise = draft.words.get("promise")
    if promise is not None and promise not in promises:
        raise PageError("its page names a promise and has no counts of it: it was cut")
    present = ("in_flight", "waiting", "running", "kv_total_tokens", "kv_used_tokens")
    whole = {name: int(draft.worker[name]) for name in present if name in draft.worker}
    return Reading(
        pod_uid=pod_uid,
        at_s=at_s,
        revision=draft.words.get("revision", ""),
        state=draft.words.get("state", ""),
        promise=promise,
        promises=promises,
        oldest_waiting_s=draft.worker.get("oldest_waiting_s"),
        start=Start(
            progress=draft.worker.get("progress"),
            left_s=draft.worker.get("left_s"),
            phases_s=draft.phases_s,
            compiled=draft.words.get("compiled", ""),
        ),
        **whole,
    )


class _Draft:
    """A page on its way to a reading."""

    def __init__(self) -> None:
        self.worker: dict[str, float] = {}
        self.words: dict[str, str] = {}
        self.phases_s: dict[str, float] = {}
        self._objectives: dict[tuple[str, str], dict[str, dict[str, float]]] = {}

    def take(self, where: Slot, value: float) -> None:
        part, promise, objective, detail = where
        if part.startswith(step_samples.PREFIX):
            return
        if promise:
            parts = self._objectives.get((promise, objective))
            if parts is None:
                parts = self._objectives[promise, objective] = {}
            counts = parts.get(part)
            if counts is None:
                counts = parts[part] = {}
            counts[detail] = value
        elif part in ("revision", "promise", "state", "compiled"):
            if value:
                self.words[part] = detail
        elif part == "phase":
            self.phases_s[detail] = value
        elif part == "kv":
            self.worker[f"kv_{detail}_tokens"] = value
        elif part != "origin":
            self.worker[part] = value

    def promises(self) -> dict[str, dict[str, ObjectiveCounts]]:
        """Counts by promise and objective. Raises ValueError for counts that are not whole, or fall in a histogram."""
        result: dict[str, dict[str, ObjectiveCounts]] = {}
        for (promise, objective), parts in self._objectives.items():
            result.setdefault(promise, {})[objective] = _objective(objective, parts)
        return result


def _objective(name: str, parts: Mapping[str, Mapping[str, float]]) -> ObjectiveCounts:
    lacks = next(_lacking(parts), "")
    if lacks:
        raise ValueError(f"its page lacks {lacks} of objective {name[:64]}: it was cut")
    return ObjectiveCounts(
        arrivals=int(parts.get("arrivals", {}).get("", 0)),
        in_flight=int(parts.get("objective_in_flight", {}).get("", 0)),
        ended=_outcomes(parts.get("ended", {})),
        longer=_outcomes(parts.get(_APART[0], {})),
        first_caller=_outcomes(parts.get(_APART[1], {})),
        ttft_s=_histogram(parts, "ttft_s"),
        tpot_s=_histogram(parts, "tpot_s"),
        input_tokens=_histogram(parts, "input_tokens"),
        output_tokens=_histogram(parts, "output_tokens"),
    )


def _lacking(parts: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """What of an objective is not on the page, though every page has it from the start."""
    if "arrivals" not in parts:
        yield "arrivals"
    ended = parts.get("ended", {})
    yield from (f"requests {outcome}" for outcome in _SHARED if outcome not in ended)
    for apart in _APART:
        counts = parts.get(apart, {})
        if counts.get(_ALL) != sum(count for outcome, count in counts.items() if outcome != _ALL):
            yield f"requests that are apart ({apart})"
    for part in _HISTOGRAMS.values():
        if f"{part}.bucket" not in parts or f"{part}.sum" not in parts:
            yield f"the histogram {part}"


_NONE = Outcomes()


def _outcomes(by_name: Mapping[str, float]) -> Outcomes:
    counts = {name: int(count) for name, count in by_name.items() if count and name in OUTCOMES}
    return Outcomes(**counts) if counts else _NONE


@lru_cache(maxsize=4096)
def _edges(spelt: tuple[str, ...], part: str) -> tuple[tuple[float, ...], tuple[int, ...] | None]:
    """The upper edges in their order but the last, which is +Inf, and where each stands among `spelt`; None where they
    stand in order. Edges repeat in every page of a promise: one tuple of them in memory. Raises ValueError."""
    if len(spelt) > _MOST_EDGES:
        raise ValueError(f"the histogram {part} has {len(spelt)} buckets, and no worker's has")
    edges = [float(each) for each in spelt]
    order = tuple(sorted(range(len(edges)), key=edges.__getitem__))
    ordered = tuple(edges[each] for each in order)
    if ordered[-1] != inf or any(map(isnan, ordered)):
        raise ValueError(f"the histogram {part} has no bucket +Inf, or one of no number")
    return ordered[:-1], None if order == tuple(range(len(order))) else order


def _histogram(parts: Mapping[str, Mapping[str, float]], part: str) -> Histogram | None:
    buckets = parts.get(f"{part}.bucket")
    if not buckets:
        return None
    edges, order = _edges(tuple(buckets), part)
    counts = list(buckets.values())
    if order is not None:
        counts = [counts[each] for each in order]
    return histogram(edges, counts, parts.get(f"{part}.sum", {}).get("", 0.0))
