"""The status port: probes for the kubelet, a compact metrics page for the operator, the engine's for Prometheus."""

import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from modelfleet_worker.engine_api import EngineApi
from modelfleet_worker.gate_state import Board
from modelfleet_worker.identity import identity
from modelfleet_worker.parts import Part
from modelfleet_worker.state import Progress, State

_log = logging.getLogger(__name__)


@asynccontextmanager
async def served(app: web.Application, port: int) -> AsyncIterator[None]:
    """Serves `app` inside the block. Raises OSError if the port cannot be opened."""
    server_logger.addFilter(_of_ours)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        yield
    finally:
        await runner.cleanup()


def _of_ours(record: logging.LogRecord) -> bool:
    """Not a traceback for each client that sends what is no HTTP; it got its 400."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


class Status:
    """Answers from `progress`, `board` and, where that is asked, the engine."""

    def __init__(
        self, revision: str, progress: Progress, board: Board, api: EngineApi, parts: Sequence[Part] = ()
    ) -> None:
        self._progress, self._board, self._api = progress, board, api
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Page(revision, progress, board))
        self._registry.register(StatePage(progress))
        self._registry.register(PartsPage(parts))
        self._routes = [route for part in parts for route in part.routes()]

    def app(self) -> web.Application:
        """The web application."""
        app = web.Application()
        app.router.add_get("/startupz", self._startup)
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/metrics/engine", self._engine_metrics)
        app.router.add_routes(self._routes)
        return app

    async def _startup(self, _: web.Request) -> web.Response:
        value = {"phase": self._progress.phase, **self._progress.outlook.to_json()}
        return _answer(self._progress.phase is None, *self._why_not_started(), start=value, headers=self._try_again())

    async def _live(self, _: web.Request) -> web.Response:
        """This answer proves the supervisor alive; the state is `gone` from the engine's end on."""
        alive = self._progress.state is not State.GONE
        return _answer(alive, "Alive" if alive else "EngineEnded", f"the worker is {self._progress.state}")

    async def _ready(self, _: web.Request) -> web.Response:
        state = self._progress.state
        if state is State.STARTING:
            return _answer(False, *self._why_not_started(), headers=self._try_again())
        if state is not State.SERVING:
            return _answer(False, "Draining", f"{self._board.read().in_flight} requests in flight")
        if not await self._api.healthy():
            return _answer(False, "EngineUnhealthy", "the engine's /health is not 200")
        return _answer(self._progress.state is State.SERVING, "Serving", "the engine generated a token and is healthy")

    def _why_not_started(self) -> tuple[str, str]:
        phase = self._progress.phase
        if phase is None:
            return "Started", "the engine generated a token"
        return "Starting", f"phase {phase}"

    def _try_again(self) -> dict[str, str]:
        """Retry-After while the engine starts, where an earlier start tells how long it takes; else nothing."""
        after_s = self._progress.outlook.retry_after_s
        return {} if after_s is None or self._progress.phase is None else {"Retry-After": str(after_s)}

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _engine_metrics(self, _: web.Request) -> web.Response:
        try:
            body, content_type = await self._api.metrics()
        except (aiohttp.ClientError, TimeoutError):
            return web.Response(status=503, text="the engine does not answer\n")
        return web.Response(body=body, headers={"Content-Type": content_type})


class StatePage(Collector):
    """What a worker is doing; also of one that does not serve itself."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def collect(self) -> Iterable[Metric]:
        """See Collector."""
        state = GaugeMetricFamily("modelfleet_worker_state", "1 for the present state.", labels=["state"])
        for one in State:
            state.add_metric([one], one is self._progress.state)
        yield state


class _Page(Collector):
    """modelfleet_worker_*: small enough to be read every few seconds from every worker."""

    def __init__(self, revision: str, progress: Progress, board: Board) -> None:
        self._revision, self._progress, self._board = revision, progress, board
        self._own = identity()

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily("modelfleet_worker", "The plan that is served.", {"revision": self._revision})
        own = {"worker_pod": self._own.pod, "worker_pod_uid": self._own.uid}
        yield InfoMetricFamily("modelfleet_worker_pod", "The pod that this page is of.", own)
        counts = self._board.read()
        yield GaugeMetricFamily("modelfleet_worker_in_flight", "Requests being answered now.", counts.in_flight)
        requests = CounterMetricFamily(
            "modelfleet_worker_requests", "Requests that ended, by what HTTP tells of how.", labels=["outcome"]
        )
        for outcome, count in counts.ended.items():
            requests.add_metric([outcome], count)
        yield requests
        text = "How long each phase of the start took, or has taken so far."
        phases = GaugeMetricFamily("modelfleet_worker_start_phase_seconds", text, labels=["phase"])
        for phase, seconds in self._progress.phases_s(time.monotonic()).items():
            phases.add_metric([phase], seconds)
        yield phases


class PartsPage(Collector):
    """What the parts of the worker add to the page."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def collect(self) -> Iterable[Metric]:
        """See Collector."""
        for part in self._parts:
            try:
                yield from tuple(part.metrics())
            except Exception:  # the others' numbers are as true without it
                _log.exception("%s shows no metrics", type(part).__name__)


def _answer(
    good: bool, reason: str, message: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> web.Response:
    value = {"ok": good, "reason": reason, "message": message, **more}
    return web.json_response(value, status=200 if good else 503, headers=headers)
