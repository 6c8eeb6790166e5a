"""Replicas that were asked to end and do not: nobody waits for them."""

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import READY, START, Fleet, Raw, cluster_view, condition, manual
from modelfleet.core.ending import LATE_S, stuck, until_stuck_s
from modelfleet.core.groups import Replica
from modelfleet.core.pods import view
from scaling_worlds import Sampled, sampled

NODES = cluster_view({"node": 9})
LOST = replace(NODES, nodes=tuple(replace(node, ready=False) for node in NODES.nodes))


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def replica(*ends: Any, node: str = "node") -> Replica:
    """A group whose ranks were asked to end by these times; None: it was not."""
    pods = []
    for rank, end in enumerate(ends):
        metadata = {"name": f"chat-1a2b3c4d-0-{rank}", "uid": f"u{rank}"} | ({"deletionTimestamp": end} if end else {})
        pods.append(view({"metadata": metadata, "spec": {"nodeName": node}, "status": READY}, "chat"))
    return Replica(revision="1a2b3c4d", slot=0, members=tuple(pods))


@pytest.mark.parametrize(
    ("one", "cluster", "is_stuck"),
    [
        pytest.param(replica(at(300)), NODES, False, id="its grace goes on"),
        pytest.param(replica(at(1 - LATE_S)), NODES, False, id="its grace ended a moment ago"),
        pytest.param(replica(at(-LATE_S)), NODES, True, id="it is late"),
        pytest.param(replica(at(300)), LOST, True, id="its node is not ready"),
        pytest.param(replica(at(300), node="gone"), NODES, True, id="its node is gone"),
        pytest.param(replica(at(300), node="gone"), None, False, id="nodes are not known"),
        pytest.param(replica(at(300), node=""), NODES, False, id="it has no node"),
        pytest.param(replica(at(-LATE_S), at(300)), NODES, False, id="a rank of it goes on"),
        pytest.param(replica(at(-LATE_S), at(-LATE_S)), NODES, True, id="all ranks are late"),
        pytest.param(replica("no time"), NODES, False, id="it does not say when"),
        pytest.param(replica(None), LOST, False, id="it was not asked to end"),
    ],
)
def test_a_replica_is_not_waited_for(one: Replica, cluster: Any, is_stuck: bool) -> None:
    assert bool(stuck([one], cluster, START)) is is_stuck


def test_the_moment_from_which_on_it_is_late_is_known() -> None:
    fleet = [replica(at(300)), replica(at(20)), replica(at(-LATE_S)), replica(None), replica("no time")]

    assert until_stuck_s(fleet, START) == 20 + LATE_S
    assert until_stuck_s(fleet[2:], START) is None


def with_stuck(fleet: Sampled, node: str, grace_s: float) -> Raw:
    """A pod of the model beside the others, asked to end now, that never ends."""
    pod = copy.deepcopy(next(iter(fleet.fleet.pods().values())))
    name = pod["metadata"]["name"].rsplit("-", 1)[0] + "-90"
    by = (fleet.fleet.now + timedelta(seconds=grace_s)).isoformat()
    pod["metadata"] |= {"name": name, "uid": "u-stuck", "deletionTimestamp": by}
    pod["spec"]["nodeName"] = node
    fleet.read = lambda: {"pods": (*fleet.fleet.world().pods, copy.deepcopy(pod))}
    return pod


def test_a_pod_that_never_ends_does_not_keep_its_model_from_giving_replicas_back() -> None:
    fleet = sampled(minReplicas=3).run(620, 0.5)
    with_stuck(fleet, "node", 60.0)
    fleet.fleet.deployment["spec"]["scaling"]["minReplicas"] = 1

    fleet.run(400)

    assert (fleet.replicas, fleet.decision["reason"]) == (1, "LoadFell")
    assert fleet.scaling is not None
    assert fleet.scaling.bid.leaving == 0


def test_within_its_grace_it_is_waited_for_and_looked_at_when_it_is_late() -> None:
    fleet = sampled().run(60, 1.0)
    with_stuck(fleet, "node", 100.0)
    outcome = fleet.reconcile()
    assert fleet.scaling is not None

    assert (fleet.scaling.case.seats.moving, fleet.scaling.bid.leaving) == (True, 1)
    assert outcome.wake_after_s is not None
    assert outcome.wake_after_s <= 100 + LATE_S


def test_an_end_years_ahead_is_looked_at_once_a_day() -> None:
    fleet = Fleet(manual(replicas=1))
    fleet.settle()
    (pod,) = fleet.pods().values()
    pod["metadata"]["deletionTimestamp"] = "9999-12-31T23:59:59Z"
    assert fleet.reconcile().wake_after_s == 86_400


def test_what_a_model_lacks_counts_beside_a_pod_that_never_ends() -> None:
    fleet = sampled()
    fleet.fleet.room = 3
    with_stuck(fleet, "dead", 1e6)
    fleet.run(200, fleet.knee_rps * 5)
    assert fleet.scaling is not None

    assert fleet.scaling.bid.lacks >= 1
    assert fleet.decision["bound"] == "capacity"


@pytest.mark.parametrize(
    ("node", "grace_s", "why"),
    [
        pytest.param("dead", 1e6, "cannot end, because node dead is not ready or gone", id="its node is gone"),
        pytest.param(
            "node", -LATE_S, "has not ended though its grace is over", id="it is late on a node that is ready"
        ),
    ],
)
def test_the_status_says_why_it_does_not_end(node: str, grace_s: float, why: str) -> None:
    fleet = sampled().run(60, 1.0)
    with_stuck(fleet, node, grace_s)

    assert why in condition(fleet.reconcile().status, "Progressing")[2]
