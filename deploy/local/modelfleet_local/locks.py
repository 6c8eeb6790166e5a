"""One holder at a time, across processes: whoever builds something for the cache holds its lock meanwhile."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modelfleet_local.progress import Say, silent


@contextmanager
def locked(path: Path, waiting: str = "", say: Say = silent) -> Iterator[None]:
    """Holds the lock file `path`, which is made if it is missing; `say` gets `waiting` if another process has it.

    The lock ends with the process, however that ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
