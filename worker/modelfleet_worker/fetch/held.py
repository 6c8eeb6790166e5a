"""The mark that a serving worker holds on its fetched weights, so that no other pod's fetch takes them away."""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from modelfleet_worker.fetch.order import Order

_TOUCH_S = 60.0
_log = logging.getLogger(__name__)


@contextmanager
def held(order: Order | None, pod: str, folder: Path) -> Iterator[None]:
    """Holds the mark of `pod` below `folder` (the store's `use`), and writes the time to it every minute: the lock ends
    with this process, the time bridges the container's next start. Does nothing for weights that are not shared."""
    if order is None or not order.shared:
        yield
        return
    mark, stop = folder / order.key / pod, Event()
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        file = mark.open("a")
    except OSError as error:
        # The weights are there, so serving goes on; they may be evicted once nobody marks them.
        _log.warning("the weights cannot be marked as used: %s", error)
        yield
        return
    with file:
        with contextlib.suppress(OSError):  # a moment's lock of one who looks does not matter: the time counts too
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)

        def keep() -> None:
            while not stop.wait(_TOUCH_S):
                with contextlib.suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    os.utime(mark)

        os.utime(mark)
        Thread(target=keep, daemon=True, name="weights-mark").start()
        try:
            yield
        finally:
            stop.set()
