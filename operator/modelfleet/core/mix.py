"""What replicas of several classes carry together, counted in replicas of the first class. Pure.

A replica counts by its knee: the requests a second that it serves inside the promise, as its plan predicts it. Where
nothing is predicted all count alike. Replicas of other revisions count as those of the first class, as they do where
there is no other class.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from modelfleet.core.groups import Replica
from modelfleet.core.plan import Plan
from modelfleet.core.revisions import Revision

_EVEN = 1e-9


@dataclass(frozen=True, kw_only=True)
class Mix:
    """How many replicas stand: `on_first` of the first class, and on each of the `later` ones."""

    first: Plan
    on_first: int = 0
    later: tuple[tuple[Plan, int], ...] = ()

    @property
    def on_later(self) -> int:
        """Replicas of later classes."""
        return sum(count for _, count in self.later)

    @property
    def standing(self) -> int:
        """All replicas."""
        return self.on_first + self.on_later

    @property
    def capacity(self) -> float:
        """What they carry, in replicas of the first class."""
        return self.on_first + sum(count * self._weight(plan) for plan, count in self.later)

    @property
    def knee_rps(self) -> float:
        """Requests a second that one replica serves inside the promise, the mean of those that stand; 0.0 where nothing
        is predicted."""
        knee_rps = self.first.knee_rps or 0.0
        return knee_rps * self.capacity / self.standing if self.on_later else knee_rps

    def carrying(self, need: float) -> int:
        """How many replicas carry what `need` of the first class carry. More are counted as of the first class; fewer
        without those that would leave first (of the latest class, drain.py), one by one while the rest carries it."""
        if not self.on_later:
            return ceil(need - _EVEN)
        left, count = self.capacity, self.standing
        if left < need - _EVEN:
            return count + ceil(need - left - _EVEN)
        for weight in self._in_leaving_order():
            if left - weight < need - _EVEN:
                break
            left, count = left - weight, count - 1
        return count

    def within(self, accelerators: int) -> int:
        """How many replicas so many accelerators allow: those of later classes as they stand, the others of the first;
        fewer than stand on later classes where these alone are too many."""
        left = accelerators
        held = [plan.accelerators for plan, count in self.later for _ in range(count)]
        for count, each in enumerate(held):
            if left < each:
                return count
            left -= each
        return self.on_later + left // self.first.accelerators

    def _in_leaving_order(self) -> list[float]:
        later = [self._weight(plan) for plan, count in reversed(self.later) for _ in range(count)]
        return [*later, *[1.0] * self.on_first]

    def _weight(self, plan: Plan) -> float:
        return plan.knee_rps / self.first.knee_rps if plan.knee_rps and self.first.knee_rps else 1.0


def mix_of(fleet: Iterable[Replica], revision: Revision) -> Mix:
    """What stands of a fleet, for the pools of a revision: what exists, has not ended and is not on its way out."""
    counts = dict.fromkeys((pool.name for pool in revision.pools), 0)
    for replica in fleet:
        if replica.terminating or replica.finished or (replica.ready and not replica.serving):
            continue
        pool = replica.pool if replica.pool in counts else revision.name
        counts[pool or revision.name] += 1
    later = tuple((pool.plan, counts[pool.name]) for pool in revision.later if counts[pool.name])
    return Mix(first=revision.plan, on_first=counts[revision.name], later=later)
