"""A calibration of a worker with the stand-in engine, whose step times are known: they are found again.

The stand-in says of each step the time that it was told to take, so what is recovered does not depend on this machine's
speed; how many requests keep a promise does, and is not asserted here.
"""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelfleet.api.parse import parse_class, parse_deployment
from modelfleet.cli.main import main
from modelfleet.core.asking import hardware
from modelfleet.core.described import stated
from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.shape import Layout
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.pace import course
from modelfleet.core.perf.workload import EngineSetup, Lengths
from modelfleet.core.promise import promise
from planner_worlds import gpu_class, objective, planned
from worker_process import NAME, plan_of, running_worker, stand_in

DECODE, PREFILL = 1.3, 0.8
TOLERANCE = 0.08
"""Relative: prompts of one step are together what the model takes for one prompt."""
PROMPT, ANSWER, KV = 256, 12, 65536
LENGTHS = {
    "inputTokens": {"p50": PROMPT, "p95": PROMPT},
    "outputTokens": {"p50": ANSWER, "p95": ANSWER},
}


def deployment() -> dict[str, Any]:
    """Loose limits: whether they are kept is not the question."""
    asked = objective(ttft="30s", tpot="5s", load={"requestsPerSecond": 240}, lengths=LENGTHS)
    found = planned(objectives=asked, model={"servedNames": [NAME], "maxContextTokens": 4096})
    found["spec"]["scaling"] |= {"maxReplicas": 64}
    return found


def known_times() -> dict[str, str]:
    """The stand-in's knobs for steps that take DECODE and PREFILL times what is predicted on the class."""
    kind: Any = parse_class(gpu_class())
    of: Any = parse_deployment(deployment())
    chip: Hardware = hardware(kind)
    setup = EngineSetup(token_budget=8192)
    case = Case(facts=stated(of.spec.model.facts, "chat"), hardware=chip, layout=Layout(), setup=setup)
    curve = course(case, Lengths(input_tokens=PROMPT, output_tokens=ANSWER))
    return {
        "token_s": str(DECODE * curve.fixed_s),
        "sequence_s": str(DECODE * curve.sequence_s),
        "prompt_token_s": str(PREFILL * curve.prompt_s / PROMPT),
        "kv_tokens": str(KV),
    }


async def calibrated(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, Any, str]:
    """Exit status, the JSON and what was said besides."""
    file = folder / "chat.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [deployment(), gpu_class()]}))
    worker_folder = folder / "worker"
    worker_folder.mkdir()
    (worker_folder / "promise.json").write_text(json.dumps(promise(parse_deployment(deployment()))))  # type: ignore[arg-type]
    engine = stand_in(folder, **known_times())
    # A step takes one prompt at most: a slow machine that sends them in bunches changes no composition.
    engine = replace(engine, args=(f"--max-num-batched-tokens={PROMPT}",))
    async with running_worker(folder, plan_of(engine)) as worker:
        await worker.until_ready(120.0)
        address = ["--url", worker._http, "--metrics-url", f"http://{worker.status_address}"]
        argv = ["calibrate", "-f", str(file), *address, "--step=0.5", "--limit=2.6", "--watch=0", "-o", "json", *flags]
        status = await asyncio.to_thread(main, argv)
    said = capsys.readouterr()
    return status, json.loads(said.out) if said.out else None, said.err


async def test_the_step_times_and_the_cache_of_a_known_engine_are_found_again(tmp_path, capsys):
    status, found, said = await calibrated(tmp_path, capsys)
    assert status == 0, said
    spec = found["profile"]["spec"]
    assert float(spec["stepTime"]["decode"]) == pytest.approx(DECODE, rel=TOLERANCE)
    assert float(spec["stepTime"]["prefill"]) == pytest.approx(PREFILL, rel=TOLERANCE)
    assert spec["stepTime"]["prefillSamples"] > 0
    assert spec["kvCacheTokens"] == KV
    assert spec["provenance"]["by"] == "modelfleet calibrate"
    # A piece of a prompt costs the stand-in its part, and an accelerator a start of its kernels besides.
    for point in (each for each in found["curve"] if not 0 < each["prefillTokens"] < PROMPT / 2):
        assert point["corrected_s"] == pytest.approx(point["measured_s"], rel=0.15)
    assert found["written"] is False
