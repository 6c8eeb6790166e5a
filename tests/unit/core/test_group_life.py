"""How a group ends as a whole and is made anew: at once, after a back-off, on other nodes."""

import json
from datetime import timedelta
from typing import Any

import pytest

from builders import READY, Fleet, Raw, condition, running, unschedulable
from group_worlds import grouped, members, ranks, serving, wrote
from modelfleet.api import names
from modelfleet.core.group_clock import PULL_S
from modelfleet.core.group_life import BIND_S, BUY_S, DOUBT_S
from modelfleet.core.placement.project import pinned_node

GONE = {"exitCode": 1, "message": json.dumps({"reason": "EngineDied", "message": "the engine died"})}
REFUSED = {"exitCode": 1, "message": json.dumps({"reason": "ModelNotFound", "message": "there is no model"})}


def kept(fleet: Fleet) -> Raw:
    """What NAME-state holds of groups."""
    state = fleet.objects["ConfigMap", "chat-state"]
    found: Raw = json.loads(state["data"][names.GROUPS_KEY])
    return found


def counts(fleet: Fleet) -> list[int]:
    return [past["count"] for past in kept(fleet)["replicas"].values()]


def lose(fleet: Fleet, rank: int) -> None:
    del fleet.objects["Pod", members(fleet)[rank]["metadata"]["name"]]


def asked_to_end(fleet: Fleet, rank: int) -> None:
    members(fleet)[rank]["metadata"]["deletionTimestamp"] = fleet.now.isoformat()


def evicted(fleet: Fleet, rank: int) -> None:
    members(fleet)[rank]["status"] = {"phase": "Failed", "reason": "Evicted"}


def dies_in_place(fleet: Fleet, rank: int) -> None:
    members(fleet)[rank]["status"] = running(3, GONE)
    members(fleet)[0]["status"] = running(3, GONE)


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lose, id="a pod is gone"),
        pytest.param(asked_to_end, id="a pod is asked to end"),
        pytest.param(evicted, id="a pod is evicted"),
        pytest.param(dies_in_place, id="workers die in place again and again"),
    ],
)
@pytest.mark.parametrize("rank", [0, 1], ids=["leader", "follower"])
def test_one_lost_rank_ends_the_whole_group_and_a_new_one_serves(happens: Any, rank: int):
    fleet = serving()
    before = {pod["metadata"]["uid"] for pod in fleet.pods().values()}
    happens(fleet, rank)
    left = [uid for uid in before if uid in {pod["metadata"]["uid"] for pod in fleet.pods().values()}]
    outcome = fleet.reconcile()
    deleted = [done for done in wrote(outcome.effects) if done.startswith("delete")]
    assert len(deleted) + (happens is asked_to_end) == len(left)
    assert counts(fleet) == [1]
    fleet.settle()
    assert not before & {pod["metadata"]["uid"] for pod in fleet.pods().values()}
    assert (fleet.serving(), len(fleet.pods())) == (1, 2)


def test_a_group_that_misses_a_rank_serves_nobody():
    fleet = serving()
    lose(fleet, 1)
    assert fleet.reconcile().status["readyReplicas"] == 0


def test_a_rank_whose_worker_starts_again_in_place_is_waited_for():
    fleet = serving()
    for pod in members(fleet):
        pod["status"] = running(1, GONE)
    assert wrote(fleet.reconcile().effects) == []
    for pod in members(fleet):
        pod["status"] = READY
    assert fleet.reconcile().status["readyReplicas"] == 1


def test_what_a_new_start_does_not_mend_ends_no_group():
    fleet = serving()
    for pod in members(fleet):
        pod["status"] = running(9, REFUSED)
    outcome = fleet.reconcile()
    assert wrote(outcome.effects) == []
    assert condition(outcome.status, "Progressing")[1] == "ModelNotFound"


def test_the_second_end_waits_and_the_third_moves_the_replica_to_other_nodes():
    fleet = serving(machines=("n1", "n2", "n3"))
    waits = []
    for _ in range(3):
        culprit = members(fleet)[1]["spec"]["nodeName"]
        dies_in_place(fleet, 1)
        members(fleet)[0]["status"] = {"phase": "Running"}
        fleet.reconcile()
        began = fleet.now
        while fleet.serving() == 0:
            fleet.tick(1.0)
            fleet.reconcile()
        waits.append((fleet.now - began).total_seconds())
    assert waits[0] < 10 < waits[1] < 20 < waits[2]
    assert culprit not in ranks(fleet).values()
    assert list(kept(fleet)["doubtful"]) == [culprit]


def test_while_a_group_backs_off_the_reason_is_told():
    fleet = serving()
    for _ in range(2):
        evicted(fleet, 1)
        fleet.reconcile()
        if counts(fleet) == [1]:
            fleet.settle()
    fleet.tick(1.0)
    outcome = fleet.reconcile()
    status, reason, message = condition(outcome.status, "Progressing")
    assert (status, reason) == ("True", "BackingOff")
    assert "ended 2 times" in message
    assert "Evicted" in message
    assert outcome.wake_after_s is not None
    assert outcome.wake_after_s <= 10


def test_losing_the_count_costs_only_the_back_off():
    fleet = serving()
    evicted(fleet, 1)
    fleet.reconcile()
    del fleet.objects["ConfigMap", "chat-state"]
    fleet.settle()
    assert fleet.serving() == 1


def test_a_count_is_forgotten_after_a_while():
    fleet = serving()
    evicted(fleet, 1)
    fleet.reconcile()
    fleet.settle()
    fleet.now += timedelta(hours=1)
    fleet.reconcile()
    assert kept(fleet) == {}


def test_a_node_that_was_free_and_takes_nobody_is_in_doubt_and_the_group_goes_elsewhere():
    fleet = grouped(full={"n1"})
    fleet.reconcile()
    fleet.reconcile()
    fleet.tick(1.0)
    assert wrote(fleet.reconcile().effects) == [], "the scheduler gets its time"
    fleet.tick(BIND_S)
    assert sorted(wrote(fleet.reconcile().effects)) == ["delete 0", "delete 1"]
    assert list(kept(fleet)["doubtful"]) == ["n1"]
    fleet.settle()
    assert sorted(ranks(fleet).values()) == ["n2", "n3"]


@pytest.mark.parametrize(
    "words", ['persistentvolumeclaim "shelf" not found', "pod has unbound immediate PersistentVolumeClaims"]
)
def test_a_replica_that_waits_for_its_claim_stays_on_its_node_and_says_so(words: str):
    fleet = grouped()
    for _ in range(3):
        fleet.reconcile()
    for pod in members(fleet):
        pod["status"] = unschedulable(f"0/3 nodes are available: {words}.", fleet.now)
    fleet.now += timedelta(seconds=2 * BUY_S)
    outcome = fleet.reconcile()
    assert wrote(outcome.effects) == []
    assert words in condition(outcome.status, "Ready")[2]


def test_a_node_is_in_doubt_for_a_while_only():
    fleet = grouped(full={"n1"}, machines=("n1", "n2"))
    for _ in range(6):
        fleet.reconcile()
        fleet.tick(BIND_S)
    assert condition(fleet.reconcile().status, "Placed")[1] == "NoRoom"
    assert "in doubt" in condition(fleet.reconcile().status, "Placed")[2]
    fleet.full = set()
    fleet.now += timedelta(seconds=DOUBT_S)
    fleet.settle()
    assert fleet.serving() == 1


def test_a_kubelet_that_takes_no_pod_is_in_doubt_too():
    fleet = grouped(spec={"parallelism": {"tensor": 1}})
    for _ in range(2):
        fleet.reconcile()
    (pod,) = fleet.pods().values()
    node = pinned_node(pod)
    pod["spec"]["nodeName"] = node
    pod["status"] = {"phase": "Failed", "reason": "OutOfmodelfleet.dev/cpu", "message": "Pod was rejected"}
    fleet.settle()
    assert list(ranks(fleet).values()) == [next(name for name in fleet.machines if name != node)]


def test_a_group_that_never_serves_is_given_up_at_its_deadline():
    fleet = serving()
    for pod in members(fleet):
        since = {"type": "Ready", "status": "False", "lastTransitionTime": fleet.now.isoformat()}
        pod["status"] = {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, since]}
    limit_s = fleet.settings.start_deadline_s + PULL_S
    outcome = fleet.reconcile()
    assert (wrote(outcome.effects), outcome.wake_after_s) == ([], limit_s)
    fleet.now += timedelta(seconds=limit_s)
    assert sorted(wrote(fleet.reconcile().effects)) == ["delete 0", "delete 1"]
    assert "did not serve within" in next(iter(kept(fleet)["replicas"].values()))["why"]


@pytest.mark.parametrize("rank", [0, 1], ids=["leader", "follower"])
def test_a_group_that_does_not_serve_leaves_a_node_that_is_lost(rank: int):
    fleet = serving(machines=("n1", "n2", "n3", "n4"))
    lost = members(fleet)[rank]["spec"]["nodeName"]
    fleet.machines = tuple(name for name in fleet.machines if name != lost)
    if rank == 1:
        assert wrote(fleet.reconcile().effects) == [], "a group that serves stays"
    members(fleet)[0]["status"] = {"phase": "Running"}
    assert [done for done in wrote(fleet.reconcile().effects) if done.startswith("delete")] == ["delete 0", "delete 1"]
    fleet.settle()
    assert lost not in ranks(fleet).values()
    assert fleet.serving() == 1


def test_an_unpinned_pod_waits_for_a_bought_node_until_its_deadline():
    fleet = grouped(spec={"parallelism": {"tensor": 1}})
    fleet.reconcile()
    (pod,) = fleet.pods().values()
    del pod["spec"]["schedulingGates"]
    pod["status"] = unschedulable("0/3 nodes are available", fleet.now)
    outcome = fleet.reconcile()
    assert (wrote(outcome.effects), outcome.wake_after_s) == ([], BUY_S)
    fleet.now += timedelta(seconds=BUY_S)
    assert "delete 0" in wrote(fleet.reconcile().effects)
