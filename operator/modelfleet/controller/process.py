"""What each of our processes asks of its own: when to stop, and what time it is."""

import asyncio
import signal
from datetime import UTC, datetime


def stop_signal() -> asyncio.Event:
    """Set by SIGTERM and by Ctrl-C. Called in the process's running loop."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def utc_now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)
