"""What ends and frees its room, and what only seems to, so that nothing waits for it. Pure.

A pod stays until the kubelet of its node says that it has ended. That of a lost node never does, until the node is
back, is deleted, or somebody deletes the pod by force. Its `deletionTimestamp` is when its grace is over: then it is
killed, so a pod that is still there a while after is held by something else (a finalizer, a mount or a driver that
hangs).
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import reduce

from modelfleet.core.groups import Replica
from modelfleet.core.placement.ledger import shifted
from modelfleet.core.placement.view import Amounts, ClusterView, NodeView
from modelfleet.core.pods import PodView

LATE_S = 60.0
"""After its grace a pod has so long to go: what the kubelet does then takes seconds."""


def lost_nodes(cluster: ClusterView | None, fleet: Iterable[Replica]) -> frozenset[str]:
    """Nodes of replicas that do not serve which are not ready or gone; none while nodes are not known."""
    nodes = {pod.node for replica in fleet if not replica.ready for pod in replica.pods if pod.placed}
    return frozenset(node for node in nodes if is_lost(node, cluster))


def is_lost(node: str, cluster: ClusterView | None) -> bool:
    """Whether this node is not ready or gone; False while nodes are not known."""
    return cluster is not None and not any(one.ready for one in cluster.nodes if one.name == node)


def stuck(fleet: Iterable[Replica], cluster: ClusterView | None, now: datetime) -> frozenset[str]:
    """The uids of replicas that were asked to end and may never do: each pod that is left of one is late, or stands on
    a node that is not ready or gone."""
    ending = [replica for replica in fleet if replica.terminating]
    if not ending:
        return frozenset()

    def is_stuck(pod: PodView) -> bool:
        return (pod.placed and is_lost(pod.node, cluster)) or _left_s(pod.end_by, now) <= 0

    return frozenset(replica.uid for replica in ending if all(map(is_stuck, replica.pods)))


def until_stuck_s(fleet: Iterable[Replica], now: datetime) -> float | None:
    """Seconds until the next pod that ends is late; None where none will be."""
    lefts = (_left_s(pod.end_by, now) for replica in fleet if replica.terminating for pod in replica.pods)
    return _soonest(lefts)


def once_ended(cluster: ClusterView, now: datetime) -> ClusterView:
    """The cluster once the pods have ended that were asked to, without those that are late."""
    return replace(cluster, nodes=tuple(_once_ended(node, now) if node.leaving else node for node in cluster.nodes))


def until_late_s(cluster: ClusterView | None, now: datetime) -> float | None:
    """Seconds until the next pod is late that ends on a node which is ready; None where none will be."""
    nodes = cluster.nodes if cluster is not None else ()
    return _soonest(_left_s(each.by, now) for node in nodes if node.ready for each in node.leaving)


def freed(node: NodeView, pods: Iterable[Amounts]) -> NodeView:
    """The node without the pods that held these amounts."""
    return reduce(lambda left, amounts: shifted(left, amounts, -1), pods, node)


def _once_ended(node: NodeView, now: datetime) -> NodeView:
    return freed(node, (each.requests for each in node.leaving if _left_s(each.by, now) > 0))


def _left_s(end_by: datetime | None, now: datetime) -> float:
    """Seconds until a pod is late whose grace is over then; infinite where it does not say when."""
    return (end_by - now).total_seconds() + LATE_S if end_by is not None else float("inf")


def _soonest(lefts_s: Iterable[float]) -> float | None:
    return min((left_s for left_s in lefts_s if 0 < left_s < float("inf")), default=None)
