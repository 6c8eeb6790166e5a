"""How long requests wait before this process sees them, and how late its event loop runs. Standard library only."""

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from modelfleet_worker.ledger import Request

_TICK_S = 0.1
_LAST_DATA_RECEIVED = 52
"""Where `tcpi_last_data_recv` stands in Linux's struct tcp_info, an unsigned 32-bit number of milliseconds."""
_MOST_WAIT_S = 600.0  # above this it is no wait for us: the field is not what we take it for


def waited_s(receive: Any) -> float:
    """How long the newest bytes of a request had been in the kernel when we got to it: its wait to be accepted and for
    the event loop. 0.0 where that can't be known (no TCP, another server than uvicorn). In steps of the kernel's tick,
    1 to 10 ms, rounded down.
    """
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    if transport is None:
        return 0.0
    try:
        peer = transport.get_extra_info("socket")
        info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_RECEIVED + 4)
        (milliseconds,) = struct.unpack_from("I", info, _LAST_DATA_RECEIVED)
    except (AttributeError, OSError, struct.error):
        return 0.0
    return milliseconds / 1000 if milliseconds / 1000 < _MOST_WAIT_S else 0.0


class Pulse:
    """Looks at the requests in flight every 0.1 s, while there are any, and tells `heard` how many wait for their first
    token, since when the longest does (monotonic nanoseconds, 0 without one), and how late the look came in seconds."""

    def __init__(self, heard: Callable[[int, int, float], None]) -> None:
        self._heard = heard
        self._in_flight = 0
        self._waiting: dict[int, Request] = {}
        self._due_s = 0.0
        self._beats = False

    def begin(self, request: Request) -> None:
        """A request is in flight."""
        self._in_flight += 1
        self._waiting[id(request)] = request
        if not self._beats:
            self._beats = True
            self._arm(asyncio.get_running_loop())
        if len(self._waiting) == 1:
            self._tell(0.0)

    def end(self, request: Request) -> None:
        """It is no more."""
        self._in_flight -= 1
        if self._waiting.pop(id(request), None) is not None and not self._waiting:
            self._tell(0.0)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_s = loop.time() + _TICK_S
        loop.call_at(self._due_s, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        late_s = max(loop.time() - self._due_s, 0.0)
        for key in [key for key, request in self._waiting.items() if request.has_token]:
            del self._waiting[key]
        self._tell(late_s)
        if self._in_flight:
            self._arm(loop)
        else:
            self._beats = False

    def _tell(self, late_s: float) -> None:
        since_ns = [one.entered_monotonic_ns for one in self._waiting.values() if not one.uploading]
        self._heard(len(since_ns), min(since_ns, default=0), late_s)


def monotonic_ns(before_s: float) -> int:
    """`before_s` seconds ago, by the monotonic clock, which all processes of a machine share."""
    return max(time.monotonic_ns() - round(before_s * 1e9), 1)
