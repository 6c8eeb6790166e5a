"""Streams of completions that are always there, read as cheaply as Python can: what the client costs is not the
server's."""

import asyncio
import json
import re
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

_PROMPT_TOKENS = 16
_TAIL_BYTES = 2000
_FINISHED = re.compile(rb'"finish_reason": ?"length"')
_TOKENS = re.compile(rb'"token_ids": ?\[([^\]]+)\]')
"""The API server puts tokens together in a chunk when it had no time to send them, so chunks are not counted."""


@dataclass(frozen=True)
class Shape:
    """A steady load: so many streams at once, each asking for `tokens` again and again."""

    streams: int
    tokens: int


class _Stream(asyncio.Protocol):
    """One connection: its next request begins as soon as one ends. `times_s` has one number for each token, the same
    for those that came together."""

    def __init__(self, request: bytes, tokens: int, failed: asyncio.Future[None]) -> None:
        self._request, self._tokens, self._failed = request, tokens, failed
        self.times_s = array("d")
        self._tail = self._line = b""
        self._begun, self._before = False, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._to = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now_s = time.monotonic()
        if not self._begun:
            if not data.startswith(b"HTTP/1.1 200"):
                return self._fail(f"the engine answered {data[:500]!r}")
            self._begun = True
        lines, _, self._line = (self._line + data).rpartition(b"\n")  # a read may end within a line
        for tokens in _TOKENS.findall(lines):
            self.times_s.extend((now_s,) * (tokens.count(b",") + 1))
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        if self._tail.endswith(b"\r\n0\r\n\r\n"):
            self._again()
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the engine closed the connection")

    def _again(self) -> None:
        came = len(self.times_s) - self._before
        if came != self._tokens or not _FINISHED.search(self._tail):
            return self._fail(f"{came} of {self._tokens} tokens came, and at the end {self._tail[-500:]!r}")
        self._before = len(self.times_s)
        self._tail, self._begun = b"", False
        return self._to.write(self._request)

    def _fail(self, why: str) -> None:
        if not self._failed.done():
            self._failed.set_exception(RuntimeError(why))


class Load:
    """The streams of a shape."""

    def __init__(self, streams: Sequence[_Stream], failed: asyncio.Future[None]) -> None:
        self._streams, self._failed = streams, failed

    async def stays(self, seconds: float) -> None:
        """Returns after so long. Raises RuntimeError once a stream got anything but whole answers."""
        await asyncio.wait([self._failed], timeout=seconds)
        if self._failed.done():
            self._failed.result()

    @property
    def times_s(self) -> list[Sequence[float]]:
        """Of each stream, when its tokens came, by the monotonic clock."""
        return [one.times_s for one in self._streams]


def request(port: int, model: str, tokens: int, number: int) -> bytes:
    """The bytes of one streamed completion; each stream has a prompt of its own."""
    prompt = [100 + number, *range(10, 9 + _PROMPT_TOKENS)]
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": True}
    body |= {"temperature": 0.0, "return_token_ids": True}
    text = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(text) + text


@asynccontextmanager
async def steady(port: int, model: str, shape: Shape) -> AsyncIterator[Load]:
    """The load is on the server at `port` inside the block."""
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[None] = loop.create_future()
    streams, transports = [], []
    try:
        for number in range(shape.streams):
            made = partial(_Stream, request(port, model, shape.tokens, number), shape.tokens, failed)
            transport, stream = await loop.create_connection(made, "127.0.0.1", port)
            streams.append(stream)
            transports.append(transport)
        yield Load(streams, failed)
    finally:
        failed.cancel()
        for transport in transports:
            transport.abort()
