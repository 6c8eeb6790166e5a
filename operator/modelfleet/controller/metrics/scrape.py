"""Reads the pages of worker pods. I/O: HTTP GETs, to the addresses that pods of ours have, and nowhere else.

Nothing of ours goes along (no token, no cookie, no proxy of the environment), no redirect is followed, and an answer is
bounded in time and size: whoever can write into a pod can answer here.
"""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from modelfleet.api import names
from modelfleet.controller.metrics.workers import Worker

MOST_BYTES = 1 << 20
"""A page has some 30 kB; one of many objectives, some 200."""

TIMEOUT_S = 4.0
"""Below the default interval, so that a pod that hangs delays nothing."""

CONNECTIONS = 256
"""Pods that are read at the same time."""

_KEPT_S = 15.0  # a connection is used again at the next two looks
_FILES = 16384  # open files from which on connections to thousands of pods may be kept
_HEADERS = {"Accept": "text/plain", "Accept-Encoding": "identity", "User-Agent": "modelfleet-operator"}


class UnreadError(Exception):
    """A page could not be read; the text says why, as the end of a sentence."""


class Scraper:
    """One transport for all pods; see `scraper`. Without a client around it nothing follows, remembers or adds."""

    def __init__(self, transport: AiohttpTransport, port: int, timeout_s: float) -> None:
        self._transport, self._timeout_s = transport, timeout_s
        # A request is the same each time, and making one costs as much as reading its answer.
        self._request = lru_cache(maxsize=16384)(
            lambda host: httpx.Request("GET", f"http://{host}:{port}/metrics", headers=_HEADERS)
        )

    async def text(self, worker: Worker) -> str:
        """The page of a worker. Raises UnreadError."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return (await self._body(worker)).decode()
        except TimeoutError as error:
            raise UnreadError(f"its page does not answer within {self._timeout_s:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, UnicodeDecodeError) as error:
            raise UnreadError(f"its page cannot be read ({type(error).__name__})") from error

    async def _body(self, worker: Worker) -> bytes:
        response = await self._transport.handle_async_request(self._request(worker.host))
        try:
            if response.status_code != httpx.codes.OK:
                raise UnreadError(f"its page answers with status {response.status_code}")
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > MOST_BYTES:
                    raise UnreadError(f"its page has more than {MOST_BYTES} bytes")
            return bytes(body)
        finally:
            await response.aclose()


@asynccontextmanager
async def scraper(port: int = names.STATUS_PORT, timeout_s: float = TIMEOUT_S) -> AsyncIterator[Scraper]:
    """A scraper, for the time of the block."""
    async with AiohttpTransport(client=_session, verify=False, trust_env=False) as transport:
        yield Scraper(transport, port, timeout_s)


def _session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=_KEPT_S, force_close=not _many_files())
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


def _many_files() -> bool:
    """Raises what this process may open to what it is allowed; True if that is enough to keep connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > soft:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft == resource.RLIM_INFINITY or soft >= _FILES
