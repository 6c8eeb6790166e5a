"""Those who wait at a model's port: held, told that it lives, handed on, refused, gone. Real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from activator_door import MODEL, Door, Worker, door, worker
from activator_process import HERE, Answer, Client, clients, until
from modelfleet.api import names
from modelfleet.core.activation import holding
from modelfleet.core.activation.holding import Limits
from modelfleet.core.activation.known import Outlook, Refusal
from modelfleet.core.activation.slices import Address
from worker_process import free_port

NO_ROOM = Refusal("NoCapacity", "no node has room")


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with clients() as made:
        yield made


async def waiting(at: Door, count: int = 1) -> None:
    await until(lambda: at.line.held == count)


def spoken(answer: Answer) -> dict[str, object]:
    """The error in a stream that had waited."""
    assert answer.status == 200
    assert answer.comments
    assert answer.events[-1] == "[DONE]"
    error: dict[str, object] = json.loads(answer.events[-2])["error"]
    return error


async def test_at_zero_the_model_is_listed_and_healthy_and_nothing_of_it_wakes(session: aiohttp.ClientSession) -> None:
    async with door() as at:
        client = Client(session, at.port, MODEL)
        listed, healthy, other = await asyncio.gather(*(client.get(p) for p in ("/v1/models", "/health", "/metrics")))
        assert [each["id"] for each in listed.json["data"]] == [MODEL]
        assert (healthy.status, other.status) == (200, 404)
        assert at.line.demand == 0


async def test_the_probe_names_the_model_of_the_port_also_while_workers_serve(session: aiohttp.ClientSession) -> None:
    async with door() as at, worker() as behind:
        at.serve(behind)
        told = (await Client(session, at.port, MODEL).get(names.ACTIVATOR_PROBE_PATH)).json
        assert (told["activator"], told["uid"], told["name"]) == ("activator-a", at.line.model.uid, "chat")
        assert behind.got == []


async def test_held_requests_reach_a_worker_in_order_as_first_callers(session: aiohttp.ClientSession) -> None:
    async with door() as at, worker() as behind:
        client = Client(session, at.port, MODEL)
        asked = []
        for number in range(5):
            asked.append(asyncio.create_task(client.complete(tokens=number)))
            await waiting(at, number + 1)
        at.serve(behind)
        assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
        assert [json.loads(body)["max_tokens"] for *_, body in behind.got] == [0, 1, 2, 3, 4]
        assert behind.headers["x-modelfleet-at-zero"] == "true"
        assert at.count("waited_seconds_count") == 5
        assert (at.around.totals.requests, at.around.totals.total_bytes) == (0, 0)


async def test_a_stream_that_waits_gets_comments_and_then_the_worker_s_events(session: aiohttp.ClientSession) -> None:
    async def events(_: web.BaseRequest) -> web.Response:
        return web.Response(text="data: 1\n\ndata: [DONE]\n\n", content_type="text/event-stream")

    async with door(outlook=Outlook(left_s=7.0)) as at, worker(events) as behind:
        client = Client(session, at.port, MODEL)
        asking = asyncio.create_task(client.stream())
        await until(lambda: client.told == 1)
        at.serve(behind)
        answer = await asking
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert set(answer.comments) == {": chat-model is starting, about 7 s left"}
    assert answer.events == ["1", "[DONE]"]


async def test_a_start_that_fails_ends_all_who_wait_at_once_with_the_reason(session: aiohttp.ClientSession) -> None:
    async with door(outlook=Outlook(usual_s=30.0)) as at:
        client = Client(session, at.port, MODEL)
        whole, stream = asyncio.create_task(client.complete()), asyncio.create_task(client.stream())
        await until(lambda: client.told == 1 and at.line.held == 2)
        at.learn(refusal=NO_ROOM)
        refused, cut = await whole, await stream
        later = await client.stream()
        assert at.count("refused_total", reason="StartFailed") == 3
    assert (refused.status, refused.headers["Retry-After"]) == (503, "30")
    assert refused.json["error"]["message"] == "chat-model cannot start: NoCapacity: no node has room"
    assert spoken(cut)["message"] == "chat-model cannot start: NoCapacity: no node has room; try again in 30 s"
    assert (later.status, later.headers["Retry-After"]) == (503, "30")


async def test_a_worker_s_refusal_after_comments_is_an_event(session: aiohttp.ClientSession) -> None:
    async def refuse(_: web.BaseRequest) -> web.Response:
        return web.json_response({"error": {"message": "too long"}}, status=400)

    async with door() as at, worker(refuse) as behind:
        client = Client(session, at.port, MODEL)
        asking = asyncio.create_task(client.stream())
        await until(lambda: client.told == 1)
        at.serve(behind)
        error = spoken(await asking)
    assert (error["message"], error["code"]) == ("too long", 400)


async def test_who_waits_longer_than_accepted_is_told_when_to_come_back(session: aiohttp.ClientSession) -> None:
    async with door(patience_s=0.3, outlook=Outlook(left_s=0.2)) as at:
        answer = await Client(session, at.port, MODEL).complete()
        assert at.count("refused_total", reason="WaitedTooLong") == 1
        assert at.line.held == 0
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


async def test_a_client_that_gives_up_leaves_its_place_and_its_demand(session: aiohttp.ClientSession) -> None:
    async with door() as at, worker() as behind:
        client = Client(session, at.port, MODEL)
        leaves, stays = asyncio.create_task(client.stream()), asyncio.create_task(client.complete())
        await waiting(at, 2)
        leaves.cancel()
        await waiting(at, 1)
        assert at.line.demand == 1
        assert at.count("gone_total") == 1
        at.serve(behind)
        assert (await stays).status == 200
        assert len(behind.got) == 1


async def test_too_many_are_refused_and_still_wake_the_model(session: aiohttp.ClientSession) -> None:
    async with door(Limits(requests=2)) as at:
        client = Client(session, at.port, MODEL)
        held = [asyncio.create_task(client.complete()) for _ in range(2)]
        await waiting(at, 2)
        refused = await client.complete()
        for each in held:
            each.cancel()
        await waiting(at, 0)
        assert at.line.demand == 1
    assert (refused.status, refused.headers["Retry-After"]) == (503, "60")


async def test_bodies_are_held_up_to_their_bounds(session: aiohttp.ClientSession) -> None:
    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 1000

    async def post(port: int, data: object) -> int:
        async with session.post(f"http://{HERE}:{port}/v1/completions", data=data) as answer:
            return answer.status

    async with door(Limits(total_bytes=15_000, body_bytes=10_000)) as at:
        held = asyncio.create_task(post(at.port, b"x" * 9_000))
        await until(lambda: at.around.totals.total_bytes == 9_000)
        assert await post(at.port, b"x" * 10_001) == 413
        assert await post(at.port, pieces(11)) == 413
        assert await post(at.port, b"x" * 6_001) == 503
        assert await post(at.port, pieces(7)) == 503
        assert at.around.totals.total_bytes == 9_000
        held.cancel()
        await until(lambda: at.around.totals.total_bytes == 0)


async def test_who_was_handed_to_a_worker_that_cannot_be_reached_waits_again(session: aiohttp.ClientSession) -> None:
    gone = Worker(None)
    gone.address = Address(HERE, free_port())
    async with door() as at, worker() as behind:
        asking = asyncio.create_task(Client(session, at.port, MODEL).complete())
        await waiting(at)
        at.serve(gone)
        await until(lambda: at.count("connect_failures_total") == 1)
        await waiting(at)
        at.serve(behind)
        assert (await asking).status == 200
        assert len(behind.got) == 1


async def test_when_the_model_is_deleted_nobody_waits_any_longer(session: aiohttp.ClientSession) -> None:
    async with door() as at:
        asking = asyncio.create_task(Client(session, at.port, MODEL).complete())
        await waiting(at)
        at.line.close(holding.deleted("chat"))
        answer = await asking
    assert (answer.status, "Retry-After" in answer.headers) == (404, False)


async def test_a_client_that_waits_to_be_asked_for_its_body_is_asked_if_it_is_held_and_refused_at_once_if_not() -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"

    async def begin(port: int) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(HERE, port)
        writer.write(head)
        return await reader.readuntil(b"\r\n"), reader, writer

    async with door() as at, worker() as behind:
        asked, reader, writer = await begin(at.port)
        writer.write(b"{}")
        await waiting(at)
        at.serve(behind)
        await reader.readuntil(b"\r\n")
        answered = await reader.readuntil(b"\r\n")
        assert behind.got[0][3] == b"{}"
        assert "expect" not in behind.headers
        writer.close()
        at.serve()
        at.learn(refusal=NO_ROOM)
        refused, _, writer = await begin(at.port)
        writer.close()
    assert asked == b"HTTP/1.1 100 Continue\r\n"
    assert answered == b"HTTP/1.1 200 OK\r\n"
    assert refused.startswith(b"HTTP/1.1 503")


async def test_a_body_that_never_ends_loses_its_place_at_the_deadline() -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"
    async with door(patience_s=0.3) as at, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(HERE, at.port)
        writer.write(head)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 503")
        assert (at.line.held, at.around.totals.total_bytes) == (0, 0)
        writer.close()


async def test_a_worker_is_given_no_more_than_it_works_on(session: aiohttp.ClientSession) -> None:
    may_end = asyncio.Semaphore(0)

    async def wait(_: web.BaseRequest) -> web.Response:
        await may_end.acquire()
        return web.Response()

    async with door(sequences=2) as at, worker(wait) as behind:
        client = Client(session, at.port, MODEL)
        asked = [asyncio.create_task(client.complete()) for _ in range(5)]
        await waiting(at, 5)
        at.serve(behind)
        await until(lambda: len(behind.got) == 2)
        assert at.line.held == 3
        may_end.release()
        await until(lambda: len(behind.got) == 3)
        for _ in range(4):
            may_end.release()
        assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
