"""What would make room where there is none: a few of our own replicas that would fit elsewhere. Pure.

Only proposed, never done: a move costs a drain and a cold start, and whether that is worth it is the reader's call. It
tells nodes and numbers, not whose replicas they are: they may belong to somebody whom the reader is not to know.
"""

from collections.abc import Mapping, Sequence

from modelfleet.core.placement.fit import Room
from modelfleet.core.placement.view import Amounts
from modelfleet.core.placement.want import GroupWant, Proposal

MOST_MOVES = 3
"""A proposal of more moves would not be read."""

_LOOKED_AT = 64
"""So many of the fullest candidates are looked at: the rest would need more moves, and time is short."""


def propose(want: GroupWant, open_rooms: Sequence[Room], labels: Mapping[str, str]) -> Proposal | None:
    """The fewest moves that would give one member room on a node with these topology labels; None where a few would
    not. Replicas move to nodes that are used already, so that no whole node is broken for it."""
    lacks = [(want.accelerators - room.free.get(want.resource, 0), room) for room in open_rooms]
    candidates = [
        (lack, room)
        for lack, room in lacks
        if 0 < lack <= _movable(room, want) and all(room.node.domain(key) == value for key, value in labels.items())
    ]
    best: Proposal | None = None
    for _, room in sorted(candidates, key=lambda each: (each[0], each[1].node.name))[:_LOOKED_AT]:
        found = _empty(want, room, open_rooms)
        if found is not None and (best is None or len(found.sizes) < len(best.sizes)):
            best = found
    return best


def _movable(room: Room, want: GroupWant) -> int:
    return sum(requests.get(want.resource, 0) for requests in room.node.movable)


def _empty(want: GroupWant, room: Room, open_rooms: Sequence[Room]) -> Proposal | None:
    """Moves off this node, the largest replicas first, until a member fits."""
    free = dict(room.free)
    elsewhere: dict[str, dict[str, int]] = {}
    sizes: list[int] = []
    targets: list[str] = []
    for requests in sorted(room.node.movable, key=lambda each: -each.get(want.resource, 0)):
        if _fits(free, want.requests):
            break
        if len(sizes) == MOST_MOVES:
            return None
        target = _target(want.resource, requests, room, open_rooms, elsewhere)
        if target is None:
            continue
        left = elsewhere.setdefault(target.node.name, dict(target.free))
        for name, amount in requests.items():
            left[name] = left.get(name, 0) - amount
            free[name] = free.get(name, 0) + amount
        sizes.append(requests.get(want.resource, 0))
        targets.append(target.node.name)
    return Proposal(room.node.name, tuple(sizes), tuple(targets)) if sizes and _fits(free, want.requests) else None


def _target(
    resource: str, requests: Amounts, source: Room, open_rooms: Sequence[Room], elsewhere: Mapping[str, Amounts]
) -> Room | None:
    """The tightest other node in use that holds it."""
    fitting = [
        (elsewhere.get(room.node.name, room.free).get(resource, 0), room.node.name, room)
        for room in open_rooms
        if room is not source
        and not room.is_whole(resource)
        and _fits(elsewhere.get(room.node.name, room.free), requests)
    ]
    return min(fitting, key=lambda each: each[:2])[2] if fitting else None


def _fits(free: Amounts, requests: Amounts) -> bool:
    return all(free.get(name, 0) >= amount for name, amount in requests.items())
