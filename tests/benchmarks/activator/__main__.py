"""What the activator costs beside nginx: latency and rate while it passes requests on, memory while it holds them, and
what it adds to the first token after a start.

Prints lines; writes a JSON file and the section of docs/benchmarks.md.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from activator_process import until
from benchmarks.activator import proxies
from benchmarks.activator.activator_section import section
from benchmarks.activator.traffic import HOST, Client, Figures, request_of
from benchmarks.goodput.docs_section import write

CONCURRENCIES = (1, 64, 1024)
ROUNDS, SECONDS = 3, 6.0
RATE_CLIENTS = 64
HELD, BODY_BYTES = 10_000, 4096
WAKES = 20


async def clients(port: int, count: int, seconds: float, mode: str) -> Figures:
    """Clients in a process of their own."""
    command = (sys.executable, "-m", "benchmarks.activator.traffic", "clients", str(port), str(count))
    process = await asyncio.create_subprocess_exec(*command, str(seconds), mode, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    return Figures(**json.loads(out))


async def passing(folder: Path, engine: int) -> list[dict[str, Any]]:
    """Streams passing through, and short requests as fast as they go, each way in turn."""
    runs: list[dict[str, Any]] = []
    with proxies.nginx(folder / "nginx", engine, workers=1) as (nginx_port, nginx_process):
        await proxies.listens(nginx_port)
        async with proxies.activator(folder / "activator", engine) as (port, activator, _):
            ways: dict[str, tuple[int, Callable[[], list[int]]]] = {
                "direct": (engine, list),
                "nginx": (nginx_port, lambda: proxies.workers_of(nginx_process)),
                "activator": (port, lambda: [activator.process.pid]),
            }
            cases = [("stream", count) for count in CONCURRENCIES] + [("whole", RATE_CLIENTS)]
            for mode, count in cases:
                for _ in range(ROUNDS):
                    for way, (at, pids) in ways.items():
                        before = proxies.cpu_s(pids())
                        seen = await clients(at, count, SECONDS, mode)
                        run = _run(way, mode, count, seen, proxies.cpu_s(pids()) - before)
                        print(_line(run), flush=True)
                        runs.append(run)
    return runs


def _run(way: str, mode: str, count: int, seen: Figures, cpu_s: float) -> dict[str, Any]:
    return {
        "way": way,
        "mode": mode,
        "clients": count,
        "requests": seen.requests,
        "failed": seen.failed,
        "rate_rps": seen.rate_rps,
        "first_median_ms": seen.median_ms,
        "first_p95_ms": seen.percentile_ms(0.95),
        "cpu_us_per_request": cpu_s * 1e6 / max(1, seen.requests),
    }


def _line(run: dict[str, Any]) -> str:
    return (
        f"activator: {run['mode']}, {run['clients']} at a time, {run['way']}: {run['rate_rps']:.0f} requests/s,"
        f" first byte {run['first_median_ms']:.2f} ms median, {run['first_p95_ms']:.2f} p95,"
        f" {run['cpu_us_per_request']:.0f} us CPU a request, {run['failed']} failed"
    )


async def holding(folder: Path) -> dict[str, Any]:
    """Memory with so many requests held, and what becomes of them when a worker serves; nginx with as many."""
    found: dict[str, Any] = {"held": HELD, "bodyBytes": BODY_BYTES}
    async with proxies.engine() as engine, proxies.activator(folder / "holding", None) as (port, activator, serve):
        pids = [activator.process.pid]
        before = proxies.memory_bytes(pids)
        asking = await _crowd(port)
        await until(lambda: _holds(activator, HELD), 120)
        found["activator_bytes"] = proxies.memory_bytes(pids) - before
        found["activator_before_bytes"] = before
        begun = time.monotonic()
        serve(engine)
        found["answered"] = int((await asking.communicate())[0].split()[-1])
        found["answered_s"] = time.monotonic() - begun
    async with proxies.engine() as engine:
        with proxies.nginx(folder / "waiting", engine, workers=2) as (port, process):
            await proxies.listens(port)
            before = proxies.memory_bytes(proxies.workers_of(process))
            asking = await _crowd(port, "silent")
            await asyncio.sleep(3)
            found["nginx_bytes"] = proxies.memory_bytes(proxies.workers_of(process)) - before
            asking.kill()
            await asking.wait()
    print(
        f"activator: {HELD} held with bodies of {BODY_BYTES} bytes: {found['activator_bytes'] / 1e6:.0f} MB more"
        f" (nginx {found['nginx_bytes'] / 1e6:.0f} MB), {found['answered']} answered in {found['answered_s']:.1f} s",
        flush=True,
    )
    return found


async def _crowd(port: int, mode: str = "whole") -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "benchmarks.activator.traffic", "crowd", str(port), str(HELD), str(BODY_BYTES))
    process = await asyncio.create_subprocess_exec(*command, mode, stdout=subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def _holds(activator: Any, count: int) -> bool:
    return bool(await activator.held() == count)


async def waking(folder: Path) -> dict[str, Any]:
    """From the moment in which Kubernetes lists a worker as ready to the first token of a held stream, many times."""
    added = []
    async with proxies.engine() as engine, proxies.activator(folder / "waking", None) as (port, activator, serve):
        loop = asyncio.get_running_loop()
        for _ in range(WAKES):
            _, client = await loop.create_connection(Client, HOST, port)
            client.send(request_of("stream"))
            await until(lambda: _holds(activator, 1))
            serve(engine)
            begun = time.perf_counter()
            assert client.first is not None
            assert client.last is not None
            added.append((await client.first - begun) * 1000)
            await client.last
            serve.nobody()
            await until(lambda: proxies.sees_none(activator))
    found = {"wakes": WAKES, "median_ms": statistics.median(added), "most_ms": max(added)}
    print(
        f"activator: first token after a worker is ready: {found['median_ms']:.1f} ms median,"
        f" {found['most_ms']:.1f} at most, of {WAKES}"
    )
    return found


async def measured() -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory(prefix="bench-activator-") as name:
        folder = Path(name)
        async with proxies.engine() as engine:
            runs = await passing(folder, engine)
        return {"runs": runs, "holding": await holding(folder), "waking": await waking(folder)}


def run(out: Path) -> None:
    """Measures, and writes what was found."""
    results = asyncio.run(measured())
    results |= {"loadAverage": os.getloadavg()[0], "at": datetime.now(UTC).isoformat(timespec="minutes")}
    results["nginx"] = subprocess.run([proxies.nginx_program(), "-v"], capture_output=True, text=True).stderr.strip()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    write("activator", section(results))


def main(arguments: Sequence[str]) -> int:
    """0, or 1 with a sentence where something is missing."""
    try:
        proxies.nginx_program()
    except proxies.MissingError as error:
        print(f"bench-activator: {error}", file=sys.stderr)
        return 1
    run(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
