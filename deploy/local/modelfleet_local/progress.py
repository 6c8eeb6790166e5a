"""Lines that tell a waiting user what is going on, with the seconds since the start."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Say = Callable[[str], None]
_HEARTBEAT_S = 20.0


def silent(_: str) -> None:
    """Says nothing."""


class Clocked:
    """A `Say` that puts the seconds since its making before each line, on standard error."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()

    def __call__(self, line: str) -> None:
        print(f"[{time.monotonic() - self._start_s:6.1f} s] {line}", file=sys.stderr, flush=True)


@contextmanager
def still_at_it(say: Say, what: str) -> Iterator[None]:
    """Repeats `what` with the time passed while the body runs, so that a long step does not look dead."""
    done = threading.Event()
    start_s = time.monotonic()

    def beat() -> None:
        while not done.wait(_HEARTBEAT_S):
            say(f"{what}: still at it after {time.monotonic() - start_s:.0f} s")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
