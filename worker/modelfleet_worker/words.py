"""Files of unsigned 64-bit numbers, mapped into memory: how processes share counts without a lock.

Each number has one writer, and an aligned one is written at once. Standard library only (the engine's Python).
"""

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_WORD_BYTES = 8


class Words:
    """A file of `count` numbers. Raises ValueError for a file that is smaller, FileNotFoundError without one, OSError
    for one that cannot be made, as on a full volume."""

    def __init__(self, path: Path, count: int, *, create: bool) -> None:
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            if create and os.fstat(descriptor).st_size < count * _WORD_BYTES:
                # Its room is taken now: a write to a page that a full volume cannot give kills the process that writes.
                # Nor is a file ever made shorter: whoever has it mapped would be killed in the same way.
                os.posix_fallocate(descriptor, 0, count * _WORD_BYTES)
            self._map = mmap.mmap(descriptor, count * _WORD_BYTES)
        finally:
            os.close(descriptor)
        self.view = memoryview(self._map).cast("Q")
        """The numbers themselves, for code that is run for every step of an engine."""

    def __getitem__(self, index: int) -> int:
        return self.view[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.view[index] = value


def of_processes(folder: Path, prefix: str, count: int) -> Iterator[tuple[int, Words]]:
    """The files `PREFIX-PID` in `folder` by process id; one that was made and is not yet sized is left out."""
    for path in sorted(folder.glob(f"{prefix}-*")):
        tail = path.name.removeprefix(f"{prefix}-")
        if tail.isdigit():
            with suppress(ValueError, FileNotFoundError):
                yield int(tail), Words(path, count, create=False)


class Histogram:
    """Counts by upper edge, the last one without an edge, and the sum of what was seen, in `len(edges) + 2` words."""

    def __init__(self, edges: Sequence[float], start: int) -> None:
        self.edges, self.start = tuple(edges), start
        self.end = start + len(self.edges) + 2

    def add(self, view: memoryview, value: float, amount: int) -> None:
        """Counts `value` once and adds `amount`, its whole number, to the sum."""
        view[self.start + bisect_left(self.edges, value)] += 1
        view[self.end - 1] += amount
