"""The frozen world that a decision is made on. Pure: the shell gathers it whole, or does not decide."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf
from typing import Any

from modelfleet.core.activator import Answer
from modelfleet.core.placement.view import ClusterView, NodeView
from modelfleet.core.scaling.arbitration import Grant
from modelfleet.core.scaling.memory import Kept
from modelfleet.core.scaling.samples import Samples

Raw = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the operator was started with; none of it moves a pinned plan. `node_folders` are those of nodes below which
    file:// may name one. `callers` are SHA-256 sums of the tokens of callers that workers trust. `profiles_s`: what
    replicas were seen to do is written to a ModelProfile at most so often."""

    worker_image: str
    image_pull_policy: str = "IfNotPresent"
    propagation_s: float = 5.0
    drain_s: float = 300.0
    start_deadline_s: float = 1800.0
    node_folders: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    profiles_s: float = 600.0


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Nodes of the cluster (None: not known yet) and raw ModelProfiles of the namespace; a later change of either moves
    no pinned plan."""

    nodes: tuple[NodeView, ...] | None = None
    profiles: tuple[Raw, ...] = ()


@dataclass(frozen=True, kw_only=True)
class World:
    """One ModelDeployment and everything that bears on it, as the API server answered.

    `deployment` is the raw object. `classes` holds every AcceleratorClass of the cluster by name. `revisions`, `pods`,
    `config_maps`, `services`, `jobs`, `budgets` and `policies` are listed by our deployment label, pods of our Jobs
    among the pods. `taken` are objects that hold a child's name without being in those lists (a foreign owner, or a
    child that lost its label), by (kind, name). `not_serving_s` says for how long (monotonic, this process) a pod's
    serving label has been off, by pod uid, and `serving_s` for how long it has been on and the pod Ready. `refused` is
    what the API server said when it last refused one of our writes (a quota, a policy), empty once everything was
    written. `samples` is what was measured of its workers; None where nothing is measured (a preview). `told_s` says
    for how long the measured part of the status has been as it is.

    `scaling` is what this process remembers of decisions about the number of replicas; None: nothing yet. `quotas` are
    the namespace's ResourceQuotas, where samples decide the number, and `grants` the replicas that this model leaves to
    others or gets from them; `waits_for` says what is to end before it gets some, empty where nothing is.

    Of scaling to zero: `slices` holds our EndpointSlice, `activator` what a question through the Service came to (None:
    none was asked), `activator_port` a port that no other model has, where this one needs one, and `demand_s` for how
    long (monotonic, this process) an activator's entry in status.demand has been as it is.

    `cluster` is all nodes, net of what others hold or have reserved; None where that is not known (yet), and `unread`
    says why: then nothing may be placed. `inventory` is what a plan is made from besides, and None where no plan is to
    be made (`intent.plans_anew`); its nodes are those of `cluster`. `profiles` are the ModelProfiles with our
    deployment label; None where it is not the time to look at them.
    """

    deployment: Raw
    classes: Mapping[str, Raw]
    revisions: tuple[Raw, ...]
    pods: tuple[Raw, ...]
    config_maps: tuple[Raw, ...]
    services: tuple[Raw, ...]
    jobs: tuple[Raw, ...] = ()
    budgets: tuple[Raw, ...] = ()
    policies: tuple[Raw, ...] = ()
    inventory: Inventory | None = None
    cluster: ClusterView | None = None
    unread: str = "the nodes and pods of the cluster are not all read yet"
    taken: Mapping[tuple[str, str], Raw] = field(default_factory=dict)
    not_serving_s: Mapping[str, float] = field(default_factory=dict)
    serving_s: Mapping[str, float] = field(default_factory=dict)
    samples: Samples | None = None
    slices: tuple[Raw, ...] = ()
    activator: Answer | None = None
    activator_port: int | None = None
    demand_s: Mapping[str, float] = field(default_factory=dict)
    told_s: float = inf
    scaling: Kept | None = None
    quotas: tuple[Raw, ...] = ()
    grants: tuple[Grant, ...] = ()
    waits_for: str = ""
    profiles: tuple[Raw, ...] | None = None
    refused: str = ""
    settings: Settings
    now: datetime

    def showing(self, cluster: ClusterView | None, unread: str) -> "World":
        """The world with what is known of the cluster now."""
        nodes = cluster.nodes if cluster is not None else None
        inventory = replace(self.inventory, nodes=nodes) if self.inventory is not None else None
        return replace(self, cluster=cluster, unread=unread, inventory=inventory)
