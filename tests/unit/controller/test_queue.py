"""The work queue on virtual time: an hour of back-off runs in milliseconds."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from modelfleet.controller.queue import Backoff, Done, Forget, Result, Retry, WorkQueue

pytestmark = pytest.mark.looptime(start=0)


class Runs:
    """A reconcile that records when each key ran, takes `lasts_s`, and answers from a script (then Done)."""

    def __init__(self, *answers: Result, lasts_s: float = 0.0) -> None:
        self.answers, self.lasts_s = list(answers), lasts_s
        self.at: list[tuple[float, str]] = []
        self.now_running = self.most_running = 0

    async def __call__(self, key: str) -> Result:
        self.at.append((round(asyncio.get_running_loop().time(), 3), key))
        self.now_running += 1
        self.most_running = max(self.most_running, self.now_running)
        try:
            await asyncio.sleep(self.lasts_s)
        finally:
            self.now_running -= 1
        return self.answers.pop(0) if self.answers else Done()

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.at]


def new_queue(jitter: Callable[[], float] = lambda: 0.999999, **settings: float) -> WorkQueue[str]:
    return WorkQueue(Backoff(jitter, first_s=1.0, most_s=8.0), **settings)


@asynccontextmanager
async def working(queue: WorkQueue[str], runs: Runs, workers: int = 1) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(queue.work(runs)) for _ in range(workers)]
    try:
        yield
    finally:
        queue.close()
        await asyncio.gather(*tasks)


async def test_many_adds_of_one_key_are_one_run_after_the_debounce_time():
    queue, runs = new_queue(), Runs()
    async with working(queue, runs):
        for _ in range(1000):
            queue.add("a")
        await asyncio.sleep(10)
    assert runs.at == [(0.2, "a")]


async def test_an_earlier_wish_replaces_a_later_one_and_not_the_other_way_round():
    queue, runs = new_queue(), Runs()
    async with working(queue, runs):
        queue.add("a", 100)
        queue.add("a", 5)
        queue.add("a", 50)
        await asyncio.sleep(200)
    assert runs.at == [(5, "a")]


async def test_keys_run_in_the_order_in_which_they_are_due():
    queue, runs = new_queue(), Runs()
    async with working(queue, runs):
        for key, after_s in (("c", 3), ("a", 1), ("b", 2)):
            queue.add(key, after_s)
        await asyncio.sleep(10)
    assert runs.at == [(1, "a"), (2, "b"), (3, "c")]


async def test_a_key_added_while_it_runs_runs_again_afterwards_and_never_beside_itself():
    queue, runs = new_queue(), Runs(lasts_s=3.0)
    async with working(queue, runs, workers=4):
        queue.add("a", 0)
        await asyncio.sleep(1)
        queue.add("a")
        queue.add("a")
        await asyncio.sleep(10)
    assert runs.times == [0, 3]
    assert runs.most_running == 1


async def test_no_more_keys_run_at_a_time_than_there_are_workers():
    queue, runs = new_queue(), Runs(lasts_s=1.0)
    async with working(queue, runs, workers=2):
        for key in "abcde":
            queue.add(key, 0)
        await asyncio.sleep(10)
    assert runs.most_running == 2
    assert runs.times == [0, 0, 1, 1, 2]


async def test_a_run_that_asks_to_be_woken_is_woken():
    queue, runs = new_queue(), Runs(Done(60.0), Done(3600.0))
    async with working(queue, runs):
        queue.add("a", 0)
        await asyncio.sleep(5000)
    assert runs.times == [0, 60, 3660]


async def test_failures_back_off_twice_as_long_each_time_up_to_the_bound():
    queue, runs = new_queue(), Runs(*[Retry()] * 6)
    async with working(queue, runs):
        queue.add("a", 0)
        await asyncio.sleep(100)
    assert runs.times == pytest.approx([0, 1, 3, 7, 15, 23, 31], abs=0.01)


async def test_a_success_starts_the_back_off_anew():
    queue, runs = new_queue(), Runs(Retry(), Retry(), Done(1.0), Retry(), Done())
    async with working(queue, runs):
        queue.add("a", 0)
        await asyncio.sleep(100)
    assert runs.times == pytest.approx([0, 1, 3, 4, 5], abs=0.01)


async def test_the_server_s_wish_to_be_left_alone_is_longer_than_the_back_off():
    queue, runs = new_queue(), Runs(Retry(not_before_s=30.0))
    async with working(queue, runs):
        queue.add("a", 0)
        await asyncio.sleep(100)
    assert runs.times == [0, 30]


async def test_an_event_beats_the_back_off():
    queue, runs = new_queue(), Runs(*[Retry()] * 5)
    async with working(queue, runs):
        queue.add("a", 0)
        await asyncio.sleep(8)  # failed at 0, 1, 3 and 7; the next is due at 15
        queue.add("a")
        await asyncio.sleep(1)
    assert runs.times == pytest.approx([0, 1, 3, 7, 8.2], abs=0.01)


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
def test_jitter_stays_between_half_and_the_whole_of_the_delay(jitter):
    backoff = Backoff(lambda: jitter, first_s=1.0, most_s=100.0)
    assert [backoff.delay_s(n) for n in (1, 2, 3)] == [f * (0.5 + jitter / 2) for f in (1, 2, 4)]


def test_the_thousandth_failure_waits_no_longer_than_the_bound():
    assert Backoff(lambda: 1.0, first_s=0.5, most_s=300.0).delay_s(1000) == 300.0


async def test_a_run_past_its_deadline_is_ended_and_tried_again():
    queue, runs = new_queue(deadline_s=5.0), Runs(lasts_s=60.0)
    async with working(queue, runs):
        queue.add("a", 0)
        await asyncio.sleep(7)
        runs.lasts_s = 0.0
    assert runs.times == pytest.approx([0, 6], abs=0.01)


async def test_a_forgotten_key_is_not_known_any_more():
    queue, runs = new_queue(), Runs(Forget(), Done())
    async with working(queue, runs):
        queue.add("gone", 0)
        queue.add("here", 0)
        await asyncio.sleep(1)
        known = queue.keys
        for key in known:
            queue.add(key)
        await asyncio.sleep(1)
    assert known == ("here",)
    assert [key for _, key in runs.at] == ["gone", "here", "here"]


async def test_a_key_that_came_back_while_it_was_forgotten_stays_known():
    queue, runs = new_queue(), Runs(Forget(), Done(), lasts_s=1.0)
    async with working(queue, runs):
        queue.add("a", 0)
        await asyncio.sleep(0.5)
        queue.add("a")
        await asyncio.sleep(10)
        assert queue.keys == ("a",)
    assert runs.times == [0, 1]


async def test_close_lets_a_running_reconcile_finish_and_starts_no_other():
    queue, runs = new_queue(), Runs(lasts_s=5.0)
    async with working(queue, runs):
        queue.add("a", 0)
        queue.add("b", 0)
        await asyncio.sleep(1)
    assert runs.at == [(0, "a")]
    assert asyncio.get_running_loop().time() == 5


async def test_depth_and_age_tell_of_keys_that_wait_for_a_worker():
    queue, runs = new_queue(), Runs(lasts_s=30.0)
    assert (queue.depth, queue.oldest_key_age_s) == (0, 0.0)
    async with working(queue, runs):
        queue.add("runs", 0)
        queue.add("waits", 1)
        queue.add("later", 1000)
        await asyncio.sleep(11)
        assert (queue.depth, queue.oldest_key_age_s) == (1, 11.0)


async def test_fifty_thousand_adds_of_fifty_keys_are_fifty_runs():
    queue, runs = new_queue(), Runs()
    async with working(queue, runs, workers=8):
        for n in range(50_000):
            queue.add(str(n % 50))
        await asyncio.sleep(10)
    assert sorted(key for _, key in runs.at) == sorted(str(n) for n in range(50))


async def test_a_retry_may_bound_its_own_back_off_and_what_the_server_asked_for_beats_it():
    queue, runs = new_queue(), Runs(*[Retry(most_s=3.0)] * 5, Retry(not_before_s=6.0, most_s=3.0))
    async with working(queue, runs):
        queue.add("a", 0)
        await asyncio.sleep(60)
    assert runs.times == [0, 1, 3, 6, 9, 12, 18]
