"""Compact pages as workers print them, from numbers: the worker's own code makes the text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from modelfleet_worker import engine_pages, goodput_pages
from modelfleet_worker.engine_counts import COUNTED, Cell, EngineSeen
from modelfleet_worker.gate_state import Counts
from modelfleet_worker.goodput import SHARES, VERDICTS, Share, Verdict
from modelfleet_worker.promise import Promise
from modelfleet_worker.tally import Buckets, ObjectiveCounts, PromiseCounts, layouts


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What one objective of a worker counted. Prompts and answers are lists of lengths; times of finished requests."""

    arrivals: int = 0
    in_flight: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)
    longer: Mapping[str, int] = field(default_factory=dict)
    ttft_s: Sequence[float] = ()
    tpot_s: Sequence[float] = ()
    prompts: Sequence[int] = ()
    answers: Sequence[int] = ()


def good(count: int, late: int = 0, **more: Any) -> Numbers:
    """`count` requests that kept their promise and `late` that did not, all ended."""
    ended = {"met": count, "late_ttft": late}
    return Numbers(arrivals=count + late, ended=ended, **more)


@dataclass(frozen=True, kw_only=True)
class WorkerPage:
    """One worker's page. `uid` and `name` are what it says of itself."""

    promise: Promise
    numbers: Mapping[str, Numbers]
    name: str = "chat-1a2b3c4d-0"
    uid: str = "uid-0"
    state: str = "serving"
    waiting: int = 0
    kv_total_tokens: int = 4096
    steps: int = 0
    cells: Mapping[tuple[int, int], Cell] = field(default_factory=dict)
    named: bool = True

    def with_numbers(self, **numbers: Numbers) -> "WorkerPage":
        """The same worker later."""
        return replace(self, numbers=numbers)

    @property
    def text(self) -> str:
        """The page."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Families(self._families()))
        return generate_latest(registry).decode()

    def _families(self) -> Iterable[Metric]:
        yield InfoMetricFamily("modelfleet_worker", "", {"revision": "1a2b3c4d"})
        if self.named:
            yield InfoMetricFamily("modelfleet_worker_pod", "", {"worker_pod": self.name, "worker_pod_uid": self.uid})
        state = GaugeMetricFamily("modelfleet_worker_state", "", labels=["state"])
        for each in ("starting", "serving", "draining", "gone"):
            state.add_metric([each], each == self.state)
        yield state
        in_flight = sum(each.in_flight for each in self.numbers.values())
        yield GaugeMetricFamily("modelfleet_worker_in_flight", "", in_flight)
        if self.promise.objectives:
            yield from goodput_pages.families([self._counts()])
        engine = EngineSeen(
            engine=0,
            running=in_flight,
            waiting=self.waiting,
            kv_used_tokens=0,
            kv_total_tokens=self.kv_total_tokens,
            counts=dict.fromkeys(COUNTED, self.steps),
            cells=self.cells,
        )
        yield from engine_pages.families([engine], Counts(1, in_flight, {}, waiting=self.waiting), None)

    def _counts(self) -> PromiseCounts:
        rows = []
        for layout in layouts(self.promise):
            name = layout.objective.name
            numbers = self.numbers.get(name, Numbers())
            ended = {share: dict.fromkeys(VERDICTS, 0) for share in SHARES}
            ended[Share.PROMISE] |= {Verdict(each): count for each, count in numbers.ended.items()}
            ended[Share.LONGER] |= {Verdict(each): count for each, count in numbers.longer.items()}
            rows.append(
                ObjectiveCounts(
                    name=name,
                    arrivals=numbers.arrivals,
                    in_flight=numbers.in_flight,
                    ended=ended,
                    ttft_s=_buckets(layout.ttft.edges, numbers.ttft_s),
                    tpot_s=_buckets(layout.tpot.edges, numbers.tpot_s),
                    input_tokens=_buckets(layout.input.edges, numbers.prompts),
                    output_tokens=_buckets(layout.output.edges, numbers.answers),
                )
            )
        return PromiseCounts(self.promise, tuple(rows))


def _buckets(edges: Sequence[float], values: Sequence[float]) -> Buckets:
    counts = [0] * (len(edges) + 1)
    for value in values:
        counts[next((i for i, edge in enumerate(edges) if value <= edge), len(edges))] += 1
    return Buckets(tuple(edges), tuple(counts), float(sum(values)))


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
