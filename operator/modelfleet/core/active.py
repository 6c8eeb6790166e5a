"""Modes Active and Advisory: from a world to a case of scaling, and from its decision to a number of replicas. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from modelfleet.api import names
from modelfleet.api.modeldeployment import ScalingMode
from modelfleet.api.reasons import ScalingReason
from modelfleet.api.zero_status import ZeroState
from modelfleet.core import raw
from modelfleet.core.children import Children
from modelfleet.core.course import Promise
from modelfleet.core.ending import stuck
from modelfleet.core.groups import Replica
from modelfleet.core.intent import Wish
from modelfleet.core.kept import entry, state_of
from modelfleet.core.knee import knee_of
from modelfleet.core.mix import mix_of
from modelfleet.core.pods import elapsed_s
from modelfleet.core.promise import digest
from modelfleet.core.replicas import ReplicasDecision, advised, decide_replicas, followed
from modelfleet.core.revisions import Revision, by_pool
from modelfleet.core.scaling.arbitration import Bid
from modelfleet.core.scaling.memory import Finding, Kept, disowned, due, dumped, new_findings
from modelfleet.core.scaling.quota import quota_limits
from modelfleet.core.scaling.revisions import promise_of_revisions
from modelfleet.core.scaling.scaled import Case, at_zero, bounds, decide_scaled, wake_after_s
from modelfleet.core.scaling.seats import Seats
from modelfleet.core.scaling.terms import cold_start_s, has_knee
from modelfleet.core.scaling.zero import Zero
from modelfleet.core.snapshot import World


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """A case of scaling, and what is remembered after the decision on it. The fleet's tick decides it again with newer
    samples (controller/autoscaler.py). `lacks` replicas have no room; `room`: there is some for one more, see Bid."""

    case: Case
    kept: Kept
    lacks: int = 0
    room: bool = False

    def again(self, case: Case) -> "Scaling":
        """The decision on newer samples."""
        return replace(self, case=case, kept=decide_scaled(case, self.kept))

    def beside(self, zero: Zero | None) -> "Scaling":
        """With what going to zero decided beside it: while nobody serves because nobody asked, the number that the load
        needed before is none to come back to."""
        reasons = {ZeroState.AT_ZERO: ScalingReason.IDLE, ZeroState.WAKING: ScalingReason.WOKEN}
        reason = reasons.get(zero.state) if zero is not None else None
        if zero is None or reason is None or self.case.seats.serving:
            return self
        return replace(self, kept=at_zero(self.case, self.kept, zero.replicas, reason, zero.why))

    @property
    def bid(self) -> Bid:
        """What it holds and lacks, for the arbitration among models."""
        case, kept = self.case, self.kept
        plan, scaling = case.plan, case.scaling
        active = scaling.mode is ScalingMode.ACTIVE
        low = max(each.replicas for each in bounds(case, kept)[0])
        return Bid(
            key=case.key,
            pool=f"{plan.resource_name} of {plan.class_name}",
            accelerators=plan.accelerators,
            priority=case.priority,
            # What leaves first is of a later class, and would give the others nothing of this one.
            low=low if active and not case.stands.on_later else case.seats.standing,
            standing=case.seats.standing,
            need=min(max(kept.need, low), scaling.max_replicas),
            lacks=self.lacks if active else 0,
            load_rps=kept.peak_rps * kept.margin,
            knee_rps=case.stands.knee_rps,
            leaving=case.seats.leaving,
            room=self.room,
        )

    @property
    def wake_after_s(self) -> float | None:
        """When to look again though nothing is heard."""
        return wake_after_s(self.case, self.kept)

    @property
    def slow(self) -> frozenset[str]:
        """The uids of leaders whose replicas are to be replaced, because they are worse than the others."""
        slow = self.kept.slow
        if slow is None or self.case.scaling.mode is not ScalingMode.ACTIVE:
            return frozenset()
        return frozenset({slow.about} & self.case.seats.present)

    @property
    def news(self) -> tuple[Finding, ...]:
        """What was found since NAME-state was written."""
        return new_findings(self.kept, self.case.stored)

    @property
    def to_write(self) -> Mapping[str, object] | None:
        """What NAME-state is to hold; None leaves it as it is."""
        return dumped(self.kept) if due(self.kept, self.case.stored) else None


def decide_number(
    world: World,
    children: Children,
    fleet: Iterable[Replica],
    wish: Wish,
    revision: Revision,
    known: Mapping[str, Revision],
) -> tuple[ReplicasDecision, Scaling | None]:
    """The number of replicas for `revision`, and what is remembered; nothing where no sample decides it. `known` are
    all revisions by name, whose replicas may serve beside:

    | what is there | the number |
    | --- | --- |
    | mode Manual | spec.scaling.replicas, inside the bounds |
    | nothing is sampled in this process, or the plan has no knee | what core/replicas.py says |
    | mode Advisory | the same, with what Active would do in the detail |
    | mode Active | what the samples say |
    """
    fleet, scaling = tuple(fleet), wish.deployment.spec.scaling
    mix = mix_of(fleet, revision)
    if mix.on_later:
        metadata = raw.mapping(world.deployment, "metadata")
        wish = replace(wish, replicas=decide_replicas(scaling, metadata, wish.plan, mix))
    if world.samples is None or scaling.mode is ScalingMode.MANUAL or not has_knee(wish.plan):
        return wish.replicas, None
    plans = {name: pool.plan for name, pool in by_pool((*known.values(), revision)).items()} | {
        revision.name: wish.plan
    }
    serving = [plans.get(one.pool or "") for one in fleet if one.ready and one.serving]
    case = case_of(world, children, fleet, wish)
    case = replace(case, later=mix.later, knee_of=knee_of(wish.deployment, wish.plan, serving))
    found = Scaling(case=case, kept=decide_scaled(case, world.scaling))
    shown = found.kept.shown
    if shown is None:
        return wish.replicas, found
    if scaling.mode is ScalingMode.ADVISORY:
        return advised(wish.replicas, shown), found
    return followed(scaling, raw.mapping(world.deployment, "metadata"), shown), found


def case_of(world: World, children: Children, fleet: Iterable[Replica], wish: Wish) -> Case:
    """The case of a world that has samples."""
    if world.samples is None:
        raise ValueError("nothing is sampled")
    spec = wish.deployment.spec
    known = world.scaling.starts_s if world.scaling else ()
    there = seats(world, tuple(fleet), cold_start_s(known))
    return Case(
        scaling=spec.scaling,
        objectives=spec.objectives,
        promise=digest(wish.deployment),
        plan=wish.plan,
        seats=there,
        limits=quota_limits(world.quotas, wish.plan, there.standing),
        key=f"{children.owner.namespace}/{children.owner.name}",
        priority=max((raw.integer(pod, "spec", "priority") for pod in world.pods), default=0),
        grants=world.grants,
        samples=world.samples,
        stored=entry(state_of(children), names.SCALING_KEY),
        now=world.now,
    )


def seats(world: World, fleet: tuple[Replica, ...], start_s: float) -> Seats:
    """The replicas as a decision sees them. One that cannot come up, or has no node, is not waited for."""
    here = [one for one in fleet if not (one.terminating or one.finished)]
    serving = [one for one in here if one.ready and one.serving]
    coming = [one for one in here if not one.ready and not one.hopeless and not one.unschedulable]
    unending = stuck(fleet, world.cluster, world.now)
    ending = [one for one in fleet if one.terminating and one.uid not in unending]
    going = [*ending, *(one for one in here if one.ready and not one.serving)]
    starts = {one.uid: _start_s(one) for one in here if one.ready}
    new = [one for one in coming if starts_first(one)]
    replaced = bool(going) or len({one.revision for one in here}) > 1
    return Seats(
        serving=tuple(one.leader.uid for one in serving if one.leader is not None),
        standing=len([one for one in here if one not in going]),
        pending_s=tuple(max(0.0, start_s - min(start_s, elapsed_s(one.created_at, world.now))) for one in coming),
        moving=bool(coming or going),
        leaving=len(going),
        starting=frozenset(one.uid for one in new),
        made_at=() if replaced else tuple(one.created_at for one in new if one.created_at is not None),
        starts_s={uid: taken_s for uid, taken_s in starts.items() if taken_s is not None},
        present=frozenset(one.leader.uid for one in fleet if one.leader is not None),
    )


def starts_first(replica: Replica) -> bool:
    """It comes up for the first time: it neither answered requests before, nor did a worker of it begin again."""
    leader = replica.leader
    if leader is None or leader.ready or leader.was_ready:
        return False
    return not any(pod.restarted for pod in replica.pods)


def _start_s(replica: Replica) -> float | None:
    """From its creation to its readiness, which is the first where its first start was watched; None where that cannot
    be told, or a worker of it began again."""
    leader = replica.leader
    if leader is None or leader.ready_since is None or replica.created_at is None:
        return None
    if any(pod.restarted for pod in replica.pods):
        return None
    taken_s = (leader.ready_since - replica.created_at).total_seconds()
    return taken_s if taken_s > 0 else None


def promise_of(world: World, wish: Wish) -> Promise | None:
    """What is measured of each revision; None where nothing is."""
    if world.samples is None:
        return None
    return promise_of_revisions(wish.deployment, world.samples)


def let_go_of(children: Children) -> Mapping[str, object] | None:
    """What NAME-state is to hold where no sample decides; None leaves it as it is."""
    return disowned(entry(state_of(children), names.SCALING_KEY))


def with_number(wish: Wish, decision: ReplicasDecision) -> Wish:
    """The wish with the number that was decided."""
    return replace(wish, replicas=decision)
