"""Compiled code around a start: taken before the engine starts, kept once it serves, given up where it does harm."""

import asyncio
import logging
import os
import shutil
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prometheus_client.core import InfoMetricFamily, Metric

from modelfleet_worker.compiled import FOLDERS, store_key
from modelfleet_worker.compiled_store import Found, Shelf
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.fetch.evict import gigabytes
from modelfleet_worker.fetch.remote import FetchError
from modelfleet_worker.parts import Around, Part
from modelfleet_worker.plan import Compiled
from modelfleet_worker.waiting import in_thread

KEPT = "Kept"
TAKE_S = 60.0
"""Longer than this a start does not wait for a volume: compiling is not much longer."""

SETTLE_S = 5.0
"""So long after the start the first requests come before the copy."""

_POLL_S = 0.5
_NICE = 10
_UNEXPLAINED = (Reason.ENGINE_START_FAILED, Reason.ENGINE_START_TIMEOUT, Reason.ENGINE_DIED)
_log = logging.getLogger(__name__)


class CompiledPart(Part):
    """It stops no start: whatever goes wrong with the shared folder is said in the log, and the engine compiles."""

    def __init__(self, around: Around, compiled: Compiled, python: str, settle_s: float = SETTLE_S) -> None:
        self._compiled, self._python, self._settle_s = compiled, python, settle_s
        self._scratch, self._progress = around.scratch, around.progress
        self._shelf: Shelf | None = None
        self._state: str = Found.NOTHING

    async def check(self) -> Failure | None:
        """The caches of an earlier container of this pod go too: it may have been killed while it wrote to them."""
        fresh = self._scratch / "compiled.new"
        try:
            async with asyncio.timeout(TAKE_S):
                self._state = await in_thread(self._take, fresh)
        except TimeoutError:
            _log.warning("the folder with compiled code did not answer within %g s; the engine compiles", TAKE_S)
        except (OSError, FetchError) as error:
            _log.warning("compiled code cannot be read, so the engine compiles: %s", error)
        _forget(self._scratch)
        if self._state == Found.TAKEN:
            _put_in_place(fresh, self._scratch)
            _log.info("the engine starts with the code that an earlier start compiled")
        return None

    async def watch(self) -> Failure:
        while self._progress.phase is not None:  # noqa: ASYNC110 (as StartProgress: it is a value, not an event)
            await asyncio.sleep(_POLL_S)
        await asyncio.sleep(self._settle_s)
        if self._shelf is not None and self._state != Found.TAKEN:
            try:
                await in_thread(self._put, self._shelf)
            except (OSError, FetchError) as error:
                _log.warning("compiled code is not kept: %s", error)
        return await super().watch()

    async def took_back(self, failure: Failure) -> bool:
        if self._state != Found.TAKEN or self._shelf is None or failure.reason not in _UNEXPLAINED:
            return False
        _log.warning(
            "the engine ended with compiled code that was kept, without another cause; the code is thrown away"
        )
        self._state = Found.DAMAGED
        _forget(self._scratch)
        with suppress(TimeoutError, OSError, FetchError):  # then it is found damaged again, and given up again
            async with asyncio.timeout(TAKE_S):
                await in_thread(self._shelf.throw_away)
        return True

    async def close(self, failure: Failure | None) -> None:
        """A death while it served may come of the code too; the next container compiles."""
        if failure is not None:
            await self.took_back(failure)

    def metrics(self) -> Iterable[Metric]:
        text = "Whether this start took compiled code that was kept, or keeps its own."
        yield InfoMetricFamily("modelfleet_worker_compiled_code", text, {"state": str(self._state)})

    def _take(self, fresh: Path) -> Found:
        self._shelf = Shelf(self._compiled, store_key(self._compiled.key, self._python), socket.gethostname())
        return self._shelf.take(fresh)

    def _put(self, shelf: Shelf) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        size = shelf.put(self._scratch)
        if size:
            _log.info("the code that the engine compiled is kept for later starts: %s", gigabytes(size))
            self._state = KEPT


def _forget(scratch: Path) -> None:
    for folder in FOLDERS:
        shutil.rmtree(scratch / folder, ignore_errors=True)


def _put_in_place(fresh: Path, scratch: Path) -> None:
    for folder in FOLDERS:
        if (fresh / folder).is_dir():
            (scratch / folder).parent.mkdir(parents=True, exist_ok=True)
            (fresh / folder).rename(scratch / folder)
    shutil.rmtree(fresh, ignore_errors=True)
