"""What is kept of raw nodes and pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelfleet.api import names
from modelfleet.core.placement.project import NodeEntry, node_entry, pinned_node, pod_amounts, pod_entry
from modelfleet.core.placement.view import Taint

GPU = "nvidia.com/gpu"
READY = {
    "conditions": [{"type": "Ready", "status": "True"}],
    "allocatable": {"cpu": "7910m", "memory": "1000k", GPU: "8"},
}


def container(cpu: str, gpu: int = 0, **more: object):
    return {"resources": {"requests": {"cpu": cpu}, "limits": {GPU: str(gpu)} if gpu else {}}, **more}


def pinned(*terms: object):
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def term(name: str):
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}


@pytest.mark.parametrize(
    ("spec", "amounts"),
    [
        pytest.param(
            {"containers": [container("1.5", 2)]}, {"cpu": 1500, GPU: 2, "pods": 1}, id="a limit is a request"
        ),
        pytest.param({"containers": [container("1"), container("250m")]}, {"cpu": 1250, "pods": 1}, id="the sum"),
        pytest.param(
            {"initContainers": [container("3")], "containers": [container("1", 1)]},
            {"cpu": 3000, GPU: 1, "pods": 1},
            id="an init container that takes more",
        ),
        pytest.param(
            {
                "initContainers": [container("1", restartPolicy="Always"), container("3")],
                "containers": [container("2")],
            },
            {"cpu": 4000, "pods": 1},
            id="a sidecar runs beside a later init container",
        ),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "100m"}},
            {"cpu": 4100, "pods": 1},
            id="what the pod requests wins, and its overhead is added",
        ),
        pytest.param({"containers": [container("0.0001")]}, {"cpu": 1, "pods": 1}, id="a request is rounded up"),
        pytest.param({"containers": [container("a lot")]}, {"pods": 1}, id="what is no quantity counts nothing"),
    ],
)
def test_what_a_pod_takes(spec, amounts):
    assert pod_amounts({"spec": spec}) == amounts


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        pytest.param(pinned(term("n1")), "n1", id="one term"),
        pytest.param(pinned(term("n1"), term("n1")), "n1", id="every term names it"),
        pytest.param(pinned(term("n1"), term("n2")), "", id="two nodes"),
        pytest.param(pinned(term("n1"), {"matchExpressions": []}), "", id="a term that names none"),
        pytest.param({}, "", id="no affinity"),
    ],
)
def test_the_node_that_a_pod_is_pinned_to(spec, node):
    assert pinned_node({"spec": spec}) == node


def pod(phase: str = "Pending", **spec: object):
    owner = {"apiVersion": names.API_VERSION, "kind": names.DEPLOYMENT_KIND, "name": "chat", "controller": True}
    metadata = {"name": "chat-1", "namespace": "models", "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("seen", "holds"),
    [
        pytest.param(pod(), None, id="neither bound nor pinned"),
        pytest.param(pod(nodeName="n1"), ("n1", True), id="bound"),
        pytest.param(pod(**pinned(term("n1"))), ("n1", False), id="pinned, perhaps still gated"),
        pytest.param(pod("Running", nodeName="n2", **pinned(term("n1"))), ("n2", True), id="bound elsewhere"),
        pytest.param(pod("Succeeded", nodeName="n1"), None, id="ended"),
        pytest.param(pod("Failed", nodeName="n1"), None, id="failed"),
    ],
)
def test_which_pods_take_room(seen, holds):
    entry = pod_entry(seen)
    assert (entry and (entry.node, entry.bound)) == holds
    assert entry is None or entry.deployment == "models/chat"


def test_a_node_says_what_it_offers_rounded_down():
    taints = [
        {"key": "gpu", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ]
    raw = {"metadata": {"labels": {"zone": "a"}}, "spec": {"unschedulable": True, "taints": taints}, "status": READY}
    allocatable = {"cpu": 7910, "memory": 1_000_000, GPU: 8}
    assert node_entry(raw) == NodeEntry({"zone": "a"}, allocatable, True, True, (Taint("gpu", "", "NoSchedule"),))


def test_a_node_that_says_nothing_is_not_ready():
    assert node_entry({}) == NodeEntry({}, {}, False, False, ())


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["spec", "status", "x"]), inner),
)


@given(body=_ANY)
def test_no_shape_raises(body):
    node_entry(body), pod_entry(body)
