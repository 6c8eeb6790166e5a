"""What a raw pod says, row by row."""

import json
from typing import Any

import pytest

from builders import READY, running, unschedulable, waiting
from modelfleet.api.reasons import Reason
from modelfleet.core.pods import view

NAME = "chat-aaaaaaaa-0"
NOTE = {"reason": "ModelNotFound", "message": "there is no model at /models/a.", "remedy": "Correct spec.model.source."}


def pod(status: Any, **metadata: Any) -> dict[str, Any]:
    spec = {"nodeName": "node", "containers": [{"name": "worker", "image": "image:1"}]}
    return {"metadata": {"name": NAME, "uid": "u", "labels": {}, **metadata}, "spec": spec, "status": status}


def ended(message: str = "", **more: Any) -> dict[str, Any]:
    return {"exitCode": 1, "reason": "Error", "message": message, **more}


TOLD = "there is no model at /models/a; Correct spec.model.source"
FOUND_NOT = "the image image:1 cannot be pulled: rpc error: not found;"


@pytest.mark.parametrize(
    ("status", "reason", "says", "hopeless"),
    [
        pytest.param(READY, None, "", False, id="a Ready pod has no failure"),
        pytest.param(running(), None, "", False, id="a pod that loads its model has none"),
        pytest.param(waiting("ContainerCreating"), None, "", False, id="a container that is being made has none"),
        pytest.param({}, None, "", False, id="a pod that nobody reported on has none"),
        pytest.param(
            waiting("ErrImagePull", "rpc error: not found"), Reason.IMAGE_NOT_PULLABLE, FOUND_NOT, True, id="no image"
        ),
        pytest.param(
            waiting("ImagePullBackOff", 'Back-off pulling image "image:1": ErrImagePull: rpc error: not found'),
            Reason.IMAGE_NOT_PULLABLE,
            FOUND_NOT,
            True,
            id="no image, in back-off: the same sentence",
        ),
        pytest.param(
            waiting("ImagePullBackOff", "Back-off pulling image"),
            Reason.IMAGE_NOT_PULLABLE,
            "the image image:1 cannot be pulled;",
            True,
            id="no image and no words",
        ),
        pytest.param(
            waiting("CreateContainerConfigError", 'configmap "a" not found'),
            Reason.CONTAINER_CONFIG_ERROR,
            'cannot be made: configmap "a" not found;',
            True,
            id="something that the container refers to is missing",
        ),
        pytest.param(
            waiting("CrashLoopBackOff", "back-off 5m0s", 7, ended(json.dumps(NOTE))),
            Reason.MODEL_NOT_FOUND,
            TOLD,
            True,
            id="the worker's own words while it waits in back-off",
        ),
        pytest.param(
            running(7, ended(json.dumps(NOTE))), Reason.MODEL_NOT_FOUND, TOLD, True, id="the same while it runs again"
        ),
        pytest.param(
            running(1, ended(json.dumps({"reason": "EngineDied", "message": "the engine died"}))),
            Reason.ENGINE_DIED,
            "the engine died",
            False,
            id="an engine that died once may come back",
        ),
        pytest.param(
            running(3, ended(json.dumps({"reason": "EngineDied", "message": "the engine died"}))),
            Reason.ENGINE_DIED,
            "the engine died",
            True,
            id="one that dies again and again does not",
        ),
        pytest.param(
            running(1, ended(json.dumps({"reason": "Settled", "message": "a lie"}))),
            Reason.WORKER_FAILED,
            "a lie",
            False,
            id="a reason that is not a worker's is not repeated",
        ),
        pytest.param(
            running(1, ended("Traceback ...")),
            Reason.WORKER_FAILED,
            "with exit code 1",
            False,
            id="a note that is not JSON",
        ),
        pytest.param(
            running(1, ended("[" * 5000)), Reason.WORKER_FAILED, "exit code", False, id="a note that nests deeply"
        ),
        pytest.param(running(1, ended("[1]")), Reason.WORKER_FAILED, "exit code", False, id="a note of another shape"),
        pytest.param(
            running(1, ended(reason="OOMKilled", exitCode=137)),
            Reason.HOST_OUT_OF_MEMORY,
            "for lack of memory",
            False,
            id="killed for lack of memory",
        ),
        pytest.param(running(1, ended(exitCode=137)), Reason.WORKER_FAILED, "by signal 9", False, id="killed"),
        pytest.param(
            running(1, ended(exitCode=0)), Reason.WORKER_FAILED, "exit code 0", False, id="ended without a fault"
        ),
        pytest.param(
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"},
            Reason.REPLICA_LOST,
            "it ended and is replaced: Evicted, The node was low on memory",
            True,
            id="evicted",
        ),
        pytest.param({"phase": "Succeeded"}, Reason.REPLICA_LOST, "is replaced: Succeeded", True, id="ended by itself"),
    ],
)
def test_failure(status: Any, reason: Reason | None, says: str, hopeless: bool) -> None:
    failure = view(pod(status), "chat").failure
    assert (failure.reason if failure else None) == reason
    assert says in (failure.message if failure else "")
    assert (failure is not None and failure.hopeless) == hopeless


@pytest.mark.parametrize(
    ("message", "lacks", "says"),
    [
        pytest.param("0/1 nodes are available: 1 Insufficient cpu.", ("cpu",), "1 Insufficient cpu.", id="cpu"),
        pytest.param(
            "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {a: b}."
            " preemption: 0/3 nodes are available: 3 No preemption victims found.",
            ("nvidia.com/gpu",),
            "2 node(s) had untolerated taint {a: b}.",
            id="a device, and what the scheduler says of preemption is left out",
        ),
        pytest.param("0/1 nodes are available: 1 Too many pods.", ("pods",), "Too many pods.", id="room for pods"),
        pytest.param('persistentvolumeclaim "models" not found', (), '"models" not found', id="a claim"),
        pytest.param("", (), "no node was found", id="no words"),
    ],
)
def test_what_the_scheduler_says(message: str, lacks: tuple[str, ...], says: str) -> None:
    raw = pod(unschedulable(message))
    raw["spec"].pop("nodeName")
    seen = view(raw, "chat")
    assert seen.lacks == lacks
    assert seen.unschedulable.endswith(says)


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        pytest.param("chat-aaaaaaaa-0", ("aaaaaaaa", 0), id="a name that we give"),
        pytest.param("chat-aaaaaaaa-12", ("aaaaaaaa", 12), id="a higher slot"),
        pytest.param("chat-aaaaaaaa-012", (None, None), id="a slot that is spelled another way"),
        pytest.param("chat-AAAAAAAA-0", (None, None), id="no revision"),
        pytest.param("other-aaaaaaaa-0", (None, None), id="another deployment's name"),
        pytest.param("chat", (None, None), id="no parts"),
        pytest.param("", (None, None), id="no name"),
    ],
)
def test_revision_and_slot_come_from_the_name(name: str, identity: tuple[str | None, int | None]) -> None:
    seen = view(pod({}, name=name, labels={"modelfleet.dev/revision": "cccccccc"}), "chat")
    assert (seen.revision, seen.slot) == identity


def test_a_pod_that_is_being_deleted_is_not_ready_whatever_its_condition_says() -> None:
    seen = view(pod(READY, deletionTimestamp="2026-01-02T03:04:05Z"), "chat")
    assert seen.terminating
    assert not seen.ready


def test_what_a_pod_takes_of_its_node() -> None:
    raw = pod({})
    raw["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1500m", "memory": "1Gi", "gpu": 2, "odd": "much"}}
    assert view(raw, "chat").requests == {"cpu": 1.5, "memory": 1024.0**3, "gpu": 2.0, "odd": 0.0, "pods": 1.0}


def fetching(status: dict[str, Any]) -> dict[str, Any]:
    """A pod whose worker waits for the container that fetches."""
    return {
        "phase": "Pending",
        "initContainerStatuses": [{"name": "fetch", "restartCount": 0, **status}],
        "containerStatuses": [{"name": "worker", "state": {"waiting": {"reason": "PodInitializing"}}}],
    }


FULL = {"reason": "DiskFull", "message": "The volume has 1 GB free.", "remedy": "Give it more room."}


@pytest.mark.parametrize(
    ("status", "reason", "says"),
    [
        pytest.param({"state": {"running": {}}}, None, "", id="one that fetches has no failure"),
        pytest.param({"state": {"terminated": {"exitCode": 0}}}, None, "", id="one that is done has none"),
        pytest.param(
            {"state": {"terminated": ended(json.dumps(FULL))}},
            Reason.DISK_FULL,
            "The volume has 1 GB free; Give it more room",
            id="its own words",
        ),
        pytest.param(
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": ended(json.dumps(FULL))},
            },
            Reason.DISK_FULL,
            "The volume has 1 GB free; Give it more room",
            id="the same while it waits in back-off",
        ),
        pytest.param(
            {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "hub" not found'}}},
            Reason.CONTAINER_CONFIG_ERROR,
            'secret "hub" not found',
            id="a Secret that is missing",
        ),
    ],
)
def test_a_container_that_fetches_tells_why(status: dict[str, Any], reason: Reason | None, says: str):
    seen = view(pod(fetching(status)), "chat")
    failure = seen.failure
    assert (failure.reason if failure else None) == reason
    assert says in (failure.message if failure else "")
