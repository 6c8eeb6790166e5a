"""Reading workers' pages over real sockets: what is sent, what is taken, and what an answer may not do."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from modelfleet.controller.metrics.sampler import Direct
from modelfleet.controller.metrics.scrape import MOST_BYTES, Scraper, UnreadError, connector, scraper
from modelfleet.core.scaling.samples import Samples
from sampled import KEY, Sampled, worker
from worker_pages import good

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[tuple[Scraper, list[web.Request]]]:
    """A scraper of a port at which `answer` answers, and the requests that came."""
    requests: list[web.Request] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return await answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with scraper(port=runner.addresses[0][1], timeout_s=0.5) as pages:
            yield pages, requests
    finally:
        await runner.cleanup()


def says(text: str, **more: object) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, **more)  # type: ignore[arg-type]

    return answer


async def read(answer: Answer, sampled: Sampled) -> Samples:
    """The samples after one round."""
    async with answering(answer) as (pages, _):
        await Direct(sampled.book, pages, 0.0).round()
    return sampled.book.samples(KEY)


async def test_a_page_is_asked_for_with_nothing_of_ours():
    async def cookie(_: web.Request) -> web.Response:
        return web.Response(text="page", headers={"Set-Cookie": "a=b; Path=/"})

    async with answering(cookie) as (pages, requests):
        for _ in range(2):
            assert await pages.text(worker()) == "page"
    assert [(request.method, request.path) for request in requests] == [("GET", "/metrics")] * 2
    assert not {"Authorization", "Cookie"} & set(requests[1].headers)


@pytest.mark.parametrize("many_files", [True, False])
async def test_connections_are_kept_only_where_this_process_may_open_many_files(many_files: bool):
    made = connector(7.0, many_files=many_files)
    assert made.force_close is not many_files
    await made.close()


async def test_what_is_packed_is_not_unpacked():
    body = gzip.compress(b"\n" * (1 << 20))

    async def packed(_: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    async with answering(packed) as (pages, _):
        with pytest.raises(UnreadError, match=r"cannot be read \(UnicodeDecodeError\)"):
            await pages.text(worker())


async def test_a_redirect_is_not_followed():
    async def elsewhere(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/other"})

    async with answering(elsewhere) as (pages, requests):
        with pytest.raises(UnreadError, match="answers with status 302"):
            await pages.text(worker())
    assert [request.path for request in requests] == ["/metrics"]


async def test_an_answer_without_end_is_cut_off():
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(MOST_BYTES // 65536 + 2):
            await response.write(b"x" * 65536)
        return response

    async with answering(endless) as (pages, _):
        with pytest.raises(UnreadError, match=f"more than {MOST_BYTES} bytes"):
            await pages.text(worker())


async def test_an_answer_that_does_not_come_is_given_up():
    async def never(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with answering(never) as (pages, _):
        with pytest.raises(UnreadError, match=r"does not answer within 0\.5 s"):
            await pages.text(worker())


async def test_a_port_at_which_nobody_listens_is_a_failure_with_its_kind():
    async with scraper(port=1) as pages:
        with pytest.raises(UnreadError, match="cannot be read"):
            await pages.text(worker())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(says("up 1\n"), "the page has no metric of a worker", id="another program's page"),
        pytest.param(says("a b c"), "the page has no metric of a worker", id="no metrics"),
        pytest.param(
            says("modelfleet_worker_waiting c\n"),
            "this line of the page is no sample: 'modelfleet_worker_waiting c'",
            id="a word for a number",
        ),
        pytest.param(
            says("modelfleet_worker_waiting 5 1700000000\n"),
            "this line of the page is no sample: 'modelfleet_worker_waiting 5 1700000000'",
            id="a number with a time",
        ),
        pytest.param(
            says("modelfleet_worker_waiting 5"), "the page has no end: it was cut", id="a page that is cut in a line"
        ),
        pytest.param(says("x", status=500), "its page answers with status 500", id="an error"),
        pytest.param(
            says("modelfleet_worker_in_flight NaN\n"),
            "its page does not say which pod it is of: the worker image is older than the operator",
            id="a page that does not say whose it is",
        ),
    ],
)
async def test_what_is_no_page_of_this_worker_is_no_data(answer: Answer, why: str):
    sampled = Sampled().follow(worker())
    pod = (await read(answer, sampled)).pods["uid-0"]
    assert (pod.readings, pod.failure) == ((), why)


async def test_a_page_of_the_pod_that_took_over_the_address_does_not_count():
    sampled = Sampled().follow(worker())
    other = replace(worker(), uid="uid-of-another", name="other-0")
    pod = (await read(says(sampled.page(other, good(9)).text), sampled)).pods["uid-0"]
    assert (pod.readings, pod.failure) == ((), "at its address answers another pod, other-0")


async def test_a_pod_of_the_same_name_and_address_is_another_pod():
    sampled = Sampled().follow(worker())
    later = replace(worker(), uid="uid-of-the-next")
    assert (await read(says(sampled.page(later, good(9)).text), sampled)).pods["uid-0"].readings == ()


async def test_where_the_worker_knows_no_uid_its_name_decides():
    sampled = Sampled().follow(worker())
    for name, count in (("chat-1a2b3c4d-0", 1), ("other", 1)):
        await read(says(sampled.page(replace(worker(), uid="", name=name), good(9)).text), sampled)
        sampled.now_s += 5
        assert len(sampled.samples.pods["uid-0"].readings) == count


async def test_numbers_that_nothing_can_be_are_refused():
    sampled = Sampled().follow(worker())
    text = sampled.page(worker(), good(9)).text.replace(
        "modelfleet_worker_in_flight 0.0", "modelfleet_worker_in_flight -1"
    )
    pod = (await read(says(text), sampled)).pods["uid-0"]
    assert pod.failure == "in_flight is -1, and nothing on the page can be"
