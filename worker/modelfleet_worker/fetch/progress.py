"""How far a fetch is: a file that the worker and the operator's eyes can read, and a line in the log now and then."""

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from modelfleet_worker.fetch.evict import gigabytes

FILE = "fetch.json"
_WRITE_S, _LOG_S = 1.0, 10.0
_log = logging.getLogger(__name__)


class Progress:
    """Counts bytes. Safe for several threads.

    fetch.json: {"state": "listing" | "waiting" | "fetching" | "done", "bytes", "totalBytes", "percent", "fetchedBytes",
    "bytesPerSecond", "checkedBytes"}; `bytes` of the model are there, `fetchedBytes` of them came over the network in
    this start, and `checkedBytes` were read again for their checksums.

    Whoever only asks takes no lock: one that writes may hang in a volume.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock, self._lock = folder / FILE, clock, Lock()
        self._state, self._bytes, self._total, self._fetched, self._checked = "listing", 0, 0, 0, 0
        self._other: Any = None
        self._began_s = self._written_s = self._logged_s = self._stirred_s = clock()
        self._write()

    def begin(self, there: int, total: int) -> None:
        """`there` of `total` bytes are on the disk already."""
        with self._lock:
            self._state, self._bytes, self._total = "fetching", there, total
            self._began_s = self._logged_s = self._stirred_s = self._clock()
            self._write()

    def moved(self, count: int) -> None:
        """Bytes came; below zero, that many were thrown away."""
        with self._lock:
            self._bytes += count
            self._fetched += max(count, 0)
            now = self._stirred_s = self._clock()
            if now - self._written_s >= _WRITE_S:
                self._write()
            if now - self._logged_s >= _LOG_S:
                self._logged_s = now
                _log.info("%s", self._line())

    def checked(self, count: int) -> None:
        """Bytes that came were looked at again."""
        with self._lock:
            self._checked += count
            self._stirred_s = self._clock()
            if self._stirred_s - self._written_s >= _WRITE_S:
                self._write()

    def waits(self, other: Path) -> None:
        """Another pod of this node fetches the same; its numbers are in `other`."""
        with self._lock:
            try:
                value = json.loads((other / FILE).read_text())
                self._bytes, self._total = int(value["bytes"]), int(value["totalBytes"])
                if value != self._other:
                    self._other, self._stirred_s = value, self._clock()
            except (OSError, ValueError, KeyError, TypeError):
                pass  # it has not said anything yet
            if self._state != "waiting":
                _log.info("another pod of this node fetches the same weights; waiting for it")
            self._state = "waiting"
            self._write()

    def done(self, total: int) -> None:
        """All is there."""
        with self._lock:
            self._state, self._bytes, self._total = "done", total, total
            self._write()
            took_s = max(self._clock() - self._began_s, 1e-3)
            _log.info(
                "%s are there, %s came over the network in %.1f s", gigabytes(total), gigabytes(self._fetched), took_s
            )

    @property
    def there(self) -> tuple[int, int]:
        """Bytes on the disk, and of the whole."""
        return self._bytes, self._total

    @property
    def silent_s(self) -> float:
        """For how long no byte came or was checked, neither here nor where it is waited for."""
        return self._clock() - self._stirred_s

    @property
    def state(self) -> str:
        """What it does, as fetch.json says it."""
        return self._state

    def shown_in(self, folder: Path) -> None:
        """Writes to `folder` too, where waiting pods look."""
        self._also = folder / FILE

    _also: Path | None = None

    def _write(self) -> None:
        self._written_s = self._clock()
        rate = self._fetched / max(self._written_s - self._began_s, 1e-3)
        value = {
            "state": self._state,
            "bytes": self._bytes,
            "totalBytes": self._total,
            "percent": 100 * self._bytes // self._total if self._total else 0,
            "fetchedBytes": self._fetched,
            "bytesPerSecond": round(rate),
            "checkedBytes": self._checked,
        }
        for path in (self._path, self._also):
            if path is not None:
                _replace(path, json.dumps(value))

    def _line(self) -> str:
        rate = self._fetched / max(self._clock() - self._began_s, 1e-3)
        left_s = (self._total - self._bytes) / rate if rate else 0.0
        return (
            f"{gigabytes(self._bytes)} of {gigabytes(self._total)} ({100 * self._bytes // max(self._total, 1)} %),"
            f" {gigabytes(round(rate))}/s, about {left_s:.0f} s left"
        )


def _replace(path: Path, text: str) -> None:
    """Progress is a report: where it cannot be written, the fetch goes on."""
    try:
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_text(text)
        aside.replace(path)
    except OSError as error:
        _log.debug("%s cannot be written: %s", path, error)
