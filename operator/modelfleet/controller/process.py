"""What each of our processes asks of its own: when to stop, what time it is, and how often to look for waste."""

import asyncio
import gc
import signal
from datetime import UTC, datetime

_COLLECT = (50_000, 20, 20)


def collect_seldom() -> None:
    """Has Python look for cycles of objects less often: it stands still meanwhile, the longer the more it holds.

    A window of 10,000 pods is two million objects, none of them in a cycle; by the usual thresholds a third of the time
    of reading them went into looking for one. A page of an activator's metrics made it look at all that it holds.
    """
    gc.set_threshold(*_COLLECT)


def stop_signal() -> asyncio.Event:
    """Set by SIGTERM and by Ctrl-C. Called in the process's running loop."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def utc_now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)
