"""What an adversary, or an odd client, sends to an activator byte by byte. Real sockets."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from activator_door import TOKEN, Door, door, worker
from activator_process import HERE, until

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
SECRET = b"Bearer s3cret-of-a-user"


@asynccontextmanager
async def talk(at: Door, sent: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which this was sent."""
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(HERE, at.port)
        writer.write(sent)
        try:
            yield reader, writer
        finally:
            writer.close()


async def status(at: Door, sent: bytes) -> int:
    """The status that this is answered with."""
    async with talk(at, sent) as (reader, _):
        return int((await reader.readuntil(b"\r\n")).split()[1])


MALFORMED = [
    pytest.param(b"Authorization: %s\x00\r\n\r\n" % SECRET, id="a header holds a zero byte"),
    pytest.param(b"Authorization : %s\r\n\r\n" % SECRET, id="a blank stands before a colon"),
    pytest.param(b"Authorization: a\r\n %s\r\n\r\n" % SECRET, id="a header goes on in the next line"),
    pytest.param(b"Authorization: %s\r\n\r\n" % (SECRET + b"x" * 70_000), id="a header is too long"),
    pytest.param(b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", id="a body has two lengths"),
    pytest.param(b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", id="a length is given twice"),
    pytest.param(b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n%s\r\n0\r\n\r\n" % SECRET, id="a chunk has no length"),
]


@pytest.mark.parametrize("rest", MALFORMED)
async def test_what_cannot_be_read_is_refused_and_nothing_of_it_is_logged(
    rest: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with door() as at, worker() as behind:
            at.serve(behind)
            assert await status(at, CHAT + rest) == 400
            assert behind.got == []
    assert "s3cret" not in caplog.text
    assert not [each for each in caplog.records if each.levelno > logging.INFO]


@pytest.mark.parametrize("said", [b"\xff\xfe", b"", TOKEN.encode() + b"\xff", "ä".encode()])
async def test_a_guessed_caller_is_no_caller_whatever_its_bytes(said: bytes) -> None:
    async with door() as at, worker() as behind:
        at.serve(behind)
        claims = b"x-modelfleet-caller: %s\r\nx-modelfleet-spent-ms: 99999\r\nContent-Length: 2\r\n\r\n{}" % said
        assert await status(at, CHAT + claims) == 200
        assert behind.headers["x-modelfleet-caller"] == TOKEN
        assert int(behind.headers["x-modelfleet-spent-ms"]) < 99999


SPENT = [
    pytest.param(b"1e9", 0, id="no whole number"),
    pytest.param(b"-5", 0, id="below zero"),
    pytest.param(b"99999999999999999999", 0, id="too long to be true"),
    pytest.param("٣".encode(), 0, id="digits of another script"),
    pytest.param(b"5000", 5000, id="five seconds"),
]


@pytest.mark.parametrize(("said", "counted_ms"), SPENT)
async def test_time_that_a_trusted_caller_spent_counts_where_it_is_a_number(said: bytes, counted_ms: int) -> None:
    async with door() as at, worker() as behind:
        at.serve(behind)
        own = b"x-modelfleet-caller: %s\r\nx-modelfleet-spent-ms: %s\r\n" % (TOKEN.encode(), said)
        assert await status(at, CHAT + own + b"Content-Length: 2\r\n\r\n{}") == 200
        assert counted_ms <= int(behind.headers["x-modelfleet-spent-ms"]) < counted_ms + 5000


@pytest.mark.parametrize("line", [b"OPTIONS *", b"CONNECT other:80", b"CONNECT ?x"])
async def test_a_target_that_is_no_path_reaches_no_worker(line: bytes) -> None:
    async with door() as at, worker() as behind:
        for serving in ((), (behind,)):
            at.serve(*serving)
            assert await status(at, line + b" HTTP/1.1\r\nHost: a\r\n\r\n") == 404
        assert behind.got == []


async def test_a_long_body_on_a_path_that_wakes_nothing_passes_as_it_comes() -> None:
    async with door() as at, worker() as behind:
        at.serve(behind)
        sent = b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000
        assert await status(at, sent) == 200
        assert len(behind.got[0][3]) == 3_000_000


async def test_a_client_that_sends_half_a_body_keeps_no_room_at_a_worker() -> None:
    async with door(sequences=1) as at, worker() as behind:
        at.serve(behind)
        async with talk(at, CHAT + b"Content-Length: 9\r\n\r\nhalf"):
            await until(lambda: at.front.active == 1)
            assert await status(at, CHAT + b"Content-Length: 2\r\n\r\n{}") == 200


async def test_headers_of_a_worker_come_back_as_it_wrote_them() -> None:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(headers={"X-Name": "Jörg"})

    async with door() as at, worker(answer) as behind:
        at.serve(behind)
        async with talk(at, CHAT + b"Content-Length: 2\r\n\r\n{}") as (reader, _):
            assert "X-Name: Jörg\r\n".encode() in await reader.readuntil(b"\r\n\r\n")


async def test_a_connection_on_which_no_request_ends_is_closed() -> None:
    async with door(idle_s=0.3) as at:
        for sent in (b"", CHAT, b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"):
            async with talk(at, sent) as (reader, _):
                await reader.read()


async def test_a_request_that_waits_longer_than_connections_may_be_idle_is_answered() -> None:
    sent = CHAT + b"Content-Length: 2\r\n\r\n{}"
    async with door(idle_s=0.1) as at, worker() as behind, talk(at, sent) as (reader, _):
        await asyncio.sleep(0.4)
        at.serve(behind)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")


async def heads(at: Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
    """The status line and headers that one more request on a connection is answered with."""
    writer.write(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")
    return (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")


async def test_a_kept_connection_ends_once_the_service_leads_to_workers() -> None:
    async with door() as at, worker() as behind, talk(at, b"") as (reader, writer):
        at.serve(behind)
        assert b"Connection: close" not in await heads(at, reader, writer)
        at.line.stands_in = False
        assert b"Connection: close" in await heads(at, reader, writer)
        assert await reader.read() == b""


async def test_a_kept_connection_ends_with_the_next_answer_of_an_activator_that_stops() -> None:
    async with door() as at, talk(at, b"") as (reader, writer):
        at.front.closing = True
        assert b"Connection: close" in await heads(at, reader, writer)


async def test_a_kept_connection_to_a_port_that_is_no_model_s_is_sent_elsewhere() -> None:
    async with door() as at, talk(at, b"") as (reader, writer):
        await heads(at, reader, writer)
        await reader.readuntil(b"}")
        at.lines.clear()
        await reader.read(100)
        line, *rest = await heads(at, reader, writer)
        assert line == b"HTTP/1.1 503 Service Unavailable"
        assert {b"Retry-After: 1", b"Connection: close"} <= set(rest)
