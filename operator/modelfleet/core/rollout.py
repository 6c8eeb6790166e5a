"""One step of the replicas towards the plan, computed from what is observed. Pure.

Nothing here remembers an earlier step: the film of a rollout is this function, called again on what came of it.

How one step chooses. `n` replicas are wanted. One is old if another revision made it, or if it must leave its node;
the others are current. `surge` may be above `n` while old ones live, and `missing` may be missing in place.

| what is observed | what is done |
| --- | --- |
| one ended (evicted, refused by the node, a rank lost) | deleted and replaced, a young one when it is RETRY_S old |
| an old one that cannot come up (no image, crash loop, no node) | deleted: it serves nobody (LeaderWorkerSet#567) |
| fewer than `n` current ones | created, all at once; while old ones live, up to `surge` above `n` |
| a current one is Ready and more than `n` are Ready | one old one is drained for each above `n` |
| the new one has no room, and old ones hold as much as it needs where it may stand | old ones make room first, at most
  `missing` replicas short (KServe#5452); with `missing` 0 the rollout is blocked |
| an autoscaler is to bring the new one's node | it is waited for, until none came lately (group_life.py) |
| `surge` is 0 | old ones make room first, without waiting for a sign that there is none |
| the same, and the new one could stand nowhere once they left | they stay |
| one must leave its node | another comes up first, also where `surge` is 0 |
| more current ones than `n` | the best victims leave (drain.py) |
| the nodes are not known, and so not which ones must leave theirs | none makes room, and no current one is too many |
| the rollout is paused | no revision is old: what runs stays, and what is missing is made of `revision` |
| the same, and one of another revision cannot come up | it does not count, and stays as far as `surge` allows |
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from modelfleet.core.drain import Terms, first_to_leave, leave
from modelfleet.core.ending import room_comes
from modelfleet.core.groups import Replica
from modelfleet.core.pods import elapsed_s

RETRY_S = 30.0
"""What ends younger than this is replaced when it is this old: a node that refuses pods gets two a minute."""

SURGE_PATIENCE_S = 30.0
"""How long the scheduler is waited for before an old replica makes room, where no autoscaler is to bring a node."""


class Way(StrEnum):
    """How the current revision replaces an old one."""

    NONE = "None"  # no old replicas
    SURGE = "Surge"  # the new replica first
    DELETE_FIRST = "DeleteFirst"  # an old one makes room
    BLOCKED = "Blocked"  # no room, and no old one holds enough of it or none may be missing, or no node is fit at all


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What is known of room for one more replica. `short`: what it needs of what there is no room for, as the placer
    says; None where it says nothing; empty where there is none without the old ones either. `barred`: nodes of ours on
    which it may not stand, however empty. `bought`: pools whose nodes an autoscaler brings; `unbrought`: those of them
    for which none came lately. `known`: whether the nodes are."""

    short: Mapping[str, float] | None = None
    barred: frozenset[str] = frozenset()
    bought: frozenset[str] = frozenset()
    unbrought: frozenset[str] = frozenset()
    known: bool = True


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What a step is computed from. `fleet` is ours; `held_slots` are slots of the current revision with a pod name
    that is taken by anything that exists. `drains` is by the uid of a leader's pod, and so is `moving`: those that must
    leave their nodes; `slow` are those that are worse than the others, and are replaced. `pools` are those of
    the current revision, in the order of its classes."""

    revision: str
    replicas: int
    fleet: tuple[Replica, ...]
    held_slots: frozenset[int]
    drains: Terms
    now: datetime
    surge: int = 1
    missing: int = 1
    paused: bool = False
    moving: frozenset[str] = field(default=frozenset())
    slow: frozenset[str] = field(default=frozenset())
    outlook: Outlook = Outlook()
    pools: tuple[str, ...] = ()

    def is_old(self, replica: Replica) -> bool:
        """Whether it is to be replaced."""
        return replica.uid in self.moving or is_outdated(replica, self.revision, self.slow, paused=self.paused)


def is_outdated(replica: Replica, revision: str, slow: Collection[str], *, paused: bool) -> bool:
    """Whether it is replaced wherever it stands, so that what it holds may be used then."""
    if replica.uid in slow or replica.revision is None:
        return True
    return replica.revision != revision and not paused


@dataclass(frozen=True, kw_only=True)
class Step:
    """What to do now. `off` and `on` are those whose serving label is to change; `victims` are all that are to leave,
    by their uids. `asked` are slots of replicas that may not be made before an old one left, and none leaves, as there
    is no room; what they lack is to be said. `exhausted`: as many are missing as may be, and what is asked to end
    will not end."""

    create: tuple[int, ...] = ()
    asked: tuple[int, ...] = ()
    delete: tuple[Replica, ...] = ()
    off: tuple[Replica, ...] = ()
    on: tuple[Replica, ...] = ()
    victims: frozenset[str] = frozenset()
    way: Way = Way.NONE
    exhausted: bool = False
    wake_after_s: float | None = None


def decide_step(scene: Scene) -> Step:
    """The step. Every replica of the scene is left alone, deleted, drained, or put back to serving."""
    live = [replica for replica in scene.fleet if not replica.terminating]
    ended, retry_s = _ended(scene, live)
    due = {replica.name for replica in ended}
    standing = [replica for replica in live if replica.name not in due]
    old = [replica for replica in standing if scene.is_old(replica)]
    current, broken = _current(scene, standing)
    way = _way(scene, old, current)
    victims = [*_old_victims(scene, old, current, way), *_surplus(scene, old, current, broken)]
    leaving = {replica.uid for replica in victims}
    going = leave(victims, scene.drains)
    staying = [replica for replica in standing if replica.uid not in leaving]
    gone = {replica.uid for replica in going.delete}
    left = [replica for replica in old if replica.uid not in gone]
    create = _slots(scene, _to_make(scene, left, current, _surge(scene, left)))
    blocked = way is Way.BLOCKED and not create
    return Step(
        create=create,
        asked=_slots(scene, _to_make(scene, left, current, surge=1)) if blocked else (),
        delete=(*ended, *going.delete),
        off=going.off,
        on=tuple(replica for replica in staying if not replica.serving and not replica.finished),
        victims=frozenset(leaving | {replica.uid for replica in ended}),
        way=way,
        exhausted=way is Way.DELETE_FIRST and not victims and _is_exhausted(scene, current),
        wake_after_s=_earliest(retry_s, going.wake_after_s, _patience_left_s(scene, old, current)),
    )


def hold(replicas: Iterable[Replica]) -> Step:
    """The step while nothing may be decided: every replica stays, and one whose label was edited serves again."""
    return Step(
        on=tuple(replica for replica in replicas if not (replica.terminating or replica.finished or replica.serving))
    )


def _current(scene: Scene, standing: list[Replica]) -> tuple[list[Replica], list[Replica]]:
    """Those that are not replaced, and beside them those of a paused rollout that cannot come up."""
    kept = [replica for replica in standing if not scene.is_old(replica)]
    broken = [each for each in kept if each.revision != scene.revision and (each.hopeless or each.unschedulable)]
    return [replica for replica in kept if replica not in broken], broken


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
    if not scene.outlook.known:
        return Way.SURGE
    lack = _lack(scene, old, current)
    if lack is None:
        return Way.SURGE if _surge(scene, old) else Way.DELETE_FIRST
    if not lack:
        return Way.BLOCKED  # no node is fit for it, however empty
    if room_comes(scene.fleet, scene.outlook.barred):
        return Way.SURGE  # room is about to be free
    makes_room = scene.missing > 0 and bool(_useful(scene, old, lack))
    return Way.DELETE_FIRST if makes_room else Way.BLOCKED


def _lack(scene: Scene, old: list[Replica], current: list[Replica]) -> Mapping[str, float] | None:
    """What a new replica needs of what there is too little of; empty where no node is fit; None where it has room, or
    the scheduler or an autoscaler may still find some, or none is to be made."""
    outlook, stuck = scene.outlook, _without_node(scene, current)
    if stuck is None:
        # Where `surge` is 0 none is made yet; one that leaves for it is to leave room.
        return outlook.short if _to_make(scene, old, current, max(1, scene.surge)) > 0 else None
    if _is_bought_for(scene, stuck):
        return outlook.short if stuck.pool == scene.revision and stuck.pool in outlook.unbrought else None
    if elapsed_s(stuck.unschedulable_since, scene.now) < SURGE_PATIENCE_S:
        return None
    return {name: stuck.requests.get(name, 0.0) for name in stuck.lacks} if outlook.short != {} else {}


def _without_node(scene: Scene, current: list[Replica]) -> Replica | None:
    """The current replica that has no node: the scheduler found none, or nobody has brought one for its pool lately."""
    return next((each for each in current if each.unschedulable or _is_asked_in_vain(scene, each)), None)


def _is_bought_for(scene: Scene, replica: Replica) -> bool:
    """An autoscaler is to bring its node: it is pinned to none."""
    waiting = any(not (pod.placed or pod.node or pod.gates or pod.finished) for pod in replica.pods)
    return waiting and replica.pool in scene.outlook.bought


def _is_asked_in_vain(scene: Scene, replica: Replica) -> bool:
    return replica.pool in scene.outlook.unbrought and _is_bought_for(scene, replica)


def _useful(scene: Scene, old: list[Replica], lack: Mapping[str, float]) -> list[Replica]:
    """The old replicas that make room: those that leave enough of what is lacking, else all that leave some of it where
    as many as may be missing leave enough together. What is on a cordoned node frees what nobody may use."""
    placed = [replica for replica in old if replica.placed]
    if not lack:
        return placed
    left = {replica.uid: _left_by(scene, replica, lack) for replica in placed if replica.uid not in scene.moving}
    enough = [each for each in placed if each.uid in left and _covers([left[each.uid]], lack)]
    if enough:
        return enough
    some = [each for each in placed if each.uid in left and any(left[each.uid].values())]
    return some if _covers([left[each.uid] for each in some], lack, scene.missing) else []


def _left_by(scene: Scene, replica: Replica, lack: Mapping[str, float]) -> dict[str, float]:
    """What it leaves of what is lacking where a new one may stand."""
    pods = [pod for pod in replica.pods if pod.node not in scene.outlook.barred]
    return {name: sum(pod.requests.get(name, 0.0) for pod in pods) for name in lack}


def _covers(left: list[dict[str, float]], lack: Mapping[str, float], most: int = 1) -> bool:
    """The `most` largest of these amounts are together what is lacking."""
    return all(sum(sorted((each[name] for each in left), reverse=True)[:most]) >= lack[name] for name in lack)


def _old_victims(scene: Scene, old: list[Replica], current: list[Replica], way: Way) -> list[Replica]:
    """Old replicas that leave now: the hopeless at once, the others as far as the Ready ones allow."""
    hopeless = [replica for replica in old if replica.hopeless or replica.unschedulable]
    others = [replica for replica in old if not (replica.hopeless or replica.unschedulable)]
    rest = first_to_leave(others, scene.revision, scene.drains.work, scene.pools)
    up = sum(replica.ready for replica in [*rest, *current])
    if way is Way.DELETE_FIRST:
        useful = _useful(scene, rest, _lack(scene, old, current) or {})
        idle = [replica for replica in useful if not replica.ready]
        spare = max(0, up - (scene.replicas - scene.missing))
        return [*hopeless, *(idle[:1] or useful[:spare])]
    proved = any(replica.ready for replica in current)
    idle = [replica for replica in rest if not replica.ready] if proved or not scene.replicas else []
    ready = [replica for replica in rest if replica.ready]
    return [*hopeless, *idle, *ready[: max(0, up - scene.replicas)]]


def _is_exhausted(scene: Scene, current: list[Replica]) -> bool:
    """No current one is on its way, and what is asked to end frees nothing."""
    comes_up = any(not (each.ready or each.failure or _without_node(scene, [each])) for each in current)
    ending = any(replica.terminating for replica in scene.fleet)
    return ending and not comes_up and not room_comes(scene.fleet, scene.outlook.barred)


def _surplus(scene: Scene, old: list[Replica], current: list[Replica], broken: list[Replica]) -> list[Replica]:
    """Current ones above the wanted number; while a rollout is paused, which keeps what it has made, above that and
    `surge`, broken ones first."""
    if scene.replicas and not scene.outlook.known:
        return []  # one of them may be there for another that must leave its node
    first = [first_to_leave(some, scene.revision, scene.drains.work, scene.pools) for some in (broken, current)]
    mixed = bool(broken) or len({replica.revision for replica in current}) > 1
    above = len(current) - scene.replicas - (scene.surge if mixed and scene.replicas else 0)
    surge = _surge(scene, old) if scene.replicas else 0
    whole = len(current) + len(old) + max(0, _to_make(scene, old, current, surge))
    spent = len(broken) - max(0, scene.replicas + surge - whole)
    return [*first[0][: max(0, spent)], *first[1][: max(0, above)]]


def _surge(scene: Scene, old: list[Replica]) -> int:
    """How many may be above the wanted number: one at least while a node is to be emptied."""
    return max(1, scene.surge) if any(replica.uid in scene.moving for replica in old) else scene.surge


def _to_make(scene: Scene, old: list[Replica], current: list[Replica], surge: int) -> int:
    """How many are missing. While old ones live, at most `surge` are above `replicas`, and none is made while one has
    no node."""
    missing = scene.replicas - len(current)
    if not old:
        return missing
    room = scene.replicas + surge - len(current) - len(old)
    return 0 if any(replica.unschedulable for replica in current) else min(missing, room)


def _slots(scene: Scene, missing: int) -> tuple[int, ...]:
    """The lowest free slots for what is missing."""
    slots: list[int] = []
    slot = 0
    while len(slots) < missing:
        if slot not in scene.held_slots:
            slots.append(slot)
        slot += 1
    return tuple(slots)


def _patience_left_s(scene: Scene, old: list[Replica], current: list[Replica]) -> float | None:
    stuck = _without_node(scene, current) if old else None
    if stuck is None or _is_bought_for(scene, stuck):
        return None
    left = SURGE_PATIENCE_S - elapsed_s(stuck.unschedulable_since, scene.now)
    return left if left > 0 else None


def _earliest(*times_s: float | None) -> float | None:
    return min((time for time in times_s if time is not None), default=None)
