"""`modelfleet choose`: of given layouts, the one with most output an accelerator inside two mean times, row by row."""

import argparse
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from modelfleet.cli.batch import Batch, add_arguments, run_batch
from modelfleet.cli.cases import (
    Lookup,
    check_engine,
    check_layout,
    hardware_of,
    lengths_of,
    model_of,
    setup_of,
    spreads_partly,
)
from modelfleet.cli.fields import Cells, RowError, clipped, number, required
from modelfleet.cli.models import lookup
from modelfleet.cli.predict import milliseconds
from modelfleet.cli.tables import STDIO
from modelfleet.core.layout.best_of import BestOf, best_of
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import ModelFacts
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import Lengths, Load

NEEDED = ("model", "class", "ttft_ms", "tpot_ms", "layouts")
COLUMNS = (
    *NEEDED,
    "engine",
    "engine_version",
    "precision",
    "kv_precision",
    "input_tokens",
    "output_tokens",
    "memory_fraction",
    "token_budget",
    "sequence_cap",
    "context_limit",
)
ADDED = (
    "layout",
    "concurrency",
    "output_tokens_per_s_per_gpu",
    "predicted_ttft_ms",
    "predicted_tpot_ms",
    "reason",
)
_LONGEST_MS = 86_400_000.0
_MOST_LAYOUTS = 256


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "choose",
        help="choose among given layouts for each row of a table",
        description=f"Reads rows with the columns {', '.join(COLUMNS)}. layouts is a list such as tp4;tp8-ep8;tp8-pp2."
        f" Adds {', '.join(ADDED)}: the layout and the requests in flight with most output tokens a second and"
        " accelerator whose mean times are inside ttft_ms and tpot_ms.",
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Chooses for each row. 0: all rows are answered; 1: some are not; 2: there is no table."""
    find = lookup(None if arguments.file == STDIO else Path(arguments.file).parent)

    def answer(cells: Cells) -> Mapping[str, Any]:
        return chosen(cells, find)

    return run_batch(arguments, Batch(NEEDED, COLUMNS, ADDED, answer))


def chosen(cells: Cells, find: Lookup) -> dict[str, Any]:
    """The added columns of a row; only the reason where no layout keeps both times. Raises RowError."""
    facts = model_of(cells, find)
    notes: list[str] = []
    setup = setup_of(cells, facts, notes)
    hardware = hardware_of(cells)
    check_engine(setup.engine, hardware)
    template = Case(facts=facts, hardware=hardware, layout=Layout(), setup=setup)
    limits_s = tuple(_limit_s(cells, column) for column in ("ttft_ms", "tpot_ms"))
    lengths = lengths_of(cells, setup, notes)
    words = _layouts(cells, facts, setup.engine, notes)
    cases = [replace(template, layout=layout) for layout in words]
    try:
        best = best_of(cases, lengths, limits_s[0], limits_s[1])
    except ValueError as error:
        raise RowError(str(error)) from error
    if best is None:
        why = _why_none(cases, words, lengths, limits_s)
        return dict.fromkeys(ADDED) | {"reason": "; ".join([why, *notes])}
    return _row(best, words[best.layout], notes)


def _row(best: BestOf, word: str, notes: list[str]) -> dict[str, Any]:
    found = best.prediction
    return {
        "layout": word,
        "concurrency": best.concurrency,
        "output_tokens_per_s_per_gpu": round(found.output_tokens_per_s / best.layout.accelerators, 2),
        "predicted_ttft_ms": milliseconds(found.ttft_s),
        "predicted_tpot_ms": milliseconds(found.tpot_s),
        "reason": "; ".join([best.why, *notes]),
    }


def _limit_s(cells: Cells, column: str) -> float:
    required(cells, column, "the longest mean time in milliseconds, such as 500")
    return (number(cells, column, _LONGEST_MS, of="milliseconds") or 0.0) / 1000


def _layouts(cells: Cells, facts: ModelFacts, engine: str, notes: list[str]) -> dict[Layout, str]:
    """The layouts that can run, each with the word that the row has for it; the others are noted."""
    words = [word.strip() for word in required(cells, "layouts", "such as tp4;tp8-ep8").split(";") if word.strip()]
    if len(words) > _MOST_LAYOUTS:
        raise RowError(f"layouts: there are {len(words)} of them; write at most {_MOST_LAYOUTS}")
    possible: dict[Layout, str] = {}
    faults: list[str] = []
    for word in words:
        try:
            layout = _layout(word, engine, notes)
            check_layout(layout, facts)
            possible.setdefault(layout, word)
        except RowError as error:
            faults.append(f"{word} is left out ({error})")
    if not possible:
        raise RowError("layouts: " + ("; ".join(faults[:3]) or "is empty; write such as tp4;tp8-ep8"))
    notes += faults[:3]
    return possible


def _layout(word: str, engine: str, notes: list[str]) -> Layout:
    try:
        return Layout.parse(word)
    except ValueError as error:
        match = re.fullmatch(r"(.*)-ep([1-9]\d{0,3})", word.lower())
        if not match:
            raise RowError(str(error).replace(repr(word), clipped(word))) from error
        try:
            layout = Layout.parse(match[1])
        except ValueError:
            raise RowError(str(error)) from error
        spread = layout.tensor * layout.data
        if not spreads_partly(int(match[2]), spread, engine):
            raise RowError(str(error)) from error
        notes.append(f"{word} predicted with experts over all {spread}")
        return replace(layout, expert=True)


def _why_none(cases: list[Case], words: Mapping[Layout, str], lengths: Lengths, limits_s: tuple[float, ...]) -> str:
    """What is in the way even of a single request: memory, or the time that the nearest layout comes to."""
    fitting = []
    for case in cases:
        found = predict(case, lengths, Load(concurrency=1.0))
        if found.fits:
            miss = max(found.ttft_s / limits_s[0], found.tpot_s / limits_s[1])
            fitting.append((miss, words[case.layout], found))
        else:
            lacking = found.memory.reason
    if not fitting:
        return f"no layout has room for the model: {lacking}"
    _, word, near = min(fitting, key=lambda one: one[0])
    return (
        f"no layout keeps both times: {word} comes nearest, with TTFT {near.ttft_s * 1000:.0f} ms and TPOT"
        f" {near.tpot_s * 1000:.1f} ms for a single request; allow those, or offer more or other accelerators"
    )
