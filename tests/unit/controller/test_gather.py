"""What a snapshot shows beyond what lists by label show."""

import asyncio
from datetime import UTC, datetime
from math import inf
from typing import Any

from builders import Fleet, condition, manual
from fake_cluster import FakeCluster
from fake_placer import FakePlacer
from modelfleet.api import names
from modelfleet.controller.events import Recorder
from modelfleet.controller.gather import Gatherer
from modelfleet.controller.metrics.book import Book
from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.controller.resources import DEPLOYMENTS, PODS
from modelfleet.controller.shell import Parts, Shell
from modelfleet.controller.triggers import Key
from modelfleet.core.effects import Create
from modelfleet.core.placement.project import empty_node
from modelfleet.core.placement.view import ClusterView
from modelfleet.core.reconcile import plan
from modelfleet.core.snapshot import Settings
from modelfleet_worker.engine_counts import Cell
from planner_worlds import FACTS_8B, PlannedFleet, node, planned
from sampled import Sampled
from worker_pages import good

KEY = Key("default", "chat")


def now() -> datetime:
    """Stands still."""
    return datetime(2026, 1, 1, tzinfo=UTC)


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
    return cluster, Gatherer(cluster, Settings(worker_image="worker:1"), now)


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


class Listed(FakeCluster):
    """Notes what is listed."""

    def __init__(self) -> None:
        super().__init__()
        self.lists: list[str] = []

    async def list(self, resource, namespace=None, labels=None):
        self.lists.append(resource.plural)
        return await super().list(resource, namespace, labels)


def planning(facts: dict[str, Any] | None) -> tuple[Listed, Shell, FakePlacer]:
    """A reconcile of a model that is to be planned; without `facts` it is to be read first."""
    cluster, fleet = Listed(), PlannedFleet(planned(facts))
    for item in (fleet.deployment, *fleet.classes.values()):
        cluster.put({**item, "metadata": {**item["metadata"], **NAMESPACE.get(item["kind"], {})}})
    cluster.put({"apiVersion": "v1", "kind": "Node", **node("one")})
    gatherer = Gatherer(cluster, Settings(worker_image="worker:1"), now)
    books = FakePlacer(cluster)
    return cluster, Shell(Parts(cluster, gatherer, Recorder(cluster, "test", now), plan, now, placer=books)), books


async def test_a_reconcile_that_plans_asks_the_api_server_for_profiles_and_for_no_nodes():
    cluster, shell, _ = planning(FACTS_8B)
    await shell.reconcile(KEY)
    assert "modelprofiles" in cluster.lists
    assert "nodes" not in cluster.lists
    stored = await cluster.get(DEPLOYMENTS, "chat", "default")
    assert condition(stored["status"], "Planned")[:2] == ("True", "PlanPinned")


async def test_nothing_is_read_for_a_plan_while_what_the_model_is_made_of_is_not_known():
    cluster, shell, _ = planning(None)
    for _ in range(3):
        await shell.reconcile(KEY)
    assert not {"modelprofiles", "nodes"} & set(cluster.lists)


async def test_a_plan_waits_for_the_books_and_is_made_once_they_are_whole():
    cluster, shell, books = planning(FACTS_8B)
    books.unread = "the nodes of the cluster are not all read yet"
    await shell.reconcile(KEY)
    stored = await cluster.get(DEPLOYMENTS, "chat", "default")
    assert condition(stored["status"], "Planned")[:2] == ("Unknown", "NodesNotRead")
    assert KEY in books.waiting
    books.unread = ""
    await shell.reconcile(KEY)
    stored = await cluster.get(DEPLOYMENTS, "chat", "default")
    assert condition(stored["status"], "Planned")[:2] == ("True", "PlanPinned")


async def test_profiles_are_listed_only_where_a_plan_is_to_be_made():
    cluster, gatherer = bench()
    assert (await gatherer.gather(KEY)).inventory is None
    planned_fleet = PlannedFleet(planned())
    for item in (planned_fleet.deployment, *planned_fleet.classes.values()):
        cluster.put({**item, "metadata": {**item["metadata"], **NAMESPACE.get(item["kind"], {})}})
    world = await gatherer.gather(KEY)
    assert world.inventory is not None
    outcome = plan(world.showing(ClusterView(nodes=(empty_node(node("one")),)), ""))
    for effect in outcome.effects:
        if isinstance(effect, Create):
            metadata = {**effect.manifest["metadata"], "namespace": "default"}
            cluster.put({**effect.manifest, "metadata": metadata})
    assert (await gatherer.gather(KEY)).inventory is None


async def test_samples_follow_the_pods_that_are_listed_and_the_clock_of_figures_starts_when_they_change():
    clock = asyncio.get_running_loop().time
    book = Book(clock)
    cluster = FakeCluster()
    fleet = Fleet(deployment=manual(2))
    fleet.settle()
    owner = [{"uid": cluster.put(fleet.deployment)["metadata"]["uid"], "controller": True}]
    pods = [
        cluster.put({**pod, "metadata": {**pod["metadata"], "ownerReferences": owner}}) for pod in fleet.pods().values()
    ]
    gatherer = Gatherer(cluster, Settings(worker_image="worker:1"), now, book)
    key = Key("team", "chat")
    world = await gatherer.gather(key)
    assert (world.samples.pods, world.told_s, book.workers) == ({}, inf, ())
    for index, pod in enumerate(pods):
        cluster.put({**pod, "status": {"phase": "Running", "podIP": f"10.0.0.{index}"}})
    world = await gatherer.gather(key)
    assert sorted(world.samples.pods) == sorted(each.uid for each in book.workers)
    assert [each.host for each in book.workers] == ["10.0.0.0", "10.0.0.1"]
    status = {**fleet.deployment["status"], "goodput": {"window": "5m"}}
    cluster.put({**fleet.deployment, "status": status})
    assert (await gatherer.gather(key)).told_s < 60
    cluster.remove(DEPLOYMENTS, "chat", "team")
    assert await gatherer.gather(key) is None
    assert (book.workers, book.keys) == ((), ())


async def test_profiles_are_looked_at_where_steps_are_known_and_seldom():
    cluster, _ = bench()
    book = Book(asyncio.get_running_loop().time)
    settings = Settings(worker_image="worker:1", profiles_s=1000.0)
    gatherer = Gatherer(cluster, settings, now, book)
    one = pod("chat")
    owner = {"apiVersion": names.API_VERSION, "kind": names.DEPLOYMENT_KIND, "name": "chat", "controller": True}
    uid = (await cluster.get(DEPLOYMENTS, "chat", "default"))["metadata"]["uid"]
    labels = one["metadata"]["labels"] | {names.REVISION_LABEL: "1a2b3c4d", names.RANK_LABEL: "0"}
    one["metadata"] |= {"name": "chat-1a2b3c4d-0", "labels": labels, "ownerReferences": [owner | {"uid": uid}]}
    cluster.put(one)
    await cluster.merge(PODS, "chat-1a2b3c4d-0", "default", {"status": {"podIP": "10.0.0.1"}}, "status")
    assert (await gatherer.gather(KEY)).profiles is None
    (worker,) = book.workers
    page = Sampled().page(worker, good(1), cells={(3, 0): Cell(600, 6.0, 4200, 0)})
    assert book.take(worker, Exposition().found(page.text, steps=True), 0.0) is None
    looks = [(await gatherer.gather(KEY)).profiles for _ in range(3)]
    assert looks == [(), None, None]


async def test_an_object_that_was_made_again_under_the_same_name_begins_without_what_the_one_before_had():
    cluster, fleet = FakeCluster(), Fleet(deployment=manual(1))
    book = Book(asyncio.get_running_loop().time)
    gatherer = Gatherer(cluster, Settings(worker_image="worker:1"), now, book)
    fleet.settle()
    key, uid = Key("team", "chat"), cluster.put(fleet.deployment)["metadata"]["uid"]
    (pod,) = fleet.pods().values()
    metadata = {**pod["metadata"], "ownerReferences": [{"uid": uid, "controller": True}]}
    for _ in range(2):  # what is created has no status
        cluster.put({**pod, "metadata": metadata, "status": {"phase": "Running", "podIP": "10.0.0.1"}})
    await gatherer.gather(key)
    gatherer.was_refused(key, "no room in the quota")
    (one,) = book.workers
    sampled = Sampled()
    for count in (5, 50):
        assert book.take(one, Exposition().found(sampled.page(one, good(count)).text), 100.0 + count) is None

    cluster.remove(DEPLOYMENTS, "chat", "team")
    again = {**fleet.deployment, "metadata": {**fleet.deployment["metadata"], "uid": "another"}, "status": {}}
    cluster.put(again)
    world = await gatherer.gather(key)

    assert world.deployment["metadata"]["uid"] != uid
    assert (world.samples.pods, world.samples.gone, world.refused) == ({}, (), "")
