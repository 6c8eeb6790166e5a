"""What a snapshot shows beyond what lists by label show."""

from datetime import UTC, datetime

from fake_cluster import FakeCluster
from modelfleet.api import names
from modelfleet.controller.gather import Gatherer
from modelfleet.controller.resources import PODS
from modelfleet.controller.triggers import Key
from modelfleet.core.effects import Create
from modelfleet.core.reconcile import plan
from modelfleet.core.snapshot import Settings
from planner_worlds import PlannedFleet, node, planned

KEY = Key("default", "chat")
NAMESPACE = {"ModelDeployment": {"namespace": "default"}}


def pod(label: str):
    metadata = {"name": "chat-1", "namespace": "default", "labels": {names.DEPLOYMENT_LABEL: label}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}


def bench():
    cluster = FakeCluster()
    cluster.put(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.DEPLOYMENT_KIND,
            "metadata": {"name": "chat", "namespace": "default"},
            "spec": {},
        }
    )
    cluster.put(pod("chat"))
    return cluster, Gatherer(cluster, Settings(worker_image="worker:1"), lambda: datetime(2026, 1, 1, tzinfo=UTC))


async def test_a_pod_whose_label_was_edited_is_still_seen():
    cluster, gatherer = bench()
    assert [one["metadata"]["name"] for one in (await gatherer.gather(KEY)).pods] == ["chat-1"]
    cluster.put(pod("other"))
    for _ in range(2):
        world = await gatherer.gather(KEY)
        assert (world.pods, list(world.taken)) == ((), [("Pod", "chat-1")])
    cluster.put(pod("chat"))
    assert (await gatherer.gather(KEY)).taken == {}


async def test_a_pod_that_is_gone_is_looked_for_once():
    cluster, gatherer = bench()
    await gatherer.gather(KEY)
    cluster.remove(PODS, "chat-1", "default")
    assert (await gatherer.gather(KEY)).taken == {}


async def test_nodes_and_profiles_are_listed_only_where_a_plan_is_to_be_made():
    cluster, gatherer = bench()
    assert (await gatherer.gather(KEY)).inventory is None
    planned_fleet = PlannedFleet(planned())
    for item in (planned_fleet.deployment, *planned_fleet.classes.values()):
        cluster.put({**item, "metadata": {**item["metadata"], **NAMESPACE.get(item["kind"], {})}})
    cluster.put({"apiVersion": "v1", "kind": "Node", **node("one")})
    world = await gatherer.gather(KEY)
    assert world.inventory is not None
    assert [one["metadata"]["name"] for one in world.inventory.nodes] == ["one"]
    outcome = plan(world)
    for effect in outcome.effects:
        if isinstance(effect, Create):
            metadata = {**effect.manifest["metadata"], "namespace": "default"}
            cluster.put({**effect.manifest, "metadata": metadata})
    assert (await gatherer.gather(KEY)).inventory is None
