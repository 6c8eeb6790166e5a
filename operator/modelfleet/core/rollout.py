"""One step of the replicas towards the plan, computed from what is observed. Pure.

Nothing here remembers an earlier step: the film of a rollout is this function, called again on what came of it.

How one step chooses (`n` replicas are wanted; a replica is old if another revision made it):

| what is observed | what is done |
| --- | --- |
| a replica ended (evicted, refused by the node) | deleted and replaced, a young one only when it is RETRY_S old |
| an old one that cannot come up (no image, crash loop, no node) | deleted: it serves nobody (LeaderWorkerSet#567) |
| fewer than `n` current ones | created, all at once; while old ones live, at most one above `n` |
| a current one is Ready and more than `n` are Ready | one old one is drained for each above `n` |
| the new one has no room, and an old one holds as much as it needs | one old one makes room first, at most one
  replica short (KServe#5452) |
| more current ones than `n` | broken, not Ready, highest slot: in this order they leave |

Draining is the serving label off, then the propagation time, then DELETE; what is not Ready gets no traffic and is
deleted at once. What already drains is preferred as a victim, so that two reconciles never choose different ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from modelfleet.core.groups import Replica
from modelfleet.core.pods import elapsed_s

RETRY_S = 30.0
"""What ends younger than this is replaced when it is this old: a node that refuses pods gets two a minute."""

SURGE_PATIENCE_S = 30.0
"""How long the scheduler (or a cluster autoscaler's first answer) is waited for before an old replica makes room."""

SURGE = 1


class Way(StrEnum):
    """How the current revision replaces an old one."""

    NONE = "None"  # no old replicas
    SURGE = "Surge"  # the new replica first
    DELETE_FIRST = "DeleteFirst"  # an old one makes room
    BLOCKED = "Blocked"  # no room, and no old one holds enough of it, or no node is fit at all


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What a step is computed from. `fleet` is ours; `held_slots` are slots of the current revision with a pod's name
    that is taken by anything that exists. `not_serving_s` is by the uid of a leader's pod."""

    revision: str
    replicas: int
    fleet: tuple[Replica, ...]
    held_slots: frozenset[int]
    not_serving_s: dict[str, float]
    propagation_s: float
    now: datetime


@dataclass(frozen=True, kw_only=True)
class Step:
    """What to do now. `off` and `on` are those whose serving label is to change; `victims` are the uids of all that are
    to leave."""

    create: tuple[int, ...] = ()
    delete: tuple[Replica, ...] = ()
    off: tuple[Replica, ...] = ()
    on: tuple[Replica, ...] = ()
    victims: frozenset[str] = frozenset()
    way: Way = Way.NONE
    wake_after_s: float | None = None


def decide_step(scene: Scene) -> Step:
    """The step. Every replica of the scene is left alone, deleted, drained, or put back to serving."""
    live = [replica for replica in scene.fleet if not replica.terminating]
    ended, retry_s = _ended(scene, live)
    due = {replica.name for replica in ended}
    standing = [replica for replica in live if replica.name not in due]
    old = [replica for replica in standing if replica.revision != scene.revision]
    current = [replica for replica in standing if replica.revision == scene.revision]
    way = _way(scene, old, current)
    victims = [*_old_victims(scene, old, current, way), *_surplus(current, scene.replicas)]
    leaving = {replica.uid for replica in victims}
    delete, off, drain_s = _leave(scene, victims)
    staying = [replica for replica in standing if replica.uid not in leaving]
    gone = {replica.uid for replica in delete}
    return Step(
        create=_create(scene, current, [replica for replica in old if replica.uid not in gone]),
        delete=(*ended, *delete),
        off=tuple(off),
        on=tuple(replica for replica in staying if not replica.serving and not replica.finished),
        victims=frozenset(leaving | {replica.uid for replica in ended}),
        way=way,
        wake_after_s=_earliest(retry_s, drain_s, _patience_left_s(scene, old, current)),
    )


def hold(replicas: Iterable[Replica]) -> Step:
    """The step while nothing may be decided: every replica stays, and one whose label was edited serves again."""
    return Step(
        on=tuple(replica for replica in replicas if not (replica.terminating or replica.finished or replica.serving))
    )


def _ended(scene: Scene, live: list[Replica]) -> tuple[list[Replica], float | None]:
    """Ended replicas that are due for replacement, and when the next one is."""
    ended = [replica for replica in live if replica.finished]
    waits = {replica.uid: _retry_left_s(scene, replica) for replica in ended}
    due = [replica for replica in ended if waits[replica.uid] <= 0]
    return due, _earliest(*(wait for wait in waits.values() if wait > 0))


def _retry_left_s(scene: Scene, replica: Replica) -> float:
    if replica.revision != scene.revision:
        return 0.0  # it is not going to be created again
    return RETRY_S - elapsed_s(replica.created_at, scene.now)


def _way(scene: Scene, old: list[Replica], current: list[Replica]) -> Way:
    if not old:
        return Way.NONE
    stuck = _without_node(current)
    if stuck is None or elapsed_s(stuck.unschedulable_since, scene.now) < SURGE_PATIENCE_S:
        return Way.SURGE
    if not stuck.lacks:
        return Way.BLOCKED  # no node is fit for it, however empty
    if any(replica.terminating for replica in scene.fleet):
        return Way.SURGE  # room is about to be free
    return Way.DELETE_FIRST if any(_makes_room(replica, stuck) for replica in old) else Way.BLOCKED


def _without_node(current: list[Replica]) -> Replica | None:
    """The current replica that has no node."""
    return next((replica for replica in current if replica.unschedulable), None)


def _makes_room(old: Replica, stuck: Replica) -> bool:
    """Whether an old replica leaves enough of everything that `stuck` is said to lack."""
    return old.placed and all(old.requests.get(name, 0.0) >= stuck.requests.get(name, 0.0) for name in stuck.lacks)


def _old_victims(scene: Scene, old: list[Replica], current: list[Replica], way: Way) -> list[Replica]:
    """Old replicas that leave now: the hopeless at once, the others as far as the Ready ones allow."""
    hopeless = [replica for replica in old if replica.hopeless or replica.unschedulable]
    rest = sorted((replica for replica in old if not (replica.hopeless or replica.unschedulable)), key=_leaves_first)
    up = sum(replica.ready for replica in [*rest, *current])
    floor = scene.replicas
    if way is Way.DELETE_FIRST:
        floor -= 1
        stuck = _without_node(current)
        useful = [replica for replica in rest if stuck is not None and _makes_room(replica, stuck)]
        idle = [replica for replica in useful if not replica.ready]
        return [*hopeless, *(idle[:1] or useful[: max(0, up - floor)][:1])]
    spare = max(0, up - floor)
    proved = any(replica.ready for replica in current)
    idle = [replica for replica in rest if not replica.ready] if proved or not scene.replicas else []
    ready = [replica for replica in rest if replica.ready]
    return [*hopeless, *idle, *ready[:spare]]


def _surplus(current: list[Replica], replicas: int) -> list[Replica]:
    return sorted(current, key=_leaves_first)[: max(0, len(current) - replicas)]


def _leaves_first(replica: Replica) -> tuple[bool, bool, bool, bool, int, str]:
    """Orders victims: already draining, ended, broken, not Ready, highest slot."""
    slot = -1 if replica.slot is None else replica.slot
    return (
        replica.serving or not replica.ready,
        not replica.finished,
        not replica.failure,
        replica.ready,
        -slot,
        replica.name,
    )


def _leave(scene: Scene, victims: list[Replica]) -> tuple[list[Replica], list[Replica], float | None]:
    """Of `victims`: those to delete, those whose label goes off, and when the next one is due."""
    delete, off, waits = [], [], []
    for replica in victims:
        if not replica.ready:
            delete.append(replica)
        elif replica.serving:
            off.append(replica)
            waits.append(scene.propagation_s)
        elif (left := scene.propagation_s - scene.not_serving_s.get(replica.uid, 0.0)) > 0:
            waits.append(left)
        else:
            delete.append(replica)
    return delete, off, _earliest(*waits)


def _create(scene: Scene, current: list[Replica], old: list[Replica]) -> tuple[int, ...]:
    """The lowest free slots for what is missing. While old ones live, at most SURGE are above `replicas`, and none is
    created while one has no node."""
    missing = scene.replicas - len(current)
    if old:
        room = scene.replicas + SURGE - len(current) - len(old)
        missing = 0 if any(replica.unschedulable for replica in current) else min(missing, room)
    slots: list[int] = []
    slot = 0
    while len(slots) < missing:
        if slot not in scene.held_slots:
            slots.append(slot)
        slot += 1
    return tuple(slots)


def _patience_left_s(scene: Scene, old: list[Replica], current: list[Replica]) -> float | None:
    stuck = _without_node(current) if old else None
    if stuck is None:
        return None
    left = SURGE_PATIENCE_S - elapsed_s(stuck.unschedulable_since, scene.now)
    return left if left > 0 else None


def _earliest(*times_s: float | None) -> float | None:
    return min((time for time in times_s if time is not None), default=None)
