"""Reads the pages of worker pods. I/O: HTTP GETs, to the addresses that pods of ours have, and nowhere else.

Nothing of ours goes along (no token, no cookie, no proxy of the environment), no redirect is followed, and an answer is
bounded in time and size: whoever can write into a pod can answer here. aiohttp is used by itself (docs/adr/0020).
"""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from http import HTTPStatus

import aiohttp
from yarl import URL

from modelfleet.api import names
from modelfleet.controller.metrics.workers import Worker

MOST_BYTES = 1 << 20
"""A page has some 30 kB; one of many objectives, some 200."""

TIMEOUT_S = 4.0
"""Below the default interval, so that a pod that hangs delays nothing."""

CONNECTIONS = 256
"""Pods that are read at the same time."""

KEPT_S = 30.0
"""A connection is used again at the next looks, also where they are 10 s apart: opening one costs as much as using it
twice."""

_FILES = 16384  # open files from which on connections to thousands of pods may be kept
_HEADERS = {"Accept": "text/plain", "Accept-Encoding": "identity", "User-Agent": "modelfleet-operator"}


class UnreadError(Exception):
    """A page could not be read; the text says why, as the end of a sentence."""


class Scraper:
    """One session for all pods; see `scraper`."""

    def __init__(self, session: aiohttp.ClientSession, port: int, timeout_s: float) -> None:
        self._session, self._timeout_s = session, timeout_s
        self._address = lru_cache(maxsize=16384)(lambda host: URL(f"http://{host}:{port}/metrics"))

    async def text(self, worker: Worker) -> str:
        """The page of a worker. Raises UnreadError."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return (await self._body(worker)).decode()
        except TimeoutError as error:
            raise UnreadError(f"its page does not answer within {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: an address or a text that is none
            raise UnreadError(f"its page cannot be read ({type(error).__name__})") from error

    async def _body(self, worker: Worker) -> bytes:
        async with self._session.get(self._address(worker.host), allow_redirects=False) as response:
            if response.status != HTTPStatus.OK:
                raise UnreadError(f"its page answers with status {response.status}")
            body = bytearray()
            async for part in response.content.iter_any():
                body += part
                if len(body) > MOST_BYTES:
                    raise UnreadError(f"its page has more than {MOST_BYTES} bytes")
            return bytes(body)


@asynccontextmanager
async def scraper(
    port: int = names.STATUS_PORT, timeout_s: float = TIMEOUT_S, kept_s: float = KEPT_S
) -> AsyncIterator[Scraper]:
    """A scraper, for the time of the block. Connections that are idle for `kept_s` are closed."""
    async with aiohttp.ClientSession(
        connector=connector(kept_s, many_files=_many_files()),
        headers=_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,  # what is packed is no page: unpacking it would be unbounded
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # all of it together is bounded
    ) as session:
        yield Scraper(session, port, timeout_s)


def connector(kept_s: float, *, many_files: bool) -> aiohttp.TCPConnector:
    """Connections that are kept for `kept_s`, or, where this process may not open so many files, for none."""
    if many_files:
        return aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=kept_s)
    return aiohttp.TCPConnector(limit=CONNECTIONS, force_close=True)  # which takes no time to keep one for


def _many_files() -> bool:
    """Raises what this process may open to what it is allowed; True if that is enough to keep connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > soft:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft == resource.RLIM_INFINITY or soft >= _FILES
