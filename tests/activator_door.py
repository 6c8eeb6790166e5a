"""An activator's door in this process: one model's port, and workers that are small servers of a test. Real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from activator_api import deployment
from activator_process import HERE
from modelfleet.activator import passing
from modelfleet.activator.front import Front, Terms
from modelfleet.activator.line import Line, Surroundings
from modelfleet.activator.meter import Meter
from modelfleet.activator.ports import IDLE_S, Ports
from modelfleet.core.activation.holding import Limits
from modelfleet.core.activation.known import known
from modelfleet.core.activation.slices import Address
from worker_process import free_port

NAME, MODEL = "chat", "chat-model"
TOKEN = "token-of-the-installation"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Worker:
    """A server that keeps what it got. `handler` answers, else it echoes the body."""

    def __init__(self, handler: Handler | None) -> None:
        self._handler = handler
        self.address = Address(HERE, 0)
        self.got: list[tuple[str, str, list[tuple[str, str]], bytes]] = []
        """Method, target, headers, body."""
        self.left = 0
        """Requests whose client went before they were answered."""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()  # of any length
        self.got.append((request.method, request.raw_path, list(request.headers.items()), body))
        try:
            return await self._handler(request) if self._handler is not None else web.Response(body=body)
        except asyncio.CancelledError:
            self.left += 1
            raise

    @property
    def headers(self) -> dict[str, str]:
        """Those of the last request, by lower-case name."""
        return {name.lower(): value for name, value in self.got[-1][2]}


class Door:
    """One model's port."""

    def __init__(self, lines: dict[int, Line], meter: Meter, front: Front, around: Surroundings) -> None:
        self.lines, self.meter, self.front, self.around = lines, meter, front, around
        ((self.port, self.line),) = lines.items()

    def serve(self, *workers: Worker) -> None:
        """These workers serve from now on."""
        self.line.serve(frozenset(worker.address for worker in workers))

    def learn(self, **changes: Any) -> None:
        """The model changed."""
        self.line.learn(replace(self.line.model, **changes))

    def count(self, name: str, **labels: str) -> float:
        """One of the activator's series."""
        labelled = {"namespace": NAME, "name": NAME, **labels}
        found = self.meter.registry.get_sample_value(f"modelfleet_activator_{name}", labelled)
        assert found is not None
        return found


@asynccontextmanager
async def door(
    limits: Limits | None = None, token: str = TOKEN, idle_s: float = IDLE_S, **changes: Any
) -> AsyncIterator[Door]:
    """A model at zero whose port is open; streams that wait get a comment ten times a second."""
    port = free_port()
    model = known(deployment(NAME, port))
    assert model is not None
    around = Surroundings("activator-a", limits or Limits(), lambda: datetime.now(UTC))
    meter = Meter()
    meter.know(model.key)
    line = Line(replace(model, **changes), around)
    async with AsyncExitStack() as stack:
        pass_on = passing.Passing(await stack.enter_async_context(passing.session()))
        lines = {port: line}
        front = Front(lines.get, pass_on, Terms(token, comment_s=0.1), around, meter)
        ports = Ports(front, HERE, idle_s)
        await ports.want(frozenset({port}))
        stack.push_async_callback(ports.close)
        yield Door(lines, meter, front, around)


@asynccontextmanager
async def worker(handler: Handler | None = None) -> AsyncIterator[Worker]:
    """A running worker."""
    made = Worker(handler)
    server = web.Server(made.answer, handler_cancellation=True, auto_decompress=False)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, HERE, port).start()
    made.address = Address(HERE, port)
    try:
        yield made
    finally:
        await runner.cleanup()
