"""Streamed completions at a steady batch, read as cheaply as Python can: what the client costs is not the server's."""

import asyncio
import json
import re
import statistics
import time
from dataclasses import dataclass

_DONE_S = 120.0
_PROMPT = 128
_TAIL_BYTES = 4000
_FINISHED = re.compile(rb'"finish_reason": ?"length"')


@dataclass(frozen=True)
class Shape:
    """A segment of load: `waves` one after the other, each of `streams` at once, each stream of `tokens`."""

    streams: int
    tokens: int
    waves: int

    @property
    def all_tokens(self) -> int:
        return self.streams * self.tokens * self.waves


@dataclass(frozen=True)
class Served:
    """How long the segment took; the mean over its streams of (last token - first token) / (tokens - 1); the median of
    all times between two tokens of a stream, which what else the machine does moves less."""

    wall_s: float
    tpot_s: float
    gap_s: float
    read: float
    """The part of the tokens that this process read one by one. A machine that gives it no time to read makes streams
    come in heaps, and then their times say nothing of the server."""


class _Stream(asyncio.Protocol):
    """One connection, used for one request after the other."""

    def __init__(self) -> None:
        self._first_s = self._last_s = 0.0
        self.gaps_s: list[float] = []
        self._tail = b""
        self._begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._to = transport

    async def ask(self, request: bytes) -> float:
        """Sends a request; its time from first to last token. Raises RuntimeError for any answer but a whole one."""
        self._whole: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._first_s, self._tail, self._begun = 0.0, b"", False
        self._to.write(request)
        async with asyncio.timeout(_DONE_S):
            await self._whole
        if not _FINISHED.search(self._tail):
            raise RuntimeError(f"the engine did not generate what was asked for: {self._tail[-500:]!r}")
        return self._last_s - self._first_s

    def data_received(self, data: bytes) -> None:
        now_s = time.monotonic()
        if not self._begun:
            if not data.startswith(b"HTTP/1.1 200"):
                self._whole.set_exception(RuntimeError(f"the engine answered {data[:500]!r}"))
                return
            self._begun = True
        if b"data: {" in data:
            if self._first_s:
                self.gaps_s.append(now_s - self._last_s)
            self._first_s, self._last_s = self._first_s or now_s, now_s
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        if self._tail.endswith(b"\r\n0\r\n\r\n") and not self._whole.done():
            self._whole.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._begun and not self._whole.done():
            self._whole.set_exception(RuntimeError("the engine closed the connection within an answer"))


def request(port: int, model: str, tokens: int, number: int) -> bytes:
    """The bytes of one streamed completion; streams of one wave have prompts of their own."""
    prompt = [100 + number, *range(10, 9 + _PROMPT)]
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": True}
    body["temperature"] = 0.0
    text = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(text) + text


async def serve(port: int, model: str, shape: Shape) -> Served:
    """Puts one segment of load on the server at `port`."""
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(_Stream, "127.0.0.1", port) for _ in range(shape.streams)]
    streams = [protocol for _, protocol in made]
    requests = [request(port, model, shape.tokens, number) for number in range(shape.streams)]
    taken: list[float] = []
    start_s = time.monotonic()
    for _ in range(shape.waves):
        taken += await asyncio.gather(*(one.ask(what) for one, what in zip(streams, requests, strict=True)))
    wall_s = time.monotonic() - start_s
    for transport, _ in made:
        transport.close()
    tpot_s = statistics.fmean(taken) / (shape.tokens - 1)
    gaps_s = [gap_s for one in streams for gap_s in one.gaps_s]
    read = len(gaps_s) / (shape.streams * shape.waves * (shape.tokens - 1))
    return Served(wall_s, tpot_s, statistics.median(gaps_s or [0.0]), read)
