"""The keyed work queue: which key is reconciled next, when, and after a failure when again. Reads loop.time() only.

A key that is added many times runs once; it never runs twice at the same time; added while it runs, it runs again.
"""

import asyncio
import heapq
import itertools
import logging
import math
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)


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


class WorkQueue(Generic[K]):
    """Runs `reconcile` for the keys that are due, `workers` at a time, each for at most `deadline_s`."""

    def __init__(self, backoff: Backoff, *, debounce_s: float = 0.2, deadline_s: float = 60.0) -> None:
        self._backoff, self._debounce_s, self._deadline_s = backoff, debounce_s, deadline_s
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._running: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._known: dict[K, None] = {}  # a set that keeps its order
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._closed = False

    def add(self, key: K, after_s: float | None = None) -> None:
        """Have the key run after `after_s` (default: the debounce time); an earlier wish stands."""
        self._known[key] = None
        self._schedule(key, self._debounce_s if after_s is None else after_s)

    def add_all(self) -> None:
        """Have every known key run."""
        for key in tuple(self._known):
            self.add(key)

    def forget(self, key: K) -> None:
        """Drop what is remembered of a key. A run that is due or in progress is not touched."""
        self._failures.pop(key, None)
        if key not in self._due:
            self._known.pop(key, None)

    @property
    def depth(self) -> int:
        """Keys that are due now and wait for a worker."""
        now = self._now()
        return sum(1 for due in self._due.values() if due <= now)

    @property
    def known(self) -> int:
        """Keys that were added and not forgotten."""
        return len(self._known)

    @property
    def oldest_key_age_s(self) -> float:
        """For how long the most neglected key has been due or running."""
        since = min((*self._due.values(), *self._running.values()), default=math.inf)
        return max(0.0, self._now() - since)

    async def work(self, reconcile: Callable[[K], Awaitable[Result]]) -> None:
        """One worker. Returns when the queue is closed and its own run is over."""
        while (key := await self._get()) is not None:
            self._running[key] = self._now()
            try:
                result = await self._run(key, reconcile)
            finally:
                self._finished(key)
            self._settle(key, result)

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

    def _settle(self, key: K, result: Result) -> None:
        match result:
            case Retry(not_before_s, most_s):
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                self.add(key, max(self._backoff.delay_s(failures, most_s), not_before_s))
            case Forget():
                self.forget(key)
            case Done(again_after_s):
                self._failures.pop(key, None)
                if again_after_s is not None:
                    self.add(key, max(again_after_s, self._debounce_s))  # a zero must not spin

    def _schedule(self, key: K, after_s: float) -> None:
        due = self._now() + after_s
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        self._push(key)

    def _push(self, key: K) -> None:
        heapq.heappush(self._heap, (self._due[key], next(self._order), key))
        self._wake.set()

    def _finished(self, key: K) -> None:
        del self._running[key]
        if key in self._due:  # added while it ran: its place in the heap may be gone
            self._push(key)

    async def _get(self) -> K | None:
        while not self._closed:
            key, wait_s = self._next()
            if key is not None:
                return key
            self._wake.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue  # the next key has become due
        return None

    def _next(self) -> tuple[K | None, float | None]:
        """The key to run now, else how long until there may be one (None: until something is added)."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) == due and due > self._now():
                return None, due - self._now()
            heapq.heappop(self._heap)
            if self._due.get(key) == due and key not in self._running:
                del self._due[key]
                return key, None
        return None, None

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
