"""What gate and supervisor share: the drain's mode, the promise and the counts of requests, in small files.

The supervisor writes `mode` and `promise.json`, every API-server process writes files of its own, so each number has
one writer and no lock. Standard library only: the gate runs in the engine's Python.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path

from modelfleet_worker.promise import Promise, PromiseError, parse_promise
from modelfleet_worker.tally import fold
from modelfleet_worker.words import Words, of_processes

FOLDER_VARIABLE = "MODELFLEET_GATE_FOLDER"
TOKEN_VARIABLE = "MODELFLEET_GATE_TOKEN"
TOKEN_HEADER = "x-modelfleet-supervisor"
_COUNTS = "counts"
_PROMISE = "promise.json"


class Mode(IntEnum):
    """What the gate does with an arrival: serve it; serve it and close the connection; refuse it."""

    SERVE = 0
    CLOSE = 1
    REFUSE = 2


class Outcome(StrEnum):
    """How a request ended, as far as HTTP tells.

    COMPLETED has a status below 400 and no error event in its stream. ABORTED: the client left before the answer was
    whole. REFUSED: by a drain.
    """

    COMPLETED = "completed"
    CLIENT_ERROR = "client_error"
    SERVER_ERROR = "server_error"
    ABORTED = "aborted"
    REFUSED = "refused"


_OUTCOMES = tuple(Outcome)


class _Word(IntEnum):
    """Where each number of a process stands; the outcomes follow IN_FLIGHT."""

    IN_FLIGHT = 0
    WAITING = 1 + len(_OUTCOMES)
    OLDEST_NS = 2 + len(_OUTCOMES)
    LAG_US = 3 + len(_OUTCOMES)
    ENTRY_WAIT_US = 4 + len(_OUTCOMES)
    PROBES = 5 + len(_OUTCOMES)
    END = 6 + len(_OUTCOMES)


class Counter:
    """The counts of this process."""

    def __init__(self, folder: Path) -> None:
        self._words = Words(folder / f"{_COUNTS}-{os.getpid()}", _Word.END, create=True)

    def begin(self) -> None:
        """A request arrived."""
        self._words[_Word.IN_FLIGHT] += 1

    def end(self, outcome: Outcome) -> None:
        """A request that began has ended."""
        self._words[1 + _OUTCOMES.index(outcome)] += 1
        self._words[_Word.IN_FLIGHT] -= 1

    def waits(self, waiting: int, oldest_ns: int, lag_s: float) -> None:
        """How many requests wait for their first token, since when the oldest does, how late the event loop runs."""
        self._words[_Word.WAITING] = waiting
        self._words[_Word.OLDEST_NS] = oldest_ns
        self._words[_Word.LAG_US] = round(lag_s * 1e6)

    def entered(self, waited_s: float) -> None:
        """A request had waited so long to be accepted and read."""
        self._words[_Word.ENTRY_WAIT_US] += round(waited_s * 1e6)

    def measured(self) -> None:
        """The engine told the times of a request of the supervisor's."""
        self._words[_Word.PROBES] += 1


class ModeReader:
    """The mode and the promise that the supervisor set."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._words = Words(folder / "mode", 2, create=False)
        self._seen = 0
        self._promise: Promise | None = None

    def __call__(self) -> Mode:
        return Mode(self._words[0])

    @property
    def promise(self) -> Promise | None:
        """The promise that a request which arrives now is judged by; None while there is none."""
        told = self._words[1]
        if told != self._seen:
            with suppress(OSError):  # out of file descriptors: the one before counts, and the next arrival looks again
                self._promise = _stored_promise(self._folder)
                self._seen = told
        return self._promise


@dataclass(frozen=True)
class Counts:
    """`in_flight`, `waiting` (for a first token) and `oldest_ns` (since when, monotonic; 0 without one) are of living
    processes; `lag_s` is the latest event loop's delay. `ended`, `entry_wait_s` (the sum of waits before a request was
    read) and `probes` (of the supervisor's requests those that the engine measured) are of all since the pod began."""

    gates: int
    in_flight: int
    ended: Mapping[Outcome, int]
    waiting: int = 0
    oldest_ns: int = 0
    lag_s: float = 0.0
    entry_wait_s: float = 0.0
    probes: int = 0


class Board:
    """The supervisor's side. Making it closes the books of an earlier container of the pod: its counts stay, and what
    it had in flight has failed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.promise: Promise | None = None
        self._close_books()
        self._mode = Words(folder / "mode", 2, create=True)
        self._mode[1] = 1

    def set_mode(self, mode: Mode) -> None:
        """Takes effect for the next arrival in every API-server process."""
        self._mode[0] = mode

    def set_promise(self, promise: Promise, text: str) -> None:
        """Takes effect for the next arrival in every API-server process. `text` is the promise as it was read."""
        fresh = self.folder / f"{_PROMISE}.new"
        fresh.write_text(text)
        fresh.replace(self.folder / _PROMISE)
        self._mode[1] += 1
        self.promise = promise

    def read(self) -> Counts:
        """The sum over the API-server processes. A process that died holds no request."""
        in_flight, gates, waiting, lag_us, oldest_ns = 0, 0, 0, 0, 0
        sums = [0] * _Word.END
        for pid, words in of_processes(self.folder, _COUNTS, _Word.END):
            numbers = list(words.view)
            sums = [one + other for one, other in zip(sums, numbers, strict=True)]
            if Path(f"/proc/{pid}").exists():
                gates += 1
                in_flight += numbers[_Word.IN_FLIGHT]
                waiting += numbers[_Word.WAITING]
                lag_us = max(lag_us, numbers[_Word.LAG_US])
                oldest_ns = min(filter(None, (oldest_ns, numbers[_Word.OLDEST_NS])), default=0)
        return Counts(
            gates=gates,
            in_flight=in_flight,
            ended={outcome: sums[1 + index] for index, outcome in enumerate(_OUTCOMES)},
            waiting=waiting,
            oldest_ns=oldest_ns,
            lag_s=lag_us / 1e6,
            entry_wait_s=sums[_Word.ENTRY_WAIT_US] / 1e6,
            probes=sums[_Word.PROBES],
        )

    def _close_books(self) -> None:
        """Sums up what earlier containers counted, in files of process 0, which never is one. The sums come into a
        folder of their own that takes the place of the one before, so that a kill at any moment counts nothing twice
        and loses nothing."""
        folder = self.folder
        closed, before = folder.with_name(f"{folder.name}.closed"), folder.with_name(f"{folder.name}.before")
        if not folder.exists() and closed.exists():  # killed between the two renames
            closed.rename(folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in (closed, before):
            shutil.rmtree(left, ignore_errors=True)
        with suppress(OSError):
            self.promise = _stored_promise(folder)
        closed.mkdir(mode=0o700)
        self._sum_up(closed)
        folder.rename(before)
        closed.rename(folder)
        shutil.rmtree(before, ignore_errors=True)

    def _sum_up(self, closed: Path) -> None:
        ended = [list(words.view) for _, words in of_processes(self.folder, _COUNTS, _Word.END)]
        total = [sum(column) for column in zip(*ended, strict=True)] if ended else [0] * _Word.END
        total[1 + _OUTCOMES.index(Outcome.SERVER_ERROR)] += total[_Word.IN_FLIGHT]
        for gone in (_Word.IN_FLIGHT, _Word.WAITING, _Word.OLDEST_NS, _Word.LAG_US, _Word.PROBES):
            total[gone] = 0
        sums = Words(closed / f"{_COUNTS}-0", _Word.END, create=True)
        for index, number in enumerate(total):
            sums[index] = number
        if self.promise is not None:
            shutil.copyfile(self.folder / _PROMISE, closed / _PROMISE)
            fold(self.folder, self.promise, closed)


def _stored_promise(folder: Path) -> Promise | None:
    """None without one, or if it is mangled. Raises OSError if it cannot be read now."""
    with suppress(FileNotFoundError, UnicodeDecodeError, PromiseError):
        return parse_promise((folder / _PROMISE).read_text())
    return None
