"""What ends and frees its room, and what only seems to. Pure.

A pod on a node whose kubelet is gone stays Terminating until the node is back, is deleted, or somebody deletes the pod
by force. Its room is of no use to anybody until then, so nothing is to wait for it.
"""

from collections.abc import Collection, Iterable

from modelfleet.core.groups import Replica
from modelfleet.core.placement.view import ClusterView


def lost_nodes(cluster: ClusterView | None, fleet: Iterable[Replica]) -> frozenset[str]:
    """Nodes of replicas that do not serve which are not ready or gone; none while nodes are not known."""
    nodes = {pod.node for replica in fleet if not replica.ready for pod in replica.pods if pod.placed}
    if cluster is None or not nodes:
        return frozenset()
    return frozenset(nodes - {node.name for node in cluster.nodes if node.ready})


def room_comes(fleet: Iterable[Replica], useless: Collection[str]) -> bool:
    """Whether a replica is asked to end that holds room on another node than the `useless` ones."""
    return any(replica.terminating and any(pod.node not in useless for pod in replica.pods) for replica in fleet)
