"""The activator's process with real sockets: stand-in engines behind it, a fake of the API server at the HTTP seam."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from activator_api import ApiServer, activator_slice, api_server, deployment, workers_slice
from activator_process import HERE, Client, clients, free_port, running_activator, running_engine, until
from modelfleet.api import names

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
        await until(lambda: api.demand(NAME) == {activator.pod: 20})
        async with running_engine(worker, MODEL):
            api.put("endpointslices", workers_slice(NAME, {HERE: worker}))
            streamed, whole = await asyncio.gather(*streams), await asyncio.gather(*wholes)
        await until(lambda: api.demand(NAME) == {})
    assert [answer.status for answer in (*streamed, *whole)] == [200] * 20
    assert all(answer.comments and answer.events[-1] == "[DONE]" for answer in streamed)
    assert all(answer.json["usage"]["completion_tokens"] == 3 for answer in whole)
