"""aiconfigurator on a sample of the same rows, where it is installed: `AICONFIGURATOR_PYTHON` names its Python.

    python -m venv DIR && DIR/bin/pip install aiconfigurator==0.12.0
    AICONFIGURATOR_PYTHON=DIR/bin/python make bench-planner

It lives in an environment of its own, because it pins other libraries. Its wheel has rows of this source, so nothing is
left out for it.
"""

import csv
import json
import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from benchmarks.planner.errors import Predicted, summary
from benchmarks.planner.rows import DATA

_EVERY = {"vllm": 6, "sglang": 24, "trtllm": 40}
"""One row of so many is asked: the first of a chip and engine takes half a minute, later ones a second."""
_LIMIT_S = 240
"""What it has answered by then counts."""

_ASK = """
import json, sys
from aiconfigurator.cli.api import cli_estimate
for line in sys.stdin:
    asked = json.loads(line)
    name = asked.pop("name")
    try:
        found = cli_estimate(**asked)
        answer = {"name": name, "ttft_s": float(found.ttft) / 1000, "tpot_s": float(found.tpot) / 1000}
    except Exception as error:
        answer = {"name": name, "error": type(error).__name__}
    print("ANSWER " + json.dumps(answer), flush=True)
"""


def report(ours: Sequence[Predicted]) -> dict[str, Any]:
    """Errors of both on the rows that the peer answers; `missing` says why there are none."""
    python = os.environ.get("AICONFIGURATOR_PYTHON")
    if not python:
        return {"missing": "set AICONFIGURATOR_PYTHON to the Python of an environment with aiconfigurator 0.12.0"}
    sample = _sample(ours)
    answers = _ask(python, [_question(row) for row in _cells({one.row.name for one in sample}).values()])
    answered = [one for one in sample if "ttft_s" in answers.get(one.row.name, {})]
    figures: dict[str, Any] = {"asked": len(sample), "answered": len(answered), "engines": {}}
    for engine in sorted({one.row.engine for one in answered}):
        mine = [one for one in answered if one.row.engine == engine]
        theirs = [Predicted(one.row, *(answers[one.row.name][key] for key in ("ttft_s", "tpot_s"))) for one in mine]
        figures["engines"][engine] = {"ours": summary(mine), "aiconfigurator": summary(theirs)}
    figures["refused"] = dict(Counter(answer["error"] for answer in answers.values() if "error" in answer))
    return figures


def _sample(ours: Sequence[Predicted]) -> list[Predicted]:
    engines = defaultdict(list)
    for one in sorted(ours, key=lambda one: (one.row.group, one.row.name)):
        engines[one.row.engine].append(one)
    return [one for engine, ones in engines.items() for one in ones[:: _EVERY[engine]]]


def _cells(names: set[str]) -> dict[str, dict[str, str]]:
    with (DATA / "measured" / "silicon_sample.csv").open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file) if row["id"] in names}


def _question(row: dict[str, str]) -> dict[str, Any]:
    tensor, data, expert_tensor, expert = (
        int(float(row[name] or 0)) or 1 for name in ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    )
    asked: dict[str, Any] = {
        "name": row["id"],
        "model_path": row["model_path"],
        "system_name": row["system"],
        "backend_name": row["backend"],
        "isl": int(float(row["isl"])),
        "osl": int(float(row["osl"])),
        "batch_size": max(round(float(row["silicon_concurrency"]) / data), 1),
        "tp_size": tensor,
        "attention_dp_size": data,
        "moe_tp_size": expert_tensor,
        "moe_ep_size": expert,
    }
    modes = {"gemm_quant_mode": row["gemm_quant_mode"], "moe_quant_mode": row["moe_quant_mode"]}
    if "gpt-oss" not in row["model_path"]:
        asked |= {name: mode for name, mode in modes.items() if mode}
    return asked


def _ask(python: str, questions: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One process answers all; what it has answered counts when its time is over."""
    with subprocess.Popen(
        [python, "-W", "ignore", "-c", _ASK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            out, _ = process.communicate("".join(json.dumps(one) + "\n" for one in questions), timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
    found = (json.loads(line.removeprefix("ANSWER ")) for line in out.splitlines() if line.startswith("ANSWER "))
    return {answer["name"]: answer for answer in found}


def lines(found: dict[str, Any]) -> list[str]:
    """The comparison as Markdown."""
    if "missing" in found:
        return ["### Beside aiconfigurator", f"Not run: {found['missing']}.", ""]
    table = [
        "### Beside aiconfigurator",
        f"aiconfigurator 0.12.0 on {found['asked']} sampled rows, of which it answers {found['answered']}; ours is"
        " zero-shot. It is asked with the labels and quantization modes of the source.",
        "",
        "| engine | | rows | TPOT median | TPOT mean | TTFT median | TTFT mean |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    names = ("tpot_median", "tpot_mean", "ttft_median", "ttft_mean")
    for engine, both in found["engines"].items():
        for who, figures in both.items():
            cells = " | ".join(f"{figures[name]:.1%}" for name in names)
            table.append(f"| {engine} | {who} | {figures['rows']} | {cells} |")
    refused = ", ".join(f"{count} by {kind}" for kind, count in found["refused"].items())
    return [*table, "", f"Not answered: {refused or 'none'}; the rest is not reached in {_LIMIT_S} s.", ""]
