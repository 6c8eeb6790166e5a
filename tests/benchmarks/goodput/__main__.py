"""Our counters against independent referees: `python -m benchmarks.goodput OUTPUT`. Prints, writes JSON and docs."""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import docs_section
from bench_worker import MOST_QUEUED, BenchWorker, Limits, bench_worker
from comparison import differences, is_good, offsets_ms
from own_client import Seen, send_all, wishes
from referees import Load, Verdict, aiperf, vllm_bench

RATES = (0.4, 0.7, 1.0)
"""Parts of what the engine does on this machine at this moment, as a crowd of our own finds."""
REQUESTS = int(os.environ.get("BENCH_GOODPUT_REQUESTS", "300"))
SHARES = (0.2, 0.8)
_OPEN = Limits(3600.0, 3600.0)
_TRIES = 2
Referee = Callable[[BenchWorker, Path, Load, Limits], Awaitable[Verdict]]
REFEREES: dict[str, Referee] = {"vllm bench serve": vllm_bench, "aiperf": aiperf}


def main(output: Path) -> None:
    """Everything, in one run of one engine. What was measured so far is written after each run."""
    output.parent.mkdir(parents=True, exist_ok=True)

    def write(results: dict[str, Any]) -> None:
        output.write_text(json.dumps(results, indent=1) + "\n")

    with tempfile.TemporaryDirectory(prefix="goodput-") as folder:
        results = asyncio.run(measure(Path(folder), write))
    lines = docs_section.goodput(results)
    print("\n".join(lines))
    docs_section.write("goodput", lines)


async def measure(folder: Path, write: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Refusals and clients that leave, then all rates with one referee after the other."""
    async with bench_worker(folder) as worker:
        await send_all(worker.port, wishes("warm-", 20, 10.0, seed=1))
        results: dict[str, Any] = {"requests": REQUESTS, "ends": await _ends(worker), "runs": [], "notRun": []}
        for referee in REFEREES.items():
            for number, part in enumerate(RATES, start=1):
                rate = round(part * await _capacity_rps(worker), 2)
                load = Load(rate_rps=rate, requests=REQUESTS, seed=number)
                try:
                    results["runs"].append(await _run(worker, folder, referee, load))
                except RuntimeError as error:  # one that needs what this machine does not reach is no end of the others
                    print(f"{referee[0]} did not run: {error}", flush=True)
                    results["notRun"].append(f"{referee[0]}: {str(error)[-300:]}")
                    break
                results["loadAverage"] = os.getloadavg()[0]
                write(results)
        write(results)
    return results


async def _run(worker: BenchWorker, folder: Path, referee: tuple[str, Referee], load: Load) -> dict[str, Any]:
    """One referee at one rate. Limits come from a run of our own client just before; where the machine then was so much
    faster or slower that under 20 or over 80 % were good, they are found again from what the referee saw."""
    name, send = referee
    limits = await _limits_by_own_client(worker, load)
    for attempt in range(_TRIES):
        place = Path(tempfile.mkdtemp(dir=folder))
        digest = await worker.promise(limits)
        before = await worker.counted(digest)
        start_s = time.monotonic()
        verdict = await send(worker, place, replace(load, seed=load.seed * 10 + attempt), limits)
        await worker.at_rest()
        counted = {key: count - before.get(key, 0) for key, count in (await worker.counted(digest)).items()}
        ours = worker.traced(digest)
        found = _told(name, load, limits, verdict, counted, ours) | {"took_s": round(time.monotonic() - start_s, 1)}
        print(docs_section.line(found), flush=True)
        if SHARES[0] <= found["share"] <= SHARES[1]:
            break
        limits = _limits([seen for seen in verdict.requests if seen.ending == "finished"])
    return found


def _told(
    name: str, load: Load, limits: Limits, verdict: Verdict, counted: dict[str, int], ours: dict[str, Any]
) -> dict[str, Any]:
    ids = {seen.id for seen in verdict.requests}
    mine = {key: line for key, line in ours.items() if key in ids}
    joint = sum(is_good(seen, limits) for seen in verdict.requests)
    sent = len(verdict.requests)
    late_ms = offsets_ms(mine, verdict.requests)
    return {
        "referee": name,
        "rate_rps": load.rate_rps,
        "limits_ms": {"ttft": round(limits.ttft_s * 1000, 3), "tpot": round(limits.tpot_s * 1000, 4)},
        "sent": sent,
        "refereeGood": verdict.good,
        "refereeGoodByItsRows": joint,
        "ourCounters": counted,
        "ourGood": counted.get("met", 0),
        "share": verdict.good / sent if sent else 0.0,
        "differencePercent": round(100 * (counted.get("met", 0) - verdict.good) / sent, 2) if sent else None,
        "differences": [asdict(one) for one in differences(mine, verdict.requests, limits)],
        "firstTokenLaterAtClient_ms": {
            "median": round(late_ms[len(late_ms) // 2], 2) if late_ms else None,
            "p95": round(late_ms[int(len(late_ms) * 0.95)], 2) if late_ms else None,
        },
    }


async def _capacity_rps(worker: BenchWorker) -> float:
    """Requests a second that the engine finishes when it has more than it can do."""
    crowd = [replace(wish, at_s=0.0) for wish in wishes("k-", MOST_QUEUED // 2, 10.0, seed=7)]
    start_s = time.monotonic()
    seen = await send_all(worker.port, crowd)
    await worker.at_rest()
    return sum(one.ending == "finished" for one in seen) / (time.monotonic() - start_s)


async def _limits_by_own_client(worker: BenchWorker, load: Load) -> Limits:
    await worker.promise(_OPEN)
    seen = await send_all(worker.port, wishes(f"c{load.seed}-", load.requests // 3, load.rate_rps, seed=load.seed))
    await worker.at_rest()
    return _limits([one for one in seen if one.ending == "finished"])


def _limits(seen: list[Seen]) -> Limits:
    """Limits that each about 70 % of these keep, so that about half keep both."""

    def at(values: list[float]) -> float:
        return sorted(values)[int(len(values) * 0.7)]

    return Limits(round(at([one.ttft_s for one in seen]), 6), round(at([one.tpot_s for one in seen]), 7))


async def _ends(worker: BenchWorker) -> dict[str, Any]:
    """More at once than the engine admits, and clients that leave while it answers: every outcome, counted exactly."""
    digest = await worker.promise(Limits(3600.0, 3599.0))
    crowd = [
        replace(wish, at_s=0.0, leave_after=3 if number % 5 == 0 else 0)
        for number, wish in enumerate(wishes("e-", MOST_QUEUED + 40, 10.0, seed=9))
    ]
    seen = await send_all(worker.port, crowd)
    await worker.at_rest()
    counted = {key: count for key, count in (await worker.counted(digest)).items() if count}
    ours = worker.traced(digest)
    client = Counter({"finished": "met"}.get(one.ending, one.ending) for one in seen)
    wrong = [one.id for one in seen if ours[one.id]["verdict"] != {"finished": "met"}.get(one.ending, one.ending)]
    return {"client": dict(client), "ourCounters": counted, "differing": wrong}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
