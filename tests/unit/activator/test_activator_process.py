"""The activator's process with real sockets: stand-in engines behind it, a fake of the API server at the HTTP seam."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from activator_api import ApiServer, activator_slice, api_server, deployment, workers_slice
from activator_process import HERE, Activator, Client, clients, listens, running_activator, running_engine, until
from modelfleet.api import names
from worker_process import free_port

NAME, MODEL = "chat", "chat-model"


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with api_server() as made:
        yield made


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with clients() as made:
        yield made


async def test_a_burst_at_zero_is_held_told_and_answered_in_full_when_workers_stand(
    api: ApiServer, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    port, worker = free_port(), free_port()
    api.put(names.DEPLOYMENT_PLURAL, deployment(NAME, port))
    api.put("endpointslices", activator_slice(NAME, port))
    async with running_activator(api.kubeconfig(tmp_path)) as activator:
        client = Client(session, port, MODEL)
        await until(lambda: api.endpoints("chat-activator") == [HERE])
        streams = [asyncio.create_task(client.stream()) for _ in range(10)]
        wholes = [asyncio.create_task(client.complete()) for _ in range(10)]
        await until(lambda: _holds(activator, 20))
        await until(lambda: activator.pod in api.demand(NAME))
        await until(lambda: client.told == len(streams))
        async with running_engine(worker, MODEL):
            api.put("endpointslices", workers_slice(NAME, {HERE: worker}))
            streamed, whole = await asyncio.gather(*streams), await asyncio.gather(*wholes)
    assert [answer.status for answer in (*streamed, *whole)] == [200] * 20
    assert all(answer.comments and answer.events[-1] == "[DONE]" for answer in streamed)
    assert all(answer.json["usage"]["completion_tokens"] == 3 for answer in whole)


async def test_ports_open_and_close_as_models_come_and_go(
    api: ApiServer, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    first, second = free_port(), free_port()
    api.put(names.DEPLOYMENT_PLURAL, deployment(NAME, first))
    async with running_activator(api.kubeconfig(tmp_path)) as activator:
        api.put(names.DEPLOYMENT_PLURAL, deployment("code", second))
        api.put("endpointslices", activator_slice("code", second))
        await until(lambda: api.endpoints("code-activator") == [HERE])
        told = (await Client(session, second, "").get(names.ACTIVATOR_PROBE_PATH)).json
        assert (told["activator"], told["uid"]) == (activator.pod, "uid-code")
        held = asyncio.create_task(Client(session, second, "").complete())
        await until(lambda: api.demand("code") == {activator.pod: 1})
        api.remove("endpointslices", "code-activator")
        api.remove(names.DEPLOYMENT_PLURAL, "code")
        assert (await held).status == 404
        await until(lambda: _is_shut(second))
        assert (await Client(session, first, "").get("/v1/models")).status == 200
        await until(lambda: _tells_nothing_of(activator, "code"))


async def test_no_request_is_lost_to_a_stop_or_to_an_api_server_that_is_away_and_a_kill_breaks_visibly(
    api: ApiServer, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    port, worker, other = free_port(), free_port(), "127.0.0.2"
    api.put(names.DEPLOYMENT_PLURAL, deployment(NAME, port))
    api.put("endpointslices", activator_slice(NAME, port))
    config = api.kubeconfig(tmp_path)
    async with AsyncExitStack() as stack:
        starting = (running_activator(config), running_activator(config, pod="activator-b", address=other))
        a, b = await asyncio.gather(*(stack.enter_async_context(each) for each in starting))
        await until(lambda: api.endpoints("chat-activator") == [HERE, other])
        clients_of_a = [asyncio.create_task(Client(session, port, MODEL).complete()) for _ in range(3)]
        clients_of_b = [asyncio.create_task(Client(session, port, MODEL, other).stream()) for _ in range(3)]
        await until(lambda: api.demand(NAME) == {a.pod: 3, b.pod: 3})

        api.fall()
        clients_of_a.append(asyncio.create_task(Client(session, port, MODEL).stream()))
        await until(lambda: _holds(a, 4))
        b.kill()
        broken = await asyncio.gather(*clients_of_b, return_exceptions=True)
        assert [type(each) for each in broken if not isinstance(each, aiohttp.ClientError)] == []
        api.down = False

        a.terminate()
        await until(lambda: api.endpoints("chat-activator") == [other])
        assert api.demand(NAME)[b.pod] == 3
        clients_of_a.append(asyncio.create_task(Client(session, port, MODEL).complete()))
        async with running_engine(worker, MODEL):
            api.put("endpointslices", workers_slice(NAME, {HERE: worker}))
            assert [answer.status for answer in await asyncio.gather(*clients_of_a)] == [200] * 5
            assert await a.exit_code() == 0
        assert api.demand(NAME) == {b.pod: 3}


async def _is_shut(port: int) -> bool:
    return not await listens(port)


async def _tells_nothing_of(activator: Activator, name: str) -> bool:
    return not [series for series in await activator.metrics() if f'name="{name}"' in series]


async def _holds(activator: Activator, count: int) -> bool:
    return await activator.held() == count
