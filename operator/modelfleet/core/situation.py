"""Everything that a status tells about: what is wanted, what is observed, what is being done. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from modelfleet.api import names
from modelfleet.api.modeldeployment import ScalingMode
from modelfleet.core import raw
from modelfleet.core.active import Scaling
from modelfleet.core.capacity import Spare, spare_of
from modelfleet.core.children import Children, is_left_over, name_taken
from modelfleet.core.cold_start import Starts
from modelfleet.core.cordon import on_cordoned_nodes
from modelfleet.core.course import Course
from modelfleet.core.ending import stuck
from modelfleet.core.group_life import Life
from modelfleet.core.groups import Replica
from modelfleet.core.intent import Intent
from modelfleet.core.mix import Mix, mix_of
from modelfleet.core.placing import Placing
from modelfleet.core.pods import PodView, elapsed_s
from modelfleet.core.revisions import Revision
from modelfleet.core.rollout import Step
from modelfleet.core.scaling.zero import Slice, Zero
from modelfleet.core.snapshot import World
from modelfleet.core.warmth import Warmth


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One observed moment with what was decided about it. `revision` is the wanted one, None without a wish; `known`
    are all readable revisions by name; `fleet` is every replica that exists; `moves` says whether this step writes
    anything; `zero` is the step to zero or back, None where the deployment has nothing to do with it; `scaling` is
    the decision about the number of replicas, None where no sample decides it; `warmth` is what starts find on nodes.
    """

    world: World
    children: Children
    intent: Intent
    fleet: tuple[Replica, ...]
    step: Step
    life: Life
    placing: Placing
    revision: Revision | None
    course: Course | None
    known: dict[str, Revision]
    moves: bool
    zero: Zero | None = None
    starts: Starts | None = None
    scaling: Scaling | None = None
    warmth: Warmth = field(default_factory=dict)

    @cached_property
    def spare(self) -> Spare | None:
        """How many replicas may be missing; None without a wish."""
        wish = self.intent.wish
        return spare_of(wish, wish.plan, self.mix) if wish else None

    @cached_property
    def mix(self) -> Mix | None:
        """What stands of which class; None without a wish."""
        return mix_of(self.fleet, self.revision) if self.revision else None

    @cached_property
    def on_later(self) -> Mapping[str, int]:
        """How many replicas stand on each later class of the plan, or are made there now, by the pool's name."""
        pools = {pool.name: pool.plan.class_name for pool in self.revision.later} if self.revision else {}
        made = [each.class_name for each in self.placing.spilled]
        return {
            name: sum(replica.pool == name for replica in self.replicas) + made.count(kind)
            for name, kind in pools.items()
        }

    @cached_property
    def cordoned(self) -> Mapping[str, str]:
        """The cordoned node of each standing replica that must leave it, by uid."""
        return on_cordoned_nodes(self.world.cluster, self.replicas)

    @cached_property
    def slow(self) -> str:
        """A sentence about the replica that is replaced because it is worse than the others; empty without one."""
        slow = self.scaling.kept.slow if self.scaling else None
        return slow.sentence if slow is not None and self.scaling is not None and self.scaling.slow else ""

    @property
    def lacks(self) -> int:
        """Replicas that samples ask for and no node has room for; none where no sample decides, or nodes are bought."""
        if self.scaling is None or self.scaling.case.scaling.mode is not ScalingMode.ACTIVE:
            return 0
        if self.old or self.room_comes or self.slow:
            return 0  # one makes room for another, and what has none is not missed
        without_room = len(self.placing.shortfalls.keys() - self.placing.bought)
        return max(0, min(without_room, self.wanted - len(self.replicas)))

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """Those that stand: they exist, have not ended and are not being drained."""
        leaving = (replica for replica in self.fleet if not replica.serving and replica.uid in self.step.victims)
        gone = {replica.uid for replica in leaving}
        return tuple(
            replica for replica in self.fleet if not (replica.terminating or replica.finished or replica.uid in gone)
        )

    @cached_property
    def serving(self) -> tuple[Replica, ...]:
        """Replicas that get requests: Ready, and selected by the Service."""
        return tuple(replica for replica in self.replicas if replica.ready and replica.serving)

    @cached_property
    def unheard_s(self) -> float:
        """Seconds until nodes send requests to what serves: its Service needs the propagation time to reach them from
        when the first replica is Ready. 0 where one that leaves, or activators, take what arrives for as long."""
        pods = [each.leader for each in self.serving if each.leader is not None]
        if not pods or self._held:
            return 0.0
        known_s = max(max(elapsed_s(pod.ready_since, self.world.now), self._seen_s(pod)) for pod in pods)
        rest_s = self.world.settings.propagation_s - known_s
        covered_s = max(map(self._takes_s, self.draining), default=0.0)
        return rest_s if rest_s > covered_s else 0.0

    def _seen_s(self, pod: PodView) -> float:
        """For how long this process has seen it serve: the clock of its node may be another."""
        return self.world.serving_s.get(pod.uid, 0.0)

    @property
    def _held(self) -> bool:
        """Activators are behind the Service, and stay."""
        listed = any(True for each in self.world.slices for _ in raw.items(each, "endpoints"))
        return self.zero is not None and listed and self.zero.slice is not Slice.DROP

    def _takes_s(self, leaving: Replica) -> float:
        """For how long it takes what arrives: infinite where it is out of the Service, for it is deleted only once the
        nodes know (drain.py); the rest of the propagation time where it was asked to end."""
        pod = leaving.leader
        if pod is None or pod.end_by is None:
            return inf if leaving.ready else 0.0
        asked_s = pod.grace_s - (pod.end_by - self.world.now).total_seconds()
        return self.world.settings.propagation_s - asked_s if pod.was_ready else 0.0

    @cached_property
    def draining(self) -> tuple[Replica, ...]:
        """Those on their way out: taken out of the Service by us, or asked to stop."""
        kept = {replica.uid for replica in self.replicas}
        return tuple(
            replica
            for replica in self.fleet
            if replica.uid not in kept and not (replica.finished and not replica.terminating)
        )

    @cached_property
    def stranded(self) -> tuple[Replica, ...]:
        """Those that were asked to end and may never do."""
        unending = stuck(self.fleet, self.world.cluster, self.world.now)
        return tuple(each for each in self.fleet if each.uid in unending)

    @property
    def room_comes(self) -> bool:
        """Something leaves, and with it what it held."""
        ending = [each for each in self.fleet if each.terminating and each not in self.stranded]
        return bool(ending or self.step.victims)

    @cached_property
    def current(self) -> tuple[Replica, ...]:
        """Replicas of the wanted revision, by slot; ended ones that are not replaced yet stand among them."""
        wanted = self.revision.name if self.revision else None
        return tuple(replica for replica in self.staying if replica.revision == wanted)

    @cached_property
    def staying(self) -> tuple[Replica, ...]:
        """Those that no decision sends away, by slot."""
        stay = (replica for replica in self.fleet if not replica.terminating and replica.uid not in self.step.victims)
        return tuple(sorted(stay, key=lambda replica: (replica.slot is None, replica.slot, replica.name)))

    @cached_property
    def old(self) -> tuple[Replica, ...]:
        """Replicas of other revisions."""
        wanted = self.revision.name if self.revision else None
        return tuple(replica for replica in self.replicas if replica.revision != wanted)

    @property
    def placed_any(self) -> bool:
        """Whether a replica that stays has a node, or is about to be made."""
        return bool(self.step.create) or any(replica.placed for replica in self.staying)

    @property
    def wanted(self) -> int:
        """The wanted number of replicas; 0 without a wish."""
        return self.intent.wish.replicas.replicas if self.intent.wish else 0

    @property
    def minimum(self) -> int:
        """minReplicas; at least 1, also where the spec cannot be read."""
        return max(1, raw.integer(self.world.deployment, "spec", "scaling", "minReplicas", default=1))

    @property
    def lost(self) -> Replica | None:
        """A replica of the wanted revision that ended, or that somebody deletes while it is missed."""
        if self.revision is None:
            return None
        own = [replica for replica in self.fleet if replica.revision == self.revision.name]
        missing = len([replica for replica in own if not (replica.terminating or replica.finished)]) < self.wanted
        return next((replica for replica in own if replica.finished or (replica.terminating and missing)), None)

    @property
    def taken(self) -> tuple[str, ...]:
        """Sentences about objects of others that hold the name of a Service, a plan, a revision or a group's policy."""
        return tuple(
            name_taken(kind, self.children.foreign[kind, name], self.children.owner)
            for kind, name in self._needed
            if (kind, name) in self.children.foreign
        )

    @property
    def only_left_overs(self) -> bool:
        """The taken names are held by an earlier object's children, which are on their way out."""
        held = [self.children.foreign[key] for key in self._needed if key in self.children.foreign]
        return all(is_left_over(other, self.children.owner) for other in held)

    @property
    def plan_blocked(self) -> bool:
        """Somebody else holds the name under which the plan would be pinned or handed to workers."""
        if self.revision is None:
            return False
        name = names.revision(self.children.owner.name, self.revision.name)
        return any((kind, name) in self.children.foreign for kind in ("ConfigMap", "ControllerRevision"))

    @property
    def _needed(self) -> tuple[tuple[str, str], ...]:
        owner = self.children.owner.name
        groups = ((r.pool, r.slot) for r in self.fleet if r.size > 1 and r.pool is not None and r.slot is not None)
        fences = (("NetworkPolicy", names.pod(owner, revision, slot)) for revision, slot in groups)
        always = (("Service", names.child(owner)), *fences)
        if self.revision is None:
            return always
        plan = names.revision(owner, self.revision.name)
        there = {replica.pool for replica in self.fleet}
        used = [pool for pool in self.revision.pools if pool is self.revision or pool.name in there]
        group = (("Service", names.revision(owner, pool.name)) for pool in used if pool.plan.nodes > 1)
        maps = (("ConfigMap", names.revision(owner, pool.name)) for pool in used)
        return (*always, *group, *maps, ("ControllerRevision", plan))
