"""What a Prometheus answers, an instant vector, to the pages of workers. Pure.

The series of one target are one page: they share what Prometheus adds to each (instance, job, pod …). What a page says
of itself (which pod it is of) comes along as a series, so identity does not rest on anybody's relabelling.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from modelfleet.controller.metrics.queries import STAMP
from modelfleet.core.scaling import step_samples
from modelfleet.core.scaling.page import Origin, Slot, origins, slot

_OWN = frozenset(
    {
        "promise",
        "objective",
        "outcome",
        "apart",
        "le",
        "kv",
        "phase",
        "state",
        "revision",
        "worker_pod",
        "worker_pod_uid",
        *step_samples.LABELS,
    }
)
_EXPORTED = "exported_"


@dataclass(frozen=True, kw_only=True)
class Page:
    """The page of one worker as Prometheus read it, `age_s` ago, which was at `read_at` by its own clock."""

    origin: Origin
    found: Mapping[Slot, float]
    age_s: float
    read_at: float


@dataclass
class _Target:
    found: dict[Slot, float] = field(default_factory=dict)
    read_at: float | None = None
    asked_at: float = 0.0


def stamps_alone(answer: Iterable[Mapping[str, Any]]) -> bool:
    """Whether it says only which workers there are."""
    return not any("__name__" in each["metric"] for each in answer)


def targets(answer: Iterable[Mapping[str, Any]], uids: Container[str]) -> list[dict[str, str]]:
    """The labels of the targets that are pods of `uids`, by the stamps in an answer."""
    split = (_split(each["metric"]) for each in answer)
    return [dict(target) for name, own, target in split if not name and own.get("worker_pod_uid") in uids]


def pages(answer: Iterable[Mapping[str, Any]]) -> Iterator[Page]:
    """The pages in an instant vector, by target. A target whose page was read at an unknown time is left out."""
    targets: dict[frozenset[tuple[str, str]], _Target] = {}
    for each in answer:
        name, own, target = _split(each["metric"])
        asked_at, value = float(each["value"][0]), float(each["value"][1])
        entry = targets.setdefault(target, _Target())
        if not name:
            entry.read_at, entry.asked_at = value, asked_at
            continue
        where = slot(name, own)
        if where is not None:
            entry.found[where] = value
    for entry in targets.values():
        if entry.read_at is not None and isfinite(entry.read_at):
            age_s = max(0.0, entry.asked_at - entry.read_at)
            # Of several pods the page is none, and each is told so when it is read.
            for named in origins(entry.found) or (Origin(),):
                yield Page(origin=named, found=entry.found, age_s=age_s, read_at=entry.read_at)


def _split(metric: Mapping[str, str]) -> tuple[str, dict[str, str], frozenset[tuple[str, str]]]:
    """Name, the labels that the worker gave, and those of its target.

    Where both gave one, Prometheus keeps the worker's under the name exported_…; a target's own that is called like one
    of ours says nothing about which target it is.
    """
    own, target = {}, []
    for label, value in metric.items():
        bare = label.removeprefix(_EXPORTED)
        if bare in _OWN:
            if label != bare or _EXPORTED + label not in metric:
                own[bare] = value
        elif label not in ("__name__", STAMP):
            target.append((label, value))
    return metric.get("__name__", ""), own, frozenset(target)
