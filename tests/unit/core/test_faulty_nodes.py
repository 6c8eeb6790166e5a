"""What a replica does whose node is at fault, and which node of a group is."""

import json
from typing import Any

import pytest

from builders import Fleet, Raw, condition, manual, running, waiting
from group_worlds import members, ranks, serving, wrote
from memory_deaths import fractions
from modelfleet.api import names
from modelfleet.core.failures import pod_failure
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.group import ended, lost

FAULTY = Failure(reason=Reason.ACCELERATOR_FAULTY, message="XID 79 of GPU-1.", remedy="Reset it.")
FOREIGN = Failure(reason=Reason.FOREIGN_MEMORY, message="Others hold 30 GiB.", remedy="End them.")
FULL = Failure(reason=Reason.DISK_FULL, message="The volume has 1 GB free.", remedy="Give it more room.")
DIED = Failure(reason=Reason.ENGINE_DIED, message="The engine ended.", remedy="Look at its log.")
ONE = {"parallelism": {"tensor": 1}}


def died(failure: Failure, restarts: int = 1) -> Raw:
    """The status of a pod whose worker said this at its last end."""
    return running(restarts, {"exitCode": 1, "message": failure.to_json()})


def doubtful(fleet: Fleet) -> list[str]:
    """Nodes that NAME-state has in doubt."""
    state = fleet.objects.get(("ConfigMap", "chat-state"), {"data": {}})
    return sorted(json.loads(state["data"].get(names.GROUPS_KEY, "{}")).get("doubtful", {}))


def deleted(fleet: Fleet) -> list[str]:
    return [done for done in wrote(fleet.reconcile().effects) if done.startswith("delete")]


@pytest.mark.parametrize("reason", ["AcceleratorFaulty", "AcceleratorUnavailable", "WrongAccelerator", "DiskFull"])
def test_a_replica_leaves_a_node_that_is_at_fault_while_another_node_has_room(reason: str):
    fleet = serving(spec=ONE, machines=("n1", "n2"))
    (pod,) = fleet.pods().values()
    bad = pod["spec"]["nodeName"]
    pod["status"] = died(Failure(reason=Reason(reason), message="It is broken.", remedy="Mend it."))
    assert deleted(fleet) == ["delete 0"]
    assert doubtful(fleet) == [bad]
    fleet.settle()
    assert list(ranks(fleet).values()) == [next(name for name in fleet.machines if name != bad)]


def test_where_no_other_node_has_room_it_stays_and_the_fault_is_said():
    fleet = serving(spec=ONE, machines=("n1",))
    (pod,) = fleet.pods().values()
    pod["status"] = died(FAULTY, 9)
    outcome = fleet.reconcile()
    assert wrote(outcome.effects) == []
    assert condition(outcome.status, "Progressing")[:2] == ("False", "AcceleratorFaulty")


def test_a_node_in_doubt_is_no_other_room():
    fleet = serving(spec=ONE, machines=("n1", "n2"))
    for _ in range(2):
        (pod,) = fleet.pods().values()
        pod["status"] = died(FAULTY)
        before = ranks(fleet)
        fleet.reconcile()
        for _ in range(5):
            fleet.tick(1.0)
            fleet.reconcile()
    assert ranks(fleet) == before


def test_memory_that_others_hold_is_waited_for_in_place_at_first():
    fleet = serving(spec=ONE, machines=("n1", "n2"))
    (pod,) = fleet.pods().values()
    pod["status"] = died(FOREIGN, 2)
    assert deleted(fleet) == []
    pod["status"] = died(FOREIGN, 3)
    assert deleted(fleet) == ["delete 0"]


def test_as_many_leave_as_find_room_elsewhere():
    fleet = serving(2, spec=ONE, machines=("n1", "n2", "n3"))
    for pod in fleet.pods().values():
        pod["status"] = died(FAULTY)
    assert deleted(fleet) == ["delete 0"]
    assert len(doubtful(fleet)) == 1


def both(fleet: Fleet, failure: Failure, restarts: int) -> str:
    """Rank 1 ends with this failure and its leader repeats it, as workers do; gives the node of rank 1."""
    leader, follower = members(fleet)
    node: str = follower["spec"]["nodeName"]
    follower["status"] = died(failure, restarts)
    leader["status"] = died(ended(1, node, failure), restarts)
    return node


def test_a_group_leaves_the_node_of_the_rank_at_fault_and_may_use_its_other_node_again():
    fleet = serving()
    bad = both(fleet, FAULTY, 1)
    assert deleted(fleet) == ["delete 0", "delete 1"]
    assert doubtful(fleet) == [bad]
    fleet.settle()
    assert (fleet.serving(), bad in ranks(fleet).values()) == (1, False)


def test_a_step_that_another_rank_than_the_leader_proposes_is_taken():
    fleet = serving()
    step = {"flag": "gpu-memory-utilization", "value": "0.87", "before": "0.92"}
    too_high = Failure(reason=Reason.MEMORY_FRACTION_TOO_HIGH, message="Too much.", remedy="Less.", correction=step)
    both(fleet, too_high, 1)
    fleet.settle()
    assert fractions(fleet) == {"0.87"}


@pytest.mark.parametrize("failure", [FAULTY, FOREIGN])
def test_a_rank_that_never_joined_since_its_node_is_at_fault_takes_the_group_elsewhere(failure: Failure):
    fleet = serving()
    leader, follower = members(fleet)
    bad = follower["spec"]["nodeName"]
    leader["status"] = running(0)
    follower["status"] = died(failure, 3)
    assert deleted(fleet) == ["delete 0", "delete 1"]
    assert doubtful(fleet) == [bad]


def test_the_third_end_puts_the_node_in_doubt_whose_rank_the_leader_names():
    fleet = serving(machines=("n1", "n2", "n3"))
    for _ in range(3):
        culprit = both(fleet, DIED, 3)
        fleet.reconcile()
        while fleet.serving() == 0:
            fleet.tick(1.0)
            fleet.reconcile()
    assert doubtful(fleet) == [culprit]


@pytest.mark.parametrize(
    ("failure", "rank"),
    [
        pytest.param(ended(3, "gpu-7", FAULTY), 3, id="one that ended and said why"),
        pytest.param(lost(2, "gpu-7", "told nothing for 15 s"), 2, id="one that went away"),
        pytest.param(FAULTY, None, id="its own"),
    ],
)
def test_a_failure_tells_whose_it_is(failure: Failure, rank: int | None):
    status: Any = died(failure)
    found = pod_failure({"status": status})
    assert found is not None
    assert found.of_rank == rank


def fetch_died(failure: Failure) -> Raw:
    """The status of a pod whose container that fetches said this at its last end."""
    ended = {"terminated": {"exitCode": 1, "message": failure.to_json()}}
    fetch = {"name": names.FETCH_CONTAINER, "restartCount": 1, "state": {"running": {}}, "lastState": ended}
    return {**waiting("PodInitializing"), "phase": "Pending", "initContainerStatuses": [fetch]}


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(died(FAULTY), id="its accelerator"),
        pytest.param(died(FULL), id="its disk"),
        pytest.param(fetch_died(FULL), id="its disk, before the weights were there"),
    ],
)
def test_a_node_at_fault_gives_no_revision_up_before_the_deadline(status: Raw):
    fleet = Fleet(manual(2, engine={"image": "image:1"}), machines=("n1", "n2", "n3"), room=1)
    fleet.settle()
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    made = None
    while made is None:
        fleet.reconcile()
        fleet.tick()
        new = [pod for pod in fleet.pods().values() if pod["spec"]["containers"][0]["image"] == "image:2"]
        made = next((pod for pod in new if pod["spec"].get("nodeName")), None)
    made["status"] = status
    fleet.reconcile()
    assert condition(fleet.reconcile().status, "Progressing")[1] != "RolledBack"
    fleet.settle()
    assert {pod["spec"]["containers"][0]["image"] for pod in fleet.pods().values()} == {"image:2"}


@pytest.mark.parametrize(
    ("volume", "of_its_node"),
    [
        pytest.param({"hostPath": {"path": "/cache"}}, True, id="the node's cache"),
        pytest.param({"emptyDir": {}}, True, id="the pod's own on the node's disk"),
        pytest.param({"persistentVolumeClaim": {"claimName": "shelf"}}, False, id="a claim that all nodes mount"),
    ],
)
def test_a_volume_for_weights_that_is_full_is_of_its_node_where_it_lies_on_the_node(volume: Raw, of_its_node: bool):
    spec = {"volumes": [{"name": "weights", **volume}, {"name": "tmp", "emptyDir": {}}]}
    found = pod_failure({"spec": spec, "status": fetch_died(FULL)})
    assert found is not None
    assert found.of_its_node is of_its_node
