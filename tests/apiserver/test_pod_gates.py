"""What placement relies on at a real API server: a gated pod takes one pin together with its lifting, and no other."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from modelfleet.api import names
from modelfleet.controller import credentials
from modelfleet.controller.cluster import Conflict, KubernetesCluster, Refused, Written
from modelfleet.controller.execute import execute
from modelfleet.controller.resources import PODS
from modelfleet.controller.triggers import Key
from modelfleet.core.placement.project import pinned_node
from modelfleet.core.render.lift import gated, lift

OTHERS_GATE = "kueue.x-k8s.io/admission"
_ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
_TERMS = {"nodeSelectorTerms": [{"matchExpressions": [_ZONE]}, {"matchExpressions": [{**_ZONE, "values": ["b"]}]}]}


@pytest.fixture
async def cluster(kubeconfig: object) -> AsyncIterator[KubernetesCluster]:
    async with KubernetesCluster(await credentials.load(str(kubeconfig))) as real:
        yield real


@pytest.fixture
async def pod(cluster: KubernetesCluster, namespace: str) -> dict[str, Any]:
    """A gated pod as the server has it; somebody else has added a gate and two terms that it must run in."""
    rendered = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {
            "containers": [{"name": names.WORKER_CONTAINER, "image": "image"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _TERMS}},
        },
    }
    manifest = gated(rendered)
    manifest["spec"]["schedulingGates"].append({"name": OTHERS_GATE})
    result = await cluster.create(manifest)
    assert isinstance(result, Written), result
    return dict(result.object)


async def lifted(cluster: KubernetesCluster, pod: dict[str, Any], node: str = "node-a") -> Any:
    effect = lift(pod, node)
    return await cluster.merge(PODS, effect.name, pod["metadata"]["namespace"], effect.patch)


async def test_one_write_pins_every_term_and_takes_our_gate_and_leaves_the_others(cluster, pod):
    result = await lifted(cluster, pod)
    assert isinstance(result, Written)
    spec = result.object["spec"]
    assert [gate["name"] for gate in spec["schedulingGates"]] == [OTHERS_GATE]
    assert pinned_node(result.object) == "node-a"
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchExpressions"][0]["values"] for term in terms] == [["a"], ["b"]]


async def test_a_pinned_pod_cannot_be_pinned_elsewhere_and_its_gate_does_not_come_back(cluster, pod, namespace):
    result = await lifted(cluster, pod)
    stored = dict(result.object)
    required = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    for term in required["nodeSelectorTerms"]:
        term["matchFields"][0]["values"] = ["node-b"]
    assert isinstance(await cluster.merge(PODS, "chat", namespace, {"spec": stored["spec"]}), Refused)
    gates = {"spec": {"schedulingGates": [{"name": OTHERS_GATE}, {"name": names.PLACED_GATE}]}}
    assert isinstance(await cluster.merge(PODS, "chat", namespace, gates), Refused)


async def test_a_pod_without_terms_and_with_our_gate_alone_is_lifted_whole(cluster, namespace):
    rendered = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plain", "namespace": namespace},
        "spec": {"containers": [{"name": names.WORKER_CONTAINER, "image": "image"}]},
    }
    created = await cluster.create(gated(rendered))
    done = await execute(cluster, Key(namespace, "chat"), [lift(created.object, "node-a")])
    assert (done.writes, done.stale, done.refused) == (1, None, None)
    stored = await cluster.get(PODS, "plain", namespace)
    assert stored is not None
    assert "schedulingGates" not in stored["spec"]
    assert pinned_node(stored) == "node-a"


async def test_a_pod_that_changed_since_it_was_read_is_left_alone(cluster, pod, namespace):
    await cluster.merge(PODS, "chat", namespace, {"metadata": {"labels": {"a": "b"}}})
    assert isinstance(await lifted(cluster, pod), Conflict)


async def test_another_pod_of_the_same_name_is_left_alone(cluster, pod, namespace):
    other = {**pod, "metadata": {**pod["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    assert isinstance(await lifted(cluster, other), Conflict)


async def test_a_pod_that_is_gone_makes_the_world_stale(cluster, pod, namespace):
    await cluster.delete(PODS, "chat", namespace, pod["metadata"]["uid"])
    done = await execute(cluster, Key(namespace, "chat"), [lift(pod, "node-a")])
    assert done.writes == 0
    assert done.stale is not None
