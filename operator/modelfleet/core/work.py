"""What each replica does now, and what its end would free: by this, victims are chosen. Pure."""

from collections.abc import Iterable

from modelfleet.core.drain import Work
from modelfleet.core.groups import Replica
from modelfleet.core.placement.view import ClusterView
from modelfleet.core.scaling.samples import Samples


def work_of(
    cluster: ClusterView | None, samples: Samples | None, fleet: Iterable[Replica], resource: str
) -> dict[str, Work]:
    """By the replica's uid, of those of which anything is known. Tokens of shared prefixes are not measured."""
    fleet = tuple(fleet)
    flights, whole = _in_flight(samples, fleet), _whole_nodes(cluster, fleet, resource)
    return {uid: Work(in_flight=flights.get(uid), whole_nodes=whole.get(uid)) for uid in flights.keys() | whole.keys()}


def _in_flight(samples: Samples | None, fleet: tuple[Replica, ...]) -> dict[str, int]:
    """As the leaders' pages said just now."""
    fresh = {pod.uid: pod.readings[-1].in_flight for pod in samples.fresh()} if samples else {}
    leaders = ((replica.uid, fresh.get(replica.leader.uid)) for replica in fleet if replica.leader)
    return {uid: count for uid, count in leaders if count is not None}


def _whole_nodes(cluster: ClusterView | None, fleet: tuple[Replica, ...], resource: str) -> dict[str, int]:
    """How many nodes would be whole without each replica; only of those whose end frees one."""
    if cluster is None:
        return {}
    taken = {node.name: node.allocatable.get(resource, 0) - node.free.get(resource, 0) for node in cluster.nodes}
    found = {}
    for replica in fleet:
        placed = [pod for pod in replica.pods if pod.placed]
        whole = sum(0 < taken.get(pod.node, 0) <= pod.requests.get(resource, 0.0) for pod in placed)
        if whole:
            found[replica.uid] = whole
    return found
