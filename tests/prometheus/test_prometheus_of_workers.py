"""Worker processes over the stand-in engine, read by the operator from themselves and from a Prometheus."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from real_prometheus import PageServer, RealPrometheus

from modelfleet.controller.metrics.book import Book
from modelfleet.controller.metrics.compare import Compare, by_prometheus
from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.controller.metrics.prometheus import Prometheus
from modelfleet.controller.metrics.sampler import Indirect
from modelfleet.controller.metrics.settings import Server
from modelfleet.controller.metrics.workers import Worker as Pod
from modelfleet.core.scaling.reading import Reading
from prometheus_cases import OURS, target
from sampled import KEY
from worker_process import NAME, Worker, in_pod, plan_of, running_worker, stand_in

pytestmark = pytest.mark.thorough
PROMISE = {
    "digest": "0123456789ab",
    "objectives": [{"name": "chat", "ttft_s": 1, "tpot_s": 1}, {"name": "strict", "ttft_s": 1e-6, "tpot_s": 1e-7}],
}
_LOAD_S = 20.0
PODS = [
    Pod(uid=f"0000000{index}-0000-4000-8000-000000000000", name=f"chat-{index}", revision="1a2b3c4d", host="127.0.0.1")
    for index in range(2)
]


@dataclass
class Fleet:
    """Two workers, and a Prometheus that scrapes them; it gives the second one labels that are called like ours."""

    workers: list[Worker]
    server: RealPrometheus

    @property
    def source(self) -> Prometheus:
        return Prometheus(Server(url=self.server.url))

    async def answer(self, of: int, objective: str = "chat") -> None:
        """One request, answered."""
        body = {"model": NAME, "prompt": "hello there", "max_tokens": 5, "ignore_eos": True}
        answer = await self.workers[of].api("/v1/completions", body, **{"x-modelfleet-objective": objective})
        assert answer.status == 200

    async def read(self, book: Book) -> None:
        """Each worker from itself."""
        for pod, one in zip(PODS, self.workers, strict=True):
            found = Exposition().found((await one.status("/metrics")).text)
            assert book.take(pod, found, asyncio.get_running_loop().time()) is None

    async def ask(self, book: Book) -> None:
        """All of them from Prometheus."""
        await Indirect(book, self.source, 0.0).round()


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    server = RealPrometheus(tmp_path, PageServer())
    async with AsyncExitStack() as stack:
        stack.enter_context(server.running())
        workers = [await stack.enter_async_context(_worker(tmp_path / pod.name, pod)) for pod in PODS]
        for one in workers:
            await one.until_ready()
        labels = [target(0), target(1, **dict.fromkeys(OURS, "of-the-target"))]
        server.tell(*((one.status_address, each) for one, each in zip(workers, labels, strict=True)))
        await server.has_scraped()
        yield Fleet(workers, server)


def _worker(folder: Path, pod: Pod):
    (folder / "worker").mkdir(parents=True)
    (folder / "worker" / "promise.json").write_text(json.dumps(PROMISE))
    return running_worker(folder, plan_of(stand_in(folder)), in_pod(folder, pod.name, pod.uid))


def followed() -> Book:
    book = Book(asyncio.get_running_loop().time)
    book.follow(KEY, PODS)
    return book


def last(book: Book) -> list[Reading]:
    """What is known of each pod, but for when it was read."""
    pods = book.samples(KEY).pods
    return [replace(pods[pod.uid].readings[-1], at_s=0.0) for pod in PODS]


async def readings_at_rest(fleet: Fleet) -> tuple[list[Reading], list[Reading]]:
    """By themselves and by Prometheus, of a moment at which nothing moves: the same was read before and after."""
    direct, indirect = followed(), followed()
    for _ in range(20):
        await fleet.read(direct)
        before = last(direct)
        await fleet.server.has_scraped()
        await fleet.ask(indirect)
        await fleet.read(direct)
        if last(direct) == before:
            return before, last(indirect)
    raise AssertionError("the workers do not come to rest")


async def test_both_ways_give_the_same_samples_of_workers_at_rest(fleet: Fleet):
    for of, objective, count in ((0, "chat", 5), (0, "strict", 2), (1, "chat", 3)):
        for _ in range(count):
            await fleet.answer(of, objective)
    direct, indirect = await readings_at_rest(fleet)
    assert indirect == direct
    for reading, arrivals in zip(indirect, ({"chat": 5, "strict": 2}, {"chat": 3, "strict": 0}), strict=True):
        (counts,) = reading.promises.values()
        assert {name: each.arrivals for name, each in counts.items()} == arrivals
        assert counts["chat"].ended.met == counts["chat"].ttft_s.count == arrivals["chat"]
        assert counts["chat"].output_tokens.sum == 5 * arrivals["chat"]
        assert (reading.state, reading.revision, reading.promise) == ("serving", "1a2b3c4d", "0123456789ab")
        assert reading.kv_total_tokens


async def test_under_load_what_prometheus_says_lies_between_what_workers_said_before_and_after(fleet: Fleet):
    book, loop = followed(), asyncio.get_running_loop()
    compare = Compare(book, lambda: by_prometheus(book, fleet.source))

    async def load(of: int) -> None:
        while True:
            await fleet.answer(of)

    clients = [asyncio.create_task(load(of)) for of in (0, 0, 1, 1)]
    try:
        until_s = loop.time() + _LOAD_S
        while loop.time() < until_s:
            await fleet.read(book)
            await compare.look()
            await asyncio.sleep(0.5)
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    counted = [reading.of("0123456789ab", "chat").arrivals for reading in last(book)]
    print(f"{compare.compared.agreed} comparisons while {counted} requests arrived")
    assert compare.compared.differed == 0
    assert compare.compared.agreed > 0
    assert min(counted) > 0


async def test_a_worker_that_was_killed_is_no_data_and_the_other_is_read_on(fleet: Fleet):
    book = followed()
    await fleet.ask(book)
    fleet.workers[0].kill()
    await fleet.workers[0].exit_code()
    await fleet.server.has_scraped()
    await fleet.ask(book)
    dead, alive = (book.samples(KEY).pods[pod.uid] for pod in PODS)
    assert (dead.failure, len(dead.readings)) == ("Prometheus has no series of it", 1), "what was read before ages"
    assert (alive.failure, len(alive.readings)) == (None, 2)
