"""10,000 fake engines of 1,000 models are read from themselves: how long a round takes, what it costs, what it keeps.

The engines are one process, the reader another; both share this machine, so the clock shows the two together and the
reader's CPU time what it alone needs. Prints what it measured, and writes it as JSON.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.scrape.engines import address, template, uid
from modelfleet.controller.metrics.book import Book
from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.controller.metrics.sampler import Direct
from modelfleet.controller.metrics.scrape import scraper
from modelfleet.controller.metrics.workers import Worker
from modelfleet.controller.process import collect_seldom
from modelfleet.controller.triggers import Key
from modelfleet.core.scaling.goodput import measure
from modelfleet.core.scaling.samples import WINDOW_S
from modelfleet.core.scaling.stirs import busy
from sampled import parsed

MODELS, EACH, ROUNDS = 1000, 10, 3
PATIENCE_S = 30.0
"""A machine that is busy otherwise shows in the times, not in pages that were given up."""

KEPT_S = 600.0
"""A round in a fleet takes 5 s, and connections are kept for three. On a machine on which it takes longer they are kept
here too, so that rounds after the first cost what they cost there."""

KEPT_MODELS = 50
"""Memory is measured on so many models with a full window, and told for all."""


def fleet(models: int) -> dict[Key, list[Worker]]:
    """The workers of each model."""
    found: dict[Key, list[Worker]] = {}
    for index in range(models * EACH):
        key = Key("team", f"m{index // EACH}")
        name = f"{key.name}-1a2b3c4d-{index % EACH}"
        found.setdefault(key, []).append(Worker(uid=uid(index), name=name, revision="1a2b3c4d", host=address(index)))
    return found


async def rounds(port: int) -> Iterator[dict[str, float]]:
    """Each round as fast as it goes: the first opens the connections."""
    loop = asyncio.get_running_loop()
    book = Book(loop.time)
    for key, workers in fleet(MODELS).items():
        book.follow(key, workers)
    found = []
    async with scraper(port=port, timeout_s=PATIENCE_S, kept_s=KEPT_S) as pages:
        direct = Direct(book, pages, 0.0)
        for _ in range(ROUNDS):
            read, began, cpu = direct.tally.read, time.perf_counter(), time.process_time()
            await direct.round()
            found.append(
                {
                    "seconds": time.perf_counter() - began,
                    "cpu_seconds": time.process_time() - cpu,
                    "read": direct.tally.read - read,
                }
            )
    assert direct.tally.failed == 0, f"{direct.tally.failed} engines could not be read"
    return iter(found)


def kept() -> dict[str, float]:
    """What a full window of samples takes of memory, and how long it takes to judge every model by it."""
    clock = [0.0]
    book, exposition, (head, middle, tail) = Book(lambda: clock[0]), Exposition(), template()
    workers = fleet(KEPT_MODELS)
    for key, each in workers.items():
        book.follow(key, each)
    before = resident_bytes()
    for step in range(int(WINDOW_S / 5) + 12):
        clock[0] = step * 5.0
        for index in range(KEPT_MODELS * EACH):
            # Each page differs from the one before, as busy workers' do.
            text = (head + uid(index).encode() + middle + str(float(step * 20 + index)).encode() + tail).decode()
            book.take(workers[Key("team", f"m{index // EACH}")][index % EACH], exposition.found(text), clock[0])
    pods, deployment = KEPT_MODELS * EACH, parsed()
    began = time.process_time()
    for key, each in workers.items():
        samples = book.samples(key)
        assert busy(samples)
        assert measure(deployment, samples, [one.uid for one in each]).requests
    judged_s = time.process_time() - began
    readings = sum(len(pod.readings) for key in workers for pod in book.samples(key).pods.values()) / pods
    return {
        "bytes_a_pod": (resident_bytes() - before) / pods,
        "readings_a_pod": readings,
        "judge_all_models_cpu_seconds": judged_s / KEPT_MODELS * MODELS,
    }


def resident_bytes() -> int:
    """What this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def measured() -> dict[str, Any]:
    """All figures."""
    engines = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.scrape.engines", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert engines.stdout is not None
        port = int(await engines.stdout.readline())
        found = list(await rounds(port))
    finally:
        engines.terminate()
        await engines.wait()
    return {"engines": MODELS * EACH, "page_bytes": sum(map(len, template())), "rounds": found}


def main(output: Path) -> None:
    collect_seldom()  # as the operator does
    window = kept()  # first, while this process has freed no memory that it could use again
    results = {**asyncio.run(measured()), "kept": window}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=2) + "\n")
    print(f"{results['engines']:,} engines, pages of {results['page_bytes'] / 1000:.1f} kB")
    for number, each in enumerate(results["rounds"], 1):
        connects = " (opens the connections)" if number == 1 else ""
        print(
            f"round {number}: {each['read']:,} read in {each['seconds']:.1f} s,"
            f" {each['cpu_seconds']:.1f} s of CPU{connects}"
        )
    kept_ = results["kept"]
    print(
        f"a full window: {kept_['readings_a_pod']:.0f} readings a pod, {kept_['bytes_a_pod'] / 1e3:.0f} kB,"
        f" so {kept_['bytes_a_pod'] * MODELS * EACH / 1e9:.2f} GB for all"
    )
    print(f"all {MODELS:,} models judged in {kept_['judge_all_models_cpu_seconds']:.2f} s of CPU")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
