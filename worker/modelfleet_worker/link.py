"""A connection between two members of a group: lines of JSON, a beat each second. Its silence or end is news."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

BEAT_S = 1.0
SILENCE_S = 15.0
"""A member that says nothing for so long is taken for lost: fifteen beats, so that no busy moment counts as one."""

_LINE_LIMIT_BYTES = 16 * 1024
_CLOSE_TIMEOUT_S = 1.0


class LinkLostError(Exception):
    """Nothing more comes from the other side; the text goes on after its name: "closed its connection"."""


class Link:
    """One side of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def say(self, kind: str, **fields: str) -> None:
        """Sends a message. Never waits: what a silent side does not take in is little, and it is given up soon."""
        line = json.dumps({"say": kind, **fields}, ensure_ascii=False) + "\n"
        with suppress(OSError, RuntimeError):  # the reading side tells that the connection ended
            self._writer.write(line.encode(errors="replace"))  # a file's name may be no text

    async def hear(self, timeout_s: float = SILENCE_S) -> Mapping[str, Any]:
        """The next message. Raises LinkLostError."""
        try:
            async with asyncio.timeout(timeout_s):
                line = await self._reader.readline()
        except TimeoutError as error:
            raise LinkLostError(f"has said nothing for {timeout_s:g} s") from error
        except OSError as error:
            raise LinkLostError(f"lost its connection: {error.strerror or error}") from error
        except ValueError as error:
            raise LinkLostError("says what this worker does not understand") from error
        if not line.endswith(b"\n"):
            raise LinkLostError("closed its connection without a word")
        return _message(line)

    async def close(self) -> None:
        """Sends what is left and closes, within a moment."""
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._writer.wait_closed()


async def connect(host: str, port: int) -> Link:
    """Connects to a member. Raises OSError, of a name that does not resolve too."""
    return Link(*await asyncio.open_connection(host, port, limit=_LINE_LIMIT_BYTES))


def _message(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("say"), str):
        raise LinkLostError("says what this worker does not understand")
    return value
