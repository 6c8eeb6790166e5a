"""A group of which some members have their nodes already: the rest joins them. Pure."""

from collections.abc import Mapping, Sequence

from modelfleet.core.placement.fit import Room
from modelfleet.core.placement.groups import domain, levels, pick, usable
from modelfleet.core.placement.scorers import Scene
from modelfleet.core.placement.shortfall import Class
from modelfleet.core.placement.want import GroupWant, Placement, Shortfall


def complete(want: GroupWant, rooms: Mapping[str, Room], found: Class, scene: Scene) -> Placement | Shortfall:
    """Nodes for the members that have none. Members never move: what is pinned stays pinned."""
    gone = sorted({name for name in want.pinned.values() if name not in rooms})
    if gone:
        return Shortfall(key=want.key, sentence=f"a pod of the group is bound to node {gone[0]}, which is gone")
    anchor = rooms[want.pinned[min(want.pinned)]]
    rest = list(found.fitting)
    if want.topology:
        far = want.topology[-1]
        rest = [room for room in rest if domain(room, far) == domain(anchor, far)]
    nodes = dict(want.pinned)
    missing: list[Mapping[str, str]] = []
    free_parts: list[range] = []
    for start in range(0, want.members, want.span):
        part = range(start, start + want.span)
        pins = [want.pinned[rank] for rank in part if rank in want.pinned]
        if not pins:
            free_parts.append(part)
        else:
            missing += _fill(want, part, rooms[pins[0]], rest, nodes, scene)
    ranks = [rank for part in free_parts for rank in part]
    missing += _seat(want, ranks, anchor, rest, nodes, scene)
    if missing:
        more = f"{len(missing)} more node{'' if len(missing) == 1 else 's'}"
        what = f"{more} × {want.accelerators} free {want.class_name or want.resource} near {anchor.node.name}"
        return Shortfall(key=want.key, sentence=f"needs {what}, where its group stands", would_do=tuple(missing))
    placed = tuple(nodes[rank] for rank in range(want.members))
    return Placement(key=want.key, nodes=placed, reason=f"joins its group at {anchor.node.name}")


def _fill(
    want: GroupWant, part: range, pin: Room, rest: list[Room], nodes: dict[int, str], scene: Scene
) -> list[Mapping[str, str]]:
    """Seats a begun part in its pin's domain of the fabric; the labels of what is missing."""
    ranks = [rank for rank in part if rank not in nodes]
    if not ranks:
        return []
    near = want.topology[0]
    inside = [room for room in rest if domain(room, near) == domain(pin, near)]
    seats = pick(inside, min(len(ranks), len(inside)), -1, scene)
    for rank, room in zip(ranks, seats, strict=False):
        nodes[rank] = room.node.name
        rest.remove(room)
    return [_labels(want, pin)] * (len(ranks) - len(seats))


def _seat(
    want: GroupWant, ranks: Sequence[int], anchor: Room, rest: list[Room], nodes: dict[int, str], scene: Scene
) -> list[Mapping[str, str]]:
    """Seats whole parts as near to the anchor as can be; the labels of what is missing."""
    if not ranks:
        return []
    have = usable(rest, want)
    if have < len(ranks):
        return [_labels(want, anchor)] * (len(ranks) - have)
    keys = levels(want)
    seats = None
    for level, key in enumerate(keys):
        inside = [room for room in rest if domain(room, key) == domain(anchor, key)]
        if usable(inside, want) >= len(ranks):
            seats = pick(inside, len(ranks), level - 1, scene)
            break
    for rank, room in zip(ranks, seats or pick(rest, len(ranks), len(keys) - 1, scene), strict=True):
        nodes[rank] = room.node.name
    return []


def _labels(want: GroupWant, room: Room) -> Mapping[str, str]:
    """The topology labels of a room, for a node that would stand beside it."""
    return {key: value for key in want.topology if (value := room.node.domain(key)) is not None}
