"""Which rooms replicas of one revision ask placement for, made from the pods that are there or would be. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from modelfleet.api import names
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.placement import Spread
from modelfleet.core import raw
from modelfleet.core.children import Children
from modelfleet.core.effects import Manifest
from modelfleet.core.groups import Replica
from modelfleet.core.placement.affinity import Term, required_terms
from modelfleet.core.placement.fit import impossible
from modelfleet.core.placement.project import pod_amounts
from modelfleet.core.placement.view import HOSTNAME_KEY, Amounts, ClusterView, Reservation
from modelfleet.core.placement.want import GroupWant, Placement, Shortfall, Tolerated
from modelfleet.core.render.lift import gated
from modelfleet.core.render.pod import pod
from modelfleet.core.render.unpinned import together
from modelfleet.core.revisions import Revision
from modelfleet.core.warmth import Warmth, warm_for

_WORDS_LIMIT = 200  # characters of somebody else's terms that are told


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where replicas of `goal` are to be placed. `kind` is their class as it is today, None where it is gone; `cluster`
    is None while its nodes are not known; `avoid` are nodes in doubt; `warmth` is what starts find on nodes. `later`
    are the pools of `goal` on later classes that may be used, with their classes; to one pool `beside` are the names of
    the others."""

    children: Children
    fleet: tuple[Replica, ...]
    goal: Revision
    kind: AcceleratorClass | None
    cluster: ClusterView | None
    spread: Spread = Spread.NONE
    avoid: frozenset[str] = frozenset()
    warmth: Warmth = field(default_factory=dict)
    later: tuple[tuple[Revision, AcceleratorClass | None], ...] = ()
    beside: frozenset[str] = frozenset()

    @property
    def pools(self) -> tuple["Site", ...]:
        """The site as each pool of the goal sees it, in the order in which they are used."""
        pools = ((self.goal, self.kind), *self.later)
        named = frozenset(pool.name for pool, _ in pools)
        return tuple(replace(self, goal=pool, kind=kind, later=(), beside=named - {pool.name}) for pool, kind in pools)

    def pool_of(self, replica: Replica) -> "Site":
        """The site as the pool of a replica sees it."""
        pools = self.pools
        return next((pool for pool in pools if pool.goal.name == replica.pool), pools[0])


class Asked:
    """Wants of one revision, made from the pods that would be created."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._pod = pod(site.children.owner, site.goal.name, 0, site.goal.plan)
        self._requests: Amounts = pod_amounts(self._pod)
        self._tolerations = _tolerations(self._pod)
        self._warm = warm_for(site.goal.plan, site.warmth)
        self._slots: dict[str, int] = {}
        self._narrowed: dict[str, tuple[tuple[Term, ...], ...]] = {}

    def name(self, slot: int) -> str:
        """The name of the replica in `slot`, by which it is answered."""
        name = names.pod(self._site.children.owner.name, self._site.goal.name, slot)
        self._slots[name] = slot
        return name

    def key(self, replica: Replica) -> str:
        """The name of a replica of the goal, also of one whose leader is not there."""
        return self.name(replica.slot or 0)

    def pods(self, slot: int) -> list[Manifest]:
        """Its pods behind our gate, by rank."""
        return [gated(made) for made in self._rendered(slot)]

    def unpinned(self, slot: int) -> list[Manifest]:
        """Its pods as the scheduler and an autoscaler are to see them, by rank."""
        want = self.of_slot(slot)
        return [*together(self._rendered(slot), want.span, want.topology)]

    def could_stand(self, slot: int) -> bool:
        """Some cluster could hold it."""
        return not impossible(self.of_slot(slot))

    def _rendered(self, slot: int) -> list[Manifest]:
        goal = self._site.goal
        return [pod(self._site.children.owner, goal.name, slot, goal.plan, rank) for rank in range(goal.plan.nodes)]

    def of_slot(self, slot: int) -> GroupWant:
        """A new replica."""
        return self._want(self.name(slot), {})

    def of_group(self, replica: Replica) -> GroupWant:
        """A replica whose pods are there, some of them with a node."""
        self._narrowed[self.key(replica)] = self._added(replica)
        lifted = {one.rank: one.node for one in replica.pods if names.PLACED_GATE not in one.gates and one.node}
        gated_ones = [self._site.children.pods[one.name] for one in replica.pods if names.PLACED_GATE in one.gates]
        return replace(
            self._want(self.key(replica), lifted | self._seats(replica)),
            requests=_most([self._requests, *map(pod_amounts, gated_ones)]),
            required=self._added(replica),
            tolerations=_in_all([_tolerations(one) for one in gated_ones]) or self._tolerations,
        )

    def added_words(self, key: str) -> str:
        """What somebody else requires of the nodes of a group, as a part of a sentence; empty where it is nothing."""
        added = [" or ".join(" and ".join(map(str, term)) for term in terms) for terms in self._narrowed.get(key, ())]
        words = "; ".join(added)[:_WORDS_LIMIT]
        return f"others have added to what its pods require of a node: {words}" if words else ""

    def awaits_others(self, replica: Replica) -> bool:
        """No rank of it has a node yet, and where it may stand was narrowed by somebody else."""
        lifted = any(names.PLACED_GATE not in one.gates for one in replica.pods)
        return not lifted and bool(self._seats(replica) or self._added(replica))

    def _seats(self, replica: Replica) -> dict[int, str]:
        """The nodes that somebody else has chosen for gated ranks, by rank."""
        own = self._site.goal.plan.node_selector
        chosen = {
            one.rank: raw.text(self._site.children.pods[one.name], "spec", "nodeSelector", HOSTNAME_KEY)
            for one in replica.pods
            if names.PLACED_GATE in one.gates and HOSTNAME_KEY not in own
        }
        return {rank: node for rank, node in chosen.items() if node}

    def _added(self, replica: Replica) -> tuple[tuple[Term, ...], ...]:
        """What somebody else requires of the nodes of gated ranks that have no node of their own yet."""
        seats, own = self._seats(replica), self._site.goal.plan.node_selector
        open_ones = (one for one in replica.pods if names.PLACED_GATE in one.gates and one.rank not in seats)
        terms = (required_terms(self._site.children.pods[one.name], own) for one in open_ones)
        return tuple(dict.fromkeys(each for each in terms if each))

    def reservations(self, answers: Iterable[Placement | Shortfall]) -> Iterator[Reservation]:
        """The room that the placed groups count on."""
        owner, goal = self._site.children.owner, self._site.goal
        for answer in answers:
            if isinstance(answer, Placement) and answer.key in self._slots:
                for rank, node in enumerate(answer.nodes):
                    member = names.pod(owner.name, goal.name, self._slots[answer.key], rank)
                    yield Reservation(pod=f"{owner.namespace}/{member}", node=node, requests=self._requests)

    def _want(self, key: str, pinned: Mapping[int, str]) -> GroupWant:
        plan, kind = self._site.goal.plan, self._site.kind
        return GroupWant(
            key=key,
            deployment=f"{self._site.children.owner.namespace}/{self._site.children.owner.name}",
            members=plan.nodes,
            resource=plan.resource_name,
            accelerators=plan.member_accelerators,
            requests=self._requests,
            class_name=plan.class_name,
            node_selector=plan.node_selector,
            tolerations=self._tolerations,
            tensor=plan.tensor,
            domain_size=kind.spec.fabric.domain_size if kind is not None and kind.spec.fabric is not None else None,
            topology=tuple(map(str, kind.spec.topology_keys)) if kind is not None else (),
            spread=self._site.spread,
            peers=tuple(_nodes_of(self._site.fleet)),
            avoid=self._site.avoid,
            pinned=pinned,
            warm=self._warm,
        )


def _nodes_of(fleet: Iterable[Replica]) -> Iterator[str]:
    """Where replicas stand, once for each of them."""
    for replica in fleet:
        if not (replica.gated or replica.terminating or replica.finished):
            yield from dict.fromkeys(one.node for one in replica.pods if one.node)


def _most(requests: Iterable[Amounts]) -> Amounts:
    """The most of each resource."""
    most: dict[str, int] = {}
    for each in requests:
        most.update({name: max(amount, most.get(name, 0)) for name, amount in each.items()})
    return most


def _in_all(given: Sequence[tuple[Tolerated, ...]]) -> tuple[Tolerated, ...]:
    return tuple(one for one in given[0] if all(one in each for each in given)) if given else ()


def _tolerations(pod: Manifest) -> tuple[Tolerated, ...]:
    return tuple(_tolerated(item) for item in raw.items(pod, "spec", "tolerations"))


def _tolerated(item: Mapping[str, object]) -> Tolerated:
    def text(key: str) -> str:
        return raw.text(item, key)

    return Tolerated(key=text("key"), operator=text("operator") or "Equal", value=text("value"), effect=text("effect"))
