"""Which replicas must leave their nodes, and what the end of each would free. Pure.

A cordoned node takes no new pods: somebody is about to empty it. Its replicas are replaced elsewhere before they end.
"""

from collections.abc import Iterable

from modelfleet.core.drain import Work
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


def freed(cluster: ClusterView | None, fleet: Iterable[Replica], resource: str) -> dict[str, Work]:
    """How many nodes would be whole without each replica, by its uid; only of those whose end frees one."""
    if cluster is None:
        return {}
    taken = {node.name: node.allocatable.get(resource, 0) - node.free.get(resource, 0) for node in cluster.nodes}
    found = {}
    for replica in fleet:
        placed = [pod for pod in replica.pods if pod.placed]
        whole = sum(0 < taken.get(pod.node, 0) <= pod.requests.get(resource, 0.0) for pod in placed)
        if whole:
            found[replica.uid] = Work(whole_nodes=whole)
    return found
