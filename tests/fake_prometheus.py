"""The one query of the operator, answered over HTTP as a Prometheus that has scraped some pages would."""

from collections.abc import AsyncIterator, Container, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from modelfleet.controller.metrics.prometheus import QUERY, STEPS_QUERY
from modelfleet.core.scaling import step_samples
from modelfleet.core.scaling.page import NAMES

_STAMPED = "modelfleet_worker_pod_info"


@dataclass
class FakePrometheus:
    """`pages` are (labels of the target, text, when it was read) as of `now`, in seconds since the epoch.

    tests/prometheus holds it to what a real one does, by the cases of prometheus_cases.py.
    """

    url: str = ""
    now: float = 1_800_000_000.0
    pages: list[tuple[Mapping[str, str], str, float]] = field(default_factory=list)
    status: int = 200
    refusal: str = "too many samples"
    queries: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    async def scrape(self, *pages: tuple[Mapping[str, str], str]) -> None:
        """From now on it has read these pages, just now, and no others."""
        self.pages = [(target, text, self.now) for target, text in pages]

    def vector(self, query: str = QUERY) -> list[dict[str, Any]]:
        """What a query gives: the samples, and one stamp a target."""
        wanted = NAMES if query == QUERY else (*NAMES, *step_samples.NAMES)
        return [sample for target, text, at in self.pages for sample in self._of(target, text, at, wanted)]

    def _of(self, target: Mapping[str, str], text: str, at: float, wanted: Container[str]) -> list[dict[str, Any]]:
        found = []
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name not in wanted:
                    continue
                labels = {(f"exported_{k}" if k in target else k): v for k, v in sample.labels.items()} | dict(target)
                found.append(
                    {"metric": {"__name__": sample.name, **labels}, "value": [self.now, repr(float(sample.value))]}
                )
                if sample.name == _STAMPED:
                    stamped = {**labels, "modelfleet_stamp": "sample"}
                    found.append({"metric": stamped, "value": [self.now, f"{float(sample.timestamp or at):.3f}"]})
        return found

    async def _answer(self, request: web.Request) -> web.Response:
        self.queries.append(request.query["query"])
        self.headers.append(dict(request.headers))
        if self.status != 200:
            return web.Response(status=self.status, text=self.refusal)
        assert request.query["query"] in (QUERY, STEPS_QUERY)
        data = {"resultType": "vector", "result": self.vector(request.query["query"])}
        return web.json_response({"status": "success", "data": data})

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Its address, for the time of the block."""
        app = web.Application()
        app.router.add_post("/api/v1/query", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self.url
        finally:
            await runner.cleanup()
