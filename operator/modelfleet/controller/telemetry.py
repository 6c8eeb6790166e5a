"""What the operator tells about itself: metrics, probes, logs. I/O: one HTTP port, standard error."""

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol, TextIO, TypeVar

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from modelfleet.controller.cluster import Call

_T = TypeVar("_T")
_WRITES = frozenset({"create", "apply", "apply_status", "patch", "delete"})
_SELDOM_S = 30.0
_PREFIX = "modelfleet_operator_"
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Taken(Collector):
    """Series with the numbers of one moment."""

    def __init__(self, makes: Iterable[Callable[[], Iterable[Metric]]]) -> None:
        self._makes = tuple(makes)

    def collect(self) -> Iterable[Metric]:
        """In any thread."""
        for make in self._makes:
            yield from make()


class Kept:
    """Series of numbers that belong to the event loop: they are read on it, when somebody scrapes."""

    def __init__(self) -> None:
        self._takes: list[Callable[[], Callable[[], Iterable[Metric]]]] = []

    def add(self, read: Callable[[], _T], families: Callable[[_T], Iterable[Metric]]) -> None:
        """`read` copies the numbers; `families` makes series of the copy, in another thread."""
        self._takes.append(lambda: partial(families, read()))

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """One value."""
        self.add(read, lambda value: [GaugeMetricFamily(name, text, value)])

    def counter(self, name: str, text: str, read: Callable[[], float]) -> None:
        """One count that somebody else keeps."""
        self.add(read, lambda value: [CounterMetricFamily(name, text, value)])

    def taken(self) -> Taken:
        """As of now. Only on the loop."""
        return Taken(take() for take in self._takes)


class Metrics:
    """The operator's own series. Gauges are read at scrape time from the functions given to `gauge`."""

    def __init__(self) -> None:
        self.registry, self.kept = CollectorRegistry(), Kept()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._reconciles = Histogram(
            f"{_PREFIX}reconcile_seconds",
            "A reconcile, by its result",
            ("result",),
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self._calls = Histogram(
            f"{_PREFIX}api_request_seconds",
            "A request to the API server; code 0: no answer",
            ("verb", "kind", "code"),
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self._writes = Counter(
            f"{_PREFIX}writes",
            "Requests that write, by what the API server answered",
            ("verb", "kind", "code"),
            registry=self.registry,
        )
        self.events_dropped = Counter(
            f"{_PREFIX}events_dropped", "Events that were not written: too many, or refused", registry=self.registry
        )

    def reconciled(self, result: str, duration_s: float) -> None:
        """One reconcile ended."""
        self._reconciles.labels(result).observe(duration_s)

    def called(self, call: Call) -> None:
        """One request to the API server ended."""
        labels = (call.verb, call.kind, str(call.code))
        self._calls.labels(*labels).observe(call.duration_s)
        if call.verb in _WRITES:
            self._writes.labels(*labels).inc()

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A value that is read when somebody scrapes."""
        self.kept.gauge(_PREFIX + name, text, read)

    def counter(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A count that somebody else keeps, read when somebody scrapes."""
        self.kept.counter(_PREFIX + name, text, read)


@dataclass
class LoopLag:
    """How late the event loop runs what is due: the worst of the last look-outs, halved at each."""

    interval_s: float = 1.0
    lag_s: float = 0.0

    async def run(self) -> None:
        """Measures until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self.interval_s
            await asyncio.sleep(self.interval_s)
            self.lag_s = max(loop.time() - due, self.lag_s / 2)


class Exposed(Protocol):
    """What has series to show. Those of the registry are the library's own, which any thread may read."""

    registry: CollectorRegistry
    kept: Kept


@dataclass
class Health:
    """What the probes answer. Each check returns None, or why not, in one sentence."""

    live: list[Callable[[], str | None]] = field(default_factory=list)
    ready: list[Callable[[], str | None]] = field(default_factory=list)


async def serve(metrics: Exposed, health: Health, host: str | None, port: int) -> tuple[web.AppRunner, int]:
    """Serves /metrics, /healthz and /readyz; the port that was bound (0 asks for any). OSError: it is taken.

    A page of 1,000 models takes 0.3 s to make. It is made in a thread, so that the loop goes on with what passes.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]  # lines that say when a counter began: nobody asks
    turn = asyncio.Lock()  # pages that are made at the same time would each take its share of the loop's time

    async def exposition(_: web.Request) -> web.Response:
        async with turn:
            body = await asyncio.to_thread(_text, metrics.registry, metrics.kept.taken())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def probe(checks: list[Callable[[], str | None]]) -> Callable[[web.Request], Any]:
        async def answer(_: web.Request) -> web.Response:
            faults = [fault for check in checks if (fault := check())]
            return web.Response(status=503 if faults else 200, text="\n".join(faults) or "ok")

        return answer

    app = web.Application()
    app.router.add_get("/metrics", exposition)
    app.router.add_get("/healthz", probe(health.live))
    app.router.add_get("/readyz", probe(health.ready))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError:
        await runner.cleanup()
        raise
    return runner, int(runner.addresses[0][1])


def _text(*collectors: Collector) -> bytes:
    return b"".join(generate_latest(each) for each in collectors)


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _RECORD_FIELDS}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _Calm(logging.Filter):
    """kopf's own lines: without tracebacks (how it ended is told once, by us), and its request errors seldom."""

    def __init__(self) -> None:
        super().__init__()
        self._next_s = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("kopf._"):
            return True  # kopf.objects has a traceback where one of our handlers has a bug
        record.exc_info = None
        if not record.name.startswith("kopf._cogs.clients"):
            return True
        seldom = record.created >= self._next_s
        if seldom:
            self._next_s = record.created + _SELDOM_S
        return seldom


def configure_logs(level: str, stream: TextIO = sys.stderr) -> None:
    """One JSON object a line on `stream`; kopf and the HTTP server only from warnings up."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonFormatter())
    handler.addFilter(_Calm())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("modelfleet").setLevel(level.upper())
    # "OS signals are ignored: running not in the main thread": on purpose.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
