"""When workers are read, and which ModelDeployments are woken for what was read. I/O through its source.

Each pod has a place of its own within the interval (by its uid), so that reads are spread out and come at even steps.
The interval is longer where there are more pods than can be read in it beside all else that this process does; one that
goes on failing is read less often. A round that takes longer than the interval is followed by the next at once; a pod
is never read twice at a time.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from math import ceil, inf
from typing import Protocol

from modelfleet.controller.metrics.book import Book
from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.controller.metrics.scrape import CONNECTIONS, UnreadError
from modelfleet.controller.metrics.vector import Page
from modelfleet.controller.metrics.workers import Worker
from modelfleet.controller.triggers import Key, Triggers
from modelfleet.core.scaling.page import PageError
from modelfleet.core.scaling.phase import phase, share
from modelfleet.core.scaling.step_samples import STEPS_S

_log = logging.getLogger(__name__)

WAKE_S = 15.0
"""A key is asked for what stirs it, and woken, at most so often."""

WAKES_PER_S = 10.0
"""Keys that are woken a second at most, all together: each asks the API server for ten lists. With 1,000 busy keys the
turn of each comes every 100 s."""

READS_PER_S = 1000.0
"""So many pods are read a second on average: each takes some 0.6 ms of the thread that decides, too."""

FAILS = 4
"""A pod that could not be read so often in a row is read less often from then on."""

_PAUSE_ROUNDS, _PAUSE_S = 4, 60.0  # until one that goes on failing is read again, at most
_LOST_ROUNDS = 2  # the same of one that was read before: it may be back any moment, and it is missed
_ASKED_AT_LEAST = 100
"""Keys that may be asked at one step; one of ten pods takes 0.05 ms."""
_TELL_S = 60.0
_AT_A_TIME = 50
"""So many pages of one answer are taken before others get the event loop."""


class Pages(Protocol):
    """`scrape.Scraper`."""

    def text(self, worker: Worker) -> Awaitable[str]:
        """The page of a worker. Raises UnreadError."""


@dataclass
class Tally:
    """What the reading itself came to, for the operator's own metrics."""

    read: int = 0
    failed: int = 0
    round_s: float = 0.0
    late_s: float = 0.0
    failures: dict[str, str] = field(default_factory=dict)


class Direct:
    """Reads every worker from itself, once an interval while it answers."""

    def __init__(self, book: Book, pages: Pages, interval_s: float, tally: Tally | None = None) -> None:
        self._book, self._pages, self._interval_s = book, pages, interval_s
        self.tally = tally or Tally()
        self._exposition = Exposition()
        self._fails: dict[Worker, tuple[int, float]] = {}  # how often in a row, and until when it is left alone
        self._began_s = self._lasts_s = 0.0  # the round
        self._told_s = -_TELL_S

    async def run(self) -> None:
        """Rounds without end."""
        await _rounds(self.round, lambda: self._lasts_s, self.tally)

    async def round(self) -> None:
        """Reads each worker that there is now, each at its place within the interval."""
        now = asyncio.get_running_loop().time
        workers = {each.uid: each for each in self._book.workers}
        self._began_s, self._lasts_s = began_s, span_s = now(), self._span_s(len(workers))
        self.tally.failures = {uid: why for uid, why in self.tally.failures.items() if uid in workers}
        self._fails = {each: self._fails[each] for each in workers.values() if each in self._fails}
        asked = (uid for uid, each in workers.items() if self._fails.get(each, (0, began_s))[1] <= began_s)
        due = sorted((share(uid) * 0.9 * span_s, uid) for uid in asked)
        waiting = iter(due)
        readers = min(CONNECTIONS, len(due))

        async def reader() -> None:
            for place_s, uid in waiting:
                left_s = began_s + place_s - now()
                if left_s > 0:
                    await asyncio.sleep(left_s)
                self.tally.late_s = max(0.0, -left_s)
                await self.read(workers[uid])

        await asyncio.gather(*(reader() for _ in range(readers)))
        self._tell(tuple(workers.values()))

    def _span_s(self, workers: int) -> float:
        """The interval for so many pods; 0 where there is none, and a round is as long as it takes."""
        return max(self._interval_s, workers / READS_PER_S) if self._interval_s else 0.0

    async def read(self, worker: Worker) -> None:
        """One look at one worker; what it brings is in the book."""
        try:
            text = await self._pages.text(worker)
            # The moment at which it is here: what is on it is a little older, by the same little each time.
            found = self._exposition.found(text, steps=self._book.wants_steps(worker.uid))
            why = self._book.take(worker, found, asyncio.get_running_loop().time())
        except (UnreadError, PageError) as error:
            why = str(error)
            self._book.fail(worker.uid, why)
        except Exception as bug:  # what one pod answers must not end the reading of all others
            _log.exception("a worker's page met a bug", extra={"pod": worker.name})
            why = f"reading its page met a bug ({type(bug).__name__})"
            self._book.fail(worker.uid, why)
        if why is None:
            self.tally.read += 1
            self.tally.failures.pop(worker.uid, None)
            self._fails.pop(worker, None)
        else:
            self.tally.failed += 1
            self.tally.failures[worker.uid] = why
            self._fails[worker] = self._failed(worker)

    def _failed(self, worker: Worker) -> tuple[int, float]:
        """How often it could not be read in a row, and until when it is left alone:

        | | rounds |
        | --- | --- |
        | fewer times than FAILS | 1 |
        | so often, or it was read before | 2 |
        | once more | 1 to 4, by its uid: those that fail together are not all read in the same round from then on |
        | still more often | 4 |
        """
        count = min(self._fails.get(worker, (0, 0.0))[0] + 1, FAILS + 2)
        rounds = 1
        if count >= FAILS:
            later = _PAUSE_ROUNDS if count > FAILS + 1 else 1 + phase(worker.uid, _PAUSE_ROUNDS)
            rounds = _LOST_ROUNDS if count == FAILS or self._book.was_read(worker.uid) else later
        most = int(_PAUSE_S / self._lasts_s) if self._lasts_s else 1
        return count, self._began_s + (max(1, min(rounds, most)) - 0.5) * self._lasts_s

    def _tell(self, workers: Sequence[Worker]) -> None:
        """A line for all that could not be read, seldom: a node that is away takes many with it."""
        now_s = asyncio.get_running_loop().time()
        failed = [worker for worker in workers if worker.uid in self.tally.failures]
        if failed and now_s - self._told_s >= _TELL_S:
            self._told_s = now_s
            first = f"{failed[0].name}: {self.tally.failures[failed[0].uid]}"
            _log.info("%s of %s workers could not be read, the first %s", len(failed), len(workers), first)


class Fleet(Protocol):
    """`prometheus.Prometheus`."""

    def pages(self, uids: Set[str], *, steps: bool = False) -> AsyncIterator[tuple[Page, ...]]:
        """The pages of these pods, some at a time, with their steps where they are wanted. Raises UnreadError."""


class Indirect:
    """Reads every worker from Prometheus, once an interval."""

    def __init__(self, book: Book, fleet: Fleet, interval_s: float, tally: Tally | None = None) -> None:
        self._book, self._fleet, self._interval_s = book, fleet, interval_s
        self.tally = tally or Tally()
        self._trouble = ""
        self._steps_s = -STEPS_S
        self._moments: dict[str, tuple[float, float]] = {}  # by uid: when its page was read, by Prometheus and by us

    async def run(self) -> None:
        """Rounds without end."""
        await _rounds(self.round, lambda: self._interval_s, self.tally)

    async def round(self) -> None:
        """What the queries bring is in the book, and each worker that they do not bring has failed."""
        asked_s, trouble = asyncio.get_running_loop().time(), ""
        steps = asked_s - self._steps_s >= STEPS_S
        workers = {each.uid: each for each in self._book.workers}
        moments: dict[str, tuple[float, float]] = {}
        try:
            async for pages in self._fleet.pages(workers.keys(), steps=steps):
                await self._take(workers, pages, asked_s, moments)
        except UnreadError as error:
            trouble = str(error)
        self._tell(trouble)
        for uid in workers.keys() - moments.keys():
            self._failed(workers[uid], trouble or "Prometheus has no series of it")
        self._moments = {**self._moments, **moments} if trouble else moments
        if steps:
            self._steps_s = asked_s  # also in vain: an answer may be too long with them alone

    async def _take(
        self,
        workers: Mapping[str, Worker],
        pages: Iterable[Page],
        asked_s: float,
        moments: dict[str, tuple[float, float]],
    ) -> None:
        """Some pages of a round; `moments` are those of all that it has taken."""
        for index, (uid, page) in enumerate(_newest(pages).items()):
            if index and not index % _AT_A_TIME:
                await asyncio.sleep(0)
            worker, taken = workers.get(uid), moments.get(uid)
            if worker is None or (taken is not None and taken[0] >= page.read_at):
                continue
            moments[uid] = self._moment(uid, page, asked_s)
            why = self._book.take(worker, page.found, moments[uid][1])
            fresh_s = self._book.fresh_s(uid)
            if why is None and page.age_s > fresh_s:
                # It shows what it has for five minutes when it scrapes no more; that says nothing about now.
                why = f"Prometheus has not read it for more than {fresh_s:.0f} s"
            if why is None:
                self.tally.read += 1
            else:
                self._failed(worker, why)

    def _moment(self, uid: str, page: Page, asked_s: float) -> tuple[float, float]:
        """When a page was read. The same for a page that is shown again, though the query took another time."""
        known = self._moments.get(uid)
        return known if known is not None and known[0] == page.read_at else (page.read_at, asked_s - page.age_s)

    def _failed(self, worker: Worker, why: str) -> None:
        self.tally.failed += 1
        self._book.fail(worker.uid, why)

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            _log.warning("no samples: %s", trouble)
        self._trouble = trouble


async def _rounds(one: Callable[[], Awaitable[None]], interval_s: Callable[[], float], tally: Tally) -> None:
    """One round each interval, which is that of the round, without end; one that takes longer is followed at once."""
    now = asyncio.get_running_loop().time
    while True:
        began_s = now()
        await one()
        tally.round_s = now() - began_s
        await asyncio.sleep(max(0.0, began_s + interval_s() - now()))


def _newest(pages: Iterable[Page]) -> dict[str, Page]:
    """By uid, where a worker was read several times (one that answers for two Prometheus) the newest.

    A worker that knows no uid has no page here: its name may be that of a pod before it, whose series still stand.
    """
    found: dict[str, Page] = {}
    for page in pages:
        uid = page.origin.uid
        if uid and (uid not in found or page.age_s < found[uid].age_s):
            found[uid] = page
    return found


class Waker:
    """Wakes keys whose samples may call for another decision or report, no more than the API server bears."""

    def __init__(self, book: Book, triggers: Triggers, stirs: Callable[[Key], bool]) -> None:
        """`stirs` says whether anything about a key's samples may matter since it was asked last."""
        self._book, self._triggers, self._stirs = book, triggers, stirs
        self._looked_s: dict[Key, float] = {}  # when a key was asked or woken last, the longest ago first
        self._stirring: dict[Key, None] = {}  # those that wait for their turn, the longest waiting first

    async def run(self, step_s: float = 1.0) -> None:
        """Without end."""
        while True:
            await asyncio.sleep(step_s)
            self.step(step_s)

    def step(self, step_s: float) -> tuple[Key, ...]:
        """Asks those whose time it is, and wakes those that stir whose turn it is, the longest waiting first."""
        now_s = asyncio.get_running_loop().time()
        self._follow()
        for key in self._due(now_s, step_s):
            self._put_last(key, now_s)
            if self._stirs(key):
                self._stirring[key] = None
        chosen = tuple(islice(self._stirring, max(1, int(WAKES_PER_S * step_s))))
        for key in chosen:
            del self._stirring[key]
            self._put_last(key, now_s)
            self._triggers.add(key, behind=True)
        return chosen

    def _follow(self) -> None:
        keys = dict.fromkeys(self._book.keys)
        for gone in self._looked_s.keys() - keys.keys():
            del self._looked_s[gone]
            self._stirring.pop(gone, None)
        new = dict.fromkeys((key for key in keys if key not in self._looked_s), -inf)
        if new:
            self._looked_s = {**new, **self._looked_s}

    def _due(self, now_s: float, step_s: float) -> tuple[Key, ...]:
        """Those that were not looked at for so long, no more at a time than it takes for all to have their turn."""
        most = max(_ASKED_AT_LEAST, ceil(len(self._looked_s) * step_s / WAKE_S))
        due = (key for key, at_s in self._looked_s.items() if now_s - at_s >= WAKE_S and key not in self._stirring)
        return tuple(islice(due, most))

    def _put_last(self, key: Key, now_s: float) -> None:
        del self._looked_s[key]
        self._looked_s[key] = now_s
