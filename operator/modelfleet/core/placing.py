"""Which nodes a deployment's replicas get: what is created, which gates are lifted, what is withdrawn. Pure.

| what is observed | what is done |
| --- | --- |
| a new replica, and room for all of it | its pods are created behind our gate; the room is reserved |
| a new replica, and no room | it is made on the next class that has (next_class.py), or the shortfalls are said |
| the same, on a class that buys nodes, below its limit | created ungated and unpinned, so that an autoscaler sees it |
| a group with a rank that was never made | the rank is created as the others were |
| a whole group behind our gate | it is pinned and lifted, the leader last |
| the same, behind a gate of others too | it waits: they may choose where it runs |
| a group of which some ranks are lifted | the others join them, or it is withdrawn |
| a group behind our gate, and no room any more | it is withdrawn: deleted, and made anew when there is room |
| the same, and others have added to what its pods require | it waits: made anew it would be given the same |
| the nodes of the cluster are not known | nothing is created, lifted or withdrawn |

A rank that is lifted keeps its node: what was pinned cannot be pinned elsewhere, so withdrawing is deleting.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from modelfleet.api import names
from modelfleet.core.asked_room import Asked, Site
from modelfleet.core.effects import Create, Lift
from modelfleet.core.ending import freed, once_ended
from modelfleet.core.groups import Replica
from modelfleet.core.next_class import Later, Room, Spilled, find, held, to_buy
from modelfleet.core.placement.place import place
from modelfleet.core.placement.project import pinned_node, pod_amounts
from modelfleet.core.placement.view import Amounts, ClusterView, Reservation
from modelfleet.core.placement.want import Placement, Shortfall
from modelfleet.core.render.lift import lift


@dataclass(frozen=True, kw_only=True)
class Placing:
    """What came of it. `slots` are those of `goal` that get their pods now; `shortfalls` are by the replica's name;
    `spilled` are those of them that are made on a later class;
    `gates` are those of others that are waited for; `blind`: the nodes are not known, and something was to be placed.
    `room`: one replica more has room on the first class; None: nobody asked, because nothing is left to other models.
    """

    creates: tuple[Create, ...] = ()
    lifts: tuple[Lift, ...] = ()
    slots: tuple[int, ...] = ()
    withdrawn: tuple[Replica, ...] = ()
    shortfalls: Mapping[str, Shortfall] = field(default_factory=dict)
    bought: frozenset[str] = frozenset()
    spilled: tuple[Spilled, ...] = ()
    gates: tuple[str, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    blind: bool = False
    room: bool | None = None

    @property
    def waits_for_room(self) -> bool:
        """Somebody else's end, or a new node, would let more be placed."""
        return self.blind or bool(self.shortfalls) or self.room is not None


@dataclass(frozen=True)
class _Waiting:
    """Groups behind our gate: to be placed, behind gates of others too, of revisions that are not wanted any more."""

    groups: tuple[Replica, ...]
    held: tuple[Replica, ...]
    strays: tuple[Replica, ...]

    @property
    def gates(self) -> tuple[str, ...]:
        """The gates of others that are waited for."""
        return tuple(sorted({gate for replica in self.held for gate in replica.foreign_gates}))


def decide_placing(site: Site, slots: Iterable[int], later: Later | None = None) -> Placing:
    """Places the groups that stand behind our gate, then new replicas in `slots` of the goal, each on the first class
    that has room for it, as far as `later` allows."""
    waiting, new = _waiting(site), tuple(slots)
    if site.cluster is None:
        return Placing(gates=waiting.gates, blind=bool(waiting.groups or new))
    if not (waiting.groups or new):
        creates = tuple(_half_made(site, without=waiting.strays))
        return Placing(gates=waiting.gates, withdrawn=waiting.strays, creates=creates)
    room = Room(site, site.cluster, waiting.groups)
    found = find(room, new, later or Later())
    placing = _of_groups(site, room, waiting)
    creates = (
        *_half_made(site, without=placing.withdrawn),
        *(Create(made) for asked, slot in found.fitting for made in asked.pods(slot)),
        *(Create(made) for asked, slot in found.bought for made in asked.unpinned(slot)),
    )
    return replace(
        placing,
        creates=creates,
        slots=found.slots,
        shortfalls={**_of_waiting(room, found.unbought), **found.shortfalls},
        bought=frozenset(asked.name(slot) for asked, slot in found.bought),
        spilled=tuple(found.spilled),
        reservations=tuple(room.reservations()),
    )


def _of_waiting(room: Room, unbought: str) -> dict[str, Shortfall]:
    """What groups behind our gate lack, by their names."""
    found = {}
    for replica in room.groups:
        asked = room.of(replica)
        answer = room.answers[asked.key(replica)]
        if isinstance(answer, Shortfall):
            parts = (answer.sentence, asked.added_words(answer.key), unbought)
            found[answer.key] = replace(answer, sentence="; ".join(filter(None, parts)))
    return found


def _waiting(site: Site) -> _Waiting:
    gated_ones = [replica for replica in site.fleet if replica.gated and not replica.terminating]
    strays = tuple(replica for replica in gated_ones if replica.revision != site.goal.name)
    held = tuple(replica for replica in gated_ones if replica.foreign_gates and replica not in strays)
    groups = (replica for replica in gated_ones if replica not in held and replica not in strays)
    return _Waiting(tuple(sorted(groups, key=_most_lifted_first)), held, strays)


def _of_groups(site: Site, room: Room, waiting: _Waiting) -> Placing:
    """What becomes of the groups behind our gate."""
    lifts: list[Lift] = []
    withdrawn = [*waiting.strays]
    for replica in waiting.groups:
        asked = room.of(replica)
        answer = room.answers[asked.key(replica)]
        if not _joinable(replica):
            withdrawn.append(replica)
        elif isinstance(answer, Shortfall):
            withdrawn += [] if asked.awaits_others(replica) else [replica]
        elif replica.complete:
            lifts += _lifts(site, replica, answer)
    return Placing(lifts=tuple(lifts), withdrawn=tuple(withdrawn), gates=waiting.gates)


class OneMore:
    """The room for new replicas of one pool of the site, after the groups that wait (making_room.ClassRoom). `cluster`
    is as it is once what ends has ended."""

    def __init__(self, site: Site, pool: Site, cluster: ClusterView, later: Later) -> None:
        waiting, plan = _waiting(site).groups, pool.goal.plan
        self._site, self._pool, self._cluster = site, pool, cluster
        self._comes = plan.class_name not in later.unbrought
        self._allowed = pool.goal.name == site.goal.name or later.allows(plan.accelerators, held(site))
        self._room = Room(site, cluster, waiting)
        self._slot = 1 + max((replica.slot or 0 for replica in waiting), default=0)

    @property
    def pool(self) -> str:
        """The pool's name."""
        return self._pool.goal.name

    @cached_property
    def buys(self) -> bool:
        """A node may be bought for one, and those that were asked for lately came."""
        asked = self._allowed and self._comes and self._asked.could_stand(self._slot)
        return asked and bool(to_buy(self._pool, [self._slot])[0])

    def has_room(self, leaving: Sequence[Replica], count: int = 1) -> bool:
        """Whether so many more have room once these have left."""
        live = [replica for replica in leaving if not replica.terminating]
        wants = [self._asked.of_slot(self._slot + more) for more in range(count)]
        answers = place(_without(self._site, self._cluster, live), [*self._room.wants, *wants])
        return self._allowed and not any(isinstance(answer, Shortfall) for answer in answers[-count:])

    @cached_property
    def _asked(self) -> Asked:
        return self._room.asked(self._pool)


def one_more(site: Site, ends: Iterable[Replica], later: Later, now: datetime) -> tuple[OneMore, ...]:
    """The room on each class, in their order, once `ends` and the pods that were asked to end have ended, but for those
    that are late (ending.py); none while nodes are not known."""
    if site.cluster is None:
        return ()
    ending = [replica for replica in ends if not replica.terminating]
    cluster = _without(site, once_ended(site.cluster, now), ending)
    # It is asked often, and nobody is told the answers, so none is to propose moves, which takes long.
    cluster = replace(cluster, nodes=tuple(replace(node, movable=()) for node in cluster.nodes))
    return tuple(OneMore(site, pool, cluster, later) for pool in site.pools)


def elsewhere(site: Site, ill: Iterable[Replica]) -> frozenset[str]:
    """Those of these replicas, by uid, that would have room together once they left, without the nodes of the ranks
    that failed first."""
    leaving: list[Replica] = []
    for replica in ill:
        more = [*leaving, replica]
        bad = frozenset(each.culprit.node for each in more if each.culprit is not None)
        without = replace(site, avoid=site.avoid | bad)
        wants = [Asked(without.pool_of(each)).of_slot(slot) for slot, each in enumerate(more)]
        if site.cluster is not None and all(
            isinstance(answer, Placement) for answer in place(_without(site, site.cluster, more), wants)
        ):
            leaving = more
    return frozenset(replica.uid for replica in leaving)


def _without(site: Site, cluster: ClusterView, leaving: Iterable[Replica]) -> ClusterView:
    """The cluster once these replicas have left."""
    left: dict[str, list[Amounts]] = {}
    for replica in leaving:
        for one in replica.pods:
            # A rank that ends already is counted by once_ended, or is late and not waited for.
            if one.node and not (one.finished or one.terminating) and one.name in site.children.pods:
                left.setdefault(one.node, []).append(pod_amounts(site.children.pods[one.name]))
    nodes = (freed(node, left[node.name]) if node.name in left else node for node in cluster.nodes)
    return replace(cluster, nodes=tuple(nodes))


def _most_lifted_first(replica: Replica) -> tuple[int, bool, str]:
    """Groups that hold nodes already before whole ones before half made ones."""
    return -sum(names.PLACED_GATE not in one.gates for one in replica.pods), not replica.complete, replica.name


def _joinable(replica: Replica) -> bool:
    """Every rank that is lifted says where it is; one that does not was lifted by somebody else."""
    return all(one.node for one in replica.pods if names.PLACED_GATE not in one.gates) and not replica.finished


def _lifts(site: Site, replica: Replica, answer: Placement) -> Iterator[Lift]:
    """The patches, the leader's last: an engine waits for its peers, and nothing for it."""
    for rank in reversed(range(replica.size)):
        member = replica.members[rank]
        if member is not None and names.PLACED_GATE in member.gates:
            yield replace(lift(site.children.pods[member.name], answer.nodes[rank], answer.reason), leads=rank == 0)


def _half_made(site: Site, without: Iterable[Replica] = ()) -> Iterator[Create]:
    """The ranks that a group lacks which has not begun: they were not made yet, or the process ended between two."""
    left_out = {replica.uid for replica in without}
    for replica in site.fleet:
        made_of_goal = replica.revision == site.goal.name and replica.slot is not None
        begun = replica.started or replica.finished or replica.terminating or replica.uid in left_out
        if not made_of_goal or begun or len(replica.pods) == replica.size:
            continue
        for rank, member in enumerate(replica.members):
            if member is None and replica.slot is not None:
                asked, ours = Asked(site.pool_of(replica)), _is_ours_to_pin(site, replica)
                yield Create((asked.pods(replica.slot) if ours else asked.unpinned(replica.slot))[rank])


def _is_ours_to_pin(site: Site, replica: Replica) -> bool:
    """A rank of it waits for our gate, or has gone through it."""
    return replica.gated or any(pinned_node(site.children.pods[one.name]) for one in replica.pods)
