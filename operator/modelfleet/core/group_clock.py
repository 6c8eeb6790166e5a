"""How long a group may take from its nodes to serving. Pure."""

from dataclasses import dataclass
from datetime import datetime

from modelfleet.core.groups import Replica
from modelfleet.core.plan import Plan
from modelfleet.core.start_deadline import fetch_limit_s

PULL_S = 900.0
"""What a group may take for images and volumes, besides the plan's start deadline."""


@dataclass(frozen=True)
class Clock:
    """What is left of a group's time in seconds, and the sentence for when nothing is."""

    left_s: float
    late: str


def clock_of(replica: Replica, plan: Plan | None, now: datetime) -> Clock | None:
    """
    | what is observed of a group that has its nodes | its time |
    | --- | --- |
    | it serves; or its leader is Ready, and no rank says since when it is not | none runs |
    | a rank's weights come | `fetch_limit_s`, from that container's start |
    | a rank's weights did not come, and the kubelet tries again | none runs: what it said is the reason |
    | else | the plan's start deadline and PULL_S, from the last of: a rank got its node, its weights were there, its
      worker began, it was Ready no more |
    """
    leader = replica.leader
    if replica.ready or replica.size == 1 or not replica.placed or plan is None:
        return None
    if replica.fetching:
        since = [at for pod in replica.fetching if (at := pod.beginning.fetch_since) is not None]
        limit_s = fetch_limit_s(plan.limits.start_deadline_s)
        late = f"its weights did not come within {limit_s:.0f} s"
        return Clock(limit_s - passed_s(min(since), now), late) if since else None
    unready = [pod.unready_since for pod in replica.pods if pod.unready_since is not None]
    if leader is not None and leader.ready and not unready:
        return None
    times = [at for pod in replica.pods for at in (pod.scheduled_at, pod.beginning.at) if at is not None]
    if not (times or unready):
        return None
    limit_s = plan.limits.start_deadline_s + PULL_S
    late = f"it did not serve within {limit_s:.0f} s on its nodes"
    return Clock(limit_s - passed_s(max(times + unready), now), late)


def passed_s(since: datetime, now: datetime) -> float:
    """Seconds since a time of a node's clock: one that is ahead of ours ends nothing."""
    return max(0.0, (now - since).total_seconds())
