"""How many replicas may be missing, and what the others carry of the declared load. Pure.

The plan's knee is what one replica serves inside the promise, at the pessimistic end of its uncertainty.
"""

from dataclasses import dataclass
from math import ceil

from modelfleet.api.rollout import Rollout
from modelfleet.core.layout.wording import rounded
from modelfleet.core.mix import Mix
from modelfleet.core.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Spare:
    """`missing`: how many replicas a rollout may take away before it puts others there. `evictable`: how many
    Kubernetes may evict at once (the PodDisruptionBudget). `load_rps` and `knee_rps` are the plan's, None where nothing
    was predicted."""

    replicas: int
    missing: int
    evictable: int
    load_rps: float | None = None
    knee_rps: float | None = None

    @property
    def loss(self) -> str:
        """What is lost while `missing` replicas are, in a sentence's part."""
        rest = self.replicas - self.missing
        others = "no replica is left" if rest <= 0 else f"the other {rest}" if rest > 1 else "the other one"
        if rest <= 0:
            return f"{others} meanwhile"
        verb = "carry" if rest > 1 else "carries"
        if not self.load_rps or self.knee_rps is None:
            return f"how much of the load {others} {verb} is not predicted"
        share = min(1.0, rest * self.knee_rps / self.load_rps)
        return f"{others} {verb} {share:.0%} of the declared {rounded(self.load_rps)} requests a second"


def decide_spare(rollout: Rollout, replicas: int, plan: Plan, mix: Mix | None = None) -> Spare:
    """`mix` is what stands, where some of it is of later classes: a replica is then taken for their mean.

    | maxUnavailable | missing | evictable |
    | is written | it | it |
    | is not, and the plan's load needs fewer replicas than there are | those above | those above |
    | else | one, because a rollout must go on | none |
    """
    hosted = plan.planned.hosted if plan.planned else None
    load_rps, knee_rps = (hosted.load_rps, mix.knee_rps if mix else hosted.knee_rps) if hosted else (None, None)
    if rollout.max_unavailable is not None:
        missing = evictable = min(rollout.max_unavailable, replicas)
    else:
        needed = max(1, ceil(load_rps / knee_rps)) if load_rps and knee_rps else replicas
        evictable = max(0, replicas - needed)
        missing = min(max(1, evictable), replicas)
    return Spare(replicas=replicas, missing=missing, evictable=evictable, load_rps=load_rps, knee_rps=knee_rps)
