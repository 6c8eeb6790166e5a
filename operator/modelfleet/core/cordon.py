"""Which replicas must leave their nodes. Pure.

A cordoned node takes no new pods: somebody is about to empty it. Its replicas are replaced elsewhere before they end.
"""

from collections.abc import Iterable

from modelfleet.core.groups import Replica
from modelfleet.core.placement.view import ClusterView


def on_cordoned_nodes(cluster: ClusterView | None, fleet: Iterable[Replica]) -> dict[str, str]:
    """The cordoned node of each replica that stands on one, by its uid; of several the first rank's. Nothing while the
    nodes are not known."""
    cordoned = {node.name for node in cluster.nodes if node.cordoned} if cluster else set()
    found: dict[str, str] = {}
    for replica in fleet if cordoned else ():
        for pod in replica.pods:
            if pod.placed and pod.node in cordoned:
                found.setdefault(replica.uid, pod.node)
    return found
