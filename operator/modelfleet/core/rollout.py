"""One step of the pods towards the plan, computed from what is observed. Pure.

Nothing here remembers an earlier step: the film of a rollout is this function, called again on what came of it.

How one step chooses (`n` replicas are wanted; a pod is old if another revision made it):

| what is observed | what is done |
| --- | --- |
| a pod ended (evicted, refused by the node) | deleted and replaced, a young one only when it is RETRY_S old |
| an old pod that cannot come up (no image, crash loop, no node) | deleted: it serves nobody (LeaderWorkerSet#567) |
| fewer than `n` current pods | created, all at once; while old ones live, at most one pod above `n` |
| a current pod is Ready and more than `n` are Ready | one old one is drained for each above `n` |
| the new pod has no room, and an old one holds as much as it needs | one old pod makes room first, at most one
  replica short (KServe#5452) |
| more current pods than `n` | broken, not Ready, highest slot: in this order they leave |

Draining is the serving label off, then the propagation time, then DELETE; a pod that is not Ready gets no traffic and
is deleted at once. What already drains is preferred as a victim, so that two reconciles never choose different ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from modelfleet.core.pods import PodView, elapsed_s

RETRY_S = 30.0
"""A pod that ends younger than this is replaced when it is this old: a node that refuses pods gets two a minute."""

SURGE_PATIENCE_S = 30.0
"""How long the scheduler (or a cluster autoscaler's first answer) is waited for before an old pod makes room."""

SURGE = 1


class Way(StrEnum):
    """How the current revision replaces an old one."""

    NONE = "None"  # no old pods
    SURGE = "Surge"  # the new pod first
    DELETE_FIRST = "DeleteFirst"  # an old pod makes room
    BLOCKED = "Blocked"  # no room, and no old pod holds enough of it, or no node is fit at all


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What a step is computed from. `pods` are ours; `held_slots` are slots of the current revision whose pod name is
    taken by anything that exists."""

    revision: str
    replicas: int
    pods: tuple[PodView, ...]
    held_slots: frozenset[int]
    not_serving_s: dict[str, float]
    propagation_s: float
    now: datetime


@dataclass(frozen=True, kw_only=True)
class Step:
    """What to do now. `off` and `on` are pods whose serving label is to change; `victims` are all that are to leave."""

    create: tuple[int, ...] = ()
    delete: tuple[PodView, ...] = ()
    off: tuple[PodView, ...] = ()
    on: tuple[PodView, ...] = ()
    victims: frozenset[str] = frozenset()
    way: Way = Way.NONE
    wake_after_s: float | None = None


def decide_step(scene: Scene) -> Step:
    """The step. Every pod of the scene is left alone, deleted, drained, or put back to serving."""
    live = [pod for pod in scene.pods if not pod.terminating]
    ended, retry_s = _ended(scene, live)
    due = {pod.name for pod in ended}
    standing = [pod for pod in live if pod.name not in due]
    old = [pod for pod in standing if pod.revision != scene.revision]
    current = [pod for pod in standing if pod.revision == scene.revision]
    way = _way(scene, old, current)
    victims = [*_old_victims(scene, old, current, way), *_surplus(current, scene.replicas)]
    leaving = {pod.uid for pod in victims}
    delete, off, drain_s = _leave(scene, victims)
    staying = [pod for pod in standing if pod.uid not in leaving]
    gone = {pod.uid for pod in delete}
    return Step(
        create=_create(scene, current, [pod for pod in old if pod.uid not in gone]),
        delete=(*ended, *delete),
        off=tuple(off),
        on=tuple(pod for pod in staying if not pod.serving and not pod.finished),
        victims=frozenset(leaving | {pod.uid for pod in ended}),
        way=way,
        wake_after_s=_earliest(retry_s, drain_s, _patience_left_s(scene, old, current)),
    )


def hold(pods: Iterable[PodView]) -> Step:
    """The step while nothing may be decided: every pod stays, and one whose label was edited serves again."""
    return Step(on=tuple(pod for pod in pods if not (pod.terminating or pod.finished or pod.serving)))


def _ended(scene: Scene, live: list[PodView]) -> tuple[list[PodView], float | None]:
    """Ended pods that are due for replacement, and when the next one is."""
    ended = [pod for pod in live if pod.finished]
    waits = {pod.uid: _retry_left_s(scene, pod) for pod in ended}
    due = [pod for pod in ended if waits[pod.uid] <= 0]
    return due, _earliest(*(wait for wait in waits.values() if wait > 0))


def _retry_left_s(scene: Scene, pod: PodView) -> float:
    if pod.revision != scene.revision:
        return 0.0  # it is not going to be created again
    return RETRY_S - elapsed_s(pod.created_at, scene.now)


def _way(scene: Scene, old: list[PodView], current: list[PodView]) -> Way:
    if not old:
        return Way.NONE
    stuck = _without_node(current)
    if stuck is None or elapsed_s(stuck.unschedulable_since, scene.now) < SURGE_PATIENCE_S:
        return Way.SURGE
    if not stuck.lacks:
        return Way.BLOCKED  # no node is fit for it, however empty
    if any(pod.terminating for pod in scene.pods):
        return Way.SURGE  # room is about to be free
    return Way.DELETE_FIRST if any(_makes_room(pod, stuck) for pod in old) else Way.BLOCKED


def _without_node(current: list[PodView]) -> PodView | None:
    """The current pod that has no node."""
    return next((pod for pod in current if pod.unschedulable), None)


def _makes_room(old: PodView, stuck: PodView) -> bool:
    """Whether an old pod leaves enough of everything that `stuck` is said to lack."""
    return old.placed and all(old.requests.get(name, 0.0) >= stuck.requests.get(name, 0.0) for name in stuck.lacks)


def _old_victims(scene: Scene, old: list[PodView], current: list[PodView], way: Way) -> list[PodView]:
    """Old pods that leave now: the hopeless at once, the others as far as the Ready ones allow."""
    hopeless = [pod for pod in old if pod.hopeless or pod.unschedulable]
    rest = sorted((pod for pod in old if not (pod.hopeless or pod.unschedulable)), key=_leaves_first)
    up = sum(pod.ready for pod in [*rest, *current])
    floor = scene.replicas
    if way is Way.DELETE_FIRST:
        floor -= 1
        stuck = _without_node(current)
        useful = [pod for pod in rest if stuck is not None and _makes_room(pod, stuck)]
        idle = [pod for pod in useful if not pod.ready]
        return [*hopeless, *(idle[:1] or useful[: max(0, up - floor)][:1])]
    spare = max(0, up - floor)
    proved = any(pod.ready for pod in current)
    idle = [pod for pod in rest if not pod.ready] if proved or not scene.replicas else []
    ready = [pod for pod in rest if pod.ready]
    return [*hopeless, *idle, *ready[:spare]]


def _surplus(current: list[PodView], replicas: int) -> list[PodView]:
    return sorted(current, key=_leaves_first)[: max(0, len(current) - replicas)]


def _leaves_first(pod: PodView) -> tuple[bool, bool, bool, bool, int, str]:
    """Orders victims: already draining, ended, broken, not Ready, highest slot."""
    slot = -1 if pod.slot is None else pod.slot
    return (pod.serving or not pod.ready, not pod.finished, not pod.failure, pod.ready, -slot, pod.name)


def _leave(scene: Scene, victims: list[PodView]) -> tuple[list[PodView], list[PodView], float | None]:
    """Of `victims`: those to delete, those whose label goes off, and when the next one is due."""
    delete, off, waits = [], [], []
    for pod in victims:
        if not pod.ready:
            delete.append(pod)
        elif pod.serving:
            off.append(pod)
            waits.append(scene.propagation_s)
        elif (left := scene.propagation_s - scene.not_serving_s.get(pod.uid, 0.0)) > 0:
            waits.append(left)
        else:
            delete.append(pod)
    return delete, off, _earliest(*waits)


def _create(scene: Scene, current: list[PodView], old: list[PodView]) -> tuple[int, ...]:
    """The lowest free slots for what is missing. While old pods live, at most SURGE pods are above `replicas`, and none
    is created while one has no node."""
    missing = scene.replicas - len(current)
    if old:
        room = scene.replicas + SURGE - len(current) - len(old)
        missing = 0 if any(pod.unschedulable for pod in current) else min(missing, room)
    slots: list[int] = []
    slot = 0
    while len(slots) < missing:
        if slot not in scene.held_slots:
            slots.append(slot)
        slot += 1
    return tuple(slots)


def _patience_left_s(scene: Scene, old: list[PodView], current: list[PodView]) -> float | None:
    stuck = _without_node(current) if old else None
    if stuck is None:
        return None
    left = SURGE_PATIENCE_S - elapsed_s(stuck.unschedulable_since, scene.now)
    return left if left > 0 else None


def _earliest(*times_s: float | None) -> float | None:
    return min((time for time in times_s if time is not None), default=None)
