"""An engine and its clients, as cheap as Python has them: what a proxy between them costs is what is left.

Each runs in a process of its own (`python -m benchmarks.activator.traffic engine PORT`, `… clients PORT …`).
"""

import asyncio
import json
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

EVENTS, EVENT_S = 20, 0.1
HOST = "127.0.0.1"
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"token "}}]}\n\n'
_CHUNK = b"%x\r\n%s\r\n" % (len(_EVENT), _EVENT)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
_WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
_END = b"0\r\n\r\n"


class Engine(asyncio.Protocol):
    """Answers a request whose path ends in `/silent` never, in `/whole` at once, else with a stream of events."""

    def __init__(self) -> None:
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._to: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return
        self._got = b""
        close = b"connection: close" in head.lower()
        target = head.split(b" ", 2)[1].split(b"?")[-1]
        if target == b"silent":
            return
        after = b"Connection: close\r\n\r\n" if close else b"\r\n"
        if target == b"whole":
            self._to.write(_WHOLE + after + b"{}")
            self._end(close)
            return
        self._to.write(_HEAD + after + _CHUNK)
        asyncio.get_running_loop().call_later(EVENT_S, self._next, EVENTS - 1, close)

    def _next(self, left: int, close: bool) -> None:
        if self._to.is_closing():
            return
        self._to.write(_CHUNK if left > 1 else _CHUNK + _END)
        if left > 1:
            asyncio.get_running_loop().call_later(EVENT_S, self._next, left - 1, close)
        else:
            self._end(close)

    def _end(self, close: bool) -> None:
        if close:
            self._to.close()


class Client(asyncio.Protocol):
    """One connection that is used again and again."""

    def __init__(self) -> None:
        self.first: asyncio.Future[float] | None = None
        self.last: asyncio.Future[bytes] | None = None
        self._got = b""
        self._whole = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._to: asyncio.Transport = transport  # type: ignore[assignment]

    def send(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.first, self.last, self._got, self._whole = loop.create_future(), loop.create_future(), b"", False
        self._to.write(request)

    def data_received(self, data: bytes) -> None:
        if self.first is None or self.last is None:
            return
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        if found and body and not self.first.done():
            self.first.set_result(time.perf_counter())
        ended = body.endswith(_END) if b"chunked" in head.lower() else found and len(body) >= _length(head)
        if ended and not self.last.done():
            self.last.set_result(self._got)

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in (self.first, self.last):
            if waiting is not None and not waiting.done():
                waiting.set_exception(ConnectionError("the connection ended"))


@dataclass
class Figures:
    """What clients saw. Times in milliseconds."""

    requests: int
    seconds: float
    first_ms: list[float]
    failed: int

    @property
    def rate_rps(self) -> float:
        return self.requests / self.seconds

    def percentile_ms(self, part: float) -> float:
        ordered = sorted(self.first_ms)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    @property
    def median_ms(self) -> float:
        return statistics.median(self.first_ms)


def request_of(mode: str, body_bytes: int = 200) -> bytes:
    """A POST; the query says how the engine answers."""
    body = json.dumps({"model": "m", "stream": mode == "stream", "messages": "x" * body_bytes}).encode()
    head = f"POST /v1/chat/completions?{mode} HTTP/1.1\r\nHost: model\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def clients(port: int, count: int, seconds: float, mode: str) -> Figures:
    """`count` clients, each with one request at a time, for so long; requests that were begun are finished."""
    request, loop = request_of(mode), asyncio.get_running_loop()
    figures = Figures(0, 0.0, [], 0)
    begun = time.perf_counter()

    async def one(number: int) -> None:
        await asyncio.sleep(EVENT_S * number / count)
        _, client = await loop.create_connection(Client, HOST, port)
        while time.perf_counter() < begun + seconds:
            sent = time.perf_counter()
            try:
                client.send(request)
                assert client.first is not None
                assert client.last is not None
                figures.first_ms.append((await client.first - sent) * 1000)
                await client.last
                figures.requests += 1
            except ConnectionError:
                figures.failed += 1
                _, client = await loop.create_connection(Client, HOST, port)

    await asyncio.gather(*(one(number) for number in range(count)))
    figures.seconds = time.perf_counter() - begun
    return figures


async def crowd(port: int, count: int, body_bytes: int, mode: str) -> int:
    """Opens `count` connections with a request each, says so, and waits for every answer; how many were answered."""
    request, loop = request_of(mode, body_bytes), asyncio.get_running_loop()
    made: list[Client] = []
    for begin in range(0, count, 500):
        several = (loop.create_connection(Client, HOST, port) for _ in range(min(500, count - begin)))
        for _, client in await asyncio.gather(*several):
            client.send(request)
            made.append(client)
    print("asked", flush=True)
    answers = await asyncio.gather(*(each.last for each in made if each.last is not None), return_exceptions=True)
    return sum(isinstance(answer, bytes) and b" 200 " in answer[:20] for answer in answers)


async def engine(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Engine, HOST, port, backlog=4096)
    await server.serve_forever()


def main(arguments: Sequence[str]) -> None:
    """Prints one line of JSON."""
    what, port, *rest = arguments
    if what == "engine":
        asyncio.run(engine(int(port)))
    elif what == "clients":
        count, seconds, mode = rest
        print(json.dumps(asdict(asyncio.run(clients(int(port), int(count), float(seconds), mode)))))
    else:
        count, body_bytes, mode = rest
        print(asyncio.run(crowd(int(port), int(count), int(body_bytes), mode)))


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    main(sys.argv[1:])
