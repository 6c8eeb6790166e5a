"""Shares and tails of single requests: measured, replayed through the model's steps, and from the formulas."""

import csv
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from benchmarks.planner.replay import Request, Times, replay
from benchmarks.planner.rows import DATA
from modelfleet.core.catalog import CATALOG
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import Scheme
from modelfleet.core.model.known import known
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import EngineSetup, Lengths, Load

RUNS = (
    ("RTX4090_Llama-3.1-8B", "rtx-4090", "Llama-3.1-8B", Layout(1), 256),
    ("RTXPRO6000_Llama-3.1-8B", "rtx-pro-6000", "Llama-3.1-8B", Layout(1), 128),
    ("RTXPRO6000_Qwen3-30B-A3B-Instruct-2507", "rtx-pro-6000", "Qwen3-30B-A3B", Layout(1, 1, 2, expert=True), 128),
    ("RTXPRO6000_Qwen3-32B", "rtx-pro-6000", "Qwen3-32B", Layout(2), 128),
)
"""File, class, model, layout, sequence cap, as serving.csv states them (vLLM 0.19, 2,048 tokens a step)."""
_TTFT_LIMITS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_TPOT_LIMITS_S = (0.025, 0.03, 0.035, 0.04, 0.05, 0.08, 0.1)
_LONGEST = 8192
"""Not stated by the source; its requests are shorter."""
_SEEDS = (1, 2)
_STEADY = 200
"""Requests that are replayed where no queue grows."""


def runs() -> dict[str, dict[str, Any]]:
    """For each measured run: both tails and how far the joint share is off, over a grid of limits."""
    return {name: _run(f"llmservingsim_{name}_requests.jsonl", case_of(*rest)) for name, *rest in RUNS}


def case_of(accelerator: str, model: str, layout: Layout, cap: int) -> Case:
    """The case of a run, from its row above."""
    facts = known(model)
    if facts is None:
        raise ValueError(f"{model} is not known")
    setup = EngineSetup(version="0.19.0", token_budget=2048, sequence_cap=cap, context_limit_tokens=_LONGEST)
    return Case(facts=facts, hardware=CATALOG[accelerator].hardware, layout=layout, setup=setup)


def _run(file: str, case: Case) -> dict[str, Any]:
    lines = [json.loads(line) for line in (DATA / "measured" / file).read_text().splitlines()]
    start = lines[0]["queued_ts"]
    requests = [Request(line["queued_ts"] - start, line["input_toks"], line["output_toks"]) for line in lines]
    measured = [measured_of(line) for line in lines]
    predicted = replay(case, requests)
    return {
        "requests": len(lines),
        "measured": figures(measured),
        "replayed": figures(predicted),
        "share_off": share_off(measured, predicted),
    }


def measured_of(line: dict[str, float]) -> Times:
    """What a request saw, from its row in the run's file."""
    steps = max(line["output_toks"] - 1, 1)
    ttft = line["first_token_ts"] - line["queued_ts"]
    return Times(ttft, (line["last_token_ts"] - line["first_token_ts"]) / steps)


def figures(times: Sequence[Times]) -> dict[str, float]:
    """Means, p95 and p99 of both times."""
    ttft, tpot = sorted(one.ttft_s for one in times), sorted(one.tpot_s for one in times)
    found = {"ttft_mean": mean(ttft), "tpot_mean": mean(tpot)}
    for name, values in (("ttft", ttft), ("tpot", tpot)):
        for percent in (95, 99):
            found[f"{name}_p{percent}"] = values[min(int(len(values) * percent / 100), len(values) - 1)]
    return found


def share(times: Sequence[Times], ttft_s: float, tpot_s: float) -> float:
    """Of requests that are inside both limits."""
    return sum(one.ttft_s <= ttft_s and one.tpot_s <= tpot_s for one in times) / len(times)


def share_off(measured: Sequence[Times], predicted: Sequence[Times]) -> dict[str, float]:
    """Mean and largest difference of the joint share where the measured one is between 2 and 98 %."""
    off = []
    for ttft_s in _TTFT_LIMITS_S:
        for tpot_s in _TPOT_LIMITS_S:
            pair = share(measured, ttft_s, tpot_s), share(predicted, ttft_s, tpot_s)
            if 0.02 <= pair[0] <= 0.98:
                off.append(abs(pair[0] - pair[1]))
    return {"limits": len(off), "mean": mean(off) if off else 0.0, "largest": max(off, default=0.0)}


@dataclass(frozen=True)
class OpenRow:
    """One measured open loop."""

    name: str
    case: Case
    lengths: Lengths
    rate: float
    prompts: int
    measured: dict[str, float]


def open_rows() -> list[OpenRow]:
    """vLLM's open-loop rows with a rate on an accelerator of the catalogue whose engine does not distort TPOT."""
    with (DATA / "measured" / "serving.csv").open(newline="") as file:
        rows = [_open_row(row) for row in csv.DictReader(file)]
    return [row for row in rows if row is not None]


def _open_row(row: dict[str, str]) -> OpenRow | None:
    facts = known(row["model"])
    usable = "open-loop Poisson" in row["kind"] and "multi-step" not in row["note"]
    if not usable or facts is None or row["gpu_key"] not in CATALOG or not row["request_rate_rps"]:
        return None
    weights = Scheme.FP8 if row["precision"] == "fp8" else Scheme.BF16
    chunked = "mbt=512" in row["options"]
    setup = EngineSetup(
        version=row["engine_version"] or "0.9",
        weights=weights,
        token_budget=512 if chunked else None,
        sequence_cap=512 if chunked else None,
        context_limit_tokens=4096,
    )
    hardware = CATALOG[row["gpu_key"]].hardware
    case = Case(facts=facts, hardware=hardware, layout=Layout(int(row["tp"] or 1)), setup=setup)
    lengths = Lengths(input_tokens=float(row["isl"]), output_tokens=float(row["osl"]))
    names = {"ttft_mean_ms": "ttft_mean", "tpot_mean_ms": "tpot_mean", "ttft_p99_ms": "ttft_p99"}
    measured = {ours: float(row[theirs]) / 1000 for theirs, ours in names.items() if row[theirs]}
    rate = float(row["request_rate_rps"])
    name = f"{facts.name} {row['gpu_key']} {case.layout} {rate:g}/s"
    return OpenRow(name, case, lengths, rate, int(row["num_prompts"] or 1000), measured)


def open_loops() -> list[dict[str, Any]]:
    """Measured, replayed (two seeds) and from the formulas, for each open-loop row."""
    found = []
    for row in open_rows():
        at = predict(row.case, row.lengths, Load(requests_per_s=row.rate))
        run = row if at.saturated else replace(row, prompts=_STEADY)
        drawn = [one for seed in _SEEDS for one in replay(row.case, draw(run, seed))]
        formula = {"ttft_mean": at.ttft_s, "tpot_mean": at.tpot_s}
        if at.spread:
            formula["ttft_p99"] = at.spread.ttft_at(0.99)
        parts = {"measured": row.measured, "replayed": figures(drawn), "formula": formula}
        found.append({"name": row.name, "saturated": at.saturated, **parts})
    return found


def draw(row: OpenRow, seed: int) -> list[Request]:
    """Poisson arrivals of requests of the mean lengths."""
    source = random.Random(seed)
    now, requests = 0.0, []
    for _ in range(row.prompts):
        now += source.expovariate(row.rate)
        requests.append(Request(now, round(row.lengths.input_tokens), round(row.lengths.output_tokens)))
    return requests


def formula_against_replay() -> list[dict[str, float]]:
    """The planner's joint share against replayed Poisson arrivals, at loads up to where the share breaks."""
    facts = known("Llama-3.1-8B")
    if facts is None:
        raise ValueError("Llama-3.1-8B is not known")
    setup = EngineSetup(version="0.19.0", token_budget=2048, sequence_cap=256)
    case = Case(facts=facts, hardware=CATALOG["h100-sxm"].hardware, layout=Layout(1), setup=setup)
    lengths = Lengths(input_tokens=1000, output_tokens=250)
    row = OpenRow("", case, lengths, 1.0, 500, {})
    found = []
    for rate in (2.0, 6.0, 10.0, 14.0, 17.0):
        times = replay(case, draw(replace(row, rate=rate), 1))[100:]
        at = predict(case, lengths, Load(requests_per_s=rate))
        for ttft_s, tpot_s in ((0.1, 0.02), (0.2, 0.03), (0.5, 0.05)):
            told = at.spread.share(ttft_s, tpot_s) if at.spread else 0.0
            found.append({"rate": rate, "ttft_s": ttft_s, "tpot_s": tpot_s, "replayed": share(times, ttft_s, tpot_s)})
            found[-1]["formula"] = told
    return found
