"""What goes ahead of what in the work queue, and when it works no more: on virtual time."""

import asyncio

import pytest
from test_queue import Runs, new_queue, working

from modelfleet.controller.queue import Done, Result, Retry, WorkQueue, _Line

pytestmark = pytest.mark.looptime(start=0)

FLEET = [f"model-{number}" for number in range(1000)]
STUCK_S = 120.0


def look_at_all(queue: WorkQueue[str]) -> None:
    for key in FLEET:
        queue.add(key, behind=True)


async def test_a_change_waits_for_one_run_and_not_for_a_round_of_the_whole_fleet():
    queue, runs = new_queue(), Runs(lasts_s=0.8)
    async with working(queue, runs, workers=16):
        look_at_all(queue)
        await asyncio.sleep(5)
        queue.add("user")
        await asyncio.sleep(60)
    (began,) = [at for at, key in runs.at if key == "user"]
    assert began <= 5 + 0.2 + 0.8
    assert len(runs.at) == 1 + len(FLEET)


async def test_a_change_of_a_key_that_waits_to_be_looked_at_is_one_run_ahead():
    queue, runs = new_queue(), Runs(lasts_s=1.0)
    async with working(queue, runs):
        look_at_all(queue)
        await asyncio.sleep(5)
        queue.add(FLEET[-1])
        queue.add(FLEET[-1], behind=True)
        depth = queue.depth
        await asyncio.sleep(1001)
    assert depth == len(FLEET) - 5
    assert [at for at, key in runs.at if key == FLEET[-1]] == [5.2]


async def test_under_changes_without_end_every_fourth_run_is_of_a_key_that_is_only_looked_at_again():
    queue, runs = new_queue(), Runs(lasts_s=1.0)
    async with working(queue, runs):
        for number in range(100):
            queue.add(f"changed-{number}", 0)
        for key in FLEET:
            queue.add(key, 0, behind=True)
        await asyncio.sleep(12)
    assert [key[:5] for _, key in runs.at[:12]] == ["chang", "chang", "chang", "model"] * 3


async def test_a_key_that_is_looked_at_again_has_its_moment_and_no_other_is_waited_for():
    queue, runs = new_queue(), Runs()
    async with working(queue, runs):
        queue.add("later", 50)
        queue.add("again", 10, behind=True)
        await asyncio.sleep(100)
    assert runs.at == [(10, "again"), (50, "later")]


class Failing(Runs):
    """Fails for one key, once."""

    async def __call__(self, key: str) -> Result:
        await super().__call__(key)
        failed_before = [each for _, each in self.at].count(key) > 1
        return Retry() if key == "fails" and not failed_before else Done()


@pytest.mark.parametrize(
    ("behind", "change", "then"),
    [
        pytest.param(True, False, ["other", "fails"], id="a look that failed is made again behind a change"),
        pytest.param(False, False, ["fails", "other"], id="a change that could not be made has its turn by its time"),
        pytest.param(True, True, ["fails", "other"], id="so has one that came just before a look"),
    ],
)
async def test_what_failed_keeps_its_rank(behind, change, then):
    queue, runs = new_queue(), Failing()
    async with working(queue, runs):
        queue.add("fails", 0, behind=behind)
        if change:
            queue.add("fails")
        await asyncio.sleep(0.5)
        runs.lasts_s = 1.0  # who is due at 1 s waits until 1.5 s, and the other comes in between
        queue.add("first", 0)
        await asyncio.sleep(0.6)
        queue.add("other", 0)
        await asyncio.sleep(10)
    assert [key for _, key in runs.at] == ["fails", "first", *then]


def test_wishes_that_stand_no_longer_are_not_remembered():
    """A timer of a day that each run sets anew, ten runs a second."""
    line = _Line[str]()
    for number in range(5000):
        line.due.pop("chat", None)
        line.wish("chat", 86_400.0 + number)
    assert len(line._heap) < 100
    assert line.head(()) == (86_400.0 + 4999, "chat")


async def test_a_backlog_is_no_standstill_however_long_a_round_takes():
    queue, runs = new_queue(), Runs(lasts_s=50.0)
    async with working(queue, runs, workers=16):
        look_at_all(queue)
        said = set()
        for _ in range(300):
            await asyncio.sleep(10)
            said.add(queue.standstill(STUCK_S))
        age_s = queue.oldest_key_age_s
        runs.lasts_s = 0.0
        await asyncio.sleep(60)
    assert said == {None}
    assert age_s > 2900, "the gauge tells it"


async def test_keys_that_are_due_while_no_run_ends_are_a_standstill():
    queue = new_queue()
    await asyncio.sleep(1000)
    queue.add("a", 60)
    await asyncio.sleep(60 + STUCK_S - 1)
    early = queue.standstill(STUCK_S)
    await asyncio.sleep(2)
    assert (early, queue.standstill(STUCK_S)) == (None, "keys are due and no reconcile has ended for too long")
    async with working(queue, Runs()):
        await asyncio.sleep(1)
        assert queue.standstill(STUCK_S) is None


async def test_one_run_that_its_deadline_does_not_end_is_a_standstill_though_others_run():
    queue, runs, released = new_queue(deadline_s=60.0), Runs(lasts_s=1.0), asyncio.Event()

    async def reconcile(key: str) -> Result:
        while key == "deaf" and not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return await runs(key)

    workers = [asyncio.create_task(queue.work(reconcile)) for _ in range(2)]
    queue.add("deaf", 0)
    look_at_all(queue)
    await asyncio.sleep(59)
    early = queue.standstill(STUCK_S)
    await asyncio.sleep(2)
    assert (early, queue.standstill(STUCK_S)) == (None, "a reconcile goes on past its deadline")
    released.set()
    await asyncio.sleep(2)
    assert queue.standstill(STUCK_S) is None
    queue.close()
    await asyncio.gather(*workers)


async def test_runs_that_all_end_by_their_deadline_are_no_standstill():
    queue, runs = new_queue(deadline_s=60.0), Runs(lasts_s=1e6)
    workers = [asyncio.create_task(queue.work(runs)) for _ in range(2)]
    look_at_all(queue)
    said = set()
    for _ in range(99):
        await asyncio.sleep(7)
        said.add(queue.standstill(STUCK_S))
    for each in workers:
        each.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    assert said == {None}
