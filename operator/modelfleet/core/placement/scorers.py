"""What makes one node better than another for a replica of one pod. Pure; a lower figure is better.

The scorers are asked in the order of SCORERS, and a later one only counts where all before it are even: first what the
user asked for, then what keeps room for groups that need whole nodes, then what a start finds on the node, then what
keeps whole domains. A cold start is minutes; a whole node that was broken is missed for as long as the replica stands.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from modelfleet.api.placement import Spread
from modelfleet.core.placement.fit import Room, tolerated
from modelfleet.core.placement.images import full_name
from modelfleet.core.placement.view import ZONE_KEY, NodeView
from modelfleet.core.placement.want import GroupWant


@dataclass(frozen=True)
class Scene:
    """What a score may depend on besides its node: `peers` are replicas of the deployment by failure domain, `here` all
    rooms of the class that take pods."""

    want: GroupWant
    here: Sequence[Room] = ()
    peers: Counter[str | None] = field(default_factory=Counter)

    @cached_property
    def whole(self) -> tuple[Room, ...]:
        """Nodes of the class that nobody uses."""
        return tuple(room for room in self.here if room.is_whole(self.want.resource))

    @cached_property
    def tells_warmth(self) -> bool:
        """Some node has a part of what a start needs."""
        warm = self.want.warm
        known = warm.weights or warm.compiled or warm.image
        return bool(known) and any(cold_parts(room, self) < _ALL_COLD for room in self.here)

    @cached_property
    def image(self) -> str:
        """The image's name as nodes list it."""
        return full_name(self.want.warm.image) if self.want.warm.image else ""

    def whole_in(self, key: str) -> Counter[str | None]:
        """How many of them there are by domain of a topology key."""
        return Counter(room.node.domain(key) for room in self.whole)


Scorer = Callable[[Room, Scene], float]


def failure_domain(node: NodeView, spread: Spread) -> str | None:
    """The failure domain that counts; nodes without a zone's label are one zone."""
    if spread is Spread.NONE:
        return ""
    return node.name if spread is Spread.NODE else node.domain(ZONE_KEY)


def scene(want: GroupWant, here: Sequence[Room], peers: Iterable[NodeView]) -> Scene:
    """The scene for one want: `here` are the rooms of its class, `peers` the nodes of the deployment's replicas."""
    standing: Counter[str | None] = Counter()
    if want.spread is not Spread.NONE:
        standing.update(failure_domain(node, want.spread) for node in peers)
    return Scene(want, here, standing)


def replicas_in_failure_domain(room: Room, scene: Scene) -> float:
    """Replicas of this deployment in the node's failure domain: fewer is better (spec.placement.spread)."""
    return scene.peers[failure_domain(room.node, scene.want.spread)] if scene.peers else 0


def unwelcome(room: Room, scene: Scene) -> float:
    """Taints of effect PreferNoSchedule that the pods do not tolerate."""
    taints = room.node.taints
    return sum(not tolerated(taint, scene.want.tolerations) for taint in taints) if taints else 0


def breaks_whole_node(room: Room, scene: Scene) -> float:
    """1 where the replica would take a part of a node that nobody uses; a whole node stays free for a larger group."""
    want = scene.want
    return float(room.free[want.resource] > want.accelerators and room.is_whole(want.resource))


_WEIGHTS, _IMAGE, _COMPILED = 4, 2, 1
_ALL_COLD = _WEIGHTS + _IMAGE + _COMPILED


def cold_parts(room: Room, scene: Scene) -> float:
    """What a start has to bring that may be there already: weights (4), the image (2), compiled code (1), so that what
    has more bytes decides."""
    warm, name = scene.want.warm, room.node.name
    return (
        _WEIGHTS * (name not in warm.weights)
        + _IMAGE * (scene.image not in room.node.images)
        + _COMPILED * (name not in warm.compiled)
    )


def left_over(room: Room, scene: Scene) -> float:
    """Accelerators that stay free on the node: the tightest fit is best."""
    return room.free[scene.want.resource] - scene.want.accelerators


def whole_nodes_around(key: str, scene: Scene) -> Scorer:
    """Unused nodes in the node's domain of a topology key: the fullest domain is best, so that others stay whole."""
    counts = scene.whole_in(key)

    def score(room: Room, _: Scene) -> float:
        return counts[room.node.domain(key)]

    return score


_COLD = "coldParts"
SCORERS: tuple[tuple[str, Scorer], ...] = (
    ("replicasInFailureDomain", replicas_in_failure_domain),
    ("unwelcome", unwelcome),
    ("breaksWholeNode", breaks_whole_node),
    (_COLD, cold_parts),
    ("leftOver", left_over),
)


def warm_words(scene: Scene, *chosen: Room) -> str:
    """What a start finds on all of these nodes, as the end of a placement's reason; empty where that is nothing."""
    warm, nodes = scene.want.warm, {room.node.name for room in chosen}
    parts = {
        "weights": nodes <= warm.weights,
        "image": all(scene.image in room.node.images for room in chosen),
        "compiled code": nodes <= warm.compiled,
    }
    there = [f"its {name}" for name, is_there in parts.items() if is_there]
    if not there:
        return ""
    listed = there[0] if len(there) == 1 else f"{', '.join(there[:-1])} and {there[-1]}"
    return f"; {listed} {'is' if there in (['its image'], ['its compiled code']) else 'are'} there"


def scorers(scene: Scene) -> Iterator[tuple[str, Scorer]]:
    """The scorers for a scene, the weightiest first; the later ones are made when they are asked for. Where nothing is
    known of what nodes hold, nothing is asked about it."""
    for name, scorer in SCORERS:
        if name != _COLD or scene.tells_warmth:
            yield name, scorer
    for key in scene.want.topology:
        yield f"wholeNodesIn {short(key)}", whole_nodes_around(key, scene)


def short(key: str) -> str:
    """A label key as a word: what stands behind the last slash and dot, such as zone or block."""
    return key.rsplit("/", 1)[-1].rsplit(".", 1)[-1]
