"""Looks at the source of samples that is not used, now and again, and says where the two differ. I/O through sources.

A difference stops nothing: the one that is used was chosen. It is told in the log and counted, for an alarm.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from modelfleet.controller.metrics.book import Book, stranger
from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.controller.metrics.sampler import Fleet, Pages
from modelfleet.controller.metrics.scrape import UnreadError
from modelfleet.controller.metrics.workers import Worker
from modelfleet.core.scaling.cross_check import disagreement, nearest
from modelfleet.core.scaling.page import PageError, origin, reading
from modelfleet.core.scaling.reading import Reading

_log = logging.getLogger(__name__)

EVERY_S = 60.0
"""How often the other source is looked at."""

WORKERS = 8
"""So many workers are read themselves, each time others, where Prometheus is the source."""

_KEPT_S = 180.0  # a reading that was not between two of the source by then is dropped


@dataclass
class Compared:
    """How often the two agreed and did not."""

    agreed: int = 0
    differed: int = 0


async def by_themselves(book: Book, pages: Pages) -> Iterable[tuple[Worker, Reading]]:
    """Some workers, read from themselves."""
    exposition, found = Exposition(), []
    chosen = random.sample(book.workers, min(WORKERS, len(book.workers)))
    for worker in chosen:
        try:
            page = exposition.found(await pages.text(worker))
            if stranger(worker, origin(page)) is None:
                found.append((worker, reading(page, worker.uid, asyncio.get_running_loop().time())))
        except (UnreadError, PageError) as error:
            _log.debug("not compared: %s", error)
    return found


async def by_prometheus(book: Book, fleet: Fleet) -> Iterable[tuple[Worker, Reading]]:
    """All workers that Prometheus knows."""
    asked_s = asyncio.get_running_loop().time()
    workers = {worker.uid: worker for worker in book.workers}
    found = []
    async for pages in fleet.pages(workers.keys()):
        for page in pages:
            worker = workers.get(page.origin.uid)
            if worker is None:
                continue
            try:
                if stranger(worker, origin(page.found)) is None:
                    found.append((worker, reading(page.found, worker.uid, asked_s - page.age_s)))
            except PageError as error:  # the others are compared all the same
                _log.debug("not compared: %s", error)
    return found


class Compare:
    """Holds readings of the other source until the used one has read the same pod before and after."""

    def __init__(self, book: Book, other: Callable[[], Awaitable[Iterable[tuple[Worker, Reading]]]]) -> None:
        self._book, self._other = book, other
        self._open: list[tuple[Worker, Reading]] = []
        self._trouble = ""
        self.compared = Compared()

    async def run(self) -> None:
        """Without end."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Judges what is held, and reads again."""
        self.judge()
        try:
            self._open += await self._other()
            self._tell("")
        except (UnreadError, PageError) as error:
            self._tell(str(error))

    def judge(self) -> None:
        """Compares each reading that lies between two of the source."""
        now_s, still = asyncio.get_running_loop().time(), []
        for worker, other in self._open:
            around = nearest(self._book.read_plainly(worker.uid), other.at_s)
            if around is None:
                if now_s - other.at_s < _KEPT_S:
                    still.append((worker, other))
                continue
            differs = disagreement(around, other)
            if differs is None:
                self.compared.agreed += 1
                continue
            self.compared.differed += 1
            _log.warning("the two sources of samples differ: %s", differs, extra={"pod": worker.name})
        self._open = still

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            _log.warning("samples are not compared: %s", trouble)
        self._trouble = trouble
