"""What placement sees of a cluster: its nodes, what is free of them, and where they stand. Pure.

Amounts are whole numbers by resource name: cpu in millicores, memory in bytes, anything else in pieces. What is offered
is rounded down and what is asked for is rounded up, so that sums never promise more than there is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from modelfleet.core.placement.kept_on import Kept

ZONE_KEY = "topology.kubernetes.io/zone"
"""Kubernetes' well-known label of a failure domain."""

HOSTNAME_KEY = "kubernetes.io/hostname"
"""Kubernetes' well-known label of a single node."""

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Ending:
    """What a pod holds that was asked to end. `by`: when its grace is over; None where it does not say."""

    requests: Amounts
    by: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node. `free` is what no pod holds and nobody has reserved; it is below zero where more was promised than the
    node has. `held` are the accelerators that each pod on it holds, by resource, largest first; `movable` are the
    requests of our replicas on it that are one pod each, `leaving` what pods hold that were asked to end. `images` are
    the names that it lists, and `kept` is what its cache held of each namespace when a pod last fetched into it."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    free: Amounts
    held: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    movable: tuple[Amounts, ...] = ()
    leaving: tuple[Ending, ...] = ()
    ready: bool = True
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    images: frozenset[str] = frozenset()
    kept: Mapping[str, Kept] = field(default_factory=dict)

    def domain(self, key: str) -> str | None:
        """The domain of the topology label `key` that the node stands in; None where it carries no such label."""
        return self.name if key == HOSTNAME_KEY else self.labels.get(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """All nodes, by name in order, net of what others have reserved. `age_s`: since the inventory last heard from the
    API server, rounded by whoever made the view. `devices_fault`: why devices of Dynamic Resource Allocation are not
    among the amounts; empty where they are."""

    nodes: tuple[NodeView, ...]
    age_s: float = 0.0
    devices_fault: str = ""

    def node(self, name: str) -> NodeView | None:
        """The node of this name; None where there is none."""
        return next((node for node in self.nodes if node.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Room on `node` for the pod `namespace/name` until it is seen there. `requests` are a whole pod's."""

    pod: str
    node: str
    requests: Amounts
