"""`make bench-planner`: prints how far the planner is from measurements, and writes it down.

Writes build/bench/planner.json and the planner's section of docs/benchmarks.md.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.planner import choice, errors, kv, peer, plan_cost, series, tail_requests
from benchmarks.planner.causes import table
from benchmarks.planner.fit import Fit, usable
from benchmarks.planner.rows import missing, silicon

ROOT = Path(__file__).parents[3]
JSON = ROOT / "build" / "bench" / "planner.json"
DOCS = ROOT / "docs" / "benchmarks.md"
_BEGIN, _END = "<!-- planner: begin, written by make bench-planner -->", "<!-- planner: end -->"


def main() -> None:
    """Runs every part; a missing data folder ends it with one sentence."""
    why = missing()
    if why:
        raise SystemExit(why)
    rows = silicon()
    fit = Fit(usable(rows))
    left_out = errors.left_out(fit)
    plain = [one.plain for one in left_out]
    corrected = errors.calibrated(left_out)
    shipped = [one.plain for one in errors.fitted(fit)]
    found = {
        "kv": kv.report(),
        "rows": {"read": len(rows), "below_cliff": len(plain)},
        "zero_shot": _errors(plain),
        "after_calibration": _errors(corrected),
        "fitted_on_all": _errors(shipped),
        "cliff": series.cliffs(series.series(rows)),
        "knee": series.knees(series.series(usable(rows))),
        "layout": choice.report(),
        "requests": tail_requests.runs(),
        "open_loops": tail_requests.open_loops(),
        "formula_against_replay": tail_requests.formula_against_replay(),
        "plan": plan_cost.report(),
        "aiconfigurator": peer.report(plain),
        "worst": table(errors.worst(plain)),
        "worst_vllm": table(errors.worst([one for one in plain if one.row.engine == "vllm"])),
    }
    lines = report(found)
    print("\n".join(lines))
    JSON.parent.mkdir(parents=True, exist_ok=True)
    JSON.write_text(json.dumps(found, indent=1, default=str) + "\n")
    _write_docs(lines)


def _errors(predicted: list[errors.Predicted]) -> dict[str, Any]:
    return {
        "engine": errors.by(predicted, lambda row: row.engine),
        "group": errors.by(predicted, lambda row: " ".join(row.group)),
    }


def report(found: dict[str, Any]) -> list[str]:
    """The figures as Markdown."""
    return [
        "### Room for the KV cache",
        "```",
        *kv.lines(found["kv"]),
        "```",
        *_times(found),
        *_loads(found),
        *_layouts(found["layout"]),
        *_tails(found),
        *peer.lines(found["aiconfigurator"]),
        *_plan(found["plan"]),
        "### The worst rows, architecture left out, one a group",
        *found["worst"],
        "",
        "vLLM:",
        "",
        *found["worst_vllm"],
    ]


def _times(found: dict[str, Any]) -> list[str]:
    lines = [
        "### TTFT and TPOT below the cliff",
        f"{found['rows']['below_cliff']} of {found['rows']['read']} rows (closed loops, means). Zero-shot: the row's"
        " architecture is left out of the fit. After calibration: zero-shot, corrected by at most"
        f" {errors.CALIBRATION_ROWS} rows of the group (architecture × accelerator × engine), on its other rows."
        " Aims, on vLLM rows: zero-shot TPOT median 11 %, TTFT median 38 %; after calibration TPOT mean 8 %, TTFT mean"
        " 16 %.",
        "",
        "| | engine | rows | TPOT median | TPOT mean | TTFT median | TTFT mean |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in ("zero_shot", "after_calibration", "fitted_on_all"):
        for engine in errors.ENGINES:
            lines.append(f"| {name.replace('_', ' ')} | {engine} | {_cells(found[name]['engine'][engine])} |")
    lines += [
        "",
        _YARDSTICKS,
        "",
        "By group, architecture left out:",
        "",
        "| group | rows | TPOT median | TPOT mean | TTFT median | TTFT mean |",
    ]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    lines += [f"| {group} | {_cells(figures)} |" for group, figures in found["zero_shot"]["group"].items()]
    return [*lines, ""]


_YARDSTICKS = (
    "Yardsticks on rows of this kind, measured before and not by this command: an unfitted roofline of twenty lines"
    " TPOT 23 %, TTFT 61 % (means); aiconfigurator 0.12.0 TPOT 26 % (median 18 %), TTFT 54 % (median 50 %), 17 to 25 s"
    " a plan."
    " Layouts by the roofline: 88.9 % of the best throughput an accelerator, the right layout in 50 %."
)


def _cells(figures: dict[str, float]) -> str:
    names = ("tpot_median", "tpot_mean", "ttft_median", "ttft_mean")
    return " | ".join([str(figures["rows"]), *(f"{figures[name]:.1%}" for name in names)])


def _loads(found: dict[str, Any]) -> list[str]:
    lines = ["### The KV cliff and the knee", "| series | number | cliff within one step |", "| --- | --- | --- |"]
    cliff = found["cliff"]
    lines += [
        f"| {name} | {figures['series']} | {figures['within_one_step']:.1%} |"
        for name, figures in cliff.items()
        if name != "wrong"
    ]
    lines += ["", *(f"- {one}" for one in cliff["wrong"]), ""]
    lines += [
        "The highest rate inside mean limits (0.5 s/20 ms to 5 s/100 ms), where both break it inside the series:",
        "",
        "| engine | knees | median error | within 15 % | only one of both breaks it |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {engine} | {one['knees']} | {one['median_error']:.1%} | {one['within_15_percent']:.1%} |"
        f" {one['one_sided']} |"
        for engine, one in found["knee"].items()
    ]
    return [*lines, ""]


def _layouts(found: dict[str, Any]) -> list[str]:
    lines = [
        "### Layout regret",
        "What our choice delivers per accelerator inside the promise, against the best measured layout. Among measured:"
        " the choice is among measured concurrencies. Free: as `modelfleet choose`, at any concurrency. Labels that"
        " fit: without questions in which a label multiplies a degree by itself. Regret counts a choice whose measured"
        " points all break the promise as 1.",
        "",
        "| questions | | number | regret | right layout | breaks the promise | regret of the others |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, parts in found.items():
        if name == "worst":
            continue
        for how, one in parts.items():
            lines.append(
                f"| {name} | {how.replace('_', ' ')} | {one['questions']} | {one['regret_mean']:.1%}"
                f" | {one['right']:.1%} | {one['breaks_the_promise']} | {one['regret_of_the_others']:.1%} |"
            )
    return [*lines, "", *(f"- {one}" for one in found["worst"]), ""]


def _tails(found: dict[str, Any]) -> list[str]:
    lines = [
        "### Single requests",
        "Measured vLLM runs of 300 requests, replayed through the model's steps (nothing of these accelerators is in"
        " the fit). Share: mean difference of the joint share over a grid of limits.",
        "",
        "| run | | TTFT mean | p95 | p99 | TPOT mean | p95 | p99 | share off |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, one in found["requests"].items():
        lines.append(f"| {name} | measured | {_tail_cells(one['measured'])} | |")
        lines.append(f"| | replayed | {_tail_cells(one['replayed'])} | {one['share_off']['mean']:.1%} |")
    lines += [
        "",
        "Open loops: means in seconds.",
        "",
        "| row | TTFT measured | replayed | formula | TPOT measured | replayed | formula |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in found["open_loops"]:
        parts = [f"{one[part][name]:.3f}" for name in ("ttft_mean", "tpot_mean") for part in _PARTS]
        parts[2] = "the queue grows" if one["saturated"] else parts[2]
        lines.append(f"| {one['name']} | {' | '.join(parts)} |")
    off = [abs(one["formula"] - one["replayed"]) for one in found["formula_against_replay"]]
    lines += [
        "",
        f"The formula's joint share against replayed Poisson arrivals: at most {max(off):.1%} off in {len(off)}.",
    ]
    return [*lines, ""]


_PARTS = ("measured", "replayed", "formula")


def _tail_cells(figures: dict[str, float]) -> str:
    names = ("ttft_mean", "ttft_p95", "ttft_p99", "tpot_mean", "tpot_p95", "tpot_p99")
    return " | ".join(
        f"{figures[name]:.2f} s" if name[1] == "t" else f"{figures[name] * 1000:.0f} ms" for name in names
    )


def _plan(found: dict[str, Any]) -> list[str]:
    return [
        "### A plan",
        f"Llama-3.1-405B over {found['classes']} classes: {found['first_s'] * 1000:.0f} ms of one core at first,"
        f" {found['fastest_s'] * 1000:.0f} ms later, {found['peak_mib']:.1f} MiB.",
        "",
    ]


def _write_docs(lines: list[str]) -> None:
    text = DOCS.read_text() if DOCS.exists() else f"# Benchmarks\n\n## The planner\n{_BEGIN}\n{_END}\n"
    if _BEGIN not in text:
        text += f"\n## The planner\n{_BEGIN}\n{_END}\n"
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    DOCS.write_text("\n".join([before + _BEGIN, *lines, _END]) + after)


if __name__ == "__main__":
    main()
