"""Runs the parts' watchers beside the engine, and keeps what any of them found."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from modelfleet_worker.failure import Failure
from modelfleet_worker.parts import Part

AGAIN_S = 10.0
"""After a watcher broke, so long until it watches again."""

_log = logging.getLogger(__name__)


class Watchers:
    """The watchers of one engine."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self._found = asyncio.Event()

    async def found(self) -> None:
        """Returns once a watcher gave a failure, which is then in `failure`."""
        await self._found.wait()

    async def _run(self, part: Part) -> None:
        while True:
            try:
                failure = await part.watch()
                break
            except Exception:  # what it ran into may pass: no file descriptors, no memory
                _log.exception("%s watches again in %g s", type(part).__name__, AGAIN_S)
                await asyncio.sleep(AGAIN_S)
        self.failure = self.failure or failure
        self._found.set()


@asynccontextmanager
async def watchers(parts: Sequence[Part]) -> AsyncIterator[Watchers]:
    """All parts watch inside the block; they have ended when it is left."""
    together = Watchers()
    tasks = [asyncio.create_task(together._run(part)) for part in parts]
    try:
        yield together
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def explained(failure: Failure, parts: Sequence[Part]) -> Failure:
    """The failure as all parts together account for it."""
    for part in parts:
        try:
            failure = await part.explain(failure)
        except Exception:
            _log.exception("%s explains nothing", type(part).__name__)
    return failure
