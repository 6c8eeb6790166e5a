"""The metrics of the promise, from counts: families for the compact page. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from modelfleet_worker.goodput import Share
from modelfleet_worker.tally import Buckets, ObjectiveCounts, PromiseCounts

_LABELS = ["promise", "objective"]


def families(shown: Sequence[PromiseCounts]) -> Iterator[Metric]:
    """The present promise first; an earlier one beside it, so that what ends late under it is not lost."""
    present = shown[0]
    yield InfoMetricFamily("modelfleet_promise", "The promise that arrivals are judged by.", _info(present))
    yield _limits(present)
    yield from _counts(shown)
    for name, text, part in _HISTOGRAMS:
        family = HistogramMetricFamily(name, text, labels=_LABELS)
        for labels, counts in _rows(shown):
            _add(family, labels, getattr(counts, part))
        yield family


_HISTOGRAMS = (
    ("modelfleet_goodput_ttft_seconds", "Time to first token of good answers; its limit is an edge.", "ttft_s"),
    ("modelfleet_goodput_tpot_seconds", "Mean time per output token of good answers; its limit is an edge.", "tpot_s"),
    ("modelfleet_input_tokens", "Prompt lengths of good answers; the declared ones are edges.", "input_tokens"),
    ("modelfleet_output_tokens", "Answer lengths of good answers; the declared ones are edges.", "output_tokens"),
)


def _info(present: PromiseCounts) -> dict[str, str]:
    return {"promise": present.promise.digest}


def _limits(present: PromiseCounts) -> Metric:
    limits = GaugeMetricFamily(
        "modelfleet_promise_limit_seconds", "The objective's limits.", labels=[*_LABELS, "limit"]
    )
    for objective in present.promise.objectives:
        labels = [present.promise.digest, objective.name]
        limits.add_metric([*labels, "ttft"], objective.ttft_s)
        limits.add_metric([*labels, "tpot"], objective.tpot_s)
    return limits


def _counts(shown: Sequence[PromiseCounts]) -> Iterator[Metric]:
    arrivals = CounterMetricFamily("modelfleet_goodput_arrivals", "Requests that arrived.", labels=_LABELS)
    in_flight = GaugeMetricFamily("modelfleet_goodput_in_flight", "Requests being answered.", labels=_LABELS)
    ended = CounterMetricFamily(
        "modelfleet_goodput_requests", "Requests that count in the promise, once each.", labels=[*_LABELS, "outcome"]
    )
    apart = CounterMetricFamily(
        "modelfleet_goodput_apart", "Requests that do not count in it.", labels=[*_LABELS, "apart", "outcome"]
    )
    for labels, counts in _rows(shown):
        arrivals.add_metric(labels, counts.arrivals)
        in_flight.add_metric(labels, counts.in_flight)
        for verdict, count in counts.ended[Share.PROMISE].items():
            ended.add_metric([*labels, verdict], count)
        for share in (Share.LONGER, Share.FIRST_CALLER):
            for verdict, count in counts.ended[share].items():
                if count:
                    apart.add_metric([*labels, share, verdict], count)
            apart.add_metric([*labels, share, "all"], sum(counts.ended[share].values()))
    unknown = CounterMetricFamily(
        "modelfleet_goodput_unknown_objective", "Requests that named an objective there is not.", labels=["promise"]
    )
    for one in shown:
        unknown.add_metric([one.promise.digest], one.unknown_names)
    yield from (arrivals, in_flight, ended, apart, unknown)


def _rows(shown: Iterable[PromiseCounts]) -> Iterator[tuple[list[str], ObjectiveCounts]]:
    for one in shown:
        for counts in one.objectives:
            yield [one.promise.digest, counts.name], counts


def _add(family: Any, labels: Sequence[str], buckets: Buckets) -> None:
    total = 0
    shown = []
    for edge, count in zip((*buckets.edges, float("inf")), buckets.counts, strict=True):
        total += count
        shown.append((f"{edge:.10g}" if edge < float("inf") else "+Inf", total))
    family.add_metric(labels, shown, buckets.sum)
