"""What passes through an activator while workers serve: everything, as it is, as it comes, once."""

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from activator_door import MODEL, TOKEN, Worker, door, worker
from activator_process import HERE, Client, clients, until
from modelfleet.core.activation.slices import Address
from worker_process import free_port

CHAT = "/v1/chat/completions"


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with clients() as made:
        yield made


async def test_body_query_and_headers_reach_the_worker_as_they_were_sent(session: aiohttp.ClientSession) -> None:
    async with door() as at, worker() as behind:
        at.serve(behind)
        body = gzip.compress(b'{"model": "\xc3\xa4"}')
        sent = {"Content-Encoding": "gzip", "Authorization": "Bearer s3cret", "X-Odd": "a, b", "Accept": "*/*"}
        url = URL(f"http://{HERE}:{at.port}{CHAT}?a=%2Fb&a=c", encoded=True)
        async with session.post(url, data=body, headers=sent) as answer:
            echoed = await answer.read()
    method, target, headers, got = behind.got[0]
    assert (method, target) == ("POST", f"{CHAT}?a=%2Fb&a=c")
    assert got == body == echoed
    assert sent.items() <= dict(headers).items()
    assert behind.headers["host"] == f"{HERE}:{at.port}"
    assert "user-agent" in behind.headers


async def test_a_request_without_a_body_stays_one(session: aiohttp.ClientSession) -> None:
    async with door() as at, worker() as behind:
        at.serve(behind)
        assert (await Client(session, at.port, MODEL).get("/v1/models")).status == 200
    assert not {"content-length", "transfer-encoding"} & behind.headers.keys()


async def test_a_body_of_unknown_length_and_a_long_one_pass_whole(session: aiohttp.ClientSession) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b"x" * 10_000

    async with door() as at, worker() as behind:
        at.serve(behind)
        for data in (pieces(), b"y" * 300_000):
            async with session.post(f"http://{HERE}:{at.port}{CHAT}", data=data) as answer:
                assert (answer.status, len(await answer.read())) == (200, 300_000)
    assert "content-length" not in {name.lower() for name, _ in behind.got[0][2]}
    assert behind.headers["content-length"] == "300000"


async def test_status_reason_and_repeated_headers_come_back(session: aiohttp.ClientSession) -> None:
    async def refuse(_: web.BaseRequest) -> web.Response:
        headers = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-Request-Id", "7"), ("Retry-After", "3")]
        return web.Response(status=529, reason="Overloaded", headers=headers, text="no")

    async with door() as at, worker(refuse) as behind:
        at.serve(behind)
        async with session.post(f"http://{HERE}:{at.port}{CHAT}", json={}) as answer:
            assert (answer.status, answer.reason, await answer.text()) == (529, "Overloaded", "no")
            assert answer.headers.getall("Set-Cookie") == ["a=1", "b=2"]
            assert (answer.headers["X-Request-Id"], answer.headers["Retry-After"]) == ("7", "3")
        assert at.count("passed_total") == 1


async def test_each_piece_of_a_stream_passes_before_the_next_exists(session: aiohttp.ClientSession) -> None:
    seen = [asyncio.Event() for _ in range(3)]

    async def stream(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for number, event in enumerate(seen):
            await response.write(f"data: {number}\n\n".encode())
            await event.wait()
        return response

    async with door() as at, worker(stream) as behind:
        at.serve(behind)
        async with session.post(f"http://{HERE}:{at.port}{CHAT}", json={"stream": True}) as answer:
            for number, event in enumerate(seen):
                assert await answer.content.readuntil(b"\n\n") == f"data: {number}\n\n".encode()
                event.set()
            assert await answer.content.read() == b""


async def test_what_we_say_of_a_request_reaches_the_worker_and_what_a_client_claims_does_not(
    session: aiohttp.ClientSession,
) -> None:
    async with door() as at, worker() as behind:
        at.serve(behind)
        claims = {"x-modelfleet-caller": "guess", "x-modelfleet-spent-ms": "99999", "x-modelfleet-at-zero": "true"}
        await Client(session, at.port, MODEL).complete(**claims)
    assert behind.headers["x-modelfleet-caller"] == TOKEN
    assert int(behind.headers["x-modelfleet-spent-ms"]) < 99999
    assert "x-modelfleet-at-zero" not in behind.headers


async def test_requests_go_to_the_worker_with_the_fewest(session: aiohttp.ClientSession) -> None:
    enough = asyncio.Event()

    async def wait(_: web.BaseRequest) -> web.Response:
        await enough.wait()
        return web.Response()

    async with door() as at, worker(wait) as one, worker(wait) as two, worker(wait) as three:
        at.serve(one, two, three)
        client = Client(session, at.port, MODEL)
        asked = [asyncio.create_task(client.complete()) for _ in range(12)]
        await until(lambda: sum(len(each.got) for each in (one, two, three)) == 12)
        assert [len(each.got) for each in (one, two, three)] == [4, 4, 4]
        enough.set()
        assert {answer.status for answer in await asyncio.gather(*asked)} == {200}


async def test_a_worker_that_cannot_be_connected_to_is_passed_over(session: aiohttp.ClientSession) -> None:
    gone = Worker(None)
    gone.address = Address(HERE, free_port())
    async with door() as at, worker() as behind:
        at.serve(gone, behind)
        client = Client(session, at.port, MODEL)
        answers = await asyncio.gather(*(client.complete() for _ in range(8)), client.get("/v1/models"))
        assert {answer.status for answer in answers} == {200}
        assert len(behind.got) == 9
        assert at.count("connect_failures_total") >= 1


async def test_a_request_that_may_have_begun_is_not_sent_again(session: aiohttp.ClientSession) -> None:
    async def die(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        await asyncio.sleep(10)
        return web.Response()

    async with door() as at, worker(die) as one, worker(die) as two:
        at.serve(one, two)
        answer = await Client(session, at.port, MODEL).complete()
        assert answer.status == 502
        assert "it may have begun" in answer.json["error"]["message"]
        assert len(one.got) + len(two.got) == 1
        assert at.count("broken_total", whose="worker") == 1


async def test_an_answer_that_breaks_off_breaks_off_for_the_client_too(session: aiohttp.ClientSession) -> None:
    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with door() as at, worker(half) as behind:
        at.serve(behind)
        with pytest.raises(aiohttp.ClientError):
            await Client(session, at.port, MODEL).complete()
        await until(lambda: at.count("broken_total", whose="worker") == 1)
        assert len(behind.got) == 1


async def test_a_client_that_leaves_ends_its_request_at_the_worker(session: aiohttp.ClientSession) -> None:
    async def wait(_: web.BaseRequest) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with door() as at, worker(wait) as behind:
        at.serve(behind)
        asking = asyncio.create_task(Client(session, at.port, MODEL).complete())
        await until(lambda: len(behind.got) == 1)
        asking.cancel()
        await until(lambda: behind.left == 1)
        await until(lambda: at.count("broken_total", whose="client") == 1)
        assert [each.in_flight for each in at.line.workers.values()] == [0]


async def test_a_client_of_http_1_0_gets_its_answer_until_the_end_of_the_connection() -> None:
    async def stream(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"one")
        await response.write(b"two")
        return response

    async with door() as at, worker(stream) as behind:
        at.serve(behind)
        reader, writer = await asyncio.open_connection(HERE, at.port)
        writer.write(f"POST {CHAT} HTTP/1.0\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    assert head.startswith(b"HTTP/1.0 200")
    assert b"chunked" not in head.lower()
    assert body == b"onetwo"


async def test_no_credential_is_ever_logged(session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def die(request: web.BaseRequest) -> web.Response:
        raise RuntimeError("a worker's bug")

    async with door() as at, worker(die) as behind:
        client = Client(session, at.port, MODEL)
        at.serve(behind)
        await client.complete(Authorization="Bearer s3cret")
        at.serve()
        asking = asyncio.create_task(client.complete(Authorization="Bearer s3cret"))
        await until(lambda: at.line.held == 1)
        asking.cancel()
        await until(lambda: at.line.held == 0)
    ours = [record for record in caplog.records if "worker's bug" not in str(record.exc_info)]
    assert "s3cret" not in "\n".join(f"{record.getMessage()} {record.exc_info}" for record in ours)
    assert TOKEN not in caplog.text
