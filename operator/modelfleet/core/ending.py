"""What ends and frees its room, and what only seems to, so that nothing waits for it. Pure.

A pod stays until the kubelet of its node says that it has ended. That of a lost node never does, until the node is
back, is deleted, or somebody deletes the pod by force. Its `deletionTimestamp` is when its grace is over: then it is
killed, so a pod that is still there a while after is held by something else (a finalizer, a mount or a driver that
hangs).
"""

from collections.abc import Iterable
from datetime import datetime

from modelfleet.core.groups import Replica
from modelfleet.core.placement.view import ClusterView
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
        return (pod.placed and is_lost(pod.node, cluster)) or _left_s(pod, now) <= 0

    return frozenset(replica.uid for replica in ending if all(map(is_stuck, replica.pods)))


def until_stuck_s(fleet: Iterable[Replica], now: datetime) -> float | None:
    """Seconds until the next pod that ends is late; None where none will be."""
    lefts = (_left_s(pod, now) for replica in fleet if replica.terminating for pod in replica.pods)
    return min((left_s for left_s in lefts if 0 < left_s < float("inf")), default=None)


def _left_s(pod: PodView, now: datetime) -> float:
    """Seconds until it is late; infinite where it does not say when its grace is over."""
    return (pod.end_by - now).total_seconds() + LATE_S if pod.end_by is not None else float("inf")
