"""What a status says about a moment, row by row; reasons and whole sentences."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from builders import READY, Fleet, check_status, condition, deployment, manual, running, unschedulable, waiting
from modelfleet.core.effects import Outcome
from modelfleet.core.reconcile import plan

Raw = dict[str, Any]
Change = Callable[[Fleet], None]


def note(reason: str, message: str) -> Raw:
    return {"exitCode": 1, "message": json.dumps({"reason": reason, "message": message, "remedy": "Mend it."})}


GONE = note("ModelNotFound", "there is no model at /models/x.")
DIED = note("EngineDied", "the engine died while it served.")


def first(status: Raw | None = None, **metadata: Any) -> Change:
    """Changes the pod of slot 0."""

    def change(fleet: Fleet) -> None:
        pod = next(iter(fleet.pods().values()))
        pod["status"] = copy.deepcopy(status or pod["status"])
        pod["metadata"] |= metadata

    return change


def no_node(fleet: Fleet) -> None:
    pod = next(iter(fleet.pods().values()))
    for part in ("nodeName", "affinity"):  # an earlier version left the choice of a node to the scheduler
        del pod["spec"][part]
    pod["status"] = unschedulable("0/1 nodes are available: 1 Insufficient cpu.")


def both(*changes: Change) -> Change:
    def change(fleet: Fleet) -> None:
        for one in changes:
            one(fleet)

    return change


def spec(**parts: Any) -> Change:
    return lambda fleet: fleet.deployment["spec"].update(parts)


def scale(replicas: int) -> Change:
    return lambda fleet: fleet.deployment["spec"]["scaling"].update(replicas=replicas)


def after(change: Change, refused: str = "") -> Outcome:
    """What is decided about a settled fleet of two (minReplicas 2) after a change."""
    fleet = Fleet(deployment(scaling={"mode": "Manual", "replicas": 2, "minReplicas": 2}))
    fleet.settle()
    change(fleet)
    seen = fleet.world()
    outcome = plan(type(seen)(**{**vars(seen), "refused": refused}))
    check_status(outcome.status)
    return outcome


@pytest.mark.parametrize(
    ("change", "kind", "expected"),
    [
        pytest.param(
            first(running()),
            "Available",
            ("False", "Starting", "1 replica serves and minReplicas is 2: the others start"),
            id="a replica that starts",
        ),
        pytest.param(
            first(running()),
            "Progressing",
            ("True", "Starting", "1 of 2 replicas of revision REV serve, the others start"),
            id="a replica that starts is progress",
        ),
        pytest.param(
            first(waiting("CrashLoopBackOff", "back-off 20s", 2, GONE)),
            "Available",
            (
                "False",
                "ModelNotFound",
                "1 replica serves and minReplicas is 2: pod chat-REV-0: there is no model at /models/x; Mend it",
            ),
            id="the worker's own words and remedy",
        ),
        pytest.param(
            first(running(2, GONE)),
            "Progressing",
            (
                "False",
                "ModelNotFound",
                "revision REV does not come up: pod chat-REV-0: there is no model at /models/x; Mend it",
            ),
            id="what waiting does not mend is no progress",
        ),
        pytest.param(
            first(running(1, DIED)),
            "Progressing",
            ("True", "EngineDied", "pod chat-REV-0: the engine died while it served; Mend it; it is started again"),
            id="an engine that died is started again",
        ),
        pytest.param(
            first(READY),
            "Available",
            ("True", "MinimumAvailable", "2 replicas serve and minReplicas is 2"),
            id="all serve",
        ),
        pytest.param(
            no_node,
            "Placed",
            (
                "False",
                "Unschedulable",
                "1 of 2 replicas have a node; pod chat-REV-0 finds no node: 0/1 nodes are available: 1 Insufficient"
                " cpu; free or add a node that fits, or mend what these words name",
            ),
            id="no node",
        ),
        pytest.param(
            first({"phase": "Failed", "reason": "Evicted"}),
            "Progressing",
            ("True", "ReplicaLost", "pod chat-REV-0: it ended and is replaced: Evicted"),
            id="an evicted replica",
        ),
        pytest.param(
            first(deletionTimestamp="2026-01-02T03:04:05Z"),
            "Progressing",
            ("True", "ReplicaLost", "pod chat-REV-0: it was deleted and is replaced"),
            id="a replica that somebody deletes",
        ),
        pytest.param(scale(5), "Progressing", ("True", "Scaling", "from 2 to 5 replicas"), id="more replicas"),
        pytest.param(
            scale(5),
            "Placed",
            ("False", "Placing", "2 of 5 replicas have a node"),
            id="more replicas have no nodes yet",
        ),
        pytest.param(
            spec(engine={"image": "image:2"}),
            "Progressing",
            (
                "True",
                "RollingOut",
                "0 of 2 replicas serve revision NEW; a new replica comes up before an old one leaves",
            ),
            id="a rollout",
        ),
        pytest.param(
            spec(accelerators={"classes": ["h100"]}),
            "Available",
            ("True", "MinimumAvailable", "2 replicas serve and minReplicas is 2"),
            id="a spec that is not accepted leaves what serves",
        ),
        pytest.param(
            spec(accelerators={"classes": ["h100"]}),
            "Progressing",
            ("Unknown", "NotEvaluated", "nothing is moved while the spec is not accepted and planned"),
            id="and moves nothing",
        ),
        pytest.param(
            both(spec(accelerators={"classes": ["h100"]}), first(running(2, GONE))),
            "Available",
            (
                "False",
                "ModelNotFound",
                "1 replica serves and minReplicas is 2: pod chat-REV-0: there is no model at /models/x; Mend it",
            ),
            id="also under a spec that is not accepted a failure is told",
        ),
    ],
)
def test_condition(change: Change, kind: str, expected: tuple[str, str, str]) -> None:
    outcome = after(change)
    revision = outcome.status["plan"]["revision"]
    status, reason, message = condition(outcome.status, kind)
    assert (status, reason) == expected[:2]
    assert message == expected[2].replace("REV", revision).replace("NEW", revision)


@pytest.mark.parametrize("kind", ["Placed", "Progressing"])
def test_a_pod_that_the_api_server_refuses_is_told_in_its_words(kind: str) -> None:
    outcome = after(scale(5), refused='pods "x" is forbidden: exceeded quota: team.')
    status, reason, message = condition(outcome.status, kind)
    assert (status, reason) == ("False", "PodsRefused")
    assert 'pods "x" is forbidden: exceeded quota: team; raise the quota' in message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            waiting("CrashLoopBackOff", "back-off 10s", 2, GONE), running(3, GONE), id="in back-off, and running again"
        ),
        pytest.param(
            waiting("CrashLoopBackOff", "back-off 10s", 2, GONE),
            waiting("CrashLoopBackOff", "back-off 5m0s", 9, GONE),
            id="a later back-off",
        ),
        pytest.param(
            waiting("ErrImagePull", "rpc error: not found"),
            waiting("ImagePullBackOff", 'Back-off pulling image "i": ErrImagePull: rpc error: not found'),
            id="a pull that fails, and its back-off",
        ),
    ],
)
def test_a_failure_that_goes_on_gives_the_same_bytes(one: Raw, other: Raw) -> None:
    assert after(first(one)).status == after(first(other)).status


@pytest.mark.parametrize(
    ("change", "numbers"),
    [
        pytest.param(first(), (2, 2, 2, 0), id="all serve"),
        pytest.param(first(running()), (2, 1, 2, 0), id="one starts"),
        pytest.param(no_node, (2, 1, 1, 0), id="one has no node"),
        pytest.param(first({"phase": "Failed"}), (1, 1, 1, 0), id="one ended"),
        pytest.param(first(deletionTimestamp="2026-01-02T03:04:05Z"), (1, 1, 1, 1), id="one is being deleted"),
    ],
)
def test_numbers(change: Change, numbers: tuple[int, int, int, int]) -> None:
    status = after(change).status
    names = ("replicas", "readyReplicas", "placedReplicas", "drainingReplicas")
    assert tuple(status[name] for name in names) == numbers


def test_a_draining_replica_counts_as_draining_from_the_moment_its_label_is_off() -> None:
    fleet = Fleet(manual(2))
    fleet.settle()
    fleet.deployment["spec"]["scaling"]["replicas"] = 1
    fleet.reconcile()
    status = fleet.reconcile().status
    assert (status["replicas"], status["readyReplicas"], status["drainingReplicas"]) == (1, 1, 1)
    assert condition(status, "Progressing") == ("True", "Draining", "1 replica finishes its requests and ends")


def test_a_status_that_somebody_emptied_is_written_whole_again_and_moves_nothing() -> None:
    fleet = Fleet(manual(2))
    before = fleet.settle()
    del fleet.deployment["status"]
    outcome = fleet.reconcile()
    assert not outcome.effects
    assert {c["type"]: c["message"] for c in outcome.status["conditions"]} == {
        c["type"]: c["message"] for c in before.status["conditions"]
    }


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    fleet = Fleet(manual(1))
    first_said = fleet.reconcile().status
    fleet.tick()
    later = fleet.reconcile().status
    for kind in ("Accepted", "Available"):
        was, now = (next(c for c in s["conditions"] if c["type"] == kind) for s in (first_said, later))
        assert was["lastTransitionTime"] == now["lastTransitionTime"]


def test_a_new_generation_is_observed_in_every_condition() -> None:
    fleet = Fleet(manual(1))
    fleet.settle()
    fleet.deployment["metadata"]["generation"] = 7
    status = fleet.reconcile().status
    assert status["observedGeneration"] == 7
    assert {c["observedGeneration"] for c in status["conditions"]} == {7}


def test_events_tell_the_story_once() -> None:
    fleet = Fleet(manual(1))
    told = [
        (event.type, event.reason) for _ in range(8) for event in [*fleet.reconcile().events, fleet.tick()] if event
    ]
    assert told == [
        ("Normal", "Valid"),
        ("Normal", "PlanPinned"),
        ("Normal", "AllPlaced"),
        ("Normal", "Starting"),
        ("Normal", "MinimumAvailable"),
        ("Normal", "Settled"),
    ]


def test_an_ignored_scaler_is_answered_by_one_event() -> None:
    fleet = Fleet()
    fleet.settle()
    fleet.deployment["spec"]["scaling"]["replicas"] = 5
    entry = {"f:spec": {"f:scaling": {"f:replicas": {}}}}
    fleet.deployment["metadata"]["managedFields"] = [{"manager": "kubectl", "subresource": "scale", "fieldsV1": entry}]
    events = [event for _ in range(4) for event in fleet.reconcile().events]
    assert [(event.type, event.reason) for event in events] == [("Warning", "ReplicasIgnored")]
    assert "written by kubectl, is ignored" in events[0].message
