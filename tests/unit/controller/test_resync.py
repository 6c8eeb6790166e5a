"""Everything is looked at again: at once at a start, then each key at its own moment; on virtual time."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from builders import deployment
from fake_cluster import FakeCluster
from modelfleet.controller.cluster import ApiError
from modelfleet.controller.queue import Backoff, Done, Result, WorkQueue
from modelfleet.controller.resources import DEPLOYMENTS, Resource
from modelfleet.controller.resync import Resync
from modelfleet.controller.triggers import Key

pytestmark = pytest.mark.looptime(start=0)

INTERVAL_S, MODELS = 600.0, 200


class Listed(FakeCluster):
    """Some models of a namespace. Lists fail while `down`."""

    def __init__(self, models: int = MODELS) -> None:
        super().__init__("team")
        self.down, self.lists = False, 0
        for number in range(models):
            self.put({**deployment(f"m{number}"), "metadata": {"name": f"m{number}", "namespace": "team"}})

    async def list(self, resource: Resource, namespace: str | None = None, labels: str | None = None) -> Any:
        self.lists += 1
        if self.down:
            raise ApiError("list modeldeployments: HTTP 503", status=503)
        return await super().list(resource, namespace, labels)


class Looks:
    """A resync at work. `at`: when each key was looked at."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(Backoff(lambda: 0.0))
        self.resync = Resync(cluster, self.queue, INTERVAL_S)
        self.at: list[tuple[float, Key]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Looks":
        self._tasks = [asyncio.create_task(self.queue.work(self._look)), asyncio.create_task(self.resync.run())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look(self, key: Key) -> Result:
        self.at.append((asyncio.get_running_loop().time(), key))
        return Done()


async def test_at_a_start_everything_is_looked_at_at_once():
    async with Looks(Listed()) as looks:
        assert not looks.resync.has_listed
        await asyncio.sleep(1)
        assert looks.resync.has_listed
        assert len({key for _, key in looks.at}) == MODELS


async def test_after_that_each_key_has_its_own_moment_of_every_interval():
    async with Looks(Listed()) as looks:
        await asyncio.sleep(INTERVAL_S)
        looks.at.clear()
        await asyncio.sleep(2 * INTERVAL_S)
        rounds = [[each for each in looks.at if round_ <= each[0] // INTERVAL_S < round_ + 1] for round_ in (1, 2)]
    assert [len({key for _, key in each}) for each in rounds] == [MODELS, MODELS]
    assert {key: round(at - INTERVAL_S) for at, key in rounds[1]} == {key: round(at) for at, key in rounds[0]}
    most = max(Counter(int(at // 10) for at, _ in looks.at).values())
    assert most <= 12, "3.3 in ten seconds if all were equally far from each other"


async def test_what_users_change_does_not_wait_for_the_first_round():
    cluster, began = Listed(), []
    queue: WorkQueue[Key] = WorkQueue(Backoff(lambda: 0.0))
    resync = asyncio.create_task(Resync(cluster, queue, INTERVAL_S).run())

    async def look(key: Key) -> Result:
        began.append(key)
        await asyncio.sleep(1.0)
        return Done()

    working = asyncio.create_task(queue.work(look))
    await asyncio.sleep(10)
    queue.add(Key("team", "changed"))
    await asyncio.sleep(2)
    working.cancel()
    resync.cancel()
    await asyncio.gather(working, resync, return_exceptions=True)
    assert Key("team", "changed") in began


async def test_one_that_is_gone_without_an_event_is_looked_at_too_and_a_new_one():
    cluster = Listed(1)
    async with Looks(cluster) as looks:
        await asyncio.sleep(INTERVAL_S / 2)
        cluster.remove(DEPLOYMENTS, "m0", "team")
        cluster.put({**deployment("new"), "metadata": {"name": "new", "namespace": "team"}})
        looks.at.clear()
        await asyncio.sleep(1.5 * INTERVAL_S + 1)
    assert {key.name for _, key in looks.at} == {"m0", "new"}


async def test_a_list_that_failed_is_asked_for_again_and_the_round_is_not_lost():
    cluster = Listed()
    cluster.down = True
    async with Looks(cluster) as looks:
        await asyncio.sleep(21)
        assert (cluster.lists, looks.resync.has_listed, looks.at) == (5, False, [])
        cluster.down = False
        await asyncio.sleep(6)
        assert len(looks.at) == MODELS
