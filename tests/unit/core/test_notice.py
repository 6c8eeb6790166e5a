"""A node that is about to be taken away gives its pods no more time than its supply said."""

from dataclasses import replace

import pytest

from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.core.effects import Delete
from modelfleet.core.groups import alone
from modelfleet.core.notice import within_notice
from modelfleet.core.plan import Plan
from modelfleet.core.pods import view
from unit.core.placement.sites import GPU, cluster, node

OTHER = Delete("v1", "ConfigMap", "old", "uid-2")


def kind(notice: str | None) -> AcceleratorClass:
    supply = {"name": "spot", "nodeSelector": {"pool": "spot"}} | ({"noticePeriod": notice} if notice else {})
    spec = {"nodeSelector": {"gpu": "h100"}, "resourceName": GPU, "acceleratorsPerNode": 8, "supplies": [supply]}
    return AcceleratorClass.model_validate({"metadata": {"name": "h100"}, "spec": spec})


PLAN = Plan.model_validate(
    {
        "image": "worker:1",
        "imagePullPolicy": "IfNotPresent",
        "className": "h100",
        "device": "Cuda",
        "tensor": 1,
        "resourceName": GPU,
        "accelerators": 1,
        "sharedMemory": "1Gi",
        "claim": "models",
        "path": "chat",
        "servedNames": ["chat"],
        "limits": {"startDeadline_s": 60, "drain_s": 300, "propagation_s": 5},
    }
)


@pytest.mark.parametrize(
    ("notice", "labels", "cordoned", "grace_s"),
    [
        pytest.param("2m", {"pool": "spot"}, True, 120, id="the notice is shorter than the pod's own time"),
        pytest.param("1500ms", {"pool": "spot"}, True, 2, id="rounded up"),
        pytest.param("1h", {"pool": "spot"}, True, None, id="the pod's own time is shorter"),
        pytest.param(None, {"pool": "spot"}, True, None, id="a supply without a notice"),
        pytest.param("2m", {"pool": "own"}, True, None, id="a node of nobody's supply"),
        pytest.param("2m", {"pool": "spot"}, False, None, id="a node that stays"),
    ],
)
def test_a_deletion_is_bounded(notice, labels, cordoned, grace_s):
    raw = {"metadata": {"name": "chat-1a2b3c4d-0", "uid": "uid-1"}, "spec": {"nodeName": "n1"}}
    pod = view(raw, "chat")
    gone = Delete("v1", "Pod", pod.name, pod.uid)
    there = cluster(node("n1", labels=labels, cordoned=cordoned))
    effects = within_notice([gone, OTHER], [alone(pod)], {"1a2b3c4d": PLAN}, {"h100": kind(notice)}, there)
    assert effects == (replace(gone, grace_s=grace_s), OTHER)


def test_nothing_is_bounded_while_the_nodes_are_not_known():
    assert within_notice([OTHER], [], {}, {}, None) == (OTHER,)
