"""`make bench-engine-model`: the simulator's engine against requests of real vLLM engines, one by one.

The same arrivals and lengths go through modelfleet.sim.engine as went through the measured engine; and Poisson arrivals
at the published rates for rows of which only figures are known. Writes its section of docs/benchmarks.md.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.planner import tail_requests
from benchmarks.planner.replay import Request as Arrival
from benchmarks.planner.replay import Times
from benchmarks.planner.rows import DATA, missing
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import memory_use
from modelfleet.core.perf.pace import sequence_cap, token_budget
from modelfleet.sim.engine import Engine, EngineSpec
from modelfleet.sim.pace import Pace
from modelfleet.sim.requests import Outcome, Request

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "benchmarks.md"
_BEGIN, _END = "<!-- engine model: begin, written by make bench-engine-model -->", "<!-- engine model: end -->"
_FIGURES = ("ttft_mean", "ttft_p95", "ttft_p99", "tpot_mean", "tpot_p95")


def simulated(case: Case, arrivals: Sequence[Arrival]) -> list[Times]:
    """What the simulator's engine makes of the arrivals; everything queues, as in the measured engines."""
    spec = EngineSpec(
        pace=Pace(case),
        kv_tokens=memory_use(case).kv_tokens,
        sequence_cap=max(1, int(min(sequence_cap(case), 1024))),
        token_budget=int(token_budget(case) * case.layout.data),
    )
    outcomes: list[Outcome] = []
    engine = Engine(spec, 0, 0.0, outcomes.append)
    for one in sorted(arrivals, key=lambda each: each.arrival_s):
        engine.advance(one.arrival_s)
        engine.arrive(Request(one.arrival_s, one.input_tokens, one.output_tokens))
    while engine.in_flight:
        engine.advance(engine.now_s + 60.0)
    return [Times(one.ttft_s, one.tpot_s) for one in outcomes]


def runs() -> list[dict[str, Any]]:
    """For each measured run: figures of both, and how far the joint share is off over a grid of limits."""
    found = []
    for name, *rest in tail_requests.RUNS:
        text = (DATA / "measured" / f"llmservingsim_{name}_requests.jsonl").read_text()
        rows = [json.loads(line) for line in text.splitlines()]
        start = min(row["queued_ts"] for row in rows)
        arrivals = [Arrival(row["queued_ts"] - start, row["input_toks"], row["output_toks"]) for row in rows]
        measured = [tail_requests.measured_of(row) for row in rows]
        made = simulated(tail_requests.case_of(*rest), arrivals)
        found.append(
            {
                "name": f"{name}, {len(rows)} requests",
                "measured": tail_requests.figures(measured),
                "simulated": tail_requests.figures(made),
                "off": tail_requests.share_off(measured, made),
            }
        )
    return found


def open_loops() -> list[dict[str, Any]]:
    """The same for published open-loop rows, of which only some figures are known."""
    found = []
    for row in tail_requests.open_rows():
        made = simulated(row.case, tail_requests.draw(row, 1))
        found.append({"name": row.name, "measured": row.measured, "simulated": tail_requests.figures(made)})
    return found


def lines(requests: list[dict[str, Any]], loops: list[dict[str, Any]]) -> list[str]:
    """The section as Markdown, milliseconds measured / simulated."""
    head = [
        "`make bench-engine-model`: requests of real vLLM 0.19 engines (LLMServingSim's public runs, MIT), the same"
        " arrivals and lengths through the simulator's engine with the planner's constants."
        " Milliseconds, measured / simulated; the joint share is compared at limits where 2 to 98 % of the measured"
        " requests are inside.",
        "",
        "| run | " + " | ".join(name.replace("_", " ") for name in _FIGURES) + " | share off, mean | largest |",
        "| --- |" + " --- |" * (len(_FIGURES) + 2),
    ]
    for one in requests:
        cells = [f"{_ms(one['measured'][name])} / {_ms(one['simulated'][name])}" for name in _FIGURES]
        off = one["off"]
        head.append(f"| {one['name']} | {' | '.join(cells)} | {off['mean']:.3f} | {off['largest']:.3f} |")
    head += ["", "Published open-loop rows (only what they state):", "", "| row | TTFT mean | TTFT p99 | TPOT mean |",
             "| --- | --- | --- | --- |"]  # fmt: skip
    for one in loops:
        cells = [
            f"{_ms(one['measured'][name])} / {_ms(one['simulated'][name])}" if name in one["measured"] else "-"
            for name in ("ttft_mean", "ttft_p99", "tpot_mean")
        ]
        head.append(f"| {one['name']} | {' | '.join(cells)} |")
    return head


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g}" if seconds < 1 else f"{seconds * 1000:.0f}"


def main() -> None:
    """Runs both parts; a missing data folder ends it with one sentence."""
    why = missing()
    if why:
        raise SystemExit(why)
    text = lines(runs(), open_loops())
    print("\n".join(text))
    before, _, rest = DOCS.read_text().partition(_BEGIN)
    _, found_end, after = rest.partition(_END)
    if not found_end:
        before, after = f"{before.rstrip()}\n\n## The simulator's engine\n", "\n"
    DOCS.write_text("\n".join([before + _BEGIN, *text, _END]) + after)


if __name__ == "__main__":
    main()
