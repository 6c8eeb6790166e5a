"""Replicas: one engine each, of one pod or of a group of pods over several nodes. Pure.

A group is one thing: it serves when all of its ranks are there and its leader (rank 0) answers, and it has ended when
one rank has, because an engine cannot go on without a peer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from modelfleet.api import names
from modelfleet.api.reasons import Reason
from modelfleet.core.failures import Failure
from modelfleet.core.plan import Plan
from modelfleet.core.pods import PodView


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One replica as it is observed. `members` are its pods by rank, None where one is not there.

    `revision` and `slot` are None for a pod whose name is not one that we give; it stands alone.
    """

    revision: str | None
    slot: int | None
    members: tuple[PodView | None, ...]

    @property
    def pool(self) -> str | None:
        """The name that its pods carry: that of its revision, or of the revision's pool on a later class."""
        return self.pods[0].revision if self.revision is not None else None

    @cached_property
    def pods(self) -> tuple[PodView, ...]:
        """The members that are there, by rank."""
        return tuple(pod for pod in self.members if pod is not None)

    @property
    def leader(self) -> PodView | None:
        """Rank 0, which answers requests."""
        return self.members[0]

    @property
    def size(self) -> int:
        """How many pods it has when it is whole."""
        return len(self.members)

    @property
    def name(self) -> str:
        """The name of the leader's pod, or without it of the first that is there."""
        return self.pods[0].name

    @property
    def uid(self) -> str:
        """Tells this replica from an earlier or later one of the same name: the uid of the pod that `name` names."""
        return self.pods[0].uid

    @cached_property
    def complete(self) -> bool:
        """Every rank is there, none ended, none is asked to end."""
        return len(self.pods) == self.size and not any(pod.terminating or pod.finished for pod in self.pods)

    @cached_property
    def started(self) -> bool:
        """A worker of it has run: from then on it stands and falls as one."""
        return any(pod.started for pod in self.pods)

    @cached_property
    def ready(self) -> bool:
        """It answers requests: the leader is Ready, and all ranks are there and run."""
        leader = self.leader
        return leader is not None and leader.ready and self.complete and all(pod.running for pod in self.pods[1:])

    @property
    def serving(self) -> bool:
        """The label that the Service selects is on the leader."""
        return self.leader is not None and self.leader.serving

    @cached_property
    def terminating(self) -> bool:
        """All that is left of it is asked to end."""
        return all(pod.terminating for pod in self.pods)

    @cached_property
    def finished(self) -> bool:
        """It will not serve any more: a rank ended, or is gone after the group had started."""
        if any(pod.finished for pod in self.pods):
            return True
        if self.size == 1 or self.terminating:
            return False
        return any(pod.terminating for pod in self.pods) or (self.started and len(self.pods) < self.size)

    @cached_property
    def placed(self) -> bool:
        """Every rank is there and has a node."""
        return len(self.pods) == self.size and all(pod.placed for pod in self.pods)

    @cached_property
    def gated(self) -> bool:
        """A rank waits for our scheduling gate: the group is not placed, or not all of it yet."""
        return any(names.PLACED_GATE in pod.gates for pod in self.pods)

    @cached_property
    def foreign_gates(self) -> tuple[str, ...]:
        """Gates of others that a rank waits for, such as Kueue's."""
        return tuple(sorted({gate for pod in self.pods for gate in pod.gates} - {names.PLACED_GATE}))

    @cached_property
    def stuck(self) -> PodView | None:
        """The first rank for which the scheduler found no node."""
        return next((pod for pod in self.pods if pod.unschedulable), None)

    @property
    def unschedulable(self) -> str:
        """The scheduler's words about that rank; empty where there is none."""
        return self.stuck.unschedulable if self.stuck else ""

    @property
    def unschedulable_since(self) -> datetime | None:
        """Since when it has had no node."""
        return self.stuck.unschedulable_since if self.stuck else None

    @property
    def lacks(self) -> tuple[str, ...]:
        """What the scheduler names as insufficient for that rank."""
        return self.stuck.lacks if self.stuck else ()

    @cached_property
    def failed(self) -> PodView | None:
        """The rank whose failure tells most: one that waiting does not mend, else the lowest."""
        failed = [pod for pod in self.pods if pod.failure is not None and not self._only_waited(pod)]
        return next((pod for pod in failed if pod.hopeless), None) or next(iter(failed), None)

    def _only_waited(self, pod: PodView) -> bool:
        """It gave up its start before another rank could begin its own: that says how long it waited, and no more."""
        if pod.failure is None or pod.failure.reason is not Reason.ENGINE_START_TIMEOUT:
            return False
        ended_at, others = pod.beginning.ended_at, [each for each in self.pods if each is not pod]
        if any(each.beginning.fetches or not each.started for each in others):
            return True
        begun = [each.beginning.at for each in others if each.beginning.at is not None]
        return ended_at is not None and bool(begun) and ended_at <= max(begun)

    @property
    def culprit(self) -> PodView | None:
        """The rank that failed first, as far as the failures tell: one that `failed` repeats, else `failed`."""
        failed = self.failed
        rank = failed.failure.of_rank if failed is not None and failed.failure is not None else None
        named = self.members[rank] if rank is not None and rank < self.size else None
        return named or failed

    @cached_property
    def failure(self) -> Failure | None:
        """Why it is not Ready, if something went wrong."""
        if self.failed is not None:
            return self.failed.failure
        if self.size == 1 or not self.finished:
            return None
        gone = [rank for rank, pod in enumerate(self.members) if pod is None or pod.terminating]
        ranks = f"rank{'' if len(gone) == 1 else 's'} {', '.join(map(str, gone))}"
        return Failure(
            Reason.REPLICA_LOST,
            f"{ranks} of {self.size} {'is' if len(gone) == 1 else 'are'} gone, and the group is replaced",
            hopeless=True,
        )

    @property
    def hopeless(self) -> bool:
        """It is not Ready, and waiting alone is not going to help."""
        return not self.ready and self.failure is not None and self.failure.hopeless

    @property
    def fetching(self) -> tuple[PodView, ...]:
        """The ranks that fetch their weights, or try to."""
        return tuple(pod for pod in self.pods if pod.beginning.fetches)

    @cached_property
    def created_at(self) -> datetime | None:
        """When its first pod was made."""
        return min((pod.created_at for pod in self.pods if pod.created_at is not None), default=None)


def alone(pod: PodView) -> Replica:
    """The replica that is this one pod."""
    return Replica(revision=pod.revision, slot=pod.slot, members=(pod,))


def replicas(
    pods: Iterable[PodView], plans: Mapping[str, Plan], beside: Mapping[str, str] | None = None
) -> tuple[Replica, ...]:
    """The replicas that `pods` make up, in the order of their first pods. `beside` has the revision of each pool on a
    later class, by the pool's name.

    How many ranks one has says the plan of its pool; a rank beyond it is a stray that stands alone, without a revision.
    Of a pool whose plan cannot be read, the ranks that are there count.
    """
    of = beside or {}
    found: dict[tuple[str, int], dict[int, PodView]] = {}
    strays: list[PodView] = []
    for pod in pods:
        if pod.revision is None or pod.slot is None:
            strays.append(pod)
            continue
        found.setdefault((pod.revision, pod.slot), {})[pod.rank] = pod
    made = [alone(pod) for pod in strays]
    for (revision, slot), ranks in found.items():  # a pool's name or a revision's
        size = plans[revision].nodes if revision in plans else max(ranks) + 1
        own = tuple(ranks.get(rank) for rank in range(size))
        if any(own):
            made.append(Replica(revision=of.get(revision, revision), slot=slot, members=own))
        beyond = (pod for rank, pod in ranks.items() if rank >= size)
        made += [Replica(revision=None, slot=None, members=(pod,)) for pod in beyond]
    return tuple(sorted(made, key=lambda replica: replica.name))
