"""On which class each new replica is made: the first that has room for it, in the order of the plan. Pure.

| what is observed of a class, for one new replica | what is done |
| --- | --- |
| nodes of it have room | it is placed there |
| none has, the class buys nodes below its limit, and brought those that were asked of it lately | it is bought there |
| none has, and an old replica is about to leave room there (rollout.py) | it waits for that |
| none has, and maxAccelerators leaves too few for a replica of the next class | that class is passed over |
| none has | the next class is looked at |
| no class has, and one buys nodes that did not come lately | it is bought there once more |
| no class has | nothing is made; what each lacks is said |

So a shortfall of a class counts once its nodes are known and have no room, and nothing may be bought for it, or what
was bought did not come in time (group_life.py). A replica stays on the class that it was made on.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from modelfleet.core.asked_room import Asked, Site
from modelfleet.core.groups import Replica
from modelfleet.core.placement.place import place
from modelfleet.core.placement.supplies import may_buy
from modelfleet.core.placement.view import ClusterView, Reservation
from modelfleet.core.placement.want import GroupWant, Placement, Shortfall


@dataclass(frozen=True, kw_only=True)
class Later:
    """What later classes may be used for. `classes`: how many of the list may be used now, the first ones; None: all.
    `unbrought` are classes of which nobody brought a node lately; `most` accelerators may be held in all, None: any
    number."""

    classes: int | None = None
    unbrought: frozenset[str] = frozenset()
    most: int | None = None

    def allows(self, accelerators: int, held: int) -> bool:
        """Whether so many more may be held on a later class beside those that are."""
        return self.most is None or held + accelerators <= self.most


@dataclass(frozen=True, kw_only=True)
class Spilled:
    """A replica that is made on a later class, and what kept it from those before."""

    replica: str
    class_name: str
    why: str


@dataclass
class Search:
    """What came of it, by slots of the goal: where each fits or is bought; what those that are not made lack, by the
    replica's name on the first class; `unbought` says why the first class buys none."""

    fitting: list[tuple[Asked, int]] = field(default_factory=list)
    bought: list[tuple[Asked, int]] = field(default_factory=list)
    shortfalls: dict[str, Shortfall] = field(default_factory=dict)
    spilled: list[Spilled] = field(default_factory=list)
    unbought: str = ""

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots that get their pods now."""
        return tuple(sorted(slot for _, slot in (*self.fitting, *self.bought)))


class Room:
    """The room that there is for pools of one goal, with the groups that wait behind our gate placed first. `answers`
    are those so far: what was placed is the same in each later call, because only more is asked for."""

    def __init__(self, site: Site, cluster: ClusterView, groups: Iterable[Replica]) -> None:
        self.site = site
        self._cluster = cluster
        self._asked: dict[str, Asked] = {}
        self.groups = tuple(groups)
        self.wants = tuple(self.of(replica).of_group(replica) for replica in self.groups)
        self.answers: dict[str, Placement | Shortfall] = {}

    def of(self, replica: Replica) -> Asked:
        """What is asked for replicas of the pool of this one."""
        return self.asked(self.site.pool_of(replica))

    def asked(self, pool: Site) -> Asked:
        """What is asked for replicas of a pool."""
        if pool.goal.name not in self._asked:
            self._asked[pool.goal.name] = Asked(pool)
        return self._asked[pool.goal.name]

    def place(self, wants: Iterable[GroupWant]) -> None:
        """Answers the groups that wait, and then `wants`."""
        self.answers |= {answer.key: answer for answer in place(self._cluster, [*self.wants, *wants])}

    def reservations(self) -> Iterator[Reservation]:
        """The room that what was placed counts on."""
        for asked in self._asked.values():
            yield from asked.reservations(self.answers.values())


def find(room: Room, slots: Iterable[int], later: Later) -> Search:
    """A class for each of these slots; the groups that wait are answered too."""
    slots = tuple(slots)
    if not slots:
        room.place(())
    return _Finding(room, slots, later).run()


def to_buy(site: Site, slots: Iterable[int]) -> tuple[list[int], str]:
    """The slots whose pods a cluster autoscaler is to see, and why the others are not; empty where none is bought."""
    plan, bought = site.goal.plan, list[int]()
    if site.kind is None or site.cluster is None:
        return bought, ""
    unplaced = (
        one
        for replica in site.fleet
        if replica.pool not in site.beside
        for one in replica.pods
        if not (one.placed or one.gates or one.finished)
    )
    ordered = int(sum(one.requests.get(plan.resource_name, 0.0) for one in unplaced))
    for slot in slots:
        why = may_buy(site.kind, site.cluster.nodes, ordered, plan.accelerators)
        if why is not None:
            return bought, why
        bought.append(slot)
        ordered += plan.accelerators
    return bought, ""


class _Finding:
    """One search: slots leave `_left` as they find a class; `_lacks` is what was said of each, class by class."""

    def __init__(self, room: Room, slots: tuple[int, ...], later: Later) -> None:
        self._room, self._later = room, later
        self._left, self._lacks = list(slots), {slot: list[tuple[str, str]]() for slot in slots}
        self._first: dict[int, Shortfall] = {}
        self._found = Search()
        self._held = held(room.site)

    def run(self) -> Search:
        pools = self._room.site.pools[: self._later.classes]
        for index, pool in enumerate(pools):
            if not self._left:
                break
            self._place(pool, self._affordable(pool) if index else list(self._left))
            if len(pools) == 1 or pool.goal.plan.class_name not in self._later.unbrought:
                self._buy(pool, is_first=not index)
        for index, pool in enumerate(pools):
            if len(pools) > 1 and pool.goal.plan.class_name in self._later.unbrought:
                self._buy(pool, is_first=not index)
        for slot in self._left:
            name = self._room.asked(pools[0]).name(slot)
            self._found.shortfalls[name] = replace(self._first[slot], sentence=self._said(slot))
        return self._found

    def _affordable(self, pool: Site) -> list[int]:
        """The slots that a later pool may take by maxAccelerators."""
        most, each = self._later.most, pool.goal.plan.accelerators
        count = len(self._left) if most is None else max(0, most - self._held) // each
        for slot in self._left[count:]:
            said = f"maxAccelerators {most} leaves {max(0, (most or 0) - self._held)}, and a replica takes {each}"
            self._lacks[slot].append((pool.goal.plan.class_name, said))
        return self._left[:count]

    def _place(self, pool: Site, slots: list[int]) -> None:
        asked = self._room.asked(pool)
        before = [one.of_slot(slot) for one, slot in self._found.fitting]
        self._room.place([*before, *map(asked.of_slot, slots)])
        for slot in slots:
            answer = self._room.answers[asked.name(slot)]
            if isinstance(answer, Placement):
                self._take(pool, slot, self._found.fitting)
            else:
                self._first.setdefault(slot, answer)
                self._lacks[slot].append((pool.goal.plan.class_name, answer.sentence))

    def _buy(self, pool: Site, *, is_first: bool) -> None:
        asked = self._room.asked(pool)
        looked = [slot for slot in self._left if pool.goal.plan.class_name in dict(self._lacks[slot])]
        bought, unbought = to_buy(pool, [slot for slot in looked if asked.could_stand(slot)])
        self._found.unbought = self._found.unbought or (unbought if is_first else "")
        for slot in bought:
            name = asked.name(slot)
            own = dict(self._lacks[slot])[pool.goal.plan.class_name]
            self._found.shortfalls[name] = replace(self._first[slot], key=name, sentence=own)
            self._take(pool, slot, self._found.bought)

    def _take(self, pool: Site, slot: int, into: list[tuple[Asked, int]]) -> None:
        asked, plan = self._room.asked(pool), pool.goal.plan
        into.append((asked, slot))
        self._left.remove(slot)
        self._held += plan.accelerators
        before = [(name, said) for name, said in self._lacks[slot] if name != plan.class_name]
        if pool.goal.name != self._room.site.goal.name:
            why = "; ".join(f"class {name} {said}" for name, said in before)
            self._found.spilled.append(Spilled(replica=asked.name(slot), class_name=plan.class_name, why=why))

    def _said(self, slot: int) -> str:
        """What each class lacks for it; the first is named by its own sentence."""
        (_, first), *others = self._lacks[slot]
        parts = [first, self._found.unbought, *(f"class {name} {said}" for name, said in others)]
        return "; ".join(filter(None, parts))


def held(site: Site) -> int:
    """Accelerators of the goal's replicas that are there."""
    of = {pool.goal.name: pool.goal.plan.accelerators for pool in site.pools}
    return sum(of.get(replica.pool or "", 0) for replica in site.fleet if not replica.terminating)
