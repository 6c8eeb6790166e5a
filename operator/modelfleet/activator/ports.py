"""The ports that models are reached at: opened and closed as models come and go. I/O: listening sockets."""

import asyncio
import logging
from collections.abc import Mapping

from aiohttp import web

from modelfleet.activator.front import Front

_log = logging.getLogger(__name__)

BACKLOG = 4096
"""Connections that wait to be accepted: a burst at zero comes at once. The kernel's somaxconn caps it."""

_HEADER_BYTES = 65536
_RETRY_S = 5.0


class Ports:
    """Listens where it is wanted. A port that cannot be opened is tried again every few seconds."""

    def __init__(self, front: Front, host: str | None) -> None:
        self._host = host
        self._server = web.Server(
            front,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )
        self._open: dict[int, asyncio.Server] = {}
        self._faults: dict[int, str] = {}
        self._wanted: frozenset[int] = frozenset()
        self._changing = asyncio.Lock()

    @property
    def listening(self) -> frozenset[int]:
        """The ports that are open."""
        return frozenset(self._open)

    @property
    def faults(self) -> Mapping[int, str]:
        """The ports that cannot be opened, and why."""
        return self._faults

    @property
    def connections(self) -> int:
        """Connections of clients."""
        return len(self._server.connections)

    async def want(self, ports: frozenset[int]) -> None:
        """Opens and closes, so that these ports and no others are open. Connections that stand are not touched."""
        self._wanted = ports
        async with self._changing:
            for port in self._open.keys() - self._wanted:
                self._open.pop(port).close()
            for port in sorted(self._wanted - self._open.keys()):
                await self._listen(port)

    async def run(self) -> None:
        """Tries again what could not be opened, until cancelled."""
        while True:
            await asyncio.sleep(_RETRY_S)
            if self._faults:
                await self.want(self._wanted)

    async def close(self) -> None:
        """Ends all connections; what is answered on them must be over."""
        await self.want(frozenset())
        await self._server.shutdown(1.0)

    def end_idle(self) -> None:
        """Connections that carry no request end; each of the others after the answer that it waits for."""
        self._server.pre_shutdown()

    async def _listen(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._open[port] = await loop.create_server(self._server, self._host, port, backlog=BACKLOG)
            self._faults.pop(port, None)
        except OSError as error:
            if port not in self._faults:
                _log.error("port %d cannot be opened: %s", port, error)
            self._faults[port] = str(error)
