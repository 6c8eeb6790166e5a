"""What an activator knows of a model, read from its ModelDeployment as the API server has it. Pure.

Nothing here is refused: what is missing or unreadable reads as not known, so that an object of another version never
takes a model away from its clients.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from modelfleet.api.values import Duration, Rate
from modelfleet.core import raw

_PATIENCE_S = 300.0
"""How long requests are held where the object does not say it: toZero was taken out while some waited."""


@dataclass(frozen=True)
class Refusal:
    """Why a start cannot succeed now, as the operator says it."""

    reason: str
    message: str
    until: datetime | None = None
    """When requests are held again, also if the object still has the refusal; None: not said."""

    def holds_at(self, now: datetime) -> bool:
        """Whether it still counts."""
        return self.until is None or now < self.until


@dataclass(frozen=True)
class Outlook:
    """How long a start takes, in seconds: what the operator measured, and what is left of the one that runs."""

    usual_s: float | None = None
    """The 90th percentile of whole starts."""
    left_s: float | None = None
    """What is left of the start that runs, by its progress."""
    since: datetime | None = None
    """When the start that runs began."""


@dataclass(frozen=True)
class Demand:
    """An activator's entry in status.demand, as the API server has it."""

    waiting: int
    at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Known:
    """A model that may be at zero."""

    namespace: str
    name: str
    uid: str
    created: str
    port: int
    served_names: tuple[str, ...]
    patience_s: float
    """The longest that a request is held, from its arrival."""
    most_replicas: int
    rate_rps: float | None
    """Requests a second that one replica serves within its promise; None: nothing is predicted."""
    sequences: int | None
    """Requests that one replica works on at the same time; None: not known."""
    outlook: Outlook
    refusal: Refusal | None
    demand: Mapping[str, Demand]
    """By activator."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    def waiting_elsewhere(self, activator: str) -> int:
        """Requests that other activators hold, as far as they have told."""
        return sum(entry.waiting for name, entry in self.demand.items() if name != activator)


def known(deployment: Mapping[str, Any]) -> Known | None:
    """The model of a ModelDeployment; None where no activator is to listen for it."""
    status, spec = raw.mapping(deployment, "status"), raw.mapping(deployment, "spec")
    port = raw.integer(status, "toZero", "activatorPort")
    if not 0 < port < 65536 or raw.at(deployment, "metadata", "deletionTimestamp") is not None:
        return None
    name = raw.name(deployment)
    names = raw.at(spec, "model", "servedNames")
    served = tuple(each for each in names if isinstance(each, str)) if isinstance(names, list) else ()
    pool = _weakest(status)
    return Known(
        namespace=raw.text(deployment, "metadata", "namespace"),
        name=name,
        uid=raw.uid(deployment),
        created=raw.text(deployment, "metadata", "creationTimestamp"),
        port=port,
        served_names=served or (name,),
        patience_s=_seconds(raw.text(spec, "scaling", "toZero", "firstCallerWaits")) or _PATIENCE_S,
        most_replicas=max(1, raw.integer(spec, "scaling", "maxReplicas", default=1)),
        rate_rps=_rate(raw.text(pool, "predicted", "kneeRequestsPerSecond")),
        sequences=raw.integer(pool, "engine", "sequenceCap") or None,
        outlook=_outlook(status),
        refusal=_refusal(raw.mapping(status, "toZero", "refusal")),
        demand={raw.text(each, "activator"): _demand(each) for each in raw.items(status, "demand")},
    )


def _weakest(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of the pools that have replicas, else of all, the one whose replica serves least: no more is let through."""
    pools = [pool for pool in raw.items(status, "plan", "pools") if pool.get("role") == "Serve"]
    used = [pool for pool in pools if raw.integer(pool, "replicas")] or pools[:1]
    none = float("inf")
    return min(used, key=lambda pool: _rate(raw.text(pool, "predicted", "kneeRequestsPerSecond")) or none, default={})


def _outlook(status: Mapping[str, Any]) -> Outlook:
    waking = raw.text(status, "toZero", "state") == "Waking"
    return Outlook(
        usual_s=_number(raw.at(status, "coldStart", "p90Seconds")),
        left_s=_number(raw.at(status, "coldStart", "progress", "leftSeconds")) if waking else None,
        since=raw.instant(status, "toZero", "since") if waking else None,
    )


def _refusal(told: Mapping[str, Any]) -> Refusal | None:
    if not told:
        return None
    reason = raw.text(told, "reason") or "StartFailed"
    return Refusal(reason, raw.text(told, "message"), raw.instant(told, "until"))


def _demand(entry: Mapping[str, Any]) -> Demand:
    return Demand(max(0, raw.integer(entry, "waiting")), raw.instant(entry, "at"))


def _number(value: Any) -> float | None:
    """A number of at least zero, also one that is written as text."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _seconds(text: str) -> float | None:
    try:
        return Duration(text).seconds if text else None
    except ValueError:
        return None


def _rate(text: str) -> float | None:
    try:
        rate = float(Rate(text).per_second) if text else 0.0
    except ValueError:
        return None
    return rate or None
