"""How long a request waited before it was read: measured on a real connection."""

import asyncio
import time
from typing import Any

from modelfleet_worker.pulse import waited_s


class Cycle:
    """Holds its transport as uvicorn's does."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport

    async def receive(self) -> None: ...


async def test_the_time_that_a_request_lay_in_the_kernel_is_found() -> None:
    found: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            found.set_result(waited_s(Cycle(self.transport).receive))

    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    await asyncio.sleep(0.05)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    time.sleep(0.3)  # noqa: ASYNC251 (the loop is busy with something else)
    assert 0.2 <= await found < 5.0
    writer.close()
    server.close()


def test_without_a_connection_nothing_is_known_to_have_been_waited() -> None:
    async def receive() -> None: ...

    assert waited_s(receive) == 0.0
