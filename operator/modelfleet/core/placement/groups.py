"""Nodes for a group of several pods: in one domain, as near to each other as can be. Pure.

A level is a topology key; domains of a nearer level lie inside those of a farther one. A node without a level's label
is a domain of its own there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modelfleet.api.placement import Spread
from modelfleet.core.placement.fit import Room
from modelfleet.core.placement.scorers import Scene, cold_parts, failure_domain, unwelcome
from modelfleet.core.placement.view import ZONE_KEY
from modelfleet.core.placement.want import GroupWant

Domain = tuple[str, str]
"""(label's value, "") of a domain, ("", node's name) of a node without the label."""


def levels(want: GroupWant) -> tuple[str, ...]:
    """The topology keys from near to far; where the class names none, zones are preferred, not required."""
    return want.topology or (ZONE_KEY,)


def domain(room: Room, key: str) -> Domain:
    """The domain of `key` that the node stands in."""
    value = room.node.domain(key)
    return ("", room.node.name) if value is None else (value, "")


def by_domain(here: Sequence[Room], key: str) -> dict[Domain, list[Room]]:
    """The rooms by their domain of `key`."""
    found: dict[Domain, list[Room]] = defaultdict(list)
    for room in here:
        found[domain(room, key)].append(room)
    return found


def usable(here: Sequence[Room], want: GroupWant) -> int:
    """How many members these nodes hold: all of them, where tensor parallelism goes over several only full parts."""
    if want.span == 1:
        return len(here)
    counts = Counter(domain(room, want.topology[0]) for room in here)
    return sum(count // want.span for count in counts.values()) * want.span


@dataclass(frozen=True, slots=True)
class Choice:
    """Nodes by rank. `level` is the key whose domain holds them all, None where none does; `replicas` are those of the
    deployment in the same failure domains."""

    rooms: tuple[Room, ...]
    level: str | None
    domain: str
    replicas: int


def choose(fitting: Sequence[Room], scene: Scene) -> Choice | None:
    """Nodes for the whole group, None where no allowed domain holds it. First the fewest replicas of the deployment in
    the same failure domain, then the nearest level, then the domain that is left the fullest."""
    want, keys = scene.want, levels(scene.want)
    best: tuple[tuple[int, int, int, Domain], list[Room]] | None = None
    for allowed in _allowed(fitting, want):
        for distance, key in enumerate(keys):
            for name, inside in by_domain(allowed, key).items():
                count = usable(inside, want)
                if count < want.members:
                    continue
                rank = (_replicas(inside, scene), distance, count - want.members, name)
                if best is None or rank < best[0]:
                    best = rank, inside
    if best is not None:
        (replicas, distance, _, name), inside = best
        picked = pick(inside, want.members, distance - 1, scene)
        return Choice(tuple(picked), keys[distance], name[0] or name[1], replicas)
    if want.topology or usable(fitting, want) < want.members:
        return None
    picked = pick(fitting, want.members, len(keys) - 1, scene)
    return Choice(tuple(picked), None, "", _replicas(fitting, scene))


def _allowed(fitting: Sequence[Room], want: GroupWant) -> Iterable[Sequence[Room]]:
    """The rooms by domain of the farthest key, without those that do not carry it, also where a nearer label would join
    them; all together where the class names none."""
    if not want.topology:
        return [fitting]
    return [inside for (_, apart), inside in by_domain(fitting, want.topology[-1]).items() if not apart]


def pick(here: Sequence[Room], members: int, level: int, scene: Scene) -> list[Room]:
    """The nodes for so many members among these, which hold them: over as few domains of `level` as can be, neighbours
    in rank side by side, each domain left as full as can be."""
    want = scene.want
    if level < 0:
        return sorted(here, key=lambda room: _tightness(room, scene))[:members]
    parts = by_domain(here, levels(want)[level])
    picked: list[Room] = []
    while len(picked) < members:
        left = members - len(picked)
        sizes = {name: usable(inside, want) for name, inside in parts.items()}
        if sum(sizes.values()) < left:  # labels that do not nest: this level would tear a nearer domain apart
            return pick(here, members, level - 1, scene)
        enough = [name for name, size in sizes.items() if size >= left]
        if enough:
            name = min(enough, key=lambda each: (sizes[each], each))
            return picked + pick(parts[name], left, level - 1, scene)
        name = min(sizes, key=lambda each: (-sizes[each], each))
        picked += pick(parts.pop(name), sizes[name], level - 1, scene)
    return picked


def _tightness(room: Room, scene: Scene) -> tuple[float, float, int, str]:
    cold = cold_parts(room, scene) if scene.tells_warmth else 0.0
    return unwelcome(room, scene), cold, room.free[scene.want.resource], room.node.name


def _replicas(here: Sequence[Room], scene: Scene) -> int:
    """Replicas of the deployment in the failure domains of these nodes."""
    if scene.want.spread is Spread.NONE or not scene.peers:
        return 0
    domains = {failure_domain(room.node, scene.want.spread) for room in here}
    counts = sorted(scene.peers[name] for name in domains)
    return sum(counts[: scene.want.members]) if scene.want.spread is Spread.NODE else sum(counts)
