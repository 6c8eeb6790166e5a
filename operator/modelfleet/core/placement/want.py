"""What a group needs of a cluster, and what placement answers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelfleet.api.placement import Spread
from modelfleet.core.placement.affinity import Term
from modelfleet.core.placement.view import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerated:
    """A toleration as a pod has it; an empty key or effect means any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """What makes a start shorter: nodes that hold the weights, nodes that hold compiled code, and the image's name."""

    weights: frozenset[str] = frozenset()
    compiled: frozenset[str] = frozenset()
    image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWant:
    """One replica that needs nodes: `members` pods by rank, each with the same `requests`, on one node each.

    `key` names the group in answers. `accelerators` of `resource` are what one member takes; they are in `requests`
    too. `tensor` accelerators exchange at every layer: `tensor // accelerators` neighbouring ranks where that is more
    than one pod's, and these share a domain of `topology[0]`. `domain_size` is the largest number of accelerators that
    the fabric joins (None: those of a node).

    `topology` are label keys from near to far; the whole group stays in one domain of the last one. `peers` are nodes
    where other replicas of the same `deployment` stand, once for each replica; those placed by the same call are added
    to them. `avoid` are nodes in doubt. `pinned` are members that have their node already, by rank; the others join
    them. `required` is what others have added: a node must fit one term of each. `warm` is a preference alone.
    """

    key: str
    deployment: str = ""
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
    required: tuple[tuple[Term, ...], ...] = ()
    warm: Warm = Warm()

    @property
    def span(self) -> int:
        """Neighbouring ranks that share one domain of the fabric, because tensor parallelism goes over them."""
        return max(1, self.tensor // self.accelerators)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where each member goes, by rank. `reason` is one sentence; `scores` are what the choice was made by, by name."""

    key: str
    nodes: tuple[str, ...]
    reason: str
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Moving replicas of these sizes (accelerators) off `node` to `targets`, one for each, would make room there."""

    node: str
    sizes: tuple[int, ...]
    targets: tuple[str, ...]

    def __str__(self) -> str:
        what = "a replica" if len(self.sizes) == 1 else f"{len(self.sizes)} replicas"
        sizes = " + ".join(map(str, self.sizes))
        return f"moving {what} of {sizes} off {self.node} to {', '.join(sorted(set(self.targets)))} would make room"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Why there is no room: what is needed and what there is, in one sentence.

    `would_do` are nodes that would be enough: for each, the labels that it needs beside those of the class, with the
    requests of one member free. No fewer nodes would do. Empty where no number of nodes would; the sentence says why.
    `proposal` are moves of our own replicas that would make room; the sentence ends with them.
    """

    key: str
    sentence: str
    would_do: tuple[Mapping[str, str], ...] = ()
    proposal: Proposal | None = None
