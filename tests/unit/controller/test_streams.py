"""Pages and watches against a real HTTP server, on good days and bad ones."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from modelfleet.controller import credentials
from modelfleet.controller.cluster import ApiError
from modelfleet.controller.resources import NODES, PODS
from modelfleet.controller.streams import GoneError, KubernetesStreams, Page


class Server:
    """Answers every request with `status` and `chunks`, one after the other; `breaks`: the connection then ends."""

    def __init__(self) -> None:
        self.url = ""
        self.status, self.chunks, self.headers = 200, [b""], {}
        self.breaks = False
        self.asked: list[web.Request] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        await self.answers.wait()
        response = web.StreamResponse(status=self.status, headers=self.headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in self.chunks:
            await response.write(chunk)
        if self.breaks and request.transport is not None:
            request.transport.close()
        return response

    def says(self, *values: Any) -> None:
        """A watch's lines."""
        self.chunks = [json.dumps(value).encode() + b"\n" for value in values]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    async with TestServer(app) as running:
        made.url = str(running.make_url("")).rstrip("/")
        yield made


@pytest.fixture
async def streams(server: Server, tmp_path: Path) -> AsyncIterator[KubernetesStreams]:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    async with KubernetesStreams(await credentials.load(str(path))) as made:
        yield made


def event(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": name}, **more}}


async def test_a_page_says_of_which_list_it_is_and_how_it_goes_on(streams, server):
    body = {"items": [{"metadata": {"name": "a"}}], "metadata": {"resourceVersion": "7", "continue": "next"}}
    server.chunks = [json.dumps(body).encode()]
    page = await streams.page(PODS, "token", "status.phase!=Failed")
    assert page == Page(({"metadata": {"name": "a"}},), "7", "next")
    asked = server.asked[0]
    assert (asked.path, asked.headers["Authorization"]) == ("/api/v1/pods", "Bearer secret")
    assert dict(asked.query) == {"limit": "250", "continue": "token", "fieldSelector": "status.phase!=Failed"}


async def test_a_watch_gives_events_however_they_are_cut(streams, server):
    long = event("ADDED", "a" * 300_000)
    whole = b"".join(json.dumps(each).encode() + b"\n" for each in (long, event("DELETED", "b")))
    server.chunks = [whole[:7], whole[7:200_000], whole[200_000:]]
    seen = [(change.type, len(change.object["metadata"]["name"])) async for change in streams.watch(NODES, "7")]
    assert seen == [("ADDED", 300_000), ("DELETED", 1)]
    assert server.asked[0].query["resourceVersion"] == "7"
    assert server.asked[0].query["allowWatchBookmarks"] == "true"


async def collected(streams):
    return [change async for change in streams.watch(NODES, "7")]


async def test_410_is_told_apart_as_an_answer_and_as_an_event(streams, server):
    server.says({"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}})
    with pytest.raises(GoneError):
        await collected(streams)
    server.status = 410
    for asking in (collected(streams), streams.page(NODES, "old")):
        with pytest.raises(GoneError):
            await asking


@pytest.mark.parametrize(
    ("chunks", "sentence"),
    [
        pytest.param(
            [b'{"type": "ERROR", "object": {"code": 500, "message": "etcd leader changed"}}\n'],
            "watch nodes: etcd leader changed",
            id="another error",
        ),
        pytest.param([b"<html>\n"], "watch nodes: an event cannot be read", id="no JSON"),
        pytest.param([b'{"type": "ADDED"}\n'], "watch nodes: an event cannot be read", id="no object"),
    ],
)
async def test_what_else_a_watch_says_is_an_error_that_may_pass(streams, server, chunks, sentence):
    server.chunks = chunks
    with pytest.raises(ApiError, match=sentence):
        await collected(streams)


async def test_a_connection_that_breaks_is_an_error_that_may_pass(streams, server):
    server.says(event("ADDED", "a"))
    server.breaks = True
    with pytest.raises(ApiError, match="watch nodes: it broke off"):
        await collected(streams)
    server.chunks = [b'{"items": [']
    with pytest.raises(ApiError, match="list nodes: the answer broke off"):
        await streams.page(NODES)


async def test_a_refusal_tells_when_to_come_back(streams, server):
    server.status, server.headers = 429, {"Retry-After": "3"}
    with pytest.raises(ApiError) as told:
        await streams.page(NODES)
    assert (told.value.status, told.value.retry_after_s) == (429, 3.0)


async def test_a_refusal_is_told_with_the_server_s_words(streams, server):
    server.status, server.chunks = 403, [b'{"kind": "Status", "message": "nodes is forbidden"}']
    for asking in (collected(streams), streams.page(NODES)):
        with pytest.raises(ApiError, match="nodes: HTTP 403, nodes is forbidden"):
            await asking


async def test_json_that_is_no_list_is_an_error_that_may_pass(streams, server):
    server.chunks = [b'{"please": "log in"}']
    with pytest.raises(ApiError, match="list nodes: the answer is no list"):
        await streams.page(NODES)


async def test_a_watch_whose_answer_does_not_begin_is_given_up(streams, server, monkeypatch):
    monkeypatch.setattr("modelfleet.controller.streams._HEADERS_S", 0.1)
    server.answers.clear()
    with pytest.raises(ApiError, match="watch nodes: no answer"):
        await collected(streams)
    server.answers.set()


async def test_a_server_that_is_not_there_is_an_error_that_may_pass(tmp_path, streams, server):
    streams._client.configuration.host = "http://127.0.0.1:9"
    with pytest.raises(ApiError, match="list nodes: no answer"):
        await streams.page(NODES)
