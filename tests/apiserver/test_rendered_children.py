"""What core renders, on a real API server: accepted under restricted pod security, kept, put back when edited."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fleet import Fleet

from builders import SETTINGS, cluster_view, deployment, large_class, large_deployment, merged
from modelfleet.api import names
from modelfleet.controller import credentials
from modelfleet.controller.cluster import KubernetesCluster
from modelfleet.controller.execute import execute
from modelfleet.controller.gather import Gatherer
from modelfleet.controller.triggers import Key
from modelfleet.core.effects import Create, Effect, Lift
from modelfleet.core.reconcile import plan


class Hand:
    """Gathers, decides and executes by hand; no operator runs."""

    def __init__(self, cluster: KubernetesCluster, key: Key) -> None:
        self._cluster, self._key = cluster, key
        self._gatherer = Gatherer(cluster, SETTINGS, lambda: datetime.now(UTC))

    async def decide(self) -> tuple[Effect, ...]:
        world = await self._gatherer.gather(self._key)
        assert world is not None
        pods = {pod["metadata"]["name"]: pod for pod in world.pods}
        view = cluster_view({"kwok-0": 100, "kwok-1": 100}, pods, world.classes.values())
        return plan(replace(world, cluster=view)).effects

    async def reconcile(self) -> tuple[Effect, ...]:
        effects = await self.decide()
        done = await execute(self._cluster, self._key, effects)
        assert (done.taken, done.stale, done.refused) == (None, None, None)
        return effects

    async def settle(self) -> None:
        """Until nothing is to do: what was made gated is lifted."""
        for _ in range(5):
            if not await self.reconcile():
                return
        raise AssertionError(await self.decide())


@pytest.fixture
async def real(api_server: Any) -> AsyncIterator[KubernetesCluster]:
    async with KubernetesCluster(await credentials.load(str(api_server.kubeconfig))) as cluster:
        yield cluster


@pytest.fixture
def restricted(fleet: Fleet) -> Fleet:
    """The namespace refuses pods that are not restricted."""
    fleet.kubectl("label", "namespace", fleet.namespace, "pod-security.kubernetes.io/enforce=restricted")
    return fleet


def named(fleet: Fleet, of: dict[str, Any]) -> dict[str, Any]:
    """`of` in the test's namespace with the test's class; the API server gives uid and generation."""
    metadata = {"namespace": fleet.namespace, "uid": None, "generation": None}
    return dict(merged(of, {"metadata": metadata, "spec": {"accelerators": {"classes": [fleet.class_name]}}}))


FETCHED = deployment(
    model={
        "source": "hf://org/model@0123456789abcdef0123456789abcdef01234567",
        "endpoint": "https://hub.example.com",
        "credentialsSecretRef": {"name": "hub-token"},
        "cache": {"claimName": "weights"},
    }
)


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(deployment(), id="small"),
        pytest.param(large_deployment(), id="large"),
        pytest.param(FETCHED, id="fetched"),
    ],
)
async def test_the_api_server_takes_every_child_and_adds_nothing_that_reads_as_drift(
    restricted: Fleet, real: KubernetesCluster, of: dict[str, Any]
) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1}
    restricted.kubectl("apply", "-f-", stdin=json.dumps(high))
    restricted.create_class(**large_class()["spec"])
    restricted.apply(named(restricted, of))
    hand = Hand(real, Key(restricted.namespace, of["metadata"]["name"]))
    made = await hand.reconcile()
    kinds = sorted(effect.manifest["kind"] for effect in made if isinstance(effect, Create))
    assert kinds == ["ConfigMap", "ConfigMap", "ControllerRevision", "Pod", "PodDisruptionBudget", "Service"]
    lifted = await hand.reconcile()
    assert [type(effect) for effect in lifted] == [Lift]
    assert await hand.decide() == ()


@pytest.fixture
async def hand(restricted: Fleet, real: KubernetesCluster) -> Hand:
    """A ModelDeployment `chat` whose children exist."""
    restricted.create_class()
    restricted.apply(named(restricted, deployment()))
    made = Hand(real, Key(restricted.namespace, "chat"))
    await made.settle()
    return made


PORT = {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param("service", {"spec": {"selector": {"more": "than-ours"}}}, id="a selector with one more key"),
        pytest.param("service", {"spec": {"type": "NodePort"}}, id="another type"),
        pytest.param(
            "service", {"spec": {"type": "ExternalName", "externalName": "a.example"}}, id="a type without pods"
        ),
        pytest.param("service", {"spec": {"sessionAffinity": "ClientIP"}}, id="session affinity"),
        pytest.param("service", {"spec": {"publishNotReadyAddresses": True}}, id="pods that are not Ready"),
        pytest.param("service", {"spec": {"ports": [{**PORT, "targetPort": 9999}]}}, id="another target port"),
        pytest.param("service", {"spec": {"ports": [{**PORT, "port": 81}]}}, id="another port under the same name"),
        pytest.param("service", {"spec": {"ports": [PORT, {**PORT, "name": "b", "port": 81}]}}, id="one port more"),
        pytest.param("service", {"metadata": {"labels": {names.MANAGED_BY_LABEL: "me"}}}, id="a Service's label"),
        pytest.param(
            "controllerrevision", {"metadata": {"labels": {names.REVISION_LABEL: None}}}, id="a revision's label"
        ),
        pytest.param("configmap", {"metadata": {"labels": {names.REVISION_LABEL: "x"}}}, id="a plan's label"),
        pytest.param("pod", {"metadata": {"labels": {names.SERVING_LABEL: "no"}}}, id="the serving label"),
        pytest.param("pod", {"metadata": {"labels": {names.REPLICA_LABEL: None}}}, id="a pod's label that is gone"),
        pytest.param("pod", {"spec": {"containers": [{"name": "worker", "image": "other:1"}]}}, id="a pod's image"),
    ],
)
async def test_an_edit_is_put_back_in_one_reconcile_and_stays_so(
    restricted: Fleet, hand: Hand, kind: str, patch: dict[str, Any]
) -> None:
    label = f"--selector={names.DEPLOYMENT_LABEL}=chat"
    name, *_ = restricted.kubectl("get", kind, label, "--output=name").split()
    how = "strategic" if kind == "pod" else "merge"
    restricted.kubectl("patch", name, f"--type={how}", f"--patch={json.dumps(patch)}")
    assert await hand.reconcile()
    assert await hand.decide() == ()


async def test_a_spec_that_is_set_back_makes_its_old_revision_the_newest(restricted: Fleet, hand: Hand) -> None:
    odd = {"env": [{"name": "VLLM_LOGGING_LEVEL", "value": "<&é>"}]}  # characters that JSON writers spell differently
    for engine in (odd, {"image": "other:1"}, odd):
        restricted.apply(named(restricted, deployment(engine=engine)))
        await hand.settle()
    revisions = restricted.children("controllerrevisions")
    assert sorted(item["revision"] for item in revisions) == [1, 3, 4]
    newest = max(revisions, key=lambda item: item["revision"])
    assert newest["data"]["plan"]["engineEnv"] == {"VLLM_LOGGING_LEVEL": "<&é>"}
    assert await hand.decide() == ()
