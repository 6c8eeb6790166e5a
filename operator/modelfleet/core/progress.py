"""How far a rollout is, what it can go back to, and how long it may stand still. Pure.

NAME-state holds it (`rollout.json`, the key `progress`). An entry of an earlier version has no `from`, and reads as one
that can go back to nothing but what still serves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil, inf
from typing import Any

from modelfleet.api.acceleratorclass import AcceleratorClass, Provisioning
from modelfleet.core import raw
from modelfleet.core.group_clock import PULL_S
from modelfleet.core.group_life import BUY_S
from modelfleet.core.plan import Plan
from modelfleet.core.start_deadline import ENGINE_S

LEAST_S = 1800.0
"""A rollout may stand still for so long where the spec says nothing and starts are quicker."""


@dataclass(frozen=True)
class Progress:
    """`revision` is the whole hash that is rolled out; `served` the most replicas of it that served at once; `at` when
    they became so many, None where the clock stands because none is wanted. `origin` is the hash of the revision that
    served before; empty: none did."""

    revision: str
    served: int
    at: datetime | None
    origin: str = ""

    def waited_s(self, now: datetime) -> float:
        """For how long no further one has served."""
        return max(0.0, (now - self.at).total_seconds()) if self.at is not None else 0.0

    def dumped(self) -> dict[str, Any]:
        """As NAME-state holds it."""
        said: dict[str, Any] = {"revision": self.revision, "served": self.served}
        if self.at is not None:
            said["at"] = self.at.isoformat()
        return said | ({"from": self.origin} if self.origin else {})


def read(kept: Mapping[str, Any]) -> Progress:
    """What NAME-state holds; what cannot be read is as if it were not there."""
    entry = raw.mapping(kept, "progress")
    return Progress(
        revision=raw.text(entry, "revision"),
        served=max(0, raw.integer(entry, "served")),
        at=raw.instant(entry, "at"),
        origin=raw.text(entry, "from"),
    )


def longest_start_s(plans: Iterable[Plan], classes: Mapping[str, AcceleratorClass]) -> float:
    """Seconds that the operator gives a replica of any of these plans to serve, from when an old one begins to leave.

    Each part is what is waited for elsewhere: the old one's drain, a node that is to be bought (BUY_S), images and
    volumes (PULL_S), weights that are fetched (as long as reading them may take), and the engine's own start.
    """
    return max((_start_s(plan, classes.get(plan.class_name)) for plan in plans), default=0.0)


def _start_s(plan: Plan, kind: AcceleratorClass | None) -> float:
    limits = plan.limits
    bought = kind is not None and any(each.provisioning is Provisioning.AUTOSCALED for each in kind.spec.supplies)
    fetched = plan.weights is not None and plan.weights.is_fetched
    return (
        limits.drain_s
        + limits.propagation_s
        + (BUY_S if bought else 0.0)
        + PULL_S
        + (max(0.0, limits.start_deadline_s - ENGINE_S) if fetched else 0.0)
        + limits.start_deadline_s
    )


def in_words(seconds: float) -> str:
    """A time in whole minutes, rounded up, as a duration is written: 30m, 1h5m."""
    hours, minutes = divmod(ceil(seconds / 60), 60) if seconds < inf else (0, 0)
    return "".join(f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m")) if number) or "0m"
