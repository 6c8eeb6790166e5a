"""Effects: one after the other, but for what is created together."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from fake_cluster import FakeCluster
from modelfleet.controller.cluster import ApiError, Refused
from modelfleet.controller.execute import execute
from modelfleet.controller.resources import PODS
from modelfleet.controller.triggers import Key
from modelfleet.core.effects import Create, Lift

KEY = Key("default", "chat")


class SlowCluster(FakeCluster):
    """Every create and patch takes a while; how many run at a time is counted."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0

    async def create(self, manifest):
        async with self._slowly():
            return await super().create(manifest)

    async def merge(self, *args):
        async with self._slowly():
            return await super().merge(*args)

    @asynccontextmanager
    async def _slowly(self):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        try:
            yield
        finally:
            self.now -= 1


def make(kind, name):
    return Create(
        {
            "apiVersion": "apps/v1" if kind == "ControllerRevision" else "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
        }
    )


def pods(count):
    return [make("Pod", f"p{number}") for number in range(count)]


async def test_pods_that_follow_one_another_are_created_together():
    cluster = SlowCluster()
    done = await execute(cluster, KEY, pods(5))
    assert (cluster.most, done.writes) == (5, 5)


async def test_what_pods_need_is_there_before_the_first_pod():
    cluster = SlowCluster()
    await execute(
        cluster, KEY, [make("ControllerRevision", "a"), make("ConfigMap", "b"), make("Service", "c"), *pods(1)]
    )
    assert cluster.most == 2
    assert [name for _, _, name in cluster.writes] == ["a", "b", "c", "p0"]


async def test_pods_do_not_wait_for_their_service():
    cluster = SlowCluster()
    await execute(cluster, KEY, [make("ConfigMap", "a"), make("Service", "b"), *pods(2)])
    assert cluster.most == 3


async def test_gates_are_lifted_together_and_a_leader_s_after_those_of_its_group():
    cluster = SlowCluster()
    names = ["a-1", "a-2", "a", "b-1", "b", "c", "d"]
    for name in names:
        cluster.put(make("Pod", name).manifest)
    done = await execute(cluster, KEY, [Lift(name, {"spec": {}}, leads="-" not in name) for name in names])
    assert (cluster.most, done.writes) == (3, 7)
    written = [name for _, _, name in cluster.writes]
    assert all(written.index(f"{leader}-1") < written.index(leader) for leader in "ab")


async def test_without_what_pods_need_there_is_no_pod():
    cluster = SlowCluster()
    cluster.faults.append(fails("a", Refused("exceeded quota")))
    done = await execute(cluster, KEY, [make("ConfigMap", "a"), make("Service", "b"), *pods(1)])
    assert done.refused == "exceeded quota"
    assert cluster.writes == []


def fails(name, how):
    """A fault that hits the create of one object."""

    def fault(verb, kind, of):
        if of != name:
            return None
        if isinstance(how, Exception):
            raise how
        return how

    return fault


async def test_a_pod_that_is_refused_is_told_once_those_beside_it_are_done_and_ends_the_effects():
    cluster = SlowCluster()
    cluster.faults.append(fails("p1", Refused("exceeded quota")))
    done = await execute(cluster, KEY, [*pods(3), make("ConfigMap", "later")])
    assert (done.writes, done.refused) == (2, "exceeded quota")
    assert [name for _, _, name in cluster.writes] == ["p0", "p2"]


async def test_an_api_error_is_raised_only_when_no_write_is_under_way_any_more():
    cluster = SlowCluster()
    cluster.faults.append(fails("p0", ApiError("no answer")))
    with pytest.raises(ApiError):
        await execute(cluster, KEY, pods(3))
    assert cluster.now == 0
    assert len(await cluster.list(PODS, "default")) == 2


async def test_of_two_pods_whose_names_are_taken_the_first_is_told():
    cluster = SlowCluster()
    for name in ("p1", "p2"):
        cluster.put(make("Pod", name).manifest)
    done = await execute(cluster, KEY, pods(3))
    assert (done.writes, done.taken) == (1, ("Pod", "p1"))
