"""Nodes for groups, or what is missing. Pure and deterministic: an equal view and equal wants give an equal answer.

A group is placed whole or not at all. docs/placement.md tells how a place is chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from modelfleet.api import names
from modelfleet.api.placement import Spread
from modelfleet.core.placement.affinity import Term
from modelfleet.core.placement.complete import complete
from modelfleet.core.placement.defragment import propose
from modelfleet.core.placement.fit import Room, barred, impossible, lack, rooms, selected
from modelfleet.core.placement.groups import Choice, choose
from modelfleet.core.placement.scorers import (
    Scene,
    Scorer,
    replicas_in_failure_domain,
    scene,
    scorers,
    short,
    warm_words,
)
from modelfleet.core.placement.shortfall import Class, shortfall
from modelfleet.core.placement.view import ClusterView, NodeView
from modelfleet.core.placement.want import GroupWant, Placement, Shortfall, Tolerated

_Kind = tuple[tuple[tuple[str, str], ...], tuple[Tolerated, ...], frozenset[str], tuple[tuple[Term, ...], ...]]


@dataclass
class _Call:
    """One call's memory: what is left of each node, which of them a kind of want may use, who was placed where."""

    rooms: dict[str, Room]
    devices_fault: str
    kinds: dict[_Kind, tuple[list[Room], list[Room]]] = field(default_factory=dict)
    placed: dict[str, list[str]] = field(default_factory=dict)

    def of_kind(self, want: GroupWant) -> tuple[list[Room], list[Room]]:
        """Rooms of the class that take its members when they have room, and those that never do."""
        kind = tuple(sorted(want.node_selector.items())), want.tolerations, want.avoid, want.required
        if kind not in self.kinds:
            here = [room for room in self.rooms.values() if selected(room.node, want)]
            split: tuple[list[Room], list[Room]] = [], []
            for room in here:
                split[barred(room.node, want) is not None].append(room)
            self.kinds[kind] = split
        return self.kinds[kind]

    def peers(self, want: GroupWant) -> list[NodeView]:
        """Nodes with other replicas of the deployment; nodes that are gone do not count."""
        names = (*want.peers, *self.placed.get(want.deployment, ())) if want.deployment else want.peers
        return [self.rooms[name].node for name in names if name in self.rooms]


def place(view: ClusterView, wants: Sequence[GroupWant]) -> tuple[Placement | Shortfall, ...]:
    """An answer for each want, in their order; what one got is gone for the next."""
    call = _Call(rooms(view.nodes), view.devices_fault)
    return tuple(_place(call, want) for want in wants)


def _place(call: _Call, want: GroupWant) -> Placement | Shortfall:
    if why := impossible(want):
        return Shortfall(key=want.key, sentence=why)
    open_rooms, barred_rooms = call.of_kind(want)
    standing = frozenset(want.pinned.values())
    fitting: list[Room] = []
    full: list[Room] = []
    for room in open_rooms:
        (fitting if lack(room, want) is None and room.node.name not in standing else full).append(room)
    seen = scene(want, open_rooms, call.peers(want))
    found = Class(fitting, [*full, *barred_rooms])
    answer: Placement | Shortfall | None
    if want.pinned:
        answer = complete(want, call.rooms, found, seen)
    elif want.members == 1:
        answer = _single(fitting, seen)
    else:
        answer = _group(want, choose(fitting, seen), seen)
    if answer is None:
        return _with_fault(_refused(want, found, open_rooms), want, call.devices_fault)
    if isinstance(answer, Placement):
        _take(call, want, answer)
    return answer


def _refused(want: GroupWant, found: Class, open_rooms: Sequence[Room]) -> Shortfall:
    """The shortfall; where one node would do, with the moves that would empty one."""
    answer = shortfall(want, found)
    if len(answer.would_do) != 1:
        return answer
    proposal = propose(want, open_rooms, answer.would_do[0])
    return answer if proposal is None else replace(answer, sentence=f"{answer.sentence}; {proposal}", proposal=proposal)


def _with_fault(answer: Shortfall, want: GroupWant, devices_fault: str) -> Shortfall:
    """Devices that nobody could read look like none at all."""
    if not devices_fault or not names.device_class_of(want.resource):
        return answer
    return replace(answer, sentence=f"{answer.sentence}; devices are not counted: {devices_fault}")


def _take(call: _Call, want: GroupWant, placement: Placement) -> None:
    for rank, name in enumerate(placement.nodes):
        if rank not in want.pinned:
            call.rooms[name].take(want)
    if want.deployment:
        call.placed.setdefault(want.deployment, []).extend(placement.nodes)


def _single(fitting: Sequence[Room], seen: Scene) -> Placement | None:
    """The best node by the scorers in their order; the first by name where all are even."""
    left: Sequence[Room] = fitting
    used: list[tuple[str, Scorer]] = []
    for name, scorer in scorers(seen):
        if len(left) < 2:
            break
        figures = [scorer(room, seen) for room in left]
        best = min(figures)
        left = [room for room, figure in zip(left, figures, strict=True) if figure == best]
        used.append((name, scorer))
    if not left:
        return None
    chosen = min(left, key=lambda room: room.node.name)
    want, node = seen.want, chosen.node
    free = chosen.free[want.resource] - want.accelerators
    room = f"{node.name} keeps {free} of {node.allocatable[want.resource]} free"
    return Placement(
        key=want.key,
        nodes=(node.name,),
        reason=f"{room}{_apart(seen, chosen)}{warm_words(seen, chosen)}",
        scores={name: scorer(chosen, seen) for name, scorer in used},
    )


def _apart(seen: Scene, chosen: Room) -> str:
    if seen.want.spread is Spread.NONE or not seen.peers:
        return ""
    others = int(replicas_in_failure_domain(chosen, seen))
    return f"; {others} other replica{'' if others == 1 else 's'} in its {str(seen.want.spread).lower()}"


def _group(want: GroupWant, choice: Choice | None, seen: Scene) -> Placement | None:
    if choice is None:
        return None
    where = f"in one {short(choice.level)}, {choice.domain}" if choice.level else "which no label joins"
    return Placement(
        key=want.key,
        nodes=tuple(room.node.name for room in choice.rooms),
        reason=f"{want.members} nodes {where}{warm_words(seen, *choice.rooms)}",
        scores={"replicasInFailureDomain": choice.replicas},
    )
