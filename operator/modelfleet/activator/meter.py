"""What an activator tells of itself: its series for Prometheus. Docs: docs/activator.md."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from modelfleet.controller.telemetry import Kept
from modelfleet.core.activation.holding import Reason

PREFIX = "modelfleet_activator_"
_MODEL = ("namespace", "name")
_WAIT_EDGES_S = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1200.0)
_REFUSALS = tuple(reason.value for reason in Reason if reason is not Reason.HELD)
_BREAKS = ("worker", "client")

Key = tuple[str, str]


Line = tuple[Key, int, int]
"""A model, how many wait for it, and how many workers serve it."""


def _held(lines: Iterable[Line]) -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    held = GaugeMetricFamily(f"{PREFIX}held", "Requests that wait for a replica", labels=_MODEL)
    workers = GaugeMetricFamily(f"{PREFIX}workers", "Workers that serve the model, as seen here", labels=_MODEL)
    for key, waiting, serving in lines:
        held.add_metric(key, waiting)
        workers.add_metric(key, serving)
    return held, workers


class Meter:
    """The series. Everything of a model is there with zero as soon as the model is known, and gone when it is; what
    still ends of it then is not counted."""

    def __init__(self) -> None:
        self._known: set[Key] = set()
        self.registry, self.kept = CollectorRegistry(), Kept()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._passed = self._counter("passed", "Requests that were handed on and answered to their end", _MODEL)
        self._refused = self._counter("refused", "Requests that were refused, by reason", (*_MODEL, "reason"))
        self._gone = self._counter("gone", "Held requests whose client gave up", _MODEL)
        self._broken = self._counter("broken", "Answers that broke off, by whose connection", (*_MODEL, "whose"))
        self._failed = self._counter(
            "connect_failures", "Connections to a worker that failed, and were tried elsewhere", _MODEL
        )
        self._waited = Histogram(
            f"{PREFIX}waited_seconds",
            "How long held requests waited until they were handed on",
            _MODEL,
            buckets=_WAIT_EDGES_S,
            registry=self.registry,
        )
        self.writes = self._counter("api_writes", "Writes to the API server, by what came of them", ("what", "result"))

    def know(self, key: Key) -> None:
        """A model is known."""
        self._known.add(key)
        for each in (self._passed, self._gone, self._failed, self._waited):
            each.labels(*key)
        for reason in _REFUSALS:
            self._refused.labels(*key, reason)
        for whose in _BREAKS:
            self._broken.labels(*key, whose)

    def forget(self, key: Key) -> None:
        """A model is gone."""
        self._known.discard(key)
        for each in (self._passed, self._gone, self._failed, self._waited):
            each.remove(*key)
        for reason in _REFUSALS:
            self._refused.remove(*key, reason)
        for whose in _BREAKS:
            self._broken.remove(*key, whose)

    def passed(self, key: Key) -> None:
        """A request was answered by a worker to its end."""
        if key in self._known:
            self._passed.labels(*key).inc()

    def refused(self, key: Key, reason: Reason) -> None:
        """A request was refused."""
        if key in self._known:
            self._refused.labels(*key, reason.value).inc()

    def gone(self, key: Key) -> None:
        """A client gave up while its request was held."""
        if key in self._known:
            self._gone.labels(*key).inc()

    def broken(self, key: Key, whose: str) -> None:
        """An answer broke off: the worker's connection, or the client's."""
        if key in self._known:
            self._broken.labels(*key, whose).inc()

    def unreachable(self, key: Key) -> None:
        """A worker could not be connected to."""
        if key in self._known:
            self._failed.labels(*key).inc()

    def waited(self, key: Key, seconds: float) -> None:
        """A held request was handed on."""
        if key in self._known:
            self._waited.labels(*key).observe(seconds)

    def expose(self, read: Callable[[], Iterable[Line]], held_bytes: Callable[[], float]) -> None:
        """Shows the lines, as they are when somebody scrapes, so that a model that went leaves no series; and the bytes
        of bodies that are held."""
        self.kept.add(lambda: tuple(read()), _held)
        self.gauge("held_bytes", "Bytes of bodies that are held", held_bytes)

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A value that is read when somebody scrapes."""
        self.kept.gauge(PREFIX + name, text, read)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(PREFIX + name, text, labels, registry=self.registry)
