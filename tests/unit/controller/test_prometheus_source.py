"""Prometheus as the source of samples: it and the workers themselves give the same samples."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import prometheus_cases
from fake_prometheus import FakePrometheus
from modelfleet.controller.metrics.prometheus import Prometheus
from modelfleet.controller.metrics.queries import PART, QUERY, STEPS_QUERY, WHO_QUERY, selectors
from modelfleet.controller.metrics.sampler import Indirect
from modelfleet.controller.metrics.scrape import UnreadError
from modelfleet.controller.metrics.settings import Server
from modelfleet_worker.engine_counts import Cell
from prometheus_cases import CASES, found, page, target
from sampled import KEY, Sampled, worker
from worker_pages import good

TARGETS = [target(index) for index in range(3)]


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
async def test_what_holds_of_a_real_prometheus_holds_of_the_fake(case):
    fake = FakePrometheus()
    async with fake.served():
        await case(fake)


async def ask(fake: FakePrometheus, sampled: Sampled) -> None:
    """One round against it."""
    async with fake.served():
        await prometheus_cases.ask(fake, sampled)


async def test_one_query_asks_for_the_whole_fleet():
    sampled, fake = Sampled().follow(*map(worker, range(3))), FakePrometheus()
    fake.pages = [(TARGETS[i], sampled.page(worker(i), good(i)).text, fake.now) for i in range(3)]
    await ask(fake, sampled)
    assert len(fake.queries) == 1
    assert all(len(pod.readings) == 1 for pod in sampled.book.samples(KEY).pods.values())


async def test_a_large_fleet_is_asked_for_in_parts_as_of_one_moment_each_when_the_one_before_was_read():
    count = 2 * PART + 1
    fake = FakePrometheus(pages=[(target(index), page(index % 5).text, 1_799_999_999.0) for index in range(count)])
    asked, read = [], []
    async with fake.served() as url:
        async for some in Prometheus(Server(url=url)).pages({f"uid-{index}" for index in range(count)}):
            asked.append(len(fake.queries))
            read.append(len(some))
    assert asked == [1, 2, 3, 4]
    assert read == [0, PART, PART, 1]
    assert fake.queries[0] == WHO_QUERY
    assert fake.times == ["", *["1800000000.0"] * 3]


@pytest.mark.parametrize(
    ("refuses", "read", "asked"),
    [
        pytest.param({4}, 2 * PART, 4, id="the last part"),
        pytest.param({2}, PART + 5, 4, id="one before others"),
        pytest.param({2, 3}, 0, 3, id="two in a row, so it is the server"),
    ],
)
async def test_what_is_answered_counts_and_those_of_a_refused_part_say_why(refuses: set[int], read: int, asked: int):
    count = 2 * PART + 5
    sampled, fake = Sampled().follow(*map(worker, range(count))), FakePrometheus(refuses=refuses, refusal="too much")
    await fake.scrape(*((target(index), page(index).text) for index in range(count)))
    await ask(fake, sampled)
    failures = Counter(pod.failure for pod in sampled.book.samples(KEY).pods.values())
    why = "Prometheus refuses the query: HTTP Status Code 422 (b'too much')"
    assert (failures[None], failures[why], len(fake.queries)) == (read, count - read, asked)


async def test_of_two_targets_of_a_worker_the_newer_counts_in_whichever_part_it_comes():
    for old, new in ((0, 1), (1, 0)):
        sampled, fake = Sampled().follow(*map(worker, range(PART + 1))), FakePrometheus()
        ages = {old: (5, 9.0), new: (6, 2.0)}
        twice = [(target(at * 900), page(0, ages[at][0]).text, fake.now - ages[at][1]) for at in (0, 1)]
        others = [(target(100 + index), page(index).text, fake.now) for index in range(1, PART + 1)]
        fake.pages = [*twice, *others]
        await ask(fake, sampled)
        last = sampled.book.samples(KEY).pods["uid-0"].readings[-1]
        assert next(iter(last.promises.values()))["interactive"].arrivals == 6
        assert len(fake.queries) == 3


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([{}, {}], [""], id="nothing tells them apart"),
        pytest.param([{"a": "1.2", "b": "x"}, {"a": "3", "b": "x"}], ['a=~"1\\\\.2|3"'], id="what differs most"),
        pytest.param([{"a": "é", "an.other": "x"}, {"an.other": "y"}], ['a=~"|é"'], id="a label that one lacks"),
        pytest.param(
            [{"node": f"n{index % 2}"} for index in range(PART + 2)],
            ['node=~"n0"', 'node=~"n1"'],
            id="those that nothing tells apart stay together",
        ),
    ],
)
def test_targets_are_asked_for_by_what_tells_most_of_them_apart(targets: list[dict[str, str]], expected: list[str]):
    assert list(selectors(targets)) == expected


async def pages_of(fake: FakePrometheus, server: dict | None = None):
    async with fake.served() as url:
        return await found(Prometheus(Server(url=url, **(server or {}))))


_TIMED_OUT = '{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}'


@pytest.mark.parametrize(
    ("status", "refusal", "why"),
    [
        pytest.param(503, _TIMED_OUT, "query timed out in expression evaluation", id="its own words"),
        pytest.param(403, "who are you?", "HTTP Status Code 403 (b'who are you?')", id="what stands before it"),
        pytest.param(302, "", "HTTP Status Code 302 (b'')", id="a redirect"),
    ],
)
async def test_a_refusal_is_no_data_for_every_worker_and_says_why(status: int, refusal: str, why: str):
    sampled, fake = Sampled().follow(worker()), FakePrometheus(status=status, refusal=refusal)
    await ask(fake, sampled)
    assert sampled.book.samples(KEY).pods["uid-0"].failure == f"Prometheus refuses the query: {why}"


async def test_a_worker_that_prometheus_does_not_know_is_no_data():
    sampled = Sampled().follow(worker())
    await ask(FakePrometheus(), sampled)
    assert sampled.book.samples(KEY).pods["uid-0"].failure == "Prometheus has no series of it"


@asynccontextmanager
async def dripping(part: bytes, pause_s: float, headers: bytes) -> AsyncIterator[str]:
    """An address that answers with `headers`, and then with `part` again and again."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + headers + b"\r\n")
            while True:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause_s)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


CHUNKED, LONG = b"Transfer-Encoding: chunked\r\n", b"Content-Length: 99999999999\r\n"


@pytest.mark.parametrize(
    ("part", "headers"),
    [
        pytest.param(b"x" * 65536, LONG, id="that has no end"),
        pytest.param(b"1000\r\n%s\r\n" % (b"x" * 4096), CHUNKED, id="in chunks without end"),
    ],
)
async def test_an_answer_is_given_up(part: bytes, headers: bytes):
    async with dripping(part, 0, headers) as url:
        with pytest.raises(UnreadError, match=r"^what Prometheus answers has more than 1 MiB$"):
            await found(Prometheus(Server(url=url), most_bytes=1 << 20))


@pytest.mark.parametrize(
    ("part", "headers"),
    [pytest.param(b"x", LONG, id="byte by byte"), pytest.param(b"1\r\nx\r\n", CHUNKED, id="chunk by chunk")],
)
async def test_an_answer_that_drips_is_given_up(part: bytes, headers: bytes):
    async with dripping(part, 0.05, headers) as url:
        with pytest.raises(UnreadError, match=r"^what Prometheus answers does not end within 0\.3 s$"):
            await found(Prometheus(Server(url=url), ends_s=0.3))


async def test_an_answer_that_is_cut_is_a_sentence_and_the_next_is_read():
    fake = FakePrometheus()
    async with dripping(b"", 60, b"Content-Length: 50\r\n") as url:
        source = Prometheus(Server(url=url))
        with pytest.raises(UnreadError, match="cannot be asked"):
            await asyncio.wait_for(_cut(source), 5)
    async with fake.served() as url:
        assert await found(Prometheus(Server(url=url))) == []


async def _cut(source: Prometheus) -> None:
    source._connect._timeout = 0.2
    await found(source)


async def test_series_of_several_workers_that_came_as_one_target_are_of_neither():
    """A Prometheus whose rules drop what tells its targets apart."""
    sampled, fake = Sampled().follow(worker(0), worker(1)), FakePrometheus()
    one = {"job": "workers"}
    fake.pages = [(one, sampled.page(worker(i), good(i)).text, fake.now) for i in range(2)]
    await ask(fake, sampled)
    pods = sampled.book.samples(KEY).pods.values()
    assert {(pod.failure, pod.readings) for pod in pods} == {("its page names 2 pods, and a page is of one", ())}


async def test_a_page_of_which_a_series_is_missing_is_no_data_and_counts_nothing_twice():
    """As of a store behind it that answers in part."""
    sampled, fake = Sampled().follow(worker()), FakePrometheus()
    for count, lost in ((900, ""), (910, 'outcome="met"'), (920, "")):
        text = sampled.page(worker(), good(count)).text
        kept = "".join(line for line in text.splitlines(keepends=True) if not lost or lost not in line)
        fake.now += 5
        await fake.scrape((TARGETS[0], kept))
        await ask(fake, sampled)
        failure = sampled.book.samples(KEY).pods["uid-0"].failure
        assert (failure is not None) is bool(lost)
        sampled.now_s += 5
    first, last = sampled.book.samples(KEY).pods["uid-0"].readings
    arrivals = [next(iter(each.promises.values()))["interactive"].arrivals for each in (first, last)]
    assert arrivals == [900, 920]


async def test_nobody_there_and_unreadable_files_are_sentences(tmp_path: Path):
    with pytest.raises(UnreadError, match="cannot be asked"):
        await found(Prometheus(Server(url="http://127.0.0.1:1")))
    with pytest.raises(UnreadError, match="the token for Prometheus cannot be read"):
        await pages_of(FakePrometheus(), {"token": tmp_path / "none"})
    with pytest.raises(UnreadError, match="the certificate authority for Prometheus cannot be read"):
        await found(Prometheus(Server(url="https://127.0.0.1:1", authority=tmp_path / "none")))


async def test_the_token_is_read_anew_for_each_query(tmp_path: Path):
    token, fake = tmp_path / "token", FakePrometheus()
    async with fake.served() as url:
        prometheus = Prometheus(Server(url=url, token=token))
        for text in ("one\n", "two\n"):
            token.write_text(text)
            await found(prometheus)
    assert [headers["Authorization"] for headers in fake.headers] == ["Bearer one", "Bearer two"]


async def test_steps_are_asked_for_once_a_minute():
    sampled, fake = Sampled().follow(worker()), FakePrometheus()
    cells = {(3, 0): Cell(600, 6.0, 4200, 0)}
    fake.pages = [(TARGETS[0], sampled.page(worker(), good(1), cells=cells).text, fake.now)]
    async with fake.served() as url:
        source = Indirect(sampled.book, Prometheus(Server(url=url)), 5.0)
        for _ in range(2):
            await source.round()
    assert fake.queries == [STEPS_QUERY, QUERY]
    assert sampled.book.samples(KEY).pods["uid-0"].steps["4", "0"].steps == 600


async def test_steps_that_are_refused_cost_no_further_round():
    """An answer may be too long with them alone."""
    sampled, fake = Sampled().follow(worker()), FakePrometheus(refuses={1})
    fake.pages = [(TARGETS[0], sampled.page(worker(), good(1)).text, fake.now)]
    async with fake.served() as url:
        source = Indirect(sampled.book, Prometheus(Server(url=url)), 5.0)
        for _ in range(2):
            await source.round()
    assert fake.queries == [STEPS_QUERY, QUERY]
    assert sampled.book.samples(KEY).pods["uid-0"].failure is None
