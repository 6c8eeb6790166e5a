"""Hands a request to a worker and its answer back, as they come. I/O.

A request is sent once: only a connection that was not made is tried again, at another worker. Each request has a
connection of its own, because of one that is used again nobody can say whether the worker had closed it before, or had
begun.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from modelfleet.core.activation import answers
from modelfleet.core.activation.headers import Headers, end_to_end
from modelfleet.core.activation.slices import Address

CONNECT_S = 2.0
"""Until a connection to a worker stands: a pod whose node is gone answers nothing at all."""

_NO_BODY = frozenset({204, 304})
_OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class NotConnectedError(Exception):
    """No connection to the worker was made, so it has not seen the request."""


class UnansweredError(Exception):
    """The worker took the connection and did not answer: it may have begun, so nothing is tried again."""


class BrokenError(Exception):
    """The worker's connection broke while it had the request; nothing more can be sent to the client."""


@dataclass(frozen=True)
class Outgoing:
    """A request as a worker gets it. `body`: what was read of it, or what is still to come; None: it has none.
    `closing`: with the answer the client is told to connect anew, and so goes elsewhere."""

    method: str
    target: str
    path: str
    headers: Headers
    body: bytes | AsyncIterator[bytes] | None
    closing: bool = False


def session() -> aiohttp.ClientSession:
    """The connections to workers: as many as there are requests; bodies and headers stay as they are."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True, use_dns_cache=False),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_OWN_HEADERS,
        auto_decompress=False,
        trust_env=False,
        max_line_size=65536,
        max_field_size=65536,
    )


class Passing:
    """Passes requests on through one session."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self._client = client

    async def __call__(
        self, request: web.BaseRequest, out: Outgoing, to: Address, begun: web.StreamResponse | None
    ) -> web.StreamResponse:
        """Sends `out` to a worker and its answer to the client; `begun`: a stream that was begun while it waited.

        Raises NotConnectedError, UnansweredError, BrokenError, and ConnectionResetError where the client is gone.
        """
        try:
            answer = await self._client.request(
                out.method,
                _url(to, out.target),
                headers=CIMultiDict(out.headers),
                data=out.body,
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotConnectedError from error
        except (aiohttp.ClientError, OSError) as error:
            raise UnansweredError(
                f"the worker ended the connection before it answered ({type(error).__name__}); it may have begun"
            ) from error
        async with answer:
            if begun is not None:
                return await _continued(answer, out.path, begun)
            return await _answered(request, answer, closing=out.closing)


async def _answered(request: web.BaseRequest, answer: aiohttp.ClientResponse, *, closing: bool) -> web.StreamResponse:
    """The answer with the worker's own status and headers."""
    headers = CIMultiDict(end_to_end(answer.headers.items()))
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
    empty = request.method == "HEAD" or answer.status in _NO_BODY
    unsized = "Content-Length" not in headers and not empty
    if unsized and request.version >= aiohttp.HttpVersion11:
        response.enable_chunked_encoding()
    elif unsized:
        response.force_close()
    if closing:
        response.force_close()
    await response.prepare(request)
    if not empty:
        await _copy(answer, response)
    await response.write_eof()
    return response


async def _continued(answer: aiohttp.ClientResponse, path: str, begun: web.StreamResponse) -> web.StreamResponse:
    """The answer in a stream whose status was sent: the worker's events, or its refusal as one."""
    if answer.status == 200:
        await _copy(answer, begun)
    else:
        said = await _reading(answer)
        after = answer.headers.get("Retry-After", "")
        retry_s = int(after) if after.isdecimal() else None
        await begun.write(answers.error_event(path, answer.status, answers.message_of(said), retry_s))
    await begun.write_eof()
    return begun


async def _copy(answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    """Each piece as it comes; a slow client slows the worker's connection."""
    pieces = answer.content.iter_any()
    while True:
        try:
            piece = await anext(pieces, None)
        except (aiohttp.ClientError, OSError) as error:
            raise BrokenError("the worker's connection broke in the answer") from error
        if piece is None:
            return
        await response.write(piece)


async def _reading(answer: aiohttp.ClientResponse) -> bytes:
    try:
        return await answer.content.read(65536)
    except (aiohttp.ClientError, OSError):
        return b""


def _url(to: Address, target: str) -> URL:
    host = f"[{to.host}]" if ":" in to.host else to.host
    return URL(f"http://{host}:{to.port}{target}", encoded=True)


async def drop(request: web.BaseRequest) -> None:
    """Breaks the client's connection, so that it does not take what it has for a whole answer."""
    transport = request.transport
    if transport is not None:
        transport.abort()
    await asyncio.sleep(0)
