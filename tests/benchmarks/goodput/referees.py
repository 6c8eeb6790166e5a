"""Independent clients that count good requests: vLLM's own `bench serve`, and aiperf in an environment of its own."""

import asyncio
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_worker import BenchWorker, Limits
from own_client import Seen

from modelfleet_local.paths import cache_dir
from worker_process import NAME

AIPERF_VERSION = "0.13.0"
_AIPERF = f"aiperf-{AIPERF_VERSION}"
_TOKENIZER = "modelfleet/tiny"
_INPUT_TOKENS, _OUTPUT_TOKENS, _SPREAD = 1800, 40, 0.8


@dataclass(frozen=True)
class Verdict:
    """What a referee says: how many requests kept both limits by its own count, and each request as it saw it."""

    good: int
    requests: tuple[Seen, ...]


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a referee sends."""

    rate_rps: float
    requests: int
    seed: int


async def vllm_bench(worker: BenchWorker, folder: Path, load: Load, limits: Limits) -> Verdict:
    """`vllm bench serve --goodput`, run by the engine's Python. Its count is request_goodput times its duration."""
    prefix, result = f"v{load.seed}-", folder / "vllm.json"
    flags = {
        "backend": "openai",
        "base-url": f"http://127.0.0.1:{worker.port}",
        "endpoint": "/v1/completions",
        "model": worker.model,
        "served-model-name": NAME,
        "dataset-name": "random",
        "random-input-len": _INPUT_TOKENS,
        "random-output-len": _OUTPUT_TOKENS,
        "random-range-ratio": _SPREAD,
        "num-prompts": load.requests,
        "request-rate": load.rate_rps,
        "seed": load.seed,
        "request-id-prefix": prefix,
        "ready-check-timeout-sec": 0,
        "result-dir": folder,
        "result-filename": result.name,
    }
    command = [worker.python, "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--ignore-eos", "--disable-tqdm"]
    command += ["--save-result", "--save-detailed", *(f"--{name}={value}" for name, value in flags.items())]
    command += ["--goodput", f"ttft:{limits.ttft_s * 1000}", f"tpot:{limits.tpot_s * 1000}"]
    await _run(command, folder, {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "HOME": str(folder)})
    found = json.loads(result.read_text())
    rows = zip(found["ttfts"], found["itls"], found["output_lens"], found["errors"], strict=True)
    seen = tuple(_of_vllm(f"{prefix}{number}", *row) for number, row in enumerate(rows))
    return Verdict(round(found["request_goodput"] * found["duration"]), seen)


def _of_vllm(name: str, ttft_s: float, gaps_s: Sequence[float], tokens: int, error: str) -> Seen:
    if error or not tokens:
        return Seen(name, "failed")
    return Seen(name, "finished", ttft_s, sum(gaps_s) / (tokens - 1) if tokens > 1 else 0.0, tokens)


async def aiperf(worker: BenchWorker, folder: Path, load: Load, limits: Limits) -> Verdict:
    """`aiperf profile --goodput`. Its count is that of its metric good_request_count."""
    program = await _installed_aiperf()
    output = folder / "aiperf"
    flags = {
        "model": NAME,
        "url": f"http://127.0.0.1:{worker.port}",
        "endpoint-type": "completions",
        "tokenizer": _TOKENIZER,
        "synthetic-input-tokens-mean": _INPUT_TOKENS,
        "synthetic-input-tokens-stddev": _INPUT_TOKENS // 3,
        "output-tokens-mean": _OUTPUT_TOKENS,
        "output-tokens-stddev": _OUTPUT_TOKENS // 3,
        "extra-inputs": "ignore_eos:true",
        "request-rate": load.rate_rps,
        "request-count": load.requests,
        "arrival-pattern": "poisson",
        "random-seed": load.seed,
        "goodput": f"time_to_first_token:{limits.ttft_s * 1000} inter_token_latency:{limits.tpot_s * 1000}",
        "output-artifact-dir": output,
        "ui": "none",
        "workers-max": 1,
        "record-processors": 1,
    }
    command = [str(program), "profile", "--streaming", "--use-server-token-count", "--use-legacy-max-tokens"]
    command += [text for name, value in flags.items() for text in (f"--{name}", str(value))]
    _put_in_hub_cache(Path(worker.model), folder / "hub")
    await _run(command, folder, {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(folder / "hub"), "HOME": str(folder)})
    lines = [json.loads(line) for line in (output / "profile_export.jsonl").read_text().splitlines()]
    summary = json.loads((output / "profile_export_aiperf.json").read_text())
    good = (summary.get("good_request_count") or {}).get("avg") or 0
    return Verdict(round(good), tuple(map(_of_aiperf, lines)))


def _put_in_hub_cache(model: Path, cache: Path) -> None:
    """Makes `model` findable as _TOKENIZER without a network: aiperf takes a path for a repository's name, and the
    tokenizer it brings has to be downloaded."""
    repository, commit = cache / f"models--{_TOKENIZER.replace('/', '--')}", "0" * 40
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / commit).symlink_to(model, target_is_directory=True)


def _of_aiperf(line: Mapping[str, Any]) -> Seen:
    name, metrics = line["metadata"].get("x_request_id", ""), line.get("metrics", {})
    if line.get("error") or "time_to_first_token" not in metrics:
        return Seen(name, "failed")

    def seconds(metric: str) -> float:
        return float(metrics.get(metric, {}).get("value", 0.0)) / 1000

    tokens = int(metrics.get("output_sequence_length", {}).get("value", 0))
    return Seen(name, "finished", seconds("time_to_first_token"), seconds("inter_token_latency"), tokens)


async def _installed_aiperf() -> Path:
    """Installs it once. Raises RuntimeError with what the installer said."""
    home = cache_dir() / _AIPERF
    program = home / "bin" / "aiperf"
    if not program.exists():
        uv = next(iter(sorted(cache_dir().glob("uv-*/bin/uv"))), None) or shutil.which("uv")
        if uv is None:
            raise RuntimeError("uv is missing; `make setup` installs it")
        lock = Path(__file__).with_name("aiperf.lock")
        await _run([str(uv), "venv", "--quiet", "--clear", "--python", "3.11", str(home)], home.parent, os.environ)
        python = str(home / "bin" / "python")
        install = [str(uv), "pip", "install", "--quiet", "--no-deps", "--python", python, "-r", str(lock)]
        await _run(install, home.parent, os.environ)  # with what this machine says of certificates and mirrors
    return program


async def _run(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
    """Runs to the end. Raises RuntimeError with the last lines if it fails."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    if process.returncode:
        last = "\n".join(said.decode(errors="replace").splitlines()[-30:])
        raise RuntimeError(f"{' '.join(command[:4])} ended with {process.returncode}:\n{last}")
