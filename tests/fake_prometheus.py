"""The queries of the operator, answered over HTTP as a Prometheus that has scraped some pages would."""

import json
import re
from collections.abc import AsyncIterator, Container, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from modelfleet.controller.metrics.queries import QUERY, STEPS_QUERY, WHO_QUERY, part

_STAMPED = "modelfleet_worker_pod_info"
_NAMES = re.compile(r'__name__=~"([^"]*)"')
_SELECTOR = re.compile(r'\{((?!__name__)(\w+)=~("(?:[^"\\]|\\.)*"))\}')
_AT_MOST = re.compile(r"<= (\d+)\)")


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
    refuses: Container[int] = ()  # it refuses these queries, from 1
    queries: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)  # as of when; "" is now
    headers: list[Mapping[str, str]] = field(default_factory=list)

    async def scrape(self, *pages: tuple[Mapping[str, str], str]) -> None:
        """From now on it has read these pages, just now, and no others."""
        self.pages = [(target, text, self.now) for target, text in pages]

    def vector(self, query: str = QUERY) -> list[dict[str, Any]]:
        """What a query gives: the samples, and one stamp a target."""
        wanted, selector, at_most = _NAMES.search(query), _SELECTOR.search(query), _AT_MOST.search(query)
        _, label, value = selector.groups() if selector else ("", "", '""')
        names = wanted[1].split("|") if wanted else []
        if at_most and sum(_STAMPED in text for _, text, _ in self.pages) > int(at_most[1]):
            names = []
        found = []
        for target, text, at in self.pages:
            if not selector or re.fullmatch(json.loads(value), target.get(label, "")):
                found += self._of(target, text, at, names)
        return found

    def _of(self, target: Mapping[str, str], text: str, at: float, wanted: Container[str]) -> list[dict[str, Any]]:
        found = []
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name not in wanted and sample.name != _STAMPED:
                    continue
                labels = {(f"exported_{k}" if k in target else k): v for k, v in sample.labels.items()} | dict(target)
                if sample.name in wanted:
                    named = {"__name__": sample.name, **labels}
                    found.append({"metric": named, "value": [self.now, repr(float(sample.value))]})
                if sample.name == _STAMPED:
                    stamped = {**labels, "modelfleet_stamp": "sample"}
                    found.append({"metric": stamped, "value": [self.now, f"{float(sample.timestamp or at):.3f}"]})
        return found

    async def _answer(self, request: web.Request) -> web.Response:
        form = await request.post()
        query = str(form["query"])
        self.queries.append(query)
        self.times.append(str(form.get("time", "")))
        self.headers.append(dict(request.headers))
        if self.status != 200 or len(self.queries) in self.refuses:
            return web.Response(status=self.status if self.status != 200 else 422, text=self.refusal)
        assert query in self._known(query)
        data = {"resultType": "vector", "result": self.vector(query)}
        return web.json_response({"status": "success", "data": data})

    def _known(self, query: str) -> Container[str]:
        """What it can answer: the operator's own queries and no others."""
        selector = _SELECTOR.search(query)
        of = "" if selector is None else selector[1]
        return QUERY, STEPS_QUERY, WHO_QUERY, part(of, steps=False), part(of, steps=True)

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
