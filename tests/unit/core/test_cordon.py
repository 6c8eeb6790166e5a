"""Replicas on cordoned nodes."""

from modelfleet.core.cordon import on_cordoned_nodes
from modelfleet.core.groups import Replica, alone
from modelfleet.core.placement.view import ClusterView, NodeView
from scenes import NEW, pod


def node(name: str, free: int, *, cordoned: bool = False) -> NodeView:
    return NodeView(name=name, labels={}, allocatable={"gpu": 8}, free={"gpu": free}, cordoned=cordoned)


GROUP = Replica(
    revision=NEW,
    slot=2,
    members=(pod(2, node="a", requests={"gpu": 8.0}), pod(2, rank=1, node="b", requests={"gpu": 8.0})),
)


def test_a_replica_with_any_pod_on_a_cordoned_node_must_leave() -> None:
    cluster = ClusterView(nodes=(node("a", 0), node("b", 0, cordoned=True), node("c", 7)))
    fleet = (GROUP, alone(pod(0, node="c")), alone(pod(1, node="b", placed=False)))
    assert on_cordoned_nodes(cluster, fleet) == {GROUP.uid: "b"}


def test_nothing_must_leave_while_the_nodes_are_not_known() -> None:
    assert on_cordoned_nodes(None, (GROUP,)) == {}
