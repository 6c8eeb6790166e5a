"""How long starts take, phase by phase, and how far the coming one is. Pure.

| phase | from | to | told by |
| --- | --- | --- | --- |
| scheduled | the pod's creation | it has a node | its condition PodScheduled |
| image | | its first container runs: image, volumes | the kubelet |
| weights | | weights are fetched; absent where none are | the kubelet |
| load | | the engine has the weights in the device | the worker |
| compile | | it has compiled and captured graphs | the worker |
| ready | | the pod is Ready: first token, probe | its condition Ready |
| engine | in place of the last three where the worker tells nothing | | |

Of each class the last starts are kept in NAME-state (starts.json), so that quantiles are exact and bounded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from typing import Any

from modelfleet.core import raw
from modelfleet.core.failures import fetch_status, worker_status
from modelfleet.core.groups import Replica
from modelfleet.core.scaling.reading import Reading
from modelfleet.core.scaling.samples import Samples

STARTS = 16
"""So many starts are kept of each class."""

PATIENCE_S = 60.0
"""So long after it is ready a worker's own word about its start is waited for."""

_MOST_S = 1e7
PHASES = ("scheduled", "image", "weights", "load", "compile", "ready", "engine")
_OF_WORKER = {
    "preflight": "load",
    "members": "load",
    "boot": "load",
    "load": "load",
    "compile": "compile",
    "warm_up": "compile",
    "first_token": "ready",
}

Start = Mapping[str, float]
"""Seconds by phase."""


@dataclass(frozen=True, kw_only=True)
class Starts:
    """What NAME-state holds: the last starts of each class, and the uids of pods that are in them already."""

    by_class: Mapping[str, tuple[Start, ...]] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Seconds that half, and nine of ten, of the starts needed at most."""

    p50_s: float
    p90_s: float


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """How far the replica is that comes next. None: nothing tells."""

    phase: str
    share: float | None = None
    left_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What tells of starts: raw pods by name, the class of each pool, and what was sampled."""

    pods: Mapping[str, Any]
    classes: Mapping[str, str]
    samples: Samples | None


def with_new(starts: Starts, fleet: tuple[Replica, ...], seen: Seen, now: datetime) -> Starts:
    """With the starts of replicas that came up since."""
    here = {replica.uid for replica in fleet}
    found = replace(starts, seen=starts.seen & here)
    for replica in fleet:
        kind = seen.classes.get(replica.pool or "")
        if not replica.ready or replica.uid in found.seen or kind is None:
            continue
        pod, reading = seen.pods.get(replica.name, {}), reading_of(seen.samples, replica.uid)
        told = reading is not None and bool(reading.start.phases_s)
        ready_at = _condition_at(pod, "Ready")
        if not told and ready_at is not None and (now - ready_at).total_seconds() < PATIENCE_S:
            continue  # the worker may yet say how it started
        found = replace(found, seen=found.seen | {replica.uid})
        start = start_of(pod, reading)
        if start:
            kept = (*found.by_class.get(kind, ()), start)[-STARTS:]
            found = replace(found, by_class={**found.by_class, kind: kept})
    return found


def start_of(pod: Any, reading: Reading | None) -> Start:
    """The seconds of each phase of a pod that is ready; empty where it was restarted or a time is missing."""
    created, bound = raw.instant(pod, "metadata", "creationTimestamp"), _condition_at(pod, "PodScheduled")
    ready, worker = _condition_at(pod, "Ready"), worker_status(pod)
    began = raw.instant(worker, "state", "running", "startedAt")
    if created is None or bound is None or ready is None or began is None or raw.integer(worker, "restartCount"):
        return {}
    fetch = fetch_status(pod)
    fetched_from, fetched = (raw.instant(fetch, "state", "terminated", key) for key in ("startedAt", "finishedAt"))
    start = {"scheduled": _between(created, bound), "image": _between(bound, fetched_from or began)}
    if fetched_from is not None and fetched is not None:
        start |= {"weights": _between(fetched_from, fetched)}
        start["image"] += _between(fetched, began)
    engine_s = _between(began, ready)
    phases = reading.start.phases_s if reading is not None else {}
    if not phases:
        return start | {"engine": engine_s}
    told: dict[str, float] = {}
    for name, seconds in phases.items():
        told[phase_of_worker(name)] = told.get(phase_of_worker(name), 0.0) + seconds
    told["ready"] = max(0.0, engine_s - told.get("load", 0.0) - told.get("compile", 0.0))
    return start | {name: round(seconds, 1) for name, seconds in told.items()}


def outlook(replica: Replica, pod: Any, reading: Reading | None, usual_s: float | None, now: datetime) -> Outlook:
    """How far a replica that starts is: by its worker, else by how long starts usually take."""
    started = raw.instant(worker_status(pod), "state", "running", "startedAt")
    phase = "scheduled" if not replica.placed else "image"
    if raw.mapping(fetch_status(pod), "state", "running"):
        phase = "weights"
    if started is not None:
        phases = tuple(reading.start.phases_s) if reading is not None else ()
        phase = phase_of_worker(phases[-1]) if phases else "engine"
    if reading is not None and reading.start.progress is not None:
        return Outlook(phase=phase, share=reading.start.progress, left_s=reading.start.left_s)
    if usual_s is None or replica.created_at is None:
        return Outlook(phase=phase)
    passed_s = max(0.0, (now - replica.created_at).total_seconds())
    if passed_s >= usual_s:
        return Outlook(phase=phase)
    return Outlook(phase=phase, share=passed_s / usual_s, left_s=usual_s - passed_s)


def phase_of_worker(name: str) -> str:
    """The phase that a phase of the worker's own counts to."""
    return _OF_WORKER.get(name, "load")


def reading_of(samples: Samples | None, uid: str) -> Reading | None:
    """The newest reading of a pod."""
    pod = samples.pods.get(uid) if samples is not None else None
    return pod.last if pod is not None else None


def total_s(start: Start) -> float:
    """Seconds of the whole start."""
    return sum(start.values())


def quantiles(values: tuple[float, ...]) -> Quantiles | None:
    """By the nearest rank; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return Quantiles(p50_s=ordered[ceil(0.5 * len(ordered)) - 1], p90_s=ordered[ceil(0.9 * len(ordered)) - 1])


def read_starts(entry: Mapping[str, Any]) -> Starts:
    """What NAME-state holds; what cannot be read is left out."""
    by_class = {}
    for kind, listed in raw.mapping(entry, "classes").items():
        starts = [_read_start(each) for each in listed] if isinstance(listed, list) else []
        by_class[str(kind)] = tuple(each for each in starts if each)[-STARTS:]
    seen = entry.get("seen")
    return Starts(by_class=by_class, seen=frozenset(map(str, seen)) if isinstance(seen, list) else frozenset())


def starts_entry(starts: Starts) -> dict[str, Any]:
    """As NAME-state holds it."""
    classes = {kind: [dict(each) for each in kept] for kind, kept in starts.by_class.items()}
    return {"classes": classes, "seen": sorted(starts.seen)}


def _read_start(value: Any) -> Start:
    found = value if isinstance(value, Mapping) else {}
    return {name: float(found[name]) for name in PHASES if _is_seconds(found.get(name))}


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_S


def _condition_at(pod: Any, kind: str) -> datetime | None:
    conditions = raw.items(pod, "status", "conditions")
    found = next((each for each in conditions if each.get("type") == kind and each.get("status") == "True"), None)
    return raw.instant(found, "lastTransitionTime")


def _between(begin: datetime, end: datetime) -> float:
    return round(max(0.0, (end - begin).total_seconds()), 1)
