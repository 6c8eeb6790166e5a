"""How far a pod on a node is on the way to its worker's start, from what the kubelet says of its containers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from modelfleet.core import raw
from modelfleet.core.failures import fetch_status, is_fetched, worker_status


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """`fetches`: the container that fetches the weights runs, or failed and is tried again; `fetch_since`: since when
    it runs now, None while it does not. `fetched_at`: when the weights were there. `began_at`: when the worker began
    for the first time; None before, and where its restarts hide it. `ended_at`: when it ended last.

    Times are of the node's clock.
    """

    fetches: bool = False
    fetch_since: datetime | None = None
    fetched_at: datetime | None = None
    began_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def at(self) -> datetime | None:
        """When the worker could begin, as far as that is known."""
        return self.began_at or self.fetched_at


def beginning(pod: Any) -> Beginning:
    """Of a raw pod."""
    fetch, worker = fetch_status(pod), worker_status(pod)
    fetched = is_fetched(pod)
    tried = any(raw.mapping(fetch, *where) for where in _TRIED)
    return Beginning(
        fetches=tried and not fetched,
        fetch_since=raw.instant(fetch, "state", "running", "startedAt"),
        fetched_at=raw.instant(fetch, "state", "terminated", "finishedAt") if fetched else None,
        began_at=_first_start(worker),
        ended_at=raw.instant(worker, "state", "terminated", "finishedAt")
        or raw.instant(worker, "lastState", "terminated", "finishedAt"),
    )


_TRIED = (("state", "running"), ("state", "terminated"), ("lastState", "terminated"))


def _first_start(worker: Mapping[str, Any]) -> datetime | None:
    """The kubelet tells of the present run and of the one before; of a third it does not."""
    restarts, waits = raw.integer(worker, "restartCount"), bool(raw.mapping(worker, "state", "waiting"))
    if restarts > 1 or (restarts and waits):
        return None
    starts = (
        raw.instant(worker, "state", "running", "startedAt"),
        raw.instant(worker, "state", "terminated", "startedAt"),
        raw.instant(worker, "lastState", "terminated", "startedAt"),
    )
    return min((at for at in starts if at is not None), default=None)
