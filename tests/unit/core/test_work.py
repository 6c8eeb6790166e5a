"""What is known of replicas when victims are chosen: requests in flight, and nodes that their end frees."""

from modelfleet.core.drain import Work, first_to_leave
from modelfleet.core.groups import Replica, alone
from modelfleet.core.placement.view import ClusterView, NodeView
from modelfleet.core.scaling.reading import Reading
from modelfleet.core.scaling.samples import PodSamples, Samples
from modelfleet.core.work import work_of
from scenes import NEW, pod


def node(name: str, free: int) -> NodeView:
    return NodeView(name=name, labels={}, allocatable={"gpu": 8}, free={"gpu": free})


def read(at_s: float = 995.0, **in_flight: int | None) -> Samples:
    """The pages of pods by uid, read at `at_s`; now it is 1000."""
    pods = {
        uid: PodSamples(uid=uid, name=uid, revision=NEW, readings=(Reading(pod_uid=uid, at_s=at_s, in_flight=count),))
        for uid, count in in_flight.items()
    }
    return Samples(at_s=1000.0, pods=pods)


GROUP = Replica(
    revision=NEW,
    slot=2,
    members=(pod(2, node="a", requests={"gpu": 8.0}), pod(2, rank=1, node="b", requests={"gpu": 8.0})),
)


def test_nothing_is_known_without_nodes_and_samples() -> None:
    assert work_of(None, None, (GROUP,), "gpu") == {}


def test_the_nodes_that_nobody_else_uses_are_freed_whole() -> None:
    cluster = ClusterView(nodes=(node("a", 0), node("b", 0), node("c", 6), node("d", 7)))
    shared, single = alone(pod(0, node="c", requests={"gpu": 1.0})), alone(pod(1, node="d", requests={"gpu": 1.0}))
    assert work_of(cluster, None, (GROUP, shared, single), "gpu") == {
        GROUP.uid: Work(whole_nodes=2),
        single.uid: Work(whole_nodes=1),
    }


def test_the_least_busy_leaves_first() -> None:
    fleet = [alone(pod(0, uid="idle")), alone(pod(1, uid="busy")), alone(pod(2, uid="unread"))]
    work = work_of(None, read(idle=0, busy=7), fleet, "gpu")
    assert [replica.uid for replica in first_to_leave(fleet, NEW, work)] == ["idle", "busy", "unread"]


def test_a_page_that_is_old_or_does_not_say_is_not_believed() -> None:
    fleet = [alone(pod(0, uid="old")), alone(pod(1, uid="mute"))]
    assert work_of(None, read(900.0, old=0), fleet, "gpu") == {}
    assert work_of(None, read(mute=None), fleet, "gpu") == {}
