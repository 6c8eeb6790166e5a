"""The only listener in the host's network namespace: a loopback port whose connections go to the API server inside.

`python -m modelfleet_local.forwarder LISTENER_FD NETNS PORT`. The listening socket was opened outside and stays there;
the process then moves inside, so that every connection it makes is made inside.
"""

import asyncio
import socket
import sys
from contextlib import suppress
from pathlib import Path

from modelfleet_local import netns

_CHUNK_BYTES = 1 << 16


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof()


async def _serve(listener: socket.socket, port: int) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
        finally:
            inner_writer.close()
            writer.close()

    server = await asyncio.start_server(forward, sock=listener)
    await server.serve_forever()


def main() -> None:
    """Serves until it is ended."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    netns.enter(Path(sys.argv[2]))
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(listener, int(sys.argv[3])))


if __name__ == "__main__":
    main()
