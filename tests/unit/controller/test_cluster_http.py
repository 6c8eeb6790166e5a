"""The client against a real HTTP server that behaves as an API server on a bad day."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from modelfleet.controller import credentials
from modelfleet.controller.cluster import ApiError, Call, KubernetesCluster, Refused, Written
from modelfleet.controller.resources import CONFIG_MAPS, DEPLOYMENTS


class Server:
    """Answers from a script, the last answer for ever; keeps what was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.script: list[web.Response] = []
        self.asked: list[web.Request] = []
        self.calls: list[Call] = []

    async def handle(self, request: web.Request) -> web.Response:
        await request.read()
        self.asked.append(request)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    async with TestServer(app) as running:
        made.url = str(running.make_url("")).rstrip("/")
        yield made


def kubeconfig(folder: Path, url: str, **user: str) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user or {"token": "secret"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


@pytest.fixture
async def cluster(server: Server, tmp_path: Path) -> AsyncIterator[KubernetesCluster]:
    configuration = await credentials.load(kubeconfig(tmp_path, server.url))
    async with KubernetesCluster(configuration, server.calls.append) as made:
        yield made


def answer(status: int, body: Any, **headers: str) -> web.Response:
    return web.Response(status=status, body=json.dumps(body).encode(), headers=headers)


def failure(status: int, message: str, **headers: str) -> web.Response:
    return answer(status, {"kind": "Status", "message": message}, **headers)


def page(*names: str, token: str = "") -> web.Response:
    return answer(200, {"items": [{"metadata": {"name": name}} for name in names], "metadata": {"continue": token}})


BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}}


async def test_a_request_carries_the_token_and_our_name(server, cluster):
    server.script = [answer(200, BODY)]
    await cluster.get(CONFIG_MAPS, "a", "n")
    assert server.asked[0].headers["Authorization"] == "Bearer secret"
    assert server.asked[0].headers["User-Agent"] == "modelfleet"


async def test_too_many_requests_are_waited_out_as_long_as_the_server_says(server, cluster):
    server.script = [failure(429, "slow down", **{"Retry-After": "0"}), answer(201, BODY)]
    assert isinstance(await cluster.create(BODY), Written)
    assert [call.code for call in server.calls] == [429, 201]


async def test_too_many_requests_for_long_are_an_error_that_says_when_to_come_back(server, cluster):
    server.script = [failure(429, "slow down", **{"Retry-After": "60"})]
    with pytest.raises(ApiError, match="slow down") as caught:
        await cluster.get(CONFIG_MAPS, "a", "n")
    assert (caught.value.status, caught.value.retry_after_s, len(server.asked)) == (429, 60.0, 1)


@pytest.mark.parametrize("status", [401, 500, 502, 503, 504])
async def test_an_error_that_may_pass_is_one_sentence_with_the_server_s_words(server, cluster, status):
    server.script = [failure(status, "etcdserver: leader changed")]
    with pytest.raises(ApiError, match="POST /api/v1/namespaces/n/configmaps: etcdserver: leader changed") as caught:
        await cluster.create(BODY)
    assert caught.value.status == status


async def test_a_write_that_failed_is_not_repeated_by_the_client(server, cluster):
    server.script = [failure(500, "who knows whether it was stored")]
    with pytest.raises(ApiError):
        await cluster.create(BODY)
    assert len(server.asked) == 1


async def test_a_process_that_may_no_longer_write_sends_no_write_and_still_reads(server, tmp_path):
    server.script = [answer(200, BODY)]
    configuration = await credentials.load(kubeconfig(tmp_path, server.url))
    async with KubernetesCluster(configuration, write_left_s=lambda: 0.0) as cluster:
        for write in (
            cluster.create(BODY),
            cluster.apply_status(BODY),
            cluster.merge(CONFIG_MAPS, "a", "n", {}),
            cluster.delete(CONFIG_MAPS, "a", "n", "uid"),
        ):
            with pytest.raises(ApiError, match="not sent, because this process no longer leads"):
                await write
        assert await cluster.get(CONFIG_MAPS, "a", "n") == BODY
    assert [request.method for request in server.asked] == ["GET"]


async def test_a_write_is_asked_for_again_before_each_of_its_attempts(server, tmp_path):
    server.script = [failure(429, "slow down", **{"Retry-After": "0"}), answer(201, BODY)]
    left_s = iter([5.0, -1.0])
    configuration = await credentials.load(kubeconfig(tmp_path, server.url))
    async with KubernetesCluster(configuration, write_left_s=lambda: next(left_s)) as cluster:
        with pytest.raises(ApiError, match="no longer leads"):
            await cluster.create(BODY)
    assert len(server.asked) == 1


async def test_a_write_is_waited_for_no_longer_than_the_process_may_write(tmp_path):
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    configuration = await credentials.load(kubeconfig(tmp_path, url))
    async with listening, KubernetesCluster(configuration, write_left_s=lambda: 0.05) as cluster:
        with pytest.raises(ApiError, match="no answer"):
            await cluster.create(BODY)


@pytest.mark.looptime(start=0)
@pytest.mark.parametrize(
    ("ask", "limit_s"),
    [
        pytest.param(lambda cluster: cluster.served("modelfleet.dev/v1alpha1"), 5, id="a discovery"),
        pytest.param(lambda cluster: cluster.get(CONFIG_MAPS, "a", "n"), 15, id="a read"),
        pytest.param(lambda cluster: cluster.list(CONFIG_MAPS, "n"), 15, id="a list"),
        pytest.param(lambda cluster: cluster.create(BODY), 30, id="a write, which may wait for webhooks"),
    ],
)
async def test_a_request_that_is_swallowed_is_given_up(tmp_path, ask, limit_s):
    async def swallow(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    listening = await asyncio.start_server(swallow, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    configuration = await credentials.load(kubeconfig(tmp_path, url))
    async with listening, KubernetesCluster(configuration) as cluster:
        with pytest.raises(ApiError, match="no answer"):
            await ask(cluster)
    assert asyncio.get_running_loop().time() == pytest.approx(limit_s, abs=0.5)


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_what_the_server_does_not_take_is_a_value_with_its_words(server, cluster, status):
    server.script = [failure(status, "exceeded quota")]
    assert await cluster.create(BODY) == Refused("exceeded quota")


async def test_a_list_is_read_page_by_page(server, cluster):
    server.script = [page("a", "b", token="more"), page("c")]
    assert [item["metadata"]["name"] for item in await cluster.list(CONFIG_MAPS, "n")] == ["a", "b", "c"]
    assert [request.query.get("continue") for request in server.asked] == [None, "more"]


async def test_a_list_whose_pages_expired_begins_again_and_never_mixes_two(server, cluster):
    server.script = [page("old", token="more"), failure(410, "expired"), page("a", token="more"), page("b")]
    assert [item["metadata"]["name"] for item in await cluster.list(CONFIG_MAPS, "n")] == ["a", "b"]


async def test_a_list_whose_pages_expire_again_and_again_is_an_error(server, cluster):
    server.script = [failure(410, "expired")]
    with pytest.raises(ApiError, match="expired"):
        await cluster.list(CONFIG_MAPS, "n")
    assert len(server.asked) == 4


async def test_a_list_of_a_kind_that_is_not_served_is_an_error_and_not_an_empty_list(server, cluster):
    server.script = [web.Response(status=404, text="404 page not found")]
    with pytest.raises(ApiError, match="404 page not found"):
        await cluster.list(DEPLOYMENTS)


async def test_an_answer_that_is_not_json_is_an_error_and_not_a_traceback(server, cluster):
    server.script = [web.Response(text="<html>a proxy's login page</html>")]
    with pytest.raises(ApiError, match="the answer is not JSON"):
        await cluster.get(CONFIG_MAPS, "a", "n")


async def test_a_server_that_is_not_there_is_an_error_and_counted_as_no_answer(tmp_path):
    calls: list[Call] = []
    configuration = await credentials.load(kubeconfig(tmp_path, "http://127.0.0.1:1"))
    async with KubernetesCluster(configuration, calls.append) as cluster:
        with pytest.raises(ApiError, match="no answer"):
            await cluster.get(CONFIG_MAPS, "a", "n")
    assert [(call.verb, call.kind, call.code) for call in calls] == [("get", "ConfigMap", 0)]


async def test_a_name_cannot_leave_its_place_in_the_path(server, cluster):
    server.script = [failure(404, "no such object")]
    await cluster.get(CONFIG_MAPS, "../secrets/x", "n")
    assert server.asked[0].rel_url.raw_path == "/api/v1/namespaces/n/configmaps/..%2Fsecrets%2Fx"


@pytest.mark.looptime(start=0)
async def test_a_token_file_is_read_again_after_a_minute_and_the_old_token_kept_when_that_fails(tmp_path):
    token = tmp_path / "token"
    token.write_text("first")
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", tokenFile=str(token))
    configuration = await credentials.load(path)
    seen = []
    for change in (lambda: token.write_text("second"), lambda: None, lambda: Path(path).unlink()):
        change()
        seen.append(await credentials.authorization(configuration))
        await asyncio.sleep(61)
    seen.append(await credentials.authorization(configuration))
    assert seen == ["Bearer first", "Bearer second", "Bearer second", "Bearer second"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="not YAML"),
        pytest.param("[]", id="a list"),
        pytest.param("apiVersion: v1", id="without clusters"),
        pytest.param(base64.b64encode(bytes(range(256))).decode(), id="rubbish"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_one_sentence_with_its_path(tmp_path, content):
    (tmp_path / "config").write_text(content)
    with pytest.raises(credentials.CredentialsError, match=r"^the kubeconfig .*config cannot be used: [^\n]*$"):
        await credentials.load(str(tmp_path / "config"))


async def test_a_request_needs_no_other_thread(server, cluster, monkeypatch):
    server.script = [page("a")]
    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", None)
    assert len(await cluster.list(CONFIG_MAPS, "n")) == 1


@pytest.mark.parametrize(
    ("host", "proxy"), [("https://api.example.com:6443", "http://proxy:3128"), ("https://10.0.0.1", None)]
)
async def test_the_environment_s_proxy_is_used_but_where_it_says_not_to(tmp_path, monkeypatch, host, proxy):
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "10.0.0.1")
    assert (await credentials.load(kubeconfig(tmp_path, host))).proxy == proxy
