"""What pods, revisions and statuses look like when things go well, badly, or were written by somebody else."""

import json
from random import Random
from typing import Any

from fuzz_mutations import ODD_TEXT
from fuzz_values import TIMES, instance

from builders import READY, running, unschedulable, waiting
from modelfleet.api.reasons import Reason
from modelfleet.api.status import ModelDeploymentStatus

Raw = dict[str, Any]

_WAITING = (
    "ContainerCreating",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
    "SomethingNew",
)
_SCHEDULER = (
    "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available.",
    "0/1 nodes are available: 1 Insufficient cpu, 1 Too many pods.",
    "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
    'persistentvolumeclaim "models" not found',
    "",
)


def pod_status(rng: Random) -> Raw:
    """A pod's status in one of the states that a kubelet and a scheduler report."""
    kind = rng.randrange(9)
    if kind <= 1:
        return json.loads(json.dumps(READY))  # type: ignore[no-any-return]
    if kind == 2:
        return waiting(rng.choice(_WAITING), _words(rng), rng.randrange(9), rng.choice((None, _ended(rng))))
    if kind == 3:
        return running(rng.randrange(9), rng.choice((None, _ended(rng))))
    if kind == 4:
        said = unschedulable(rng.choice(_SCHEDULER))
        said["conditions"][0]["lastTransitionTime"] = rng.choice(TIMES)
        return said
    if kind == 5:
        return {"phase": rng.choice(("Failed", "Succeeded")), "reason": _reason(rng), "message": _words(rng)}
    if kind == 6:
        return {"phase": "Pending", "conditions": [_gate(rng)]}
    if kind == 7:
        return {"phase": rng.choice(("Unknown", "", "Pending", "Running"))}
    return {}


def leaving(rng: Random, pod: Raw) -> None:
    """Somebody deleted it, and it may be held."""
    pod["metadata"]["deletionTimestamp"] = rng.choice(TIMES)
    pod["metadata"]["deletionGracePeriodSeconds"] = rng.choice((0, 30, 335))
    if rng.random() < 0.3:
        pod["metadata"]["finalizers"] = ["example.com/held"]


def foreign_status(rng: Random) -> Raw:
    """A status that fits the schema and that we did not write."""
    status = instance(rng, ModelDeploymentStatus)
    for told in status.get("conditions", ()):
        if rng.random() < 0.5:
            told["reason"] = rng.choice([str(reason) for reason in Reason])
    return json.loads(json.dumps(status))  # type: ignore[no-any-return]


def managed_fields(rng: Random) -> list[Raw]:
    """Owners of fields as the server lists them: other scalers, other editors of a pod's image."""
    image = {"f:spec": {"f:containers": {'k:{"name":"worker"}': {"f:image": {}}}}}
    replicas = {"f:spec": {"f:scaling": {"f:replicas": {}}}}
    entries = (
        {"manager": "kubectl-edit", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": image},
        {"manager": "modelfleet", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": image},
        {"manager": "hpa", "operation": "Update", "subresource": "scale", "fieldsV1": replicas},
        {"manager": "x" * 128, "operation": "Update", "fieldsV1": {}},
    )
    return [json.loads(json.dumps(rng.choice(entries))) for _ in range(rng.randrange(4))]


def _reason(rng: Random) -> str:
    return rng.choice(("Evicted", "NodeLost", "UnexpectedAdmissionError", "OutOfcpu", "Terminated", ""))


def _gate(rng: Random) -> Raw:
    reason = rng.choice(("SchedulingGated", "Unschedulable", "SchedulerError"))
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": rng.choice(_SCHEDULER)}


def _ended(rng: Random) -> Raw:
    note = {"reason": str(rng.choice(list(Reason))), "message": _words(rng), "remedy": _words(rng), "exitCode": 1}
    said = rng.choice((json.dumps(note), json.dumps(note)[:-5], _words(rng), "[]", "{}", "null"))
    return {
        "exitCode": rng.choice((0, 1, 137, 139, 255, 2**31 - 1)),
        "reason": rng.choice(("Error", "OOMKilled", "Completed", "StartError", "ContainerStatusUnknown")),
        "message": said,
        "finishedAt": rng.choice(TIMES),
        **({"signal": 9} if rng.random() < 0.2 else {}),
    }


def _words(rng: Random) -> str:
    return rng.choice((*ODD_TEXT, 'Back-off pulling image "x": ErrImagePull: not found', "out of memory. ", "x" * 3000))
