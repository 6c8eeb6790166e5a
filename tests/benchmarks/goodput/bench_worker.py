"""The worker under measurement: our supervisor with the real engine, a promise that can be changed, the trace."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engine_trace

from worker_process import EngineUnderTest, Worker, plan_of, real_engine, running_worker

MOST_QUEUED = 64
START_S = 900.0
"""How long a start may take on a machine that others use too."""
_PATIENCE_S = 300.0
_LAYERS = 8
"""Of a model whose first token takes long beside the few milliseconds between engine and client, as a GPU's does; with
the tiny model's two those would decide one request in thirty."""
_DEEPEN = """
import sys
from safetensors.torch import load_file, save_file
tensors, layers = load_file(sys.argv[1] + "/model.safetensors"), int(sys.argv[3])
for name in [name for name in tensors if ".layers.0." in name]:
    tensors |= {name.replace(".layers.0.", f".layers.{number}."): tensors[name].clone() for number in range(2, layers)}
save_file(tensors, sys.argv[2] + "/model.safetensors", {"format": "pt"})
"""
_ENTRY_POINT = "[vllm.general_plugins]\nmodelfleet_trace = engine_trace:install\n"
_METADATA = "Metadata-Version: 2.1\nName: modelfleet-trace\nVersion: 1\n"


@dataclass(frozen=True)
class Limits:
    """Of one objective, in seconds."""

    ttft_s: float
    tpot_s: float


class BenchWorker:
    """A running worker and its counters."""

    def __init__(self, worker: Worker, folder: Path, under_test: EngineUnderTest) -> None:
        self.worker, self._folder, self.model, self.python = worker, folder, under_test.model, under_test.python

    @property
    def port(self) -> int:
        """Of the engine's API."""
        return int(self.worker._http.rpartition(":")[2])

    async def promise(self, limits: Limits) -> str:
        """Makes the workers judge by `limits` from now on, and gives the promise's digest."""
        objective = {"name": "bench", "ttft_s": limits.ttft_s, "tpot_s": limits.tpot_s}
        digest = hashlib.sha256(json.dumps(objective).encode()).hexdigest()[:12]
        path = self._folder / "worker" / "promise.json"
        path.with_suffix(".new").write_text(json.dumps({"digest": digest, "objectives": [objective]}))
        path.with_suffix(".new").replace(path)

        async def judged_by_it() -> bool:
            return f'modelfleet_promise_info{{promise="{digest}"}}' in await self.worker.metrics()

        await self.worker.until(judged_by_it, _PATIENCE_S)
        return digest

    async def counted(self, digest: str) -> dict[str, int]:
        """Our counters of one promise, by outcome."""
        head = 'modelfleet_goodput_requests_total{objective="bench",outcome="'
        tail = f'",promise="{digest}"}}'
        page = await self.worker.metrics()
        named = {series: value for series, value in page.items() if series.startswith(head) and series.endswith(tail)}
        return {series.removeprefix(head).removesuffix(tail): int(value) for series, value in named.items()}

    async def at_rest(self) -> None:
        """Waits until nothing is in flight."""

        async def idle() -> bool:
            return not await self.worker.in_flight()

        await self.worker.until(idle, _PATIENCE_S)

    def traced(self, digest: str) -> dict[str, dict[str, Any]]:
        """What the gate decided of each request of a promise, by the client's id."""
        path = self._folder / "worker" / "run" / engine_trace.FILE
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return {line["id"]: line for line in lines if line["promise"] == digest}


def _deeper(real: EngineUnderTest, folder: Path) -> Path:
    """The tiny model with its first layer again and again."""
    shutil.copytree(real.model, folder)
    subprocess.run([real.python, "-c", _DEEPEN, real.model, str(folder), str(_LAYERS)], check=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": _LAYERS}))
    return folder


@asynccontextmanager
async def bench_worker(folder: Path) -> AsyncIterator[BenchWorker]:
    """Starts the worker; nothing of it is left afterwards."""
    real = real_engine()
    args = (*real.args, f"--max-num-queued-reqs={MOST_QUEUED}")
    model = _deeper(real, folder / "model")
    under_test = EngineUnderTest(real.python, str(model), args, real.env, real.tokens, real.start_patience_s)
    code = folder / "worker" / "run" / "code"
    (code / "modelfleet_trace-1.dist-info").mkdir(parents=True)
    (code / "modelfleet_trace-1.dist-info" / "entry_points.txt").write_text(_ENTRY_POINT)
    (code / "modelfleet_trace-1.dist-info" / "METADATA").write_text(_METADATA)
    shutil.copy(engine_trace.__file__, code)
    async with running_worker(folder, plan_of(under_test, startDeadline_s=START_S)) as worker:
        await worker.until_ready(START_S)
        try:
            yield BenchWorker(worker, folder, under_test)
        except Exception:
            print(worker.log[-8000:], file=sys.stderr)
            raise
