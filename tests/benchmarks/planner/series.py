"""Series of one configuration under growing concurrency: the KV cliff, and the highest load inside a promise."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.planner.rows import Measured
from modelfleet.core.perf.prediction import Prediction
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import Load

PROMISES = ((0.5, 0.02), (1.0, 0.03), (2.0, 0.05), (5.0, 0.1))
"""Mean TTFT and TPOT, as in the source's layout questions."""
_JUMP = 3.0
"""A TTFT this many times above what the step in concurrency explains is a cliff: requests wait for room."""
_LONG_S = 1.0


@dataclass(frozen=True)
class Point:
    """One concurrency: what was measured and predicted."""

    row: Measured
    predicted: Prediction


def series(rows: Sequence[Measured], least: int = 3) -> list[list[Point]]:
    """Points of one configuration and lengths in order of concurrency, one a concurrency, where there are `least`."""
    parts = defaultdict(dict)
    for row in rows:
        key = (row.group, row.precision, row.case.layout, row.case.setup.version, row.lengths)
        parts[key].setdefault(row.concurrency, row)
    found = []
    for points in parts.values():
        if len(points) >= least:
            ordered = [points[concurrency] for concurrency in sorted(points)]
            loads = [Load(concurrency=row.concurrency) for row in ordered]
            pairs = zip(ordered, loads, strict=True)
            found.append([Point(row, predict(row.case, row.lengths, load)) for row, load in pairs])
    return found


def cliffs(all_series: Sequence[list[Point]]) -> dict[str, Any]:
    """How far the predicted cliff is from the measured one, in steps of the series' concurrencies.

    Past the last point is where a series has no cliff. Series without either tell little, so their number is printed.
    """
    steps = {"all": [], "vllm": [], "with a cliff": []}
    wrong = []
    for points in all_series:
        measured, predicted = _measured_cliff(points), _predicted_cliff(points)
        apart = abs(measured - predicted)
        steps["all"].append(apart)
        if points[0].row.engine == "vllm":
            steps["vllm"].append(apart)
        if measured < len(points) or predicted < len(points):
            steps["with a cliff"].append(apart)
        if apart > 1:
            wrong.append(f"{_name(points)}: measured at {_at(points, measured)}, predicted at {_at(points, predicted)}")
    figures: dict[str, Any] = {
        name: {"series": len(found), "within_one_step": sum(one <= 1 for one in found) / len(found)}
        for name, found in steps.items()
        if found
    }
    return figures | {"wrong": wrong}


def _measured_cliff(points: list[Point]) -> int:
    for index in range(1, len(points)):
        before, now = points[index - 1].row, points[index].row
        explained = max(now.concurrency / before.concurrency, 1.0) * before.ttft_s
        if now.ttft_s > max(_JUMP * explained, _LONG_S):
            return index
    return len(points)


def _predicted_cliff(points: list[Point]) -> int:
    return next((index for index, point in enumerate(points) if point.predicted.saturated), len(points))


def _at(points: list[Point], index: int) -> str:
    return f"{points[index].row.concurrency:g}" if index < len(points) else "no concurrency"


def _name(points: list[Point]) -> str:
    row = points[0].row
    lengths = f"{row.lengths.input_tokens:g}/{row.lengths.output_tokens:g}"
    return f"{' '.join(row.group)} {row.precision} {row.case.layout} {lengths}"


def knees(all_series: Sequence[list[Point]]) -> dict[str, Any]:
    """The highest rate of requests inside mean limits, between the measured concurrencies: predicted against measured.

    Only promises that break inside the series, measured and predicted, have a knee to compare; those that break in one
    of the two only are counted.
    """
    errors: dict[str, list[float]] = defaultdict(list)
    one_sided: dict[str, int] = defaultdict(int)
    for points in all_series:
        engine = points[0].row.engine
        measured = [(p.row.concurrency, p.row.ttft_s, p.row.tpot_s) for p in points]
        predicted = [(p.row.concurrency, p.predicted.ttft_s, p.predicted.tpot_s) for p in points]
        output = points[0].row.lengths.output_tokens
        for promise in PROMISES:
            pair = [_knee_rate(curve, promise, output) for curve in (measured, predicted)]
            if pair[0] and pair[1]:
                errors[engine].append(abs(pair[1] / pair[0] - 1))
            elif pair[0] or pair[1]:
                one_sided[engine] += 1
    return {
        engine: {
            "knees": len(found),
            "median_error": median(found),
            "within_15_percent": sum(error <= 0.15 for error in found) / len(found),
            "one_sided": one_sided[engine],
        }
        for engine, found in sorted(errors.items())
    }


def _knee_rate(curve: list[tuple[float, float, float]], promise: tuple[float, float], output: float) -> float | None:
    """Requests a second where the first of both limits is reached, between two points; None where that is outside."""
    for (low, *before), (high, *after) in pairwise(curve):
        inside = before[0] <= promise[0] and before[1] <= promise[1]
        if not inside:
            return None
        if after[0] > promise[0] or after[1] > promise[1]:
            parts = [
                (limit - first) / (last - first)
                for first, last, limit in zip(before, after, promise, strict=True)
                if last > limit
            ]
            part = min(parts)
            ttft, tpot = (first + part * (last - first) for first, last in zip(before, after, strict=True))
            return (low + part * (high - low)) / (ttft + tpot * (output - 1))
    return None
