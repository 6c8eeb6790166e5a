"""What our choice of a layout costs against the best measured one, for the same model, accelerator and promise."""

import csv
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.planner.rows import CLASSES, DATA, scheme
from modelfleet.core.catalog import CATALOG
from modelfleet.core.layout.best_of import best_of
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.known import known
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.numbers import usual_kv_scheme
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import EngineSetup, Lengths, Load

_TIE = 0.1
"""As in best_of."""


@dataclass(frozen=True)
class Point:
    """One measured point of a question's configuration."""

    label: str
    accelerators: int
    concurrency: float
    ttft_s: float
    tpot_s: float
    version: str


@dataclass(frozen=True)
class Question:
    """One row of the source: a promise, the layouts that were measured, the best of them inside the promise."""

    case: Case
    lengths: Lengths
    ttft_s: float
    tpot_s: float
    labels: tuple[str, ...]
    best: str
    best_output: float
    """Output tokens a second and accelerator."""
    points: tuple[Point, ...]
    name: str

    @property
    def engine(self) -> str:
        """vllm, sglang or trtllm."""
        return self.case.setup.engine

    @property
    def plain(self) -> bool:
        """Whether no label multiplies a degree by itself (see rows): those name other accelerators than ran."""
        return not any(_doubtful(label) for label in self.labels)


def _doubtful(label: str) -> bool:
    layout = layout_of(label)
    degree = re.search(r"ep(\d+)", label)
    square = degree is not None and layout.accelerators == int(degree[1]) ** 2 > 1
    return square or layout.accelerators > 8 or (layout.tensor == layout.data > 1)


def layout_of(label: str) -> Layout:
    """The layout as it is labelled; experts over a part of the accelerators count as over all."""
    degrees = {part[:2]: int(part[2:]) for part in label.split("-")}
    return Layout(degrees.get("tp", 1), 1, degrees.get("dp", 1), expert=degrees.get("ep", 1) > 1)


def questions() -> list[Question]:
    """The source's questions that some measured layout answers."""
    points = _points()
    with (DATA / "measured" / "layout_choice_truth.csv").open(newline="") as file:
        return [_question(row, points) for row in csv.DictReader(file) if row["best_layout"]]


def _key(row: dict[str, str], model: str) -> tuple[str, ...]:
    return (row[model], *(row[name] for name in ("system", "backend", "precision", "isl", "osl")))


def _points() -> dict[tuple[str, ...], list[Point]]:
    found = defaultdict(list)
    with (DATA / "measured" / "silicon_sample.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["mode"] == "agg" and float(row["silicon_concurrency"] or 0) > 0:
                found[_key(row, "model_path")].append(_point(row))
    return found


def _point(row: dict[str, str]) -> Point:
    tensor, data, expert = (int(float(row[name] or 0)) or 1 for name in ("tp_size", "attention_dp_size", "moe_ep_size"))
    label = f"tp{tensor}" + (f"-dp{data}" if data > 1 else "") + (f"-ep{expert}" if expert > 1 else "")
    times = (float(row[name]) / 1000 for name in ("silicon_ttft_ms", "silicon_tpot_ms"))
    return Point(label, tensor * data, float(row["silicon_concurrency"]), *times, row["backend_version"])


def _question(row: dict[str, str], points: dict[tuple[str, ...], list[Point]]) -> Question:
    facts = known(row["model"])
    if facts is None:
        raise ValueError(f"{row['model']} is not known")
    weights = scheme(row["precision"] or "bf16", facts)
    measured = tuple(points[_key(row, "model")])
    hardware = CATALOG[CLASSES.get(row["system"], row["system"])].hardware
    setup = EngineSetup(
        engine=row["backend"], version=measured[0].version, weights=weights, kv=usual_kv_scheme(weights)
    )
    return Question(
        case=Case(facts=facts, hardware=hardware, layout=Layout(), setup=setup),
        lengths=Lengths(input_tokens=float(row["isl"]), output_tokens=float(row["osl"])),
        ttft_s=float(row["slo_ttft_ms"]) / 1000,
        tpot_s=float(row["slo_tpot_ms"]) / 1000,
        labels=tuple(row["layouts"].split(";")),
        best=row["best_layout"],
        best_output=float(row["output_tok_s_per_gpu"]),
        points=measured,
        name=" ".join([*_key(row, "model"), f"{row['slo_ttft_ms']}/{row['slo_tpot_ms']} ms"]),
    )


def report() -> dict[str, Any]:
    """Regret and right choices by engine, for a free choice and for one among the measured points."""
    asked = questions()
    answered = [(one, free_choice(one), measured_choice(one)) for one in asked]
    figures: dict[str, Any] = {}
    for name, ones in (
        ("all", answered),
        *((engine, [a for a in answered if a[0].engine == engine]) for engine in ("vllm", "sglang", "trtllm")),
        ("labels that fit", [a for a in answered if a[0].plain]),
        ("labels that fit, vllm", [a for a in answered if a[0].plain and a[0].engine == "vllm"]),
    ):
        figures[name] = {
            "among_measured": _regret([(one, among) for one, _, among in ones]),
            "free": _regret([(one, free) for one, free, _ in ones]),
        }
    ranked = sorted(answered, key=lambda a: (-regret(a[0], a[2]), -a[0].best_output))
    figures["worst"] = [
        f"{one.name}: best {one.best}, ours {among}, regret {regret(one, among):.2f}" for one, _, among in ranked[:5]
    ]
    return figures


def free_choice(question: Question) -> str | None:
    """What `modelfleet choose` answers, at any concurrency."""
    cases = {}
    for label in question.labels:
        cases.setdefault(layout_of(label), label)
    asked = [replace(question.case, layout=layout) for layout in cases]
    best = best_of(asked, question.lengths, question.ttft_s, question.tpot_s)
    return cases[best.layout] if best else None


def measured_choice(question: Question) -> str | None:
    """The same among the measured concurrencies only: what was not measured has no known cost."""
    tops: dict[str, tuple[float, int]] = {}
    for point in question.points:
        case = replace(question.case, layout=layout_of(point.label))
        found = predict(case, question.lengths, Load(concurrency=point.concurrency))
        if found.fits and found.ttft_s <= question.ttft_s and found.tpot_s <= question.tpot_s:
            output = found.output_tokens_per_s / point.accelerators / (1 + found.uncertainty)
            tops[point.label] = max(tops.get(point.label, (0.0, 0)), (output, point.accelerators))
    if not tops:
        return None
    most = max(output for output, _ in tops.values())
    near = [label for label, (output, _) in tops.items() if output >= most * (1 - _TIE)]
    return min(near, key=lambda label: (tops[label][1], len(label)))


def regret(question: Question, label: str | None) -> float:
    """1 - our layout's best measured output inside the promise over the best layout's; 1 where it never is inside."""
    outputs = [
        point.concurrency
        * question.lengths.output_tokens
        / (point.ttft_s + point.tpot_s * (question.lengths.output_tokens - 1))
        / point.accelerators
        for point in question.points
        if point.label == label and point.ttft_s <= question.ttft_s and point.tpot_s <= question.tpot_s
    ]
    return 1 - min(max(outputs, default=0.0) / question.best_output, 1.0)


def _regret(choices: Sequence[tuple[Question, str | None]]) -> dict[str, float]:
    costs = [regret(question, label) for question, label in choices]
    return {
        "questions": len(choices),
        "regret_mean": sum(costs) / len(costs),
        "right": sum(question.best == label for question, label in choices) / len(choices),
        "breaks_the_promise": sum(cost >= 1 for cost in costs),
        "regret_of_the_others": sum(cost for cost in costs if cost < 1) / max(sum(cost < 1 for cost in costs), 1),
    }
