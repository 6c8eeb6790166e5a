"""`make bench-engine-cpu`: the simulator's engine against the real one on this machine's processors.

A real vLLM with the tiny model is calibrated as `modelfleet calibrate` does it. Then requests of other lengths and
moments go to it, and the same through modelfleet.sim.engine, with the step times that the calibration found: once as
the ModelProfile has them (three factors on the planner's prediction, which is of GPUs), once with constants of this
engine's own, fitted on the steps that the calibration counted. Writes its section of docs/benchmarks.md.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.planner.replay import Times
from benchmarks.planner.tail_requests import figures, share
from modelfleet.cli.calibrate import Result, goal_of
from modelfleet.cli.calibrate_case import Subject, subject_of
from modelfleet.cli.calibrating import Measured, Run, measure
from modelfleet.cli.open_loop import Answer, Drawn, Replica, draw, drive
from modelfleet.core.perf.cells import Cell
from modelfleet.core.perf.pace import pace
from modelfleet.core.profile_object import case_of
from modelfleet.core.promise import promise
from modelfleet.sim.engine import Engine, EngineSpec
from modelfleet.sim.pace import Line, Pace
from modelfleet.sim.requests import Outcome, Request
from worker_process import NAME, plan_of, real_engine, running_worker

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- engine on CPU: begin, written by make bench-engine-cpu -->", "<!-- engine on CPU: end -->"
_FIGURES = ("ttft_mean", "ttft_p95", "ttft_p99", "tpot_mean", "tpot_p95")
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
STEP_S, LIMIT_S, TRACE_S = 20.0, 300.0, 90.0
LOADS = (0.4, 0.8)
"""Of the knee that the calibration found, or of the highest rate that it tried, where none broke the promise."""
SEED = 7_000
"""Of the traces: none of the calibration's."""


def deployment() -> dict[str, Any]:
    """What the tiny model promises on two processor cores."""
    lengths = {"inputTokens": {"p50": 96, "p95": 320, "max": 1024}, "outputTokens": {"p50": 24, "p95": 64}}
    objective = {
        "name": "interactive",
        "ttft": "1s",
        "tpot": "100ms",
        "share": "95%",
        "load": {"requestsPerSecond": 4},
        "lengths": lengths,
    }
    return {
        "apiVersion": "modelfleet.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "tiny", "namespace": "bench"},
        "spec": {
            "model": {"source": "pvc://models/tiny", "servedNames": [NAME], "maxContextTokens": 2048},
            "objectives": [objective],
            "accelerators": {"classes": ["cpu"]},
            "scaling": {"minReplicas": 1, "maxReplicas": 64},
        },
    }


CLASS: dict[str, Any] = {
    "apiVersion": "modelfleet.dev/v1alpha1",
    "kind": "AcceleratorClass",
    "metadata": {"name": "cpu"},
    "spec": {
        "nodeSelector": {"modelfleet.dev/accelerator": "cpu"},
        "resourceName": "modelfleet.dev/cpu-slot",
        "device": "Cpu",
        "acceleratorsPerNode": 1,
        "memory": "4Gi",
        "memoryBandwidth": "20G",
        "compute": {"bf16": "200G"},
    },
}
"""Two cores of a server, roughly: the calibration corrects it."""


@dataclass(frozen=True)
class Own:
    """Step times by constants of the engine's own, in the place of a Pace."""

    fixed_s: float
    sequence_s: float
    prompt_s: float
    token_s: float

    def step(self, prompt_tokens: int, sequences: int) -> Line:
        """A step's time."""
        prompt_s = self.prompt_s + self.token_s * prompt_tokens if prompt_tokens else 0.0
        return Line(self.fixed_s + self.sequence_s * sequences + prompt_s, 0.0, 0.0)

    @classmethod
    def fitted(cls, cells: Sequence[Cell]) -> "Own":
        """By least squares of relative errors, each cell as often as its steps; none below 0."""
        rows = [(1.0, cell.sequences, float(cell.tokens > 0), cell.tokens) for cell in cells]
        left, weights = list(range(4)), np.sqrt([cell.steps for cell in cells])
        times = np.array([cell.mean_s for cell in cells])
        found = np.zeros(4)
        while left:
            matrix = np.array(rows)[:, left] / times[:, None] * weights[:, None]
            solved = np.linalg.lstsq(matrix, weights, rcond=None)[0]
            if (solved >= 0).all():
                found[left] = solved
                break
            left.pop(int(np.argmin(solved)))
        return cls(*(float(each) for each in found))


def simulated(spec: EngineSpec, requests: Sequence[Drawn], outside_s: float) -> list[Times]:
    """The same arrivals and lengths through the simulator's engine; `outside_s` is what a request takes besides."""
    outcomes: list[Outcome] = []
    engine = Engine(spec, 0, 0.0, outcomes.append)
    for each in requests:
        engine.advance(each.at_s)
        engine.arrive(Request(each.at_s, each.prompt_tokens, each.answer_tokens))
    while engine.in_flight:
        engine.advance(engine.now_s + 60.0)
    return [Times(one.ttft_s + outside_s, one.tpot_s) for one in outcomes]


def measured_times(answers: Sequence[Answer]) -> list[Times]:
    """What clients saw."""
    return [Times(each.ttft_s, each.tpot_s) for each in answers if each.ttft_s is not None and each.tpot_s is not None]


def share_off(measured: Sequence[Times], made: Sequence[Times]) -> dict[str, float]:
    """Mean and largest difference of the joint share, at limits between the 10th and 90th percentile of the times."""
    ttft, tpot = sorted(one.ttft_s for one in measured), sorted(one.tpot_s for one in measured)
    limits = [(ttft[int(a * len(ttft))], tpot[int(b * len(tpot))]) for a in _QUANTILES for b in _QUANTILES]
    off = [abs(share(measured, *each) - share(made, *each)) for each in limits]
    return {"mean": mean(off), "largest": max(off)}


def engines(subject: Subject, found: Measured, result: Result) -> dict[str, tuple[EngineSpec, float]]:
    """The simulator's engine in both ways, with what a request takes outside of steps."""
    case = case_of(subject.plan, subject.kind, subject.facts)
    assert case is not None
    setup, own = case.setup, Own.fitted(list(found.cells.values()))
    spec = EngineSpec(
        pace=Pace(case, factors=result.profile.factors),
        kv_tokens=found.kv_tokens or 1,
        sequence_cap=setup.sequence_cap or 256,
        token_budget=setup.token_budget or 2048,
    )
    outside_s = pace(case, found.lengths, 1.0).outside_s * result.profile.overhead
    light = found.light[0]
    prompt_s = own.step(round(found.lengths.input_tokens), 0).base_s
    return {
        "the profile's three factors": (spec, outside_s),
        "own constants": (replace(spec, pace=own), max(0.0, light.ttft_s - prompt_s)),  # type: ignore[arg-type]
    }


async def run(folder: Path, told: Callable[[str], None]) -> dict[str, Any]:
    """Calibrates, then sends the traces."""
    under_test = real_engine()
    files = [folder / "tiny.json", Path(under_test.model) / "config.json"]
    files[0].write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [deployment(), CLASS]}))
    subject = subject_of(argparse.Namespace(file=[str(each) for each in files], model=None))
    flags = [f"--{name}={value}" for name, value in _flags(subject).items()]
    under_test = replace(under_test, args=(*under_test.args, *flags))
    (folder / "worker").mkdir()
    (folder / "worker" / "promise.json").write_text(json.dumps(promise(subject.deployment)))
    async with running_worker(folder, plan_of(under_test)) as worker:
        await worker.until_ready(900.0)
        replica = Replica(url=worker._http, served_name=NAME)
        goal = goal_of(subject)
        found = await measure(
            Run(
                deployment=subject.deployment,
                replica=replica,
                page_url=f"http://{worker.status_address}",
                goal=goal,
                step_s=STEP_S,
                limit_s=LIMIT_S,
                watch_s=0.0,
                alone=True,
                seed=1,
                told=lambda number, rate, part: told(f"rate {number}: {rate:.3g} a second") if part >= 1 else None,
            )
        )
        result = Result(subject, found, argparse.Namespace(profile=None, namespace=None))
        told("\n".join(result.table()))
        knee = result.knee
        assert knee is not None, "no rate kept the promise of the bench"
        rows = []
        for number, part in enumerate(LOADS):
            requests = draw(subject.deployment, part * knee.rps, TRACE_S, SEED + number)
            answers = await drive(replica, requests, lambda _: None)
            seen = measured_times(answers)
            for name, (spec, outside_s) in engines(subject, found, result).items():
                made = simulated(spec, requests, outside_s)
                rows.append(
                    {
                        "load": f"{part * knee.rps:.3g} a second, {len(seen)} of {len(requests)} answered",
                        "engine": name,
                        "measured": figures(seen),
                        "simulated": figures(made),
                        "off": share_off(seen, made),
                    }
                )
            told(f"{part:.0%} of {knee.rps:.3g} a second: done")
    own = Own.fitted(list(found.cells.values()))
    return {"rows": rows, "result": result.document(), "own": own, "knee": knee}


def _flags(subject: Subject) -> dict[str, int]:
    planned = subject.plan.planned
    assert planned is not None
    limits = {"max-num-batched-tokens": planned.token_budget, "max-num-seqs": planned.sequence_cap}
    return {name: value for name, value in limits.items() if value}


def lines(found: dict[str, Any]) -> list[str]:
    """The section as Markdown, milliseconds measured / simulated."""
    spec, own = found["result"]["profile"]["spec"], found["own"]
    step, knee = spec["stepTime"], found["knee"]
    known = f"knee {knee.rps:.3g} requests a second ± {knee.uncertainty:.0%}"
    kept = known if knee.broken_rps is not None else f"{knee.kept_rps:.3g} requests a second broke no promise yet"
    head = [
        "`make bench-engine-cpu`: a real vLLM (the tiny model, this machine's cores, which others may use too) is"
        " calibrated; then other requests go to it and, with the same moments and lengths, through the simulator's"
        " engine. Milliseconds, measured by the client / simulated; the joint share is compared at 25 limits between"
        " the 10th and the 90th percentile of the measured times.",
        "",
        f"Calibrated: decode {step['decode']} and prefill {step['prefill']} times the prediction, overhead"
        f" {step['overhead']} (± {step['tpotUncertainty']} TPOT, ± {step['ttftUncertainty']} TTFT);"
        f" {spec.get('kvCacheTokens', 0):,} KV tokens; {kept}. Own"
        f" constants: {own.fixed_s * 1000:.3g} ms a step, {own.sequence_s * 1e6:.3g} µs a sequence,"
        f" {own.prompt_s * 1000:.3g} ms for prompts and {own.token_s * 1e6:.3g} µs a prompt token.",
        "",
        "| load | step times | "
        + " | ".join(name.replace("_", " ") for name in _FIGURES)
        + " | share off, mean | most |",
        "| --- | --- |" + " --- |" * (len(_FIGURES) + 2),
    ]
    for one in found["rows"]:
        cells = [f"{one['measured'][name] * 1000:.3g} / {one['simulated'][name] * 1000:.3g}" for name in _FIGURES]
        off = one["off"]
        head.append(
            f"| {one['load']} | {one['engine']} | {' | '.join(cells)} | {off['mean']:.3f} | {off['largest']:.3f} |"
        )
    return head


def main() -> None:
    """Runs it and writes the section."""
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(run(Path(folder), lambda text: print(text, flush=True)))
    text = lines(found)
    print("\n".join(text))
    before, _, rest = DOCS.read_text().partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not found_end:
        before, after = f"{before.rstrip()}\n\n## The simulator's engine on CPU\n", "\n"
    DOCS.write_text("\n".join([before + BEGIN, *text, END]) + after)


if __name__ == "__main__":
    main()
