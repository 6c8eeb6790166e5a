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
| the new one has no room on a class, and would have once old ones left (making_room.py), at most `missing` replicas
  short | those make room first (KServe#5452) |
| the same, and more would have to leave than may be missing once all that start serve | the next class is looked at |
| none has room on any class, and none would | the rollout is blocked |
| an autoscaler is to bring the new one's node | it is waited for, until none came lately (group_life.py) |
| `surge` is 0, and it has room | an old one leaves first |
| one must leave its node | another comes up first, also where `surge` is 0 |
| more current ones than `n` | the best victims leave (drain.py) |
| the nodes are not known, and so not which ones must leave theirs | none makes room, and no current one is too many |
| the rollout is paused | no revision is old: what runs stays, and what is missing is made of `revision` |
| the same, and one of another revision cannot come up | it does not count, and stays as far as `surge` allows |
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from modelfleet.core.drain import Terms, first_to_leave, leave
from modelfleet.core.groups import Replica
from modelfleet.core.making_room import ClassRoom, makers, ready_among
from modelfleet.core.pods import elapsed_s

RETRY_S = 30.0
"""What ends younger than this is replaced when it is this old: a node that refuses pods gets two a minute."""

SURGE_PATIENCE_S = 30.0
"""How long the scheduler is waited for before an old replica makes room, where no autoscaler is to bring a node."""

_AT_ONCE = 8
"""For so many new replicas at most others make room in one step: each is proved by placing all of them anew."""


class Way(StrEnum):
    """How the current revision replaces an old one."""

    NONE = "None"  # no old replicas
    SURGE = "Surge"  # the new replica first
    DELETE_FIRST = "DeleteFirst"  # an old one makes room
    BLOCKED = "Blocked"  # no room on any class, and none without as many old ones as may leave


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What is known of room for new replicas. `classes`: that of each class that may be used, in their order; empty
    where nothing is said, and then there is room. `bought`: pools whose nodes an autoscaler brings; `unbrought`: those
    of them for which none came lately. `known`: whether the nodes are."""

    classes: tuple[ClassRoom, ...] = ()
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
    is no room; what they lack is to be said. `classes`: what is created may be made on so many classes, the first ones;
    None: on all. `needed`: so many old ones would have to leave for a new one where the way is blocked; 0: no number
    would do."""

    create: tuple[int, ...] = ()
    asked: tuple[int, ...] = ()
    delete: tuple[Replica, ...] = ()
    off: tuple[Replica, ...] = ()
    on: tuple[Replica, ...] = ()
    victims: frozenset[str] = frozenset()
    way: Way = Way.NONE
    classes: int | None = None
    needed: int = 0
    wake_after_s: float | None = None


def decide_step(scene: Scene) -> Step:
    """The step. Every replica of the scene is left alone, deleted, drained, or put back to serving."""
    live = [replica for replica in scene.fleet if not replica.terminating]
    ended, retry_s = _ended(scene, live)
    due = {replica.name for replica in ended}
    standing = [replica for replica in live if replica.name not in due]
    old = [replica for replica in standing if scene.is_old(replica)]
    current, broken = _current(scene, standing)
    choice = _choose(scene, old, current, ended)
    victims = [*_old_victims(scene, old, current, choice), *_surplus(scene, old, current, broken)]
    leaving = {replica.uid for replica in victims}
    going = leave(victims, scene.drains)
    staying = [replica for replica in standing if replica.uid not in leaving]
    gone = {replica.uid for replica in going.delete}
    left = [replica for replica in old if replica.uid not in gone]
    create = _slots(scene, _to_make(scene, left, current, _surge(scene, left)))
    blocked = choice.way is Way.BLOCKED and not create
    return Step(
        create=create,
        asked=_slots(scene, _to_make(scene, left, current, surge=1)) if blocked else (),
        delete=(*ended, *going.delete),
        off=going.off,
        on=tuple(replica for replica in staying if not replica.serving and not replica.finished),
        victims=frozenset(leaving | {replica.uid for replica in ended}),
        way=choice.way,
        classes=choice.classes,
        needed=len(choice.makers) if choice.way is Way.BLOCKED else 0,
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


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """The way; the old ones that make room, where only some do; on how many classes new ones may be made, None: all."""

    way: Way
    makers: tuple[Replica, ...] = ()
    classes: int | None = None


def _choose(scene: Scene, old: list[Replica], current: list[Replica], ended: Sequence[Replica]) -> _Choice:
    """The way on the first class where one leads on; without old ones, the classes up to the one that has room."""
    outlook, stuck = scene.outlook, _without_node(scene, current) if old else None
    # Where `surge` is 0 none is made yet; one that leaves for it is to leave room.
    # One too many that leaves already is not that one.
    makes = _to_make(scene, old, current, max(1, scene.surge)) > 0
    asks = makes or (not scene.surge and bool(old) and len(current) < scene.replicas)
    asks = asks if stuck is None else _is_in_vain(scene, stuck)
    easy, blocked = _ways(scene, old)
    if not (outlook.known and outlook.classes and asks):
        return _Choice(way=easy, classes=1 if outlook.classes else None)
    hopeless, rest = _parted(scene, old)
    gone = [*ended, *hopeless, *([stuck] if stuck else [])]
    needed: tuple[Replica, ...] = ()
    for index, room in enumerate(outlook.classes):
        if stuck is not None and not _could_help(scene, stuck, room):
            continue
        if room.has_room(gone) or room.buys:
            return _Choice(way=easy, classes=index + 1)
        # What is on a cordoned node frees what nobody may use.
        able = [each for each in rest if each.placed and each.uid not in scene.moving]
        found = (makers(room, gone, able) if able else None) or ()
        if found and scene.missing > 0 and _may_leave(scene, found, rest, current):
            more = _for_more(scene, room, (gone, able, found), (rest, current))
            return _Choice(way=Way.DELETE_FIRST, makers=more, classes=index + 1)
        needed = needed or found
    return _Choice(way=blocked, makers=needed)


def _ways(scene: Scene, old: list[Replica]) -> tuple[Way, Way]:
    """The way where a new one has room, and that where it has none."""
    if not old:
        return Way.NONE, Way.NONE
    return Way.SURGE if _surge(scene, old) or not scene.outlook.known else Way.DELETE_FIRST, Way.BLOCKED


def _for_more(
    scene: Scene,
    room: ClassRoom,
    leaving: tuple[list[Replica], list[Replica], tuple[Replica, ...]],
    standing: tuple[list[Replica], list[Replica]],
) -> tuple[Replica, ...]:
    """Those that make room for one, and for as many more as is possible at once."""
    (gone, able, found), (rest, current) = leaving, standing
    spare, count = _spare(scene, rest, current), 1
    while ready_among(found) < spare and count < min(_AT_ONCE, scene.replicas - len(current)):
        count += 1
        more = makers(room, gone, able, count)
        if more is None or ready_among(more) > spare:
            break
        found = more
    return found


def _may_leave(scene: Scene, leaving: Sequence[Replica], rest: list[Replica], current: list[Replica]) -> bool:
    """As many as may be missing let these leave: now, or once those serve that are on their way to."""
    able = [each for each in current if not (_without_node(scene, [each]) or _is_of_its_node(each))]
    at_best = len(rest) + len(able) - (scene.replicas - scene.missing)
    return len(leaving) <= at_best or ready_among(leaving) <= _spare(scene, rest, current)


def _is_of_its_node(replica: Replica) -> bool:
    """Its node keeps it from serving."""
    return replica.failure is not None and replica.failure.of_its_node


def _spare(scene: Scene, rest: list[Replica], current: list[Replica]) -> int:
    """How many Ready ones may leave now."""
    return max(0, ready_among([*rest, *current]) - (scene.replicas - scene.missing))


def _is_in_vain(scene: Scene, stuck: Replica) -> bool:
    """Neither the scheduler nor an autoscaler is going to find a node for it."""
    if _is_bought_for(scene, stuck):
        return stuck.pool in scene.outlook.unbrought
    return elapsed_s(stuck.unschedulable_since, scene.now) >= SURGE_PATIENCE_S


def _could_help(scene: Scene, stuck: Replica, room: ClassRoom) -> bool:
    """Room on this class would let it in: it is made for it, and nothing else than room keeps it out."""
    return stuck.pool == room.pool and (_is_bought_for(scene, stuck) or bool(stuck.lacks))


def _without_node(scene: Scene, current: list[Replica]) -> Replica | None:
    """The current replica that has no node: the scheduler found none, or nobody has brought one for its pool lately."""
    return next((each for each in current if each.unschedulable or _is_asked_in_vain(scene, each)), None)


def _is_bought_for(scene: Scene, replica: Replica) -> bool:
    """An autoscaler is to bring its node: it is pinned to none."""
    waiting = any(not (pod.placed or pod.node or pod.gates or pod.finished) for pod in replica.pods)
    return waiting and replica.pool in scene.outlook.bought


def _is_asked_in_vain(scene: Scene, replica: Replica) -> bool:
    return replica.pool in scene.outlook.unbrought and _is_bought_for(scene, replica)


def _parted(scene: Scene, old: list[Replica]) -> tuple[list[Replica], list[Replica]]:
    """Old ones that leave at once as they serve nobody, and the others, the first to leave first."""
    hopeless = [replica for replica in old if replica.hopeless or replica.unschedulable]
    others = [replica for replica in old if not (replica.hopeless or replica.unschedulable)]
    return hopeless, first_to_leave(others, scene.revision, scene.drains.work, scene.pools)


def _old_victims(scene: Scene, old: list[Replica], current: list[Replica], choice: _Choice) -> list[Replica]:
    """Old replicas that leave now: the hopeless at once, the others as far as the Ready ones allow."""
    hopeless, rest = _parted(scene, old)
    spare, above = _spare(scene, rest, current), ready_among([*rest, *current]) - scene.replicas
    ready = [replica for replica in rest if replica.ready]
    if choice.way is Way.DELETE_FIRST and not choice.makers:
        placed = [replica for replica in rest if replica.placed]
        idle = [replica for replica in placed if not replica.ready]
        return [*hopeless, *(idle[:1] or placed[:spare])]
    if choice.way is Way.DELETE_FIRST:
        first = choice.makers if ready_among(choice.makers) <= spare else ()
        others = [replica for replica in ready if replica not in first]
        return [*hopeless, *first, *others[: max(0, above - ready_among(first))]]
    proved = any(replica.ready for replica in current)
    idle = [replica for replica in rest if not replica.ready] if proved or not scene.replicas else []
    return [*hopeless, *idle, *ready[: max(0, above)]]


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
