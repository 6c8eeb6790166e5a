"""Sampling as a part of the operator: the source that the settings name, the other to compare with, and who is woken.

I/O through its parts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from modelfleet.controller.metrics.book import Book
from modelfleet.controller.metrics.compare import Compare, Compared, by_prometheus, by_themselves
from modelfleet.controller.metrics.prometheus import Prometheus
from modelfleet.controller.metrics.sampler import Direct, Indirect, Tally, Waker
from modelfleet.controller.metrics.scrape import KEPT_S, Scraper, scraper
from modelfleet.controller.metrics.settings import SamplesFrom, SamplingSettings
from modelfleet.controller.metrics.workers import Worker
from modelfleet.controller.process import collect_seldom
from modelfleet.controller.telemetry import Metrics
from modelfleet.controller.triggers import Triggers
from modelfleet.core.scaling.reading import Reading

_Other = Callable[[], Awaitable[Iterable[tuple[Worker, Reading]]]]


class Sampling:
    """Fills a book for as long as it runs."""

    def __init__(self, book: Book, settings: SamplingSettings, triggers: Triggers, metrics: Metrics) -> None:
        self._book, self._settings, self._triggers = book, settings, triggers
        self._tally, self._compared = Tally(), Compared()
        self._expose(metrics)

    async def run(self) -> None:
        """Until cancelled."""
        collect_seldom()
        kept_s = max(KEPT_S, 2.5 * self._settings.interval_s)
        async with scraper(kept_s=kept_s) as pages, asyncio.TaskGroup() as group:
            server = self._settings.prometheus
            fleet = Prometheus(server) if server is not None else None
            if self._settings.source is SamplesFrom.PROMETHEUS and fleet is not None:
                source: Direct | Indirect = Indirect(self._book, fleet, self._settings.interval_s, self._tally)
            else:
                source = Direct(self._book, pages, self._settings.interval_s, self._tally)
            group.create_task(source.run())
            group.create_task(Waker(self._book, self._triggers, self._book.stirs).run())
            if fleet is not None:
                compare = Compare(self._book, self._other(pages, fleet))
                self._compared = compare.compared
                group.create_task(compare.run())

    def _other(self, pages: Scraper, fleet: Prometheus) -> _Other:
        if self._settings.source is SamplesFrom.PROMETHEUS:
            return lambda: by_themselves(self._book, pages)
        return lambda: by_prometheus(self._book, fleet)

    def _expose(self, metrics: Metrics) -> None:
        gauge, tally = metrics.gauge, self._tally
        gauge("sampled_pods", "Worker pods that are to be read", lambda: len(self._book.workers))
        gauge("silent_pods", "Of these, pods whose last reading is too old to say anything", lambda: self._book.silent)
        gauge("sample_round_seconds", "How long the last look at all of them took", lambda: tally.round_s)
        gauge("sample_late_seconds", "How long after its time the last worker was read", lambda: tally.late_s)
        metrics.counter("samples_read", "Pages of workers that were read", lambda: tally.read)
        metrics.counter("samples_failed", "Looks at workers that brought nothing", lambda: tally.failed)
        metrics.counter("samples_agreed", "Readings of the other source that agree", lambda: self._compared.agreed)
        metrics.counter("samples_differed", "Readings of the other source that do not", lambda: self._compared.differed)
