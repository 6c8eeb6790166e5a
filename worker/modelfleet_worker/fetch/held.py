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
from modelfleet_worker.fetch.store import lockable

_TOUCH_S = 60.0
_log = logging.getLogger(__name__)


@contextmanager
def held(order: Order | None, pod: str, folder: Path, every_s: float = _TOUCH_S) -> Iterator[None]:
    """Holds the mark of `pod` below `folder` (the store's `use`), and writes the time to it every minute: the lock ends
    with this process, the time bridges the container's next start. Does nothing for weights that are not shared.

    A thread of its own asks the volume, and nobody waits for it: a volume on a network may not answer, and the worker
    starts, drains and ends all the same.
    """
    if order is None or not order.shared:
        yield
        return
    stop = Event()
    marking = (folder / order.key / pod, stop, every_s)
    Thread(target=_mark, args=marking, daemon=True, name="weights-mark").start()
    try:
        yield
    finally:
        stop.set()


def _mark(mark: Path, stop: Event, every_s: float) -> None:
    """Until `stop`. The weights are there, so what fails ends nothing; they may be evicted while nobody marks them."""
    said = ""
    while not stop.is_set():
        try:
            _hold(mark, stop, every_s)
        except OSError as error:
            if str(error) != said:
                _log.warning("the weights cannot be marked as used, which is tried again: %s", error)
            said = str(error)
            stop.wait(every_s)


def _hold(mark: Path, stop: Event, every_s: float) -> None:
    """Returns when stopped. Raises OSError where the mark cannot be made, or went."""
    mark.parent.mkdir(parents=True, exist_ok=True)
    with lockable(mark) as file:
        while True:
            os.utime(mark)
            with contextlib.suppress(OSError):  # a volume without locks: the time counts too
                fcntl.flock(file, fcntl.LOCK_SH)  # waits for one who looks, and meanwhile has the mark locked himself
            if stop.wait(every_s):
                return
