"""What our layers cost, measured in pairs: `python -m benchmarks.goodput.overhead OUTPUT`.

Two engines run side by side, one behind our supervisor with gate and plugin, one bare. Blocks of equal requests go to
one, then to the other, in alternating order. The machine's speed drifts alike for both, so each pair gives a ratio.
"""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import aiohttp
import docs_section
from bench_worker import START_S

from modelfleet_worker import processes
from worker_process import NAME, EngineUnderTest, Worker, free_port, plan_of, real_engine, running_worker

PAIRS = int(os.environ.get("BENCH_OVERHEAD_PAIRS", "24"))
SEQUENCES, REQUESTS, TOKENS, PROMPT = 8, 2, 64, 128
"""A block: requests one after the other, each of so many sequences, so that the batch is the same in every step
however the machine shares its processors. Batches that differ would cost more than what is measured."""
_T_95 = 1.729
"""One-sided 95 % quantile of Student's t with 19 degrees of freedom; more pairs have a smaller one."""
_PROMISE = {"digest": "0123456789ab", "objectives": [{"name": "bench", "ttft_s": 10.0, "tpot_s": 1.0}]}


@dataclass(frozen=True)
class Block:
    """What one block of requests took. `cpu_s`: of all processes of the server, the supervisor's too; `front_s`: of its
    API server and the supervisor alone. vLLM's core and its workers wait for each other by spinning, so on a machine
    that others use their CPU time is also that of others; the front end waits without."""

    tokens: int
    wall_s: float
    cpu_s: float
    front_s: float
    tpot_s: float

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.wall_s

    @property
    def cpu_us_per_token(self) -> float:
        return self.cpu_s / self.tokens * 1e6

    @property
    def front_us_per_token(self) -> float:
        return self.front_s / self.tokens * 1e6


@dataclass(frozen=True)
class Server:
    """A server on `port`; `root` is the process above all of its own."""

    port: int
    root: int


def main(output: Path) -> None:
    """Everything, in one run."""
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        results = asyncio.run(measure(Path(folder)))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1) + "\n")
    lines = docs_section.overhead(results)
    print("\n".join(lines))
    docs_section.write("overhead", lines)


async def measure(folder: Path) -> dict[str, Any]:
    """Starts both, warms both, measures pairs."""
    under_test = real_engine()
    (folder / "worker").mkdir()
    (folder / "worker" / "promise.json").write_text(json.dumps(_PROMISE))
    async with running_worker(folder, plan_of(under_test, startDeadline_s=START_S)) as worker:
        ours = Server(int(worker._http.rpartition(":")[2]), worker.process.pid)
        async with _bare(under_test, folder, worker) as bare:
            await worker.until_ready(START_S)
            for server in (ours, bare) * 2:
                await _block(server)
            pairs = []
            for number in range(PAIRS):
                pairs.append(await _pair(ours, bare, ours_first=number % 2 == 0))
                print(docs_section.pair(*pairs[-1]), flush=True)
    return _results(pairs) | {"loadAverage": os.getloadavg()[0]}


async def _pair(ours: Server, bare: Server, *, ours_first: bool) -> tuple[Block, Block]:
    if ours_first:
        first = await _block(ours)
        return first, await _block(bare)
    second = await _block(bare)
    return await _block(ours), second


async def _block(server: Server) -> Block:
    (cpu_s, front_s), start_s = _cpu_s(server.root), time.monotonic()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        times = [await _ask(session) for _ in range(REQUESTS)]
    wall_s = time.monotonic() - start_s
    await asyncio.sleep(0.2)  # what the server does after the last byte belongs to the block too
    cpu_after_s, front_after_s = _cpu_s(server.root)
    tokens = SEQUENCES * REQUESTS * TOKENS
    return Block(tokens, wall_s, cpu_after_s - cpu_s, front_after_s - front_s, statistics.fmean(times))


async def _ask(session: aiohttp.ClientSession) -> float:
    """The time per output token of one streamed request."""
    body = {"model": NAME, "prompt": list(range(10, 10 + PROMPT)), "max_tokens": TOKENS, "ignore_eos": True}
    body["n"] = SEQUENCES
    first_s = last_s = 0.0
    async with session.post("/v1/completions", json=body | {"stream": True}) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            if line.startswith(b"data: {"):
                last_s = time.monotonic()
                first_s = first_s or last_s
    return (last_s - first_s) / (TOKENS - 1)


def _cpu_s(root: int) -> tuple[float, float]:
    """CPU time of a process and all below it, and of those that are the front end; the kernel's clock of each."""
    total = front = 0.0
    for pid in (root, *processes.descendants(root)):
        try:
            seconds = time.clock_gettime(~pid << 3 | 2)
            title = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        total += seconds
        front += seconds if not title.startswith(b"VLLM::") else 0.0
    return total, front


@asynccontextmanager
async def _bare(under_test: EngineUnderTest, folder: Path, worker: Worker) -> AsyncIterator[Server]:
    """The engine as the supervisor starts it, without gate, plugin and the flag that feeds the plugin."""
    port, scratch = free_port(), tempfile.mkdtemp(prefix="bare-", dir="/tmp")
    argv = [under_test.python, "-m", "vllm.entrypoints.cli.main", "serve", under_test.model, *under_test.args]
    argv += ["--host=::", f"--port={port}", "--disable-access-log-for-endpoints=/health,/metrics"]
    argv += ["--served-model-name", NAME]
    env = {"PATH": os.environ["PATH"], "HOME": scratch, "TMPDIR": scratch, "HF_HUB_OFFLINE": "1", **under_test.env}
    env |= {"VLLM_NO_USAGE_STATS": "1", "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "", "USER": "modelfleet"}
    with (folder / "bare.log").open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220 (in a session of its own, as ours is: the kernel shares by session)
            argv, env=env, cwd=scratch, stdout=output, stderr=output, start_new_session=True
        )
    try:
        await worker.until(lambda: _healthy(port), START_S)
        yield Server(port, process.pid)
    finally:
        below = processes.descendants(process.pid)
        process.terminate()
        process.wait()
        for pid in below:
            if not processes.is_resource_tracker(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


async def _healthy(port: int) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/health") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


def _results(pairs: Sequence[tuple[Block, Block]]) -> dict[str, Any]:
    """Ratios with ours above bare; the bound is the upper end of the one-sided 95 % interval of their mean."""
    cost = {
        "cpu per token": [log(ours.cpu_us_per_token / bare.cpu_us_per_token) for ours, bare in pairs],
        "tpot": [log(ours.tpot_s / bare.tpot_s) for ours, bare in pairs],
        "throughput lost": [log(bare.tokens_per_s / ours.tokens_per_s) for ours, bare in pairs],
    }
    added_us = [ours.front_us_per_token - bare.front_us_per_token for ours, bare in pairs]
    bare_us = statistics.median(bare.cpu_us_per_token for _, bare in pairs)
    upper_us = statistics.fmean(added_us) + _T_95 * _error(added_us)
    return {
        "pairs": len(pairs),
        "block": {"requests": REQUESTS, "sequences": SEQUENCES, "tokens": TOKENS, "prompt": PROMPT},
        "cost": {name: _bound(values) for name, values in cost.items()},
        "cpu_us_per_token": {
            "ours": round(statistics.median(ours.cpu_us_per_token for ours, _ in pairs), 2),
            "bare": round(bare_us, 2),
            "front_ours": round(statistics.median(ours.front_us_per_token for ours, _ in pairs), 2),
            "front_bare": round(statistics.median(bare.front_us_per_token for _, bare in pairs), 2),
            "front_added_mean": round(statistics.fmean(added_us), 2),
            "front_added_upper": round(upper_us, 2),
            "front_added_upper_percent_of_all": round(100 * upper_us / bare_us, 2),
        },
        "tokens_per_s": {
            "ours": round(statistics.median(ours.tokens_per_s for ours, _ in pairs), 1),
            "bare": round(statistics.median(bare.tokens_per_s for _, bare in pairs), 1),
        },
    }


def _bound(logs: Sequence[float]) -> Mapping[str, float]:
    mean, error = statistics.fmean(logs), _error(logs)
    return {
        "median_percent": round(100 * (exp(statistics.median(logs)) - 1), 2),
        "mean_percent": round(100 * (exp(mean) - 1), 2),
        "upper_percent": round(100 * (exp(mean + _T_95 * error) - 1), 2),
    }


def _error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / sqrt(len(values))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
