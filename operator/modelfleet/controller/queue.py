"""The keyed work queue: which key is reconciled next, when, and after a failure when again. Reads loop.time() only.

A key that is added many times runs once; it never runs twice at the same time; added while it runs, it runs again.

Keys of which something changed go ahead of keys that are only looked at again, in crowds: a change would wait for a
round of the whole fleet. Nothing starves, because of AHEAD_IN_A_ROW + 1 runs one is for those behind, if any is due.
"""

import asyncio
import heapq
import itertools
import logging
import math
from collections.abc import Awaitable, Callable, Container, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)

AHEAD_IN_A_ROW = 3
"""After so many runs of keys of which something changed, the next is for a key that is only looked at again."""


@dataclass(frozen=True)
class Done:
    """The run succeeded; `again_after_s` says when to look once more without being asked."""

    again_after_s: float | None = None


@dataclass(frozen=True)
class Retry:
    """The run failed and was reported; the queue backs off, at most `most_s`, at least `not_before_s`, which wins."""

    not_before_s: float = 0.0
    most_s: float = math.inf


@dataclass(frozen=True)
class Forget:
    """The key's object is gone; nothing about it is kept."""


Result = Done | Retry | Forget


@dataclass(frozen=True)
class Backoff:
    """Exponential: `first_s` doubled by each failure up to `most_s`, times a factor in [0.5, 1).

    `jitter()` gives a number in [0, 1).
    """

    jitter: Callable[[], float]
    first_s: float = 0.5
    most_s: float = 300.0

    def delay_s(self, failures: int, most_s: float = math.inf) -> float:
        """The wait after the `failures`-th failure in a row (from 1), at most `most_s`."""
        doublings = min(failures - 1, 32)  # beyond this the bound has long won; keeps the power small
        return min(self.first_s * 2.0**doublings, self.most_s, most_s) * (0.5 + self.jitter() / 2)


_EARLY_S = 1e-6
"""So much too early the event loop may wake who sleeps until a key is due; to sleep on would be no sleep at all."""


_PLACES = 64
"""So many places that stand no longer are nothing to be made anew for."""


class _Line(Generic[K]):
    """Keys by when they are due."""

    def __init__(self) -> None:
        self.due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()

    def wish(self, key: K, due: float) -> bool:
        """Have the key run then; False: an earlier wish stands."""
        if self.due.get(key, math.inf) <= due:
            return False
        self.due[key] = due
        self.push(key)
        return True

    def push(self, key: K) -> None:
        """Give a due key its place in the heap, which is made anew once most places stand no longer."""
        heapq.heappush(self._heap, (self.due[key], next(self._order), key))
        if len(self._heap) > 2 * len(self.due) + _PLACES:
            self._heap = [(due, next(self._order), each) for each, due in self.due.items()]
            heapq.heapify(self._heap)

    def head(self, running: Container[K]) -> tuple[float, K] | None:
        """When the first of those that do not run is due. A place that no longer stands is dropped, a running key's
        too: it gets another when its run is over."""
        while self._heap:
            due, _, key = self._heap[0]
            if self.due.get(key) == due and key not in running:
                return due, key
            heapq.heappop(self._heap)
        return None


@dataclass(frozen=True)
class _Run(Generic[K]):
    key: K
    behind: bool


class WorkQueue(Generic[K]):
    """Runs `reconcile` for the keys that are due, `workers` at a time, each for at most `deadline_s`."""

    def __init__(self, backoff: Backoff, *, debounce_s: float = 0.2, deadline_s: float = 60.0) -> None:
        self._backoff, self._debounce_s, self._deadline_s = backoff, debounce_s, deadline_s
        self._ahead, self._behind = _Line[K](), _Line[K]()
        self._ahead_in_a_row = 0
        self._running: dict[K, float] = {}
        self._ended_s = -math.inf
        self._failures: dict[K, int] = {}
        self._known: dict[K, None] = {}  # a set that keeps its order
        self._wake = asyncio.Event()
        self._closed = False

    def add(self, key: K, after_s: float | None = None, *, behind: bool = False) -> None:
        """Have the key run after `after_s` (default: the debounce time); an earlier wish stands. `behind`: it is only
        looked at again, after what has changed."""
        self._known[key] = None
        line = self._behind if behind else self._ahead
        if line.wish(key, self._now() + (self._debounce_s if after_s is None else after_s)):
            self._wake.set()

    def forget(self, key: K) -> None:
        """Drop what is remembered of a key. A run that is due or in progress is not touched."""
        self._failures.pop(key, None)
        if not any(key in line.due for line in self._lines):
            self._known.pop(key, None)

    @property
    def depth(self) -> int:
        """Keys that are due now and wait for a worker."""
        now = self._now()
        return len({key for line in self._lines for key, due in line.due.items() if due <= now})

    @property
    def keys(self) -> tuple[K, ...]:
        """Those that were added and not forgotten."""
        return tuple(self._known)

    @property
    def oldest_key_age_s(self) -> float:
        """For how long the most neglected key has been due or running. Long where there is much to do: no fault."""
        since = min((self._oldest_due(), *self._running.values()))
        return max(0.0, self._now() - since)

    def standstill(self, longest_s: float) -> str | None:
        """Why nothing is done any more, as a sentence; None while runs end, however many keys wait: then a process
        that begins anew would only have more to do. `longest_s`: for so long no run may end while a key is due."""
        now = self._now()
        if now - min(self._running.values(), default=math.inf) > self._deadline_s:
            return "a reconcile goes on past its deadline"
        if now - max(self._ended_s, self._oldest_due()) > longest_s:
            return "keys are due and no reconcile has ended for too long"
        return None

    async def work(self, reconcile: Callable[[K], Awaitable[Result]]) -> None:
        """One worker. Returns when the queue is closed and its own run is over."""
        while (run := await self._get()) is not None:
            self._running[run.key] = self._now()
            try:
                result = await self._run(run.key, reconcile)
            finally:
                self._finished(run.key)
            self._settle(run, result)

    def close(self) -> None:
        """Start no further run; running ones finish."""
        self._closed = True
        self._wake.set()

    async def _run(self, key: K, reconcile: Callable[[K], Awaitable[Result]]) -> Result:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await reconcile(key)
        except TimeoutError:
            _log.warning("reconcile passed its deadline", extra={"object": str(key), "deadline_s": self._deadline_s})
            return Retry()

    def _settle(self, run: _Run[K], result: Result) -> None:
        key = run.key
        match result:
            case Retry(not_before_s, most_s):
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                again_s = max(self._backoff.delay_s(failures, most_s), not_before_s)
                self.add(key, again_s, behind=run.behind)
            case Forget():
                self.forget(key)
            case Done(again_after_s):
                self._failures.pop(key, None)
                if again_after_s is not None:
                    self.add(key, max(again_after_s, self._debounce_s))  # a zero must not spin

    def _finished(self, key: K) -> None:
        del self._running[key]
        self._ended_s = self._now()
        for line in self._lines:
            if key in line.due:  # added while it ran: its place may be gone
                line.push(key)
                self._wake.set()

    async def _get(self) -> _Run[K] | None:
        while not self._closed:
            run, wait_s = self._next()
            if run is not None:
                return run
            self._wake.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue  # the next key has become due
        return None

    def _next(self) -> tuple[_Run[K] | None, float | None]:
        """What to run now, else how long until there may be something (None: until a key is added)."""
        now = self._now()
        lines = self._lines if self._ahead_in_a_row < AHEAD_IN_A_ROW else reversed(self._lines)
        heads = [(line, *head) for line in lines if (head := line.head(self._running)) is not None]
        for line, due, key in heads:
            if due <= now + _EARLY_S:
                return self._take(line, key, now), None
        return None, min(due for _, due, _ in heads) - now if heads else None

    def _take(self, line: _Line[K], key: K, now: float) -> _Run[K]:
        self._ahead_in_a_row = 0 if line is self._behind else self._ahead_in_a_row + 1
        # A change that waits out the debounce time is seen by this run, and is what a failure of it puts off.
        changed = self._ahead.due.get(key, math.inf) <= now + self._debounce_s
        for each in self._lines:
            each.due.pop(key, None)
        return _Run(key, behind=not changed)

    @property
    def _lines(self) -> tuple[_Line[K], _Line[K]]:
        return self._ahead, self._behind

    def _oldest_due(self) -> float:
        return min((due for line in self._lines for due in line.due.values()), default=math.inf)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
