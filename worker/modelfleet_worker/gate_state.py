"""What gate and supervisor share: the drain's mode and the counts of requests, in small files mapped into memory.

The supervisor writes `mode`, every API-server process writes a `counts-PID` of its own, so each number has one writer
and no lock. Standard library only: the gate runs in the engine's Python.
"""

import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path

FOLDER_VARIABLE = "MODELFLEET_GATE_FOLDER"
TOKEN_VARIABLE = "MODELFLEET_GATE_TOKEN"
TOKEN_HEADER = "x-modelfleet-supervisor"
_COUNTS = "counts-"
_WORD_BYTES = 8


class Mode(IntEnum):
    """What the gate does with an arrival: serve it; serve it and close the connection; refuse it."""

    SERVE = 0
    CLOSE = 1
    REFUSE = 2


class Outcome(StrEnum):
    """How a request ended, as far as HTTP tells: an error event inside a stream is not seen.

    COMPLETED has a status below 400. ABORTED: the client left before the answer was whole. REFUSED: by a drain.
    """

    COMPLETED = "completed"
    CLIENT_ERROR = "client_error"
    SERVER_ERROR = "server_error"
    ABORTED = "aborted"
    REFUSED = "refused"


_OUTCOMES = tuple(Outcome)


class Words:
    """A file of unsigned 64-bit numbers, mapped into memory. An aligned one is written at once."""

    def __init__(self, path: Path, count: int, *, create: bool) -> None:
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            if create:
                os.ftruncate(descriptor, count * _WORD_BYTES)
            self._map = mmap.mmap(descriptor, count * _WORD_BYTES)
        finally:
            os.close(descriptor)
        self._view = memoryview(self._map).cast("Q")

    def __getitem__(self, index: int) -> int:
        return self._view[index]

    def __setitem__(self, index: int, value: int) -> None:
        self._view[index] = value


class Counter:
    """The counts of this process. Word 0 is in flight, the others are requests by outcome."""

    def __init__(self, folder: Path) -> None:
        self._words = Words(folder / f"{_COUNTS}{os.getpid()}", 1 + len(_OUTCOMES), create=True)

    def begin(self) -> None:
        """A request arrived."""
        self._words[0] += 1

    def end(self, outcome: Outcome) -> None:
        """A request that began has ended."""
        self._words[1 + _OUTCOMES.index(outcome)] += 1
        self._words[0] -= 1


class ModeReader:
    """The mode that the supervisor set."""

    def __init__(self, folder: Path) -> None:
        self._words = Words(folder / "mode", 1, create=False)

    def __call__(self) -> Mode:
        return Mode(self._words[0])


@dataclass(frozen=True)
class Counts:
    """`in_flight` counts living processes only; `ended` counts all since the supervisor's start."""

    gates: int
    in_flight: int
    ended: Mapping[Outcome, int]


class Board:
    """The supervisor's side. Making it forgets what an earlier container of the pod left in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        self.folder = folder
        self._mode = Words(folder / "mode", 1, create=True)

    def set_mode(self, mode: Mode) -> None:
        """Takes effect for the next arrival in every API-server process."""
        self._mode[0] = mode

    def read(self) -> Counts:
        """The sum over the API-server processes. A process that died holds no request."""
        in_flight, gates = 0, 0
        ended = dict.fromkeys(_OUTCOMES, 0)
        for pid, words in self._counts():
            if Path(f"/proc/{pid}").exists():
                gates += 1
                in_flight += words[0]
            for index, outcome in enumerate(_OUTCOMES, start=1):
                ended[outcome] += words[index]
        return Counts(gates, in_flight, ended)

    def _counts(self) -> Iterator[tuple[int, Words]]:
        for path in self.folder.glob(f"{_COUNTS}*"):
            with suppress(ValueError, FileNotFoundError):  # made and not yet sized
                yield int(path.name.removeprefix(_COUNTS)), Words(path, 1 + len(_OUTCOMES), create=False)
