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
from modelfleet.core.group_life import Life, Watched, decide_life, doubts, is_refused_by_kubelet
from modelfleet.core.groups import Replica
from modelfleet.core.intent import Wish
from modelfleet.core.kept import entry, state_of
from modelfleet.core.next_class import Later
from modelfleet.core.placing import Placing, decide_placing, elsewhere, lacking
from modelfleet.core.plan import Plan
from modelfleet.core.revisions import Revision, blocked
from modelfleet.core.rollout import Step, Way, hold
from modelfleet.core.snapshot import World
from modelfleet.core.warmth import Warmth

Short = Mapping[str, float] | None
Take = Callable[[tuple[Replica, ...], Short], Step]
"""The step for replicas that stand, with what one more of them lacks of room (None: nothing is known to lack)."""


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
    return more in decide_placing(site, (*slots, more), Later(used=False)).slots


def decide_moves(ground: Ground, wish: Wish, course: Course, take: Take) -> Moves:
    """Ends what does not get on, takes the step for the rest, and places what it creates."""
    life = decide_life(_watched(ground, course, wish.replicas.replicas))
    ending = {replica.uid for replica in life.ends}
    standing = tuple(replica for replica in ground.fleet if replica.uid not in ending)
    spec = wish.deployment.spec
    site = replace(_site(ground, course, standing, life.avoid), spread=spec.placement.spread)
    cordoned = on_cordoned_nodes(ground.world.cluster, standing)
    rolls = bool(cordoned) or bool(ground.slow) or any(replica.revision != course.goal.name for replica in standing)
    short = lacking(site) if rolls else None
    step = take(standing, short)
    going = {replica.uid for replica in step.delete}
    site = replace(site, fleet=tuple(replica for replica in standing if replica.uid not in going))
    later = Later(
        used=not rolls or short == {} or step.way is Way.BLOCKED,
        unbrought=life.unbrought,
        most=spec.scaling.max_accelerators,
    )
    placing = decide_placing(site, step.create[: max(0, len(step.create) - len(life.backing_off))], later)
    if _gives(ground):
        placing = replace(placing, room=_has_room(site, placing.slots))
    leaving = (*life.ends, *placing.withdrawn)
    return Moves(
        step=replace(
            step,
            create=placing.slots,
            delete=(*step.delete, *leaving),
            victims=step.victims | {replica.uid for replica in leaving},
        ),
        life=life,
        placing=placing,
    )


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
        lost=_lost_nodes(ground),
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


def _lost_nodes(ground: Ground) -> frozenset[str]:
    """Nodes of our pods that are not ready or gone; none while nodes are not known."""
    cluster = ground.world.cluster
    if cluster is None or all(replica.ready or replica.size == 1 for replica in ground.fleet):
        return frozenset()
    ready = {node.name for node in cluster.nodes if node.ready}
    return frozenset(pod.node for replica in ground.fleet for pod in replica.pods if pod.placed) - ready


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
