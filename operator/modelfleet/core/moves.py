"""All that is done with replicas now: what ends as a whole, the step of the rollout, what is placed. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from modelfleet.api import names
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.parse import parse_class
from modelfleet.core.asked_room import Site
from modelfleet.core.children import Children
from modelfleet.core.cordon import on_cordoned_nodes
from modelfleet.core.course import Course
from modelfleet.core.ending import lost_nodes, until_late_s
from modelfleet.core.group_life import Life, Watched, decide_life, doubts, is_refused_by_kubelet
from modelfleet.core.groups import Replica
from modelfleet.core.intent import Wish
from modelfleet.core.kept import entry, state_of
from modelfleet.core.next_class import Later
from modelfleet.core.placement.supplies import buys
from modelfleet.core.placing import Placing, decide_placing, elsewhere, one_more
from modelfleet.core.plan import Plan
from modelfleet.core.revisions import Revision, blocked
from modelfleet.core.rollout import Outlook, Step, hold
from modelfleet.core.snapshot import World
from modelfleet.core.warmth import Warmth

Take = Callable[[tuple[Replica, ...], Outlook], Step]
"""The step for replicas that stand, with what is known of room for one more."""


@dataclass(frozen=True, kw_only=True)
class Moves:
    """The step with what ends and what is withdrawn among its victims, and how both came about."""

    step: Step
    life: Life = field(default_factory=Life)
    placing: Placing = field(default_factory=Placing)


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What moves are decided on. `plans` are by pool, the goal's among them; `classes` are those that the spec
    names. `slow` are leaders of replicas that are worse than the others, by uid; `warmth` is what starts find on nodes.
    """

    world: World
    children: Children
    fleet: tuple[Replica, ...]
    plans: Mapping[str, Plan]
    classes: Mapping[str, AcceleratorClass]
    slow: frozenset[str] = frozenset()
    warmth: Warmth = field(default_factory=dict)


def stand_still(fleet: tuple[Replica, ...]) -> Moves:
    """The moves while nothing may be decided."""
    return Moves(step=hold(fleet))


def _gives(ground: Ground) -> bool:
    """It leaves replicas to other models."""
    owner = ground.children.owner
    return any(each.giver == f"{owner.namespace}/{owner.name}" for each in ground.world.grants)


def _has_room(site: Site, slots: tuple[int, ...]) -> bool:
    """One replica more than those that are made in `slots` has room on the first class, or nodes for it are bought."""
    more = 1 + max((*slots, *(replica.slot or 0 for replica in site.fleet)), default=0)
    return more in decide_placing(site, (*slots, more), Later(classes=1)).slots


def decide_moves(ground: Ground, wish: Wish, course: Course, take: Take) -> Moves:
    """Ends what does not get on, takes the step for the rest, and places what it creates."""
    life = decide_life(_watched(ground, course, wish.replicas.replicas))
    ending = {replica.uid for replica in life.ends}
    standing = tuple(replica for replica in ground.fleet if replica.uid not in ending)
    spec = wish.deployment.spec
    site = replace(_site(ground, course, standing, life.avoid), spread=spec.placement.spread)
    later = Later(unbrought=life.unbrought, most=_most_accelerators(ground, course, spec.scaling.max_accelerators))
    outlook = _outlook(ground, course, site, life, later)
    step, later, asked = _step(site, later, outlook, take)
    going = {replica.uid for replica in step.delete}
    site = replace(site, fleet=tuple(replica for replica in standing if replica.uid not in going))
    placing = decide_placing(site, step.create[: max(0, len(step.create) - len(life.backing_off))], later)
    if _gives(ground):
        placing = replace(placing, room=_has_room(site, placing.slots))
    leaving = (*life.ends, *placing.withdrawn)
    waits_s = until_late_s(site.cluster, ground.world.now) if outlook is not None and placing.shortfalls else None
    return Moves(
        step=replace(
            step,
            wake_after_s=min((each for each in (step.wake_after_s, waits_s) if each is not None), default=None),
            create=placing.slots,
            delete=(*step.delete, *leaving),
            victims=step.victims | {replica.uid for replica in leaving},
        ),
        life=life,
        placing=replace(placing, shortfalls={**asked.shortfalls, **placing.shortfalls}),
    )


def _most_accelerators(ground: Ground, course: Course, most: int | None) -> int | None:
    """The bound, with what those hold that are replaced without a rollout: another comes up beside each first."""
    if most is None:
        return None
    replaced = {*on_cordoned_nodes(ground.world.cluster, ground.fleet), *ground.slow}
    own = [each for each in ground.fleet if each.revision == course.goal.name and each.uid in replaced]
    return most + sum(ground.plans[each.pool or ""].accelerators for each in own if each.pool in ground.plans)


def _outlook(ground: Ground, course: Course, site: Site, life: Life, later: Later) -> Outlook | None:
    """What is known of room for new replicas; None where none is replaced."""
    goal = course.goal.name
    cordoned = on_cordoned_nodes(ground.world.cluster, site.fleet)
    if not (cordoned or ground.slow or any(each.revision != goal for each in site.fleet)):
        return None
    bought = {pool.goal.name: pool.goal.plan for pool in site.pools if pool.kind is not None and buys(pool.kind)}
    return Outlook(
        classes=one_more(site, life.ends, later, ground.world.now),
        bought=frozenset(bought),
        unbrought=frozenset(name for name, plan in bought.items() if plan.class_name in life.unbrought),
    )


def _step(site: Site, later: Later, outlook: Outlook | None, take: Take) -> tuple[Step, Later, Placing]:
    """The step, what later classes may be used for, and what became of replicas that are only asked for."""
    if outlook is None:
        return take(site.fleet, Outlook()), later, Placing()
    step = take(site.fleet, outlook)
    asked = decide_placing(site, step.asked, later) if step.asked else Placing()
    return step, replace(later, classes=step.classes), asked


def _watched(ground: Ground, course: Course, replicas: int) -> Watched:
    pods = ground.children.pods.values()
    kept = entry(state_of(ground.children), names.GROUPS_KEY)
    return Watched(
        fleet=ground.fleet,
        plans=ground.plans,
        goal=course.goal.name,
        replicas=replicas,
        kept=kept,
        refused=frozenset(pod["metadata"]["uid"] for pod in pods if is_refused_by_kubelet(pod)),
        lost=lost_nodes(ground.world.cluster, ground.fleet),
        elsewhere=_elsewhere(ground, course, frozenset(doubts(kept, ground.world.now))),
        now=ground.world.now,
    )


def _elsewhere(ground: Ground, course: Course, avoid: frozenset[str]) -> frozenset[str]:
    """Replicas of the goal whose own node keeps them from serving while others have room, by uid."""
    ill = [
        replica
        for replica in ground.fleet
        if replica.revision == course.goal.name
        and not replica.terminating
        and replica.hopeless
        and replica.failure is not None
        and replica.failure.of_its_node
    ]
    return elsewhere(_site(ground, course, ground.fleet, avoid), ill) if ill else frozenset()


def _site(ground: Ground, course: Course, fleet: tuple[Replica, ...], avoid: frozenset[str]) -> Site:
    goal = course.goal
    usable = (pool for pool in goal.later if not blocked(ground.children, "ConfigMap", pool.name))
    return Site(
        children=ground.children,
        fleet=fleet,
        goal=goal,
        kind=_class_of(ground, goal),
        cluster=ground.world.cluster,
        avoid=avoid,
        warmth=ground.warmth,
        later=tuple((pool, _class_of(ground, pool)) for pool in usable),
    )


def _class_of(ground: Ground, pool: Revision) -> AcceleratorClass | None:
    name = pool.plan.class_name
    parsed = ground.classes.get(name) or parse_class(ground.world.classes.get(name, {}))
    return parsed if isinstance(parsed, AcceleratorClass) else None
