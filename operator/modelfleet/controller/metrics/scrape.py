"""Reads the pages of worker pods. I/O: HTTP GETs, to the addresses that pods of ours have, and nowhere else.

Nothing of ours goes along (no token, no cookie, no proxy of the environment), no redirect is followed, and an answer is
bounded in time and size: whoever can write into a pod can answer here.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

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


class UnreadError(Exception):
    """A page could not be read; the text says why, as the end of a sentence."""


class Scraper:
    """One client for all pods; see `scraper`."""

    def __init__(self, client: httpx.AsyncClient, port: int, timeout_s: float) -> None:
        self._client, self._port, self._timeout_s = client, port, timeout_s

    async def text(self, worker: Worker) -> str:
        """The page of a worker. Raises UnreadError."""
        url = f"http://{worker.host}:{self._port}/metrics"
        try:
            async with asyncio.timeout(self._timeout_s), self._client.stream("GET", url) as response:
                if response.status_code != httpx.codes.OK:
                    raise UnreadError(f"its page answers with status {response.status_code}")
                return (await _body(response)).decode()
        except TimeoutError as error:
            raise UnreadError(f"its page does not answer within {self._timeout_s:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, UnicodeDecodeError) as error:
            raise UnreadError(f"its page cannot be read ({type(error).__name__})") from error


async def _body(response: httpx.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > MOST_BYTES:
            raise UnreadError(f"its page has more than {MOST_BYTES} bytes")
    return bytes(body)


@asynccontextmanager
async def scraper(port: int = names.STATUS_PORT, timeout_s: float = TIMEOUT_S) -> AsyncIterator[Scraper]:
    """A scraper, for the time of the block."""
    transport = AiohttpTransport(client=_session, verify=False, trust_env=False)
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    async with httpx.AsyncClient(
        transport=transport,
        trust_env=False,
        follow_redirects=False,
        cookies=cookies,
        timeout=timeout_s,
        headers={"Accept-Encoding": "identity", "User-Agent": "modelfleet-operator"},
    ) as client:
        yield Scraper(client, port, timeout_s)


def _session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=_KEPT_S)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)
