"""When workers are read, whom it wakes, and how two sources are compared. Time is the event loop's, and jumps."""

import asyncio
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

import pytest

from modelfleet.controller.metrics.book import Book
from modelfleet.controller.metrics.compare import EVERY_S, Compare
from modelfleet.controller.metrics.sampler import WAKE_S, Direct, Waker
from modelfleet.controller.metrics.scrape import CONNECTIONS, UnreadError
from modelfleet.controller.metrics.workers import Worker, workers
from modelfleet.controller.triggers import Key
from modelfleet.core.scaling.page import reading
from modelfleet.core.scaling.samples import Samples
from modelfleet.core.scaling.stirs import busy, mark
from sampled import KEY, Sampled, worker
from worker_pages import good

pytestmark = pytest.mark.looptime(start=1000)


@dataclass
class Pages:
    """Pages that take `takes_s`; `open` are being read, `most` were at once. Those of slots in `answer` can be read."""

    takes_s: float = 0.0
    answer: Container[int] = ()
    began: list[tuple[float, str]] = field(default_factory=list)
    open: int = 0
    most: int = 0

    async def text(self, worker: Worker) -> str:
        self.began.append((asyncio.get_running_loop().time(), worker.uid))
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(self.takes_s)
        self.open -= 1
        if int(worker.uid.removeprefix("uid-")) not in self.answer:
            raise UnreadError("it is a test")
        return _text(worker)


@cache
def _text(worker: Worker) -> str:
    return Sampled().page(worker, good(1)).text


def book_of(count: int) -> Book:
    book = Book(asyncio.get_running_loop().time)
    book.follow(KEY, [worker(index) for index in range(count)])
    return book


async def run_for(seconds: float, *work) -> None:
    tasks = [asyncio.create_task(each) for each in work]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_each_worker_is_read_once_an_interval_at_a_place_of_its_own():
    pages = Pages(answer=range(40))
    await run_for(29.9, Direct(book_of(40), pages, 5.0).run())
    times: dict[str, list[float]] = {}
    for at_s, uid in pages.began:
        times.setdefault(uid, []).append(at_s)
    assert {len(each) for each in times.values()} == {6}
    assert all(b - a == pytest.approx(5.0) for each in times.values() for a, b in pairwise(each))
    within = sorted((each[0] - 1000) / 5.0 for each in times.values())
    assert within[0] < 0.1
    assert within[-1] > 0.7
    assert max(b - a for a, b in pairwise(within)) < 0.25


async def test_more_than_can_be_read_in_an_interval_get_a_longer_one():
    pages = Pages()
    await run_for(14.9, Direct(book_of(5000), pages, 2.0).run())
    assert Counter(int(at_s - 1000) // 5 for at_s, _ in pages.began) == {0: 5000, 1: 5000, 2: 5000}


def pauses(pages: Pages, uid: str = "uid-0") -> list[int]:
    """The seconds between the looks at a pod."""
    return [round(b - a) for a, b in pairwise(at_s for at_s, each in pages.began if each == uid)]


async def test_one_that_goes_on_failing_is_read_less_often_until_it_answers():
    pages = Pages()
    reading_it = asyncio.create_task(Direct(book_of(1), pages, 5.0).run())
    await asyncio.sleep(149)
    failing = pauses(pages)
    assert failing[:4] == [5, 5, 5, 10]
    assert set(failing[5:]) == {20}
    pages.answer = (0,)
    await asyncio.sleep(60)
    reading_it.cancel()
    assert set(pauses(pages)[-6:]) == {5}


async def test_those_that_fail_together_are_not_read_together():
    pages = Pages()
    await run_for(200, Direct(book_of(400), pages, 5.0).run())
    rounds = Counter(int(at_s - 1000) // 5 for at_s, _ in pages.began)
    assert {rounds[number] for number in range(4)} == {400}
    assert max(rounds[number] for number in range(12, 40)) < 150


async def test_one_that_was_read_before_is_missed_and_one_that_gets_ready_is_read_at_once():
    pages, book = Pages(answer=(0,)), book_of(2)
    reading_them = asyncio.create_task(Direct(book, pages, 5.0).run())
    await asyncio.sleep(30)
    pages.answer = ()
    await asyncio.sleep(100)
    assert set(pauses(pages)) == {5, 10}
    assert max(pauses(pages, "uid-1")) == 20
    looked = [at_s for at_s, uid in pages.began if uid == "uid-1"][-1]
    await asyncio.sleep(looked + 20 - asyncio.get_running_loop().time())  # it is read then, and left alone
    await asyncio.sleep(3)
    book.follow(KEY, [worker(0), replace(worker(1), ready=False)])
    await asyncio.sleep(10)
    reading_them.cancel()
    assert pauses(pages, "uid-1")[-1] == 10  # the round after the next: that had begun


async def test_no_pause_is_longer_than_twenty_seconds_or_an_interval():
    pages = Pages()
    await run_for(1000, Direct(book_of(1), pages, 60.0).run())
    assert set(pauses(pages)) == {60}


async def test_never_more_are_read_at_a_time_than_there_are_connections():
    pages = Pages(takes_s=4.0)
    await Direct(book_of(600), pages, 0.0).round()
    assert (len(pages.began), pages.most) == (600, CONNECTIONS)


async def test_workers_that_hang_do_not_keep_others_from_being_read():
    pages, book = Pages(takes_s=4.0, answer=range(10)), book_of(20)
    await run_for(60, Direct(book, pages, 5.0).run())
    counts = Counter(uid for _, uid in pages.began)
    assert min(counts[f"uid-{slot}"] for slot in range(10)) >= 6


async def test_workers_that_cannot_be_read_are_told_in_one_line_a_minute(caplog):
    caplog.set_level("INFO")
    await run_for(130, Direct(book_of(50), Pages(), 5.0).run())
    lines = [record.getMessage() for record in caplog.records if "could not be read" in record.getMessage()]
    assert len(lines) == 3
    assert lines[0].startswith("50 of 50 workers could not be read, the first chat-1a2b3c4d-")
    assert lines[0].endswith(": it is a test")


async def test_a_bug_that_one_page_meets_is_told_of_that_pod_and_ends_nothing():
    class Broken:
        async def text(self, worker: Worker) -> str:
            raise RuntimeError("it is a test")

    book = book_of(3)
    direct = Direct(book, Broken(), 0.0)
    await direct.round()
    failures = {pod.failure for pod in book.samples(KEY).pods.values()}
    assert (failures, direct.tally.failed) == ({"reading its page met a bug (RuntimeError)"}, 3)


@dataclass
class Triggers:
    woken: list[tuple[float, Key]] = field(default_factory=list)

    def add(self, key: Key, *, behind: bool = False) -> None:
        assert behind, "nothing changed but figures"
        self.woken.append((asyncio.get_running_loop().time(), key))


async def test_a_busy_model_is_woken_every_quarter_of_a_minute_and_an_idle_one_never():
    book, triggers = book_of(1), Triggers()
    idle = Key("team", "idle")
    book.follow(idle, ())
    await run_for(61, Waker(book, triggers, lambda key: key == KEY).run())
    assert [round(at_s - 1000) for at_s, key in triggers.woken if key == KEY] == [1, 16, 31, 46]
    assert {key for _, key in triggers.woken} == {KEY}
    assert WAKE_S == 15


async def test_an_idle_model_is_asked_every_quarter_of_a_minute_and_a_thousand_never_at_once():
    book, asked = Book(asyncio.get_running_loop().time), []
    for index in range(1000):
        book.follow(Key("team", f"m{index}"), ())

    def stirs(key: Key) -> bool:
        asked.append((asyncio.get_running_loop().time(), key))
        return False

    await run_for(60.5, Waker(book, Triggers(), stirs).run())
    counts = Counter(key for _, key in asked)
    assert {counts[key] for key in book.keys} == {4}
    assert max(Counter(at_s for at_s, _ in asked).values()) <= 100


async def test_a_model_that_stirred_once_is_woken_though_it_was_not_its_turn():
    book, triggers, asked = Book(asyncio.get_running_loop().time), Triggers(), set()
    for index in range(50):
        book.follow(Key("team", f"m{index}"), ())

    def stirs(key: Key) -> bool:
        first = key not in asked
        asked.add(key)
        return first

    await run_for(10.5, Waker(book, triggers, stirs).run())
    assert sorted(key for _, key in triggers.woken) == sorted(book.keys)


async def test_a_model_that_is_gone_is_woken_no_more_and_nothing_is_known_of_it():
    sampled, triggers = Sampled().follow(worker()), Triggers()
    sampled.over(10, [good(5), good(6)])
    sampled.now_s += 400
    assert [sampled.book.stirs(KEY) for _ in range(2)] == [True, False]
    waker = Waker(sampled.book, triggers, lambda _: True)
    sampled.book.forget(KEY)
    assert (waker.step(1.0), sampled.book.stirs(KEY)) == ((), False)
    sampled.book.follow(KEY, ())
    assert sampled.book.stirs(KEY), "the next of this name is looked at"


async def test_three_hundred_busy_models_take_turns_and_none_starves():
    book, triggers = Book(asyncio.get_running_loop().time), Triggers()
    for index in range(300):
        book.follow(Key("team", f"m{index}"), ())
    await run_for(60.5, Waker(book, triggers, lambda _: True).run())
    counts = {key: sum(each == key for _, each in triggers.woken) for key in set(book.keys)}
    assert set(counts.values()) == {2}


def test_traffic_and_starts_stir_a_model_and_quiet_does_not():
    sampled = Sampled().follow(worker())
    assert not busy(sampled.samples)
    sampled.over(10, [good(5), good(5)])
    assert not busy(sampled.samples), "what was counted before we looked is not traffic"
    sampled.now_s += 5
    sampled.read(good(6))
    assert busy(sampled.samples)
    before = mark(sampled.samples)
    sampled.now_s += 400
    assert (busy(sampled.samples), mark(sampled.samples) != before) == (False, True)
    sampled.read(good(6), state="starting")
    assert busy(sampled.samples)


async def test_readings_of_the_other_source_are_compared_once_they_lie_between_two():
    sampled = Sampled(now_s=asyncio.get_running_loop().time()).follow(worker())

    def now() -> float:
        sampled.now_s = asyncio.get_running_loop().time()
        return sampled.now_s

    arrivals = iter((150, 900))

    async def other():
        page = sampled.page(worker(), good(next(arrivals))).text
        return [(worker(), reading(sampled.exposition.found(page), "uid-0", now()))]

    compare = Compare(sampled.book, other)
    for count in (100, 200, 300):
        now()
        sampled.read(good(count))
        await asyncio.sleep(EVERY_S / 2)
        if count < 300:
            await compare.look()
        await asyncio.sleep(EVERY_S / 2)
    compare.judge()
    assert (compare.compared.agreed, compare.compared.differed) == (1, 1)


def pod(**changes):
    raw = {
        "metadata": {
            "name": "chat-1a2b3c4d-0",
            "namespace": "team",
            "uid": "u",
            "labels": {},
            "ownerReferences": [{"uid": "uid-of-chat", "controller": True}],
        },
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }
    for path, value in changes.items():
        part, _, name = path.partition("__")
        raw[part][name] = value
    return raw


@pytest.mark.parametrize(
    ("changes", "hosts"),
    [
        pytest.param({}, ["10.0.0.1"], id="a worker"),
        pytest.param({"status__podIP": "fd00::1"}, ["[fd00::1]"], id="an IPv6 address"),
        pytest.param({"status__podIP": ""}, [], id="no address yet"),
        pytest.param({"status__phase": "Failed"}, [], id="it has ended"),
        pytest.param({"metadata__name": "chat-1a2b3c4d-0-1"}, [], id="another rank of a replica"),
        pytest.param({"metadata__name": "chat-inspect-x"}, [], id="no worker"),
        pytest.param({"metadata__ownerReferences": []}, [], id="a pod of somebody else under such a name"),
    ],
)
def test_only_leaders_of_our_own_with_an_address_are_read(changes, hosts):
    assert [each.host for each in workers([pod(**changes)], "chat", "uid-of-chat")] == hosts


def test_a_model_that_is_not_followed_has_samples_without_pods():
    assert Sampled().samples == Samples(at_s=1000.0)
