"""10,000 workers in one process: each is an address of 127.0.0.0/8, all at one port. Their pages are as workers print
them (some 13 kB), with counters that move from one look to the next.

    python -m benchmarks.scrape.engines PORT
"""

import asyncio
import re
import sys

from sampled import Sampled, worker
from worker_pages import good

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n"


def address(index: int) -> str:
    """The address of an engine."""
    return f"127.{1 + index // 62500}.{index // 250 % 250}.{1 + index % 250}"


def index_of(host: str) -> int:
    """The engine at an address."""
    _, first, second, third = map(int, host.split("."))
    return (first - 1) * 62500 + second * 250 + third - 1


def uid(index: int) -> str:
    """Its pod's uid."""
    return f"00000000-0000-4000-8000-{index:012d}"


def template() -> tuple[bytes, bytes, bytes]:
    """A page in three parts, between which stand the uid and a count."""
    numbers = good(777_777, 9, ttft_s=[0.1, 0.3] * 50, tpot_s=[0.02] * 100, prompts=[90, 300] * 50, answers=[40] * 100)
    text = Sampled().page(worker(), numbers, steps=4000).text
    text = text.replace("uid-0", "\0")
    text = re.sub(r'(requests_total\{objective="interactive",outcome="met",promise="\w+"\}) 777777\.0', "\\1 \0", text)
    head, middle, tail = text.encode().split(b"\0")
    return head, middle, tail


class Engine(asyncio.Protocol):
    """One connection to one engine."""

    parts = template()
    asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.index = transport, index_of(transport.get_extra_info("sockname")[0])

    def data_received(self, data: bytes) -> None:
        Engine.asked += 1
        head, middle, tail = self.parts
        count = 1000 + Engine.asked
        body = b"".join((head, uid(self.index).encode(), middle, str(float(count)).encode(), tail))
        self.transport.write(_HEAD % len(body) + body)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Engine, "0.0.0.0", port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
