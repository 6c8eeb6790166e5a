"""Which nodes a member may stand on, and which have room for it now. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from modelfleet.core.placement.affinity import fits
from modelfleet.core.placement.view import Amounts, NodeView, Taint
from modelfleet.core.placement.want import GroupWant, Tolerated

_MOST_A_NODE = 1024
"""No class has more accelerators in a node; a node that reports a senseless number is not laid out further."""


class Barred(StrEnum):
    """Why a node of the class takes no member, however empty it is."""

    CORDONED = "cordoned"
    NOT_READY = "not ready"
    TAINTED = "tainted"
    IN_DOUBT = "in doubt after a failed start"


@dataclass(slots=True)
class Room:
    """What is left of a node while placements are made. `free` and `held` are as in NodeView, and never changed in
    place: they are the view's own until somebody moves in."""

    node: NodeView
    free: Amounts
    held: Mapping[str, tuple[int, ...]]

    def take(self, want: GroupWant) -> None:
        """One member moves in."""
        self.free = {**self.free, **{name: self.free.get(name, 0) - taken for name, taken in want.requests.items()}}
        sizes = (*self.held.get(want.resource, ()), want.accelerators)
        self.held = {**self.held, want.resource: tuple(sorted(sizes, reverse=True))}

    def is_whole(self, resource: str) -> bool:
        """No accelerator of it is held."""
        return self.free.get(resource, 0) >= self.node.allocatable.get(resource, 0)


def rooms(nodes: Iterable[NodeView]) -> dict[str, Room]:
    """The nodes as they are before the first placement, by name."""
    return {node.name: Room(node, node.free, node.held) for node in nodes}


def selected(node: NodeView, want: GroupWant) -> bool:
    """The node is of the wanted kind."""
    return want.node_selector.items() <= node.labels.items() and all(fits(node, terms) for terms in want.required)


def barred(node: NodeView, want: GroupWant) -> Barred | None:
    """Why the node takes no member; None where it does."""
    if node.cordoned:
        return Barred.CORDONED
    if not node.ready:
        return Barred.NOT_READY
    for taint in node.taints:
        if taint.effect != "PreferNoSchedule" and not tolerated(taint, want.tolerations):
            return Barred.TAINTED
    return Barred.IN_DOUBT if node.name in want.avoid else None


def tolerated(taint: Taint, tolerations: Iterable[Tolerated]) -> bool:
    """A pod with these tolerations puts up with the taint, by the rules of Kubernetes."""
    return any(
        one.effect in ("", taint.effect)
        and one.key in ("", taint.key)
        and (one.operator == "Exists" or (one.key != "" and one.value == taint.value))
        for one in tolerations
    )


def lack(room: Room, want: GroupWant) -> str | None:
    """The resource that the node has too little of, the accelerators first; None where a member fits."""
    free = room.free
    if free.get(want.resource, 0) < want.accelerators:
        return want.resource
    for name, amount in want.requests.items():  # a plain loop: it runs for every node of the class
        if free.get(name, 0) < amount:
            return name
    return None if want.domain_size is None or _inside_domains(room, want) else want.resource


def _inside_domains(room: Room, want: GroupWant) -> bool:
    """Each tensor-parallel part finds a domain of its own node, where the fabric joins fewer than a node has.

    Which devices a pod got is not told by the API. What is on the node is taken to be laid out as a device plugin lays
    it out that keeps to the domains: the largest first, each in the fullest domain that holds it.
    """
    size, total = want.domain_size, min(_MOST_A_NODE, room.node.allocatable.get(want.resource, 0))
    if size is None or size >= total:
        return True
    domains = [size] * (total // size) + ([total % size] if total % size else [])
    for held in room.held.get(want.resource, ()):
        _lay_out(domains, held)
    parts = want.accelerators // min(want.tensor, want.accelerators)
    return sum(free // want.tensor for free in domains) >= parts


def _lay_out(domains: list[int], held: int) -> None:
    """Takes `held` from the fullest domain that holds it, else from the emptiest ones."""
    while held > 0:
        fitting = [index for index, free in enumerate(domains) if free >= held]
        if fitting:
            domains[min(fitting, key=lambda index: (domains[index], index))] -= held
            return
        emptiest = max(range(len(domains)), key=lambda index: (domains[index], -index))
        if domains[emptiest] <= 0:
            return  # more is held than the node has
        held -= domains[emptiest]
        domains[emptiest] = 0


def impossible(want: GroupWant) -> str:
    """Why no cluster could hold the group; empty where one could."""
    if want.tensor <= want.accelerators:
        if want.domain_size is not None and want.tensor > want.domain_size:
            return f"tensor parallelism over {want.tensor} leaves the fabric, which joins {want.domain_size}"
        return ""
    if want.domain_size is None or want.tensor > want.domain_size:
        joined = want.domain_size or want.accelerators
        return f"tensor parallelism over {want.tensor} leaves the fabric, which joins {joined}"
    if not want.topology:
        return (
            "the fabric joins more than a node and the class names no topologyKeys, whose first would tell its domains"
        )
    if want.tensor % want.accelerators or want.members % want.span:
        return f"{want.members} pods of {want.accelerators} cannot be cut into parts of {want.tensor}"
    return ""


def labels_missing(nodes: Iterable[NodeView], key: str) -> int:
    """How many of the nodes carry no label `key`."""
    return sum(node.domain(key) is None for node in nodes)


def requests_text(requests: Mapping[str, int], name: str) -> str:
    """An amount as a reader knows it: cores, GiB, pieces."""
    amount = requests.get(name, 0)
    if name == "cpu":
        return f"{amount / 1000:g} cpu"
    if name in ("memory", "ephemeral-storage"):
        return f"{amount / 2**30:.4g}Gi {name}"
    return f"{amount} {name}"
