"""What a group needs of a cluster, and what placement answers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelfleet.api.placement import Spread
from modelfleet.core.placement.view import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerated:
    """A toleration as a pod has it; empty means "any" as it does there."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWant:
    """One replica that needs nodes: `members` pods by rank, each with the same `requests`, on one node each.

    `key` names the group in answers. `accelerators` of `resource` are what one member takes; they are in `requests`
    too. `tensor` accelerators exchange at every layer: `tensor // accelerators` neighbouring ranks where that is more
    than one pod's, and these share a domain of `topology[0]`. `domain_size` is the largest number of accelerators that
    the fabric joins (None: those of a node).

    `topology` are label keys from near to far; the whole group stays in one domain of the last one. `peers` are nodes
    where other replicas of the same deployment stand, once for each replica. `avoid` are nodes that are in doubt.
    `pinned` are members that have their node already, by rank; the rest joins them.
    """

    key: str
    members: int = 1
    resource: str
    accelerators: int
    requests: Amounts
    class_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Tolerated, ...] = ()
    tensor: int = 1
    domain_size: int | None = None
    topology: tuple[str, ...] = ()
    spread: Spread = Spread.NONE
    peers: tuple[str, ...] = ()
    avoid: frozenset[str] = frozenset()
    pinned: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where each member goes, by rank. `reason` is one sentence; `scores` are what the choice was made by, by name."""

    key: str
    nodes: tuple[str, ...]
    reason: str
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Why there is no room. `sentence` says what is needed and what there is; `missing` is how many more nodes with
    enough free, in the best place, would do (0: no number of nodes would, the sentence says why)."""

    key: str
    sentence: str
    missing: int = 0
