"""How many replicas may be missing, and what the others carry of the load. Pure.

The plan's knee is what one replica serves inside the promise, at the pessimistic end of its uncertainty. The declared
load says how many are needed only where nothing better does: a number that was decided from a measured load is what
that load needs, whatever was declared.
"""

from dataclasses import dataclass
from math import ceil

from modelfleet.api.rollout import Rollout
from modelfleet.core.intent import Wish
from modelfleet.core.layout.wording import rounded
from modelfleet.core.mix import Mix
from modelfleet.core.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What needs replicas besides the declared load. `least`: minReplicas. `source`: what the whole number was decided
    from, as the beginning of "… asks for" or "… gets" in a sentence; empty where the declared load or the user did."""

    least: int = 1
    source: str = ""


DECLARED = Needs()
"""Nothing but the declared load."""


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
    needs: Needs = DECLARED

    @property
    def loss(self) -> str:
        """What is lost while `missing` replicas are, in a sentence's part."""
        rest, least = self.replicas - self.missing, self.needs.least
        if rest <= 0:
            return "no replica is left meanwhile"
        said = self._carried(rest)
        return f"{said}, and minReplicas is {least}" if rest < least and "minReplicas" not in said else said

    def _carried(self, rest: int) -> str:
        others, verb = (f"the other {rest}", "carry") if rest > 1 else ("the other one", "carries")
        if self.needs.source:
            return f"{others} {'stay' if rest > 1 else 'stays'} of the {self.replicas} that {self.needs.source}"
        if not self.load_rps or self.knee_rps is None:
            return f"how much of the load {others} {verb} is not predicted"
        share = min(1.0, rest * self.knee_rps / self.load_rps)
        return f"{others} {verb} {share:.0%} of the declared {rounded(self.load_rps)} requests a second"


def spare_of(wish: Wish, plan: Plan, mix: Mix | None = None) -> Spare:
    """That of a wish whose replicas move to `plan`."""
    needs = Needs(least=wish.deployment.spec.scaling.min_replicas, source=wish.replicas.source)
    return decide_spare(wish.deployment.spec.rollout, wish.replicas.replicas, plan, mix, needs)


def decide_spare(rollout: Rollout, replicas: int, plan: Plan, mix: Mix | None = None, needs: Needs = DECLARED) -> Spare:
    """`mix` is what stands, where some of it is of later classes: a replica is then taken for their mean.

    | maxUnavailable | missing | evictable |
    | is written | it | it |
    | is not, and minReplicas and the load need fewer replicas than there are | those above | those above |
    | else | one, because a rollout must go on | none |

    | the load needs | where |
    | all | the number was decided from what is measured, or nothing is predicted |
    | as many as the declared one by the knee | else |
    """
    hosted = plan.planned.hosted if plan.planned else None
    load_rps, knee_rps = (hosted.load_rps, mix.knee_rps if mix else hosted.knee_rps) if hosted else (None, None)
    if rollout.max_unavailable is not None:
        missing = evictable = min(rollout.max_unavailable, replicas)
    else:
        declared = max(1, ceil(load_rps / knee_rps)) if load_rps and knee_rps else replicas
        needed = replicas if needs.source else max(declared, needs.least)
        evictable = max(0, replicas - needed)
        missing = min(max(1, evictable), replicas)
    return Spare(
        replicas=replicas, missing=missing, evictable=evictable, load_rps=load_rps, knee_rps=knee_rps, needs=needs
    )
