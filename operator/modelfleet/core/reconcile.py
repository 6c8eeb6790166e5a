"""The one decision: from an observed world to effects, status and events. Pure.

`plan` computes one step. It is called again whenever something changed, so nothing here waits, loops or remembers, and
an unchanged world gives no effects and the same status.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from modelfleet.api import names
from modelfleet.api.reasons import Reason
from modelfleet.core import raw
from modelfleet.core.active import Scaling, decide_number, let_go_of, promise_of, with_number
from modelfleet.core.capacity import spare_of
from modelfleet.core.children import Children, observe, owner_of
from modelfleet.core.cordon import on_cordoned_nodes
from modelfleet.core.corrected import decide_corrected
from modelfleet.core.course import Course, Trial, decide_course
from modelfleet.core.disruption import keep_budget, pods_to_leave
from modelfleet.core.drain import Terms
from modelfleet.core.effects import Delete, Effect, Outcome
from modelfleet.core.ending import until_stuck_s
from modelfleet.core.events import events
from modelfleet.core.groups import Replica
from modelfleet.core.handshake import Handshake, decide_handshake, is_at_zero, is_from_zero
from modelfleet.core.intent import Intent, Wish
from modelfleet.core.isolation import fenced, keep_policies
from modelfleet.core.kept import entry, keep_beside, state_of
from modelfleet.core.mix import mix_of
from modelfleet.core.moves import Ground, Moves, decide_moves, stand_still
from modelfleet.core.notice import within_notice
from modelfleet.core.pods import view
from modelfleet.core.profiling import Learning
from modelfleet.core.progress import longest_start_s
from modelfleet.core.promise import keep_promise
from modelfleet.core.promised import decide_promised
from modelfleet.core.replicas import decide_replicas
from modelfleet.core.revisions import (
    Revision,
    blocked,
    by_pool,
    current,
    fleet_of,
    keep,
    keep_config_map,
    let_go,
    of_its_pools,
    pinned,
)
from modelfleet.core.rollout import Outlook, Scene, Step, decide_step
from modelfleet.core.situation import Situation
from modelfleet.core.snapshot import World
from modelfleet.core.status import report
from modelfleet.core.upkeep import keep_pods, keep_services
from modelfleet.core.verdicts import verdicts
from modelfleet.core.warmth import decide_warmth, to_keep
from modelfleet.core.work import work_of

LOOK_AGAIN_S = 30.0
"""Objects of others under our names send no events that we watch; this often they are looked at again."""

NODES_S = 120.0
"""How often the nodes are looked at again where no layout works on those that there are."""

LEFT_OVER_S = 2.0
"""The same for what the garbage collector is about to delete."""

LONGEST_WAIT_S = 86_400.0
"""No time is waited for longer: what another clock or another hand wrote may lie years ahead."""


def plan(world: World) -> Outcome:
    """Everything to do and to say about one ModelDeployment now."""
    if raw.at(world.deployment, "metadata", "deletionTimestamp") is not None:
        # Garbage collection deletes the children, and the workers drain on SIGTERM.
        return Outcome((), dict(raw.mapping(world.deployment, "status")))
    owner = owner_of(world)
    children = observe(world, owner)
    pods = tuple(view(item, owner.name) for _, item in sorted(children.pods.items()))
    known = pinned(children)
    plans = {name: pool.plan for name, pool in by_pool(known.values()).items()}
    intent = decide_corrected(world, children, known, pods)
    # A revision whose object somebody deleted is made again, and its pods on later classes are its own meanwhile.
    wanted = _wanted(world, intent, known)
    fleet = fleet_of(pods, ({wanted.name: wanted} | known if wanted else known).values())
    intent, course, scaling = _course(world, children, fleet, intent, known, wanted)
    fleet = of_its_pools(fleet, course.goal) if course else fleet
    intent, handshake = decide_handshake(world, children, fleet, intent, plans)
    scaling = scaling.beside(handshake.zero) if scaling else None
    warmth = decide_warmth(world, children, fleet, plans)
    moves = _moves(
        Ground(
            world=world,
            children=children,
            fleet=fleet,
            plans=plans,
            classes=intent.classes,
            slow=scaling.slow if scaling else frozenset(),
            warmth=warmth,
        ),
        intent,
        course,
    )
    step = moves.step
    effects = (
        *_kept(children, intent, course, scaling, {**_life(moves), **handshake.kept, **to_keep(children, warmth)}),
        *(keep_promise(children, intent.wish.deployment, world.settings.callers) if intent.wish else ()),
        *handshake.effects,
        *_budget(children, fleet, step, intent, course),
        *within_notice(_effects(children, fleet, moves, course, known), fleet, plans, intent.classes, world.cluster),
    )
    situation = Situation(
        world=world,
        children=children,
        intent=intent,
        fleet=fleet,
        step=step,
        life=moves.life,
        placing=moves.placing,
        revision=course.goal if course else None,
        course=course,
        known=known,
        moves=bool(effects),
        zero=handshake.zero,
        starts=handshake.starts,
        scaling=scaling,
        warmth=warmth,
    )
    if scaling is not None:
        scaling = replace(scaling, lacks=situation.lacks, room=bool(moves.placing.room))
    learning = Learning(situation)
    promised = decide_promised(situation, learning)
    said = verdicts(situation, promised.verdict)
    return Outcome(
        (*effects, *learning.note()),
        report(situation, said, promised),
        events(situation, said),
        _sooner(_wake_after_s(situation, scaling, handshake), promised.wake_after_s),
        moves.placing.reservations,
        moves.placing.waits_for_room,
        scaling,
    )


def _wanted(world: World, intent: Intent, known: dict[str, Revision]) -> Revision | None:
    """The revision of the wish; None without a wish."""
    if intent.wish is None:
        return None
    return current(intent.wish.digest, intent.wish.plan, known, raw.mapping(world.deployment, "spec"))


def _course(
    world: World,
    children: Children,
    fleet: tuple[Replica, ...],
    intent: Intent,
    known: dict[str, Revision],
    wanted: Revision | None,
) -> tuple[Intent, Course | None, Scaling | None]:
    """Which revision the replicas move to, and the wish as that revision has it; None without a wish. With it the
    decision about the number of replicas, where samples decide it."""
    if intent.wish is None or wanted is None:
        return intent, None, None
    number, scaling = decide_number(world, children, fleet, intent.wish, wanted, known)
    wish = with_number(intent.wish, number)
    intent = replace(intent, wish=wish)
    spec = wish.deployment.spec
    course = decide_course(
        Trial(
            wanted=wanted,
            known=known,
            fleet=fleet,
            replicas=0 if is_at_zero(children) else wish.replicas.replicas,
            from_zero=is_from_zero(children),
            rollout=spec.rollout,
            kept=entry(state_of(children), names.ROLLOUT_KEY),
            now=world.now,
            promise=promise_of(world, wish),
            start_s=longest_start_s((pool.plan for pool in wanted.pools), intent.classes),
        )
    )
    goal = course.goal
    if goal.digest == wish.digest:
        return intent, course, scaling
    replicas = decide_replicas(spec.scaling, raw.mapping(world.deployment, "metadata"), goal.plan)
    wish = replace(wish, digest=goal.digest, plan=goal.plan, replicas=replicas)
    number, scaling = decide_number(world, children, fleet, wish, goal, known)
    return replace(intent, wish=with_number(wish, number)), course, scaling


def _kept(
    children: Children,
    intent: Intent,
    course: Course | None,
    scaling: Scaling | None,
    others: Mapping[str, Mapping[str, Any]],
) -> tuple[Effect, ...]:
    """The intent's effects, with what the course, the number of replicas and `others` keep in NAME-state, by key."""
    parts = {
        names.ROLLOUT_KEY: course.kept if course else None,
        names.SCALING_KEY: scaling.to_write if scaling else None if course is None else let_go_of(children),
        **others,
    }
    entries = {key: part for key, part in parts.items() if part is not None}
    return keep_beside(children, intent.effects, entries) if entries else intent.effects


def _life(moves: Moves) -> dict[str, Mapping[str, Any]]:
    return {} if moves.life.kept is None else {names.GROUPS_KEY: moves.life.kept}


def _moves(ground: Ground, intent: Intent, course: Course | None) -> Moves:
    wish = intent.wish
    if wish is None or course is None or _plan_blocked(ground.children, course.goal):
        return stand_still(ground.fleet)
    ground = replace(ground, plans={**ground.plans, **{pool.name: pool.plan for pool in course.goal.pools}})
    return decide_moves(ground, wish, course, lambda fleet, outlook: _step(ground, fleet, wish, course, outlook))


def _step(ground: Ground, fleet: tuple[Replica, ...], wish: Wish, course: Course, outlook: Outlook) -> Step:
    world, children = ground.world, ground.children
    goal, rollout, wanted = course.goal, wish.deployment.spec.rollout, wish.replicas.replicas
    reach = range(wanted + rollout.max_surge + len(children.pods) + len(children.foreign))
    taken = (slot for slot in reach if _slot_held(children, goal, slot))
    return decide_step(
        Scene(
            revision=goal.name,
            replicas=wanted,
            fleet=fleet,
            held_slots=frozenset(taken),
            drains=Terms(
                propagation_s=world.settings.propagation_s,
                out_s=dict(world.not_serving_s),
                work=work_of(world.cluster, world.samples, fleet, goal.plan.resource_name),
            ),
            now=world.now,
            surge=rollout.max_surge,
            missing=spare_of(wish, goal.plan, mix_of(fleet, goal)).missing,
            paused=course.paused,
            moving=frozenset(on_cordoned_nodes(world.cluster, fleet)),
            slow=ground.slow,
            outlook=replace(outlook, known=world.cluster is not None),
            pools=tuple(pool.name for pool in goal.pools),
        )
    )


def _budget(
    children: Children, fleet: tuple[Replica, ...], step: Step, intent: Intent, course: Course | None
) -> Iterator[Effect]:
    """What Kubernetes may evict; as it was while nothing is wanted."""
    if intent.wish is None or course is None:
        return
    wish, plan = intent.wish, course.goal.plan
    spare = spare_of(wish, plan, mix_of(fleet, course.goal))
    yield from keep_budget(children, pods_to_leave(fleet, step.victims, plan.nodes, spare))


def _slot_held(children: Children, revision: Revision, slot: int) -> bool:
    """Whether any pod name of a replica is taken, in whichever pool: a slot says which replica it is."""
    return any(
        children.pod_name_exists(names.pod(children.owner.name, pool.name, slot, rank))
        for pool in revision.pools
        for rank in range(pool.plan.nodes)
    )


def _plan_blocked(children: Children, revision: Revision) -> bool:
    return any(blocked(children, kind, revision.name) for kind in ("ConfigMap", "ControllerRevision"))


def _effects(
    children: Children,
    fleet: tuple[Replica, ...],
    moves: Moves,
    course: Course | None,
    known: dict[str, Revision],
) -> Iterator[Effect]:
    """In this order: what pods need, then what frees room, then what takes it. Without a wish (no `course`) nothing
    is made for a deployment that has no pods."""
    revision, wanted = (course.goal, course.wanted) if course else (None, None)
    pools = by_pool((*known.values(), *((revision,) if revision else ())))
    used = frozenset(pod.revision for replica in fleet for pod in replica.pods if pod.revision)
    used |= _begun(moves, pools)
    if wanted is not None:
        yield from keep(children, wanted)
    for name in sorted(used & pools.keys()):
        if wanted is None or name != wanted.name:
            yield from keep_config_map(children, pools[name])
    for victim in moves.step.delete:
        yield from (Delete("v1", "Pod", pod.name, pod.uid) for pod in victim.pods if not pod.terminating)
    plans = {name: pool.plan for name, pool in pools.items()}
    yield from keep_pods(children, fleet, moves.step, plans)
    yield from keep_policies(children, fenced(fleet, moves.placing.creates))
    if revision is not None or fleet:
        grouped = (name for name in used | ({revision.name} if revision else set()) if name in plans)
        yield from keep_services(children, [name for name in sorted(grouped) if plans[name].nodes > 1])
    if revision is not None and wanted is not None:
        yield from moves.placing.creates
        yield from moves.placing.lifts
        of = frozenset(replica.revision for replica in fleet if replica.revision)
        pinned_too = {each.name for each in (revision, wanted, course.origin if course else None) if each is not None}
        yield from let_go(children, used | of | pinned_too, known)


def _begun(moves: Moves, pools: Mapping[str, Revision]) -> frozenset[str]:
    """The later pools whose first pods are made now: these need the pool's ConfigMap before."""
    labels = (raw.text(create.manifest, "metadata", "labels", names.REVISION_LABEL) for create in moves.placing.creates)
    return frozenset(labels) & pools.keys()


def _wake_after_s(s: Situation, scaling: Scaling | None, handshake: Handshake) -> float | None:
    """When to look again even if nothing is heard: the step's own time, that of names which others hold, that of the
    Job that reads the model, that of nodes, which wake nobody who has no plan, a rollout's deadline, the next schedule,
    that of a pod which ought to have ended, that of nodes which learn of a replica, or that of going to zero."""
    look = (LEFT_OVER_S if s.only_left_overs else LOOK_AGAIN_S) if s.taken else None
    nodes = NODES_S if s.intent.planned.reason is Reason.INFEASIBLE else None
    deadline = s.course.wake_after_s if s.course else None
    pods = (until_stuck_s(s.fleet, s.world.now), s.unheard_s or None)
    steps = (s.step.wake_after_s, s.intent.wake_after_s, s.life.wake_after_s, handshake.wake_after_s)
    numbers = scaling.wake_after_s if scaling else None
    return min((time for time in (*steps, *pods, numbers, look, nodes, deadline) if time is not None), default=None)


def _sooner(*times_s: float | None) -> float | None:
    """The soonest, LONGEST_WAIT_S at most."""
    soonest_s = min((time_s for time_s in times_s if time_s is not None), default=None)
    return None if soonest_s is None else min(soonest_s, LONGEST_WAIT_S)
