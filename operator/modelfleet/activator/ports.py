"""The ports that models are reached at: opened and closed as models come and go. I/O: listening sockets."""

import asyncio
import logging
from collections.abc import Mapping

from aiohttp import web
from aiohttp.http import HttpProcessingError

from modelfleet.activator.front import Front

_log = logging.getLogger(__name__)

BACKLOG = 4096
"""Connections that wait to be accepted: a burst at zero comes at once. The kernel's somaxconn caps it."""

IDLE_S = 75.0
"""A connection on which no request came whole, or none after an answer, is closed after so long: nginx's default."""

_HEADER_BYTES = 65536
_RETRY_S = 5.0


class Ports:
    """Listens where it is wanted. A port that cannot be opened is tried again every few seconds."""

    def __init__(self, front: Front, host: str | None, idle_s: float = IDLE_S) -> None:
        self._host = host
        self._server = web.Server(
            front,
            handler_cancellation=True,
            access_log=None,
            logger=_logger_of_connections(),
            keepalive_timeout=idle_s,
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

    async def _listen(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._open[port] = await loop.create_server(self._server, self._host, port, backlog=BACKLOG)
            self._faults.pop(port, None)
        except OSError as error:
            if port not in self._faults:
                _log.error("port %d cannot be opened: %s", port, error)
            self._faults[port] = str(error)


class _WithoutWords(logging.Filter):
    """What a client sent that could not be read stands in the error's text, credentials too: the client is told it, and
    the log only what kind of error it was."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False: the record is not written."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        _log.debug("a request that cannot be read was refused: %s", type(error).__name__)
        return False


def _logger_of_connections() -> logging.Logger:
    made = logging.getLogger(f"{__name__}.connections")
    if not made.filters:
        made.addFilter(_WithoutWords())
    return made
