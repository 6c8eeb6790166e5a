"""Ends a fetch that gets no further: a volume that does not answer, or a pod that is waited for, tells nobody."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.fetch.progress import Progress

GiveUp = Callable[[Failure], None]
_LOOK_S = 5.0


@contextmanager
def bounded(progress: Progress, silent_s: float, give_up: GiveUp) -> Iterator[None]:
    """Calls `give_up` after `silent_s` without progress, from a thread of its own: the one that fetches may hang in the
    kernel."""
    over = Event()

    def look() -> None:
        while not over.wait(min(_LOOK_S, silent_s / 4)):
            if progress.silent_s >= silent_s:
                give_up(_stalled(progress, silent_s))
                return

    thread = Thread(target=look, daemon=True, name="silence")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _stalled(progress: Progress, silent_s: float) -> Failure:
    there, total = progress.there
    how_far = f"at {there} of {total} bytes" if total else "before the files were listed"
    where = "Another pod fetches these weights, and it" if progress.state == "waiting" else "The fetch"
    return Failure(
        reason=Reason.FETCH_FAILED,
        message=f"{where} got no further for {silent_s / 60:.0f} min, {how_far}.",
        remedy="Look at the volume for fetched weights and at the node's log. It is tried again by itself.",
        phase="fetch",
    )
