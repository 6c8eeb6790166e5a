"""The operator is killed before and after each of its API calls, and twice: the end is the same as without."""

import asyncio
import itertools
import pickle
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from crash_story import KEY, Fate, Guard, live, objects, picture, pod_moves

from builders import accelerator_class, manual
from fake_cluster import FakeCluster
from modelfleet.api import names
from modelfleet.controller.resources import CONFIG_MAPS, DEPLOYMENTS, PODS, SERVICES

Change = Callable[[FakeCluster], Awaitable[object]]


def spec(**fields: Any) -> Change:
    """A user's change of the spec."""
    return lambda cluster: cluster.merge(DEPLOYMENTS, KEY.name, KEY.namespace, {"spec": fields})


def replicas(count: int) -> dict[str, Any]:
    return {"scaling": {"replicas": count}}


async def create(cluster: FakeCluster, count: int = 2) -> None:
    manifest = manual(count)
    for own in ("uid", "generation"):
        del manifest["metadata"][own]
    await cluster.create(manifest)


async def delete(cluster: FakeCluster) -> None:
    cluster.remove(DEPLOYMENTS, KEY.name, KEY.namespace)


async def delete_and_create(cluster: FakeCluster) -> None:
    await delete(cluster)
    await create(cluster, 1)


async def lose_children(cluster: FakeCluster) -> None:
    """Somebody deletes the Service and the plan."""
    cluster.remove(SERVICES, KEY.name, KEY.namespace)
    plan, _ = sorted(objects(cluster, "configmaps"), key=lambda one: str(one["metadata"]["name"]))
    cluster.remove(CONFIG_MAPS, plan["metadata"]["name"], KEY.namespace)


async def create_group(cluster: FakeCluster, count: int = 1) -> None:
    """Replicas of two pods on two nodes each; a node holds one."""
    manifest = manual(count, parallelism={"tensor": 1, "pipeline": 2})
    for own in ("uid", "generation"):
        del manifest["metadata"][own]
    await cluster.create(manifest)


async def lose_a_rank(cluster: FakeCluster) -> None:
    """A follower's pod is gone."""
    follower = next(pod for pod in objects(cluster, "pods") if pod["metadata"]["labels"][names.RANK_LABEL] == "1")
    cluster.remove(PODS, follower["metadata"]["name"], KEY.namespace)


async def lose_a_leader(cluster: FakeCluster) -> None:
    """A leader's pod is gone."""
    cluster.remove(PODS, objects(cluster, "pods")[0]["metadata"]["name"], KEY.namespace)


def node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"modelfleet.dev/accelerator": "cpu"}},
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "20", "modelfleet.dev/cpu": "1"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@dataclass(frozen=True)
class Scene:
    """A change to a fleet of `before` replicas (None: there is none yet) and what holds all the while. `grouped`: a
    replica is two pods on two nodes, and there are four."""

    change: Change
    before: int | None = 2
    floor: int = 2
    ceiling: int = 2
    plans: int = 1
    grouped: bool = False


SCENES = {
    "created": Scene(create, before=None, floor=0),
    "changed without a new plan": Scene(spec(scaling={"maxReplicas": 9})),
    "scaled up": Scene(spec(**replicas(4)), ceiling=4),
    "scaled down": Scene(spec(**replicas(1)), before=3, floor=1, ceiling=3),
    "rolled out": Scene(spec(engine={"image": "image:2"}), plans=2),
    "rolled out and scaled down": Scene(
        spec(engine={"image": "image:2"}, **replicas(1)), before=3, floor=1, ceiling=3, plans=2
    ),
    "robbed of its children": Scene(lose_children),
    "deleted": Scene(delete, floor=0),
    "deleted and created again": Scene(delete_and_create, floor=0),
    "created as groups": Scene(lambda cluster: create_group(cluster, 2), before=None, floor=0, grouped=True),
    "a group without a follower": Scene(lose_a_rank, before=1, floor=0, ceiling=1, grouped=True),
    "a group without its leader": Scene(lose_a_leader, before=1, floor=0, ceiling=1, grouped=True),
    "groups rolled out": Scene(spec(engine={"image": "image:2"}), before=1, floor=1, ceiling=1, plans=2, grouped=True),
}


FEWER = [name for name in SCENES if name not in ("a group without its leader", "groups rolled out")]
"""For two faults and for lost answers: without those that take long and differ little from another scene."""


def run(story: Awaitable[Any]) -> Any:
    """Runs a story in virtual time: nothing waits."""
    return Timeless().run(story)


class Timeless:
    """An event loop whose clock jumps to whatever is due next."""

    def run(self, story: Awaitable[Any]) -> Any:
        loop = asyncio.new_event_loop()
        jumped = 0.0
        select = loop._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None) -> Any:
            nonlocal jumped
            jumped += timeout or 0.0
            return select(0)

        loop._selector.select = jump  # type: ignore[attr-defined]
        loop.time = lambda: jumped  # type: ignore[method-assign]
        try:
            return loop.run_until_complete(story)
        finally:
            loop.close()


async def begun(scene: Scene) -> FakeCluster:
    """The cluster at rest before the change."""
    cluster = FakeCluster(KEY.namespace)
    cluster.put(accelerator_class(acceleratorsPerNode=1) if scene.grouped else accelerator_class())
    for name in ("one", "two", "three", "four") if scene.grouped else ():
        cluster.put(node(name))
    if scene.before is not None:
        await (create_group if scene.grouped else create)(cluster, scene.before)
        await live(cluster, Fate(), Guard(cluster, 0, scene.before, 1, 1 + scene.grouped))
    cluster.writes.clear()
    return cluster


async def changed(start: FakeCluster, scene: Scene, fate: Fate) -> tuple[FakeCluster, int]:
    """The cluster at rest after the change, and how often the operator died."""
    cluster = pickle.loads(pickle.dumps(start))  # several times as fast as a deep copy
    await scene.change(cluster)
    deaths = await live(cluster, fate, Guard(cluster, scene.floor, scene.ceiling, scene.plans, 1 + scene.grouped))
    return cluster, deaths


@pytest.fixture(params=SCENES)
def scene(request):
    return SCENES[request.param]


@pytest.fixture
def start(scene):
    return run(begun(scene))


def told(start, scene, fate):
    cluster, deaths = run(changed(start, scene, fate))
    return picture(cluster), pod_moves(cluster), deaths


def boundaries(start, scene, *, writes_only):
    """How many there are, and what comes of the change if nothing happens."""
    fate = Fate(writes_only=writes_only)
    undisturbed = told(start, scene, fate)[:2]
    return fate.passed, undisturbed


def test_killed_once_anywhere_it_ends_as_if_it_had_not_been(start, scene, thorough):
    # Between two writes the cluster is the same at every read, so a normal run dies at writes only.
    count, undisturbed = boundaries(start, scene, writes_only=not thorough)
    for here in range(count):
        fate = Fate(frozenset({here}), writes_only=not thorough)
        assert told(start, scene, fate) == (*undisturbed, 1), f"killed at boundary {here} of {count}"


@pytest.mark.parametrize("scene", FEWER, indirect=True)
def test_killed_at_two_of_its_writes_it_ends_as_if_it_had_not_been(start, scene, thorough):
    count, undisturbed = boundaries(start, scene, writes_only=True)
    pairs = list(itertools.combinations(range(count), 2))
    chosen = pairs if thorough else random.Random(4).sample(pairs, min(25, len(pairs)))
    twice = 0
    for pair in chosen:
        *end, deaths = told(start, scene, Fate(frozenset(pair), writes_only=True))
        assert tuple(end) == undisturbed, f"killed at write boundaries {pair} of {count}"
        twice += deaths == 2  # what a kill saves (a status that was to be written first) the second comes too late for
    assert twice >= 0.8 * len(chosen)


@pytest.mark.parametrize("scene", FEWER, indirect=True)
def test_a_request_or_an_answer_that_is_lost_anywhere_changes_nothing_in_the_end(start, scene, thorough):
    count, undisturbed = boundaries(start, scene, writes_only=not thorough)
    for here in range(count):
        end = told(start, scene, Fate(cuts=frozenset({here}), writes_only=not thorough))
        assert end == (*undisturbed, 0), f"lost at boundary {here} of {count}"
