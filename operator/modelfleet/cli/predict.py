"""`modelfleet predict`: what the performance model says of each row of a table."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelfleet.cli import measured
from modelfleet.cli.batch import Batch, add_arguments, run_batch
from modelfleet.cli.cases import Lookup, asked
from modelfleet.cli.fields import Cells, RowError
from modelfleet.cli.measured import Profiles
from modelfleet.cli.models import lookup
from modelfleet.cli.tables import STDIO, TableError
from modelfleet.core.perf.memory import reported_kv_tokens
from modelfleet.core.perf.prediction import Prediction
from modelfleet.core.perf.serving import OVERLOAD_S, predict

COLUMNS = (
    "model",
    "class",
    "engine",
    "engine_version",
    "tp",
    "pp",
    "dp",
    "ep",
    "precision",
    "kv_precision",
    "input_tokens",
    "output_tokens",
    "concurrency",
    "request_rate",
    "memory_fraction",
    "token_budget",
    "sequence_cap",
    "context_limit",
)
"""All that a row may say; only the first two are needed."""

ADDED = ("ttft_ms", "tpot_ms", "kv_tokens", "fits", "saturated", "source", "reason")


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "predict",
        help="predict TTFT, TPOT and KV room for each row of a table",
        description=f"Reads rows with the columns {', '.join(COLUMNS)}; all but model and class may be absent or empty."
        f" Adds {', '.join(ADDED)}; other columns pass through. Times are means of one replica.",
    )
    add_arguments(parser)
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--calibrate",
        metavar="FILE",
        help="measured rows: the same columns with ttft_ms and tpot_ms; up to 8 of an architecture on a class with an"
        " engine correct the predictions for it",
    )
    source.add_argument("--profile", metavar="FILE", help="corrections as --save-profile wrote them")
    parser.add_argument("--save-profile", metavar="FILE", help="write the corrections of --calibrate to a file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Predicts each row. 0: all rows are answered; 1: some are not; 2: there is no table."""
    find = lookup(None if arguments.file == STDIO else Path(arguments.file).parent)
    try:
        profiles = _profiles(arguments, find)
    except TableError as error:
        print(f"modelfleet: {error}", file=sys.stderr)
        return 2

    def answer(cells: Cells) -> Mapping[str, Any]:
        return predicted(cells, find, profiles)

    return run_batch(arguments, Batch(COLUMNS[:2], COLUMNS, ADDED, answer))


def _profiles(arguments: argparse.Namespace, find: Lookup) -> Profiles:
    if arguments.profile is not None:
        return measured.load(arguments.profile)
    if arguments.calibrate is None:
        if arguments.save_profile is not None:
            raise TableError("--save-profile: there is nothing to save; give measured rows with --calibrate")
        return {}
    profiles = measured.measured_profiles(arguments.calibrate, find)
    if arguments.save_profile is not None:
        measured.save(profiles, arguments.save_profile)
    return profiles


def predicted(cells: Cells, find: Lookup, profiles: Profiles) -> dict[str, Any]:
    """The added columns of a row. Raises RowError."""
    question = asked(cells, find)
    profile = profiles.get(measured.group_of(question.case))
    try:
        found = predict(question.case, question.lengths, question.load, profile)
    except ValueError as error:  # the model's own words for a question that it cannot answer
        raise RowError(str(error)) from error
    overload = question.load.requests_per_s is not None and found.fits and found.saturated
    return (
        answered(found, question.notes)
        | (overloaded(found, question.notes) if overload else {})
        | {"kv_tokens": found.memory.kv_tokens or reported_kv_tokens(question.case)}
    )


def answered(found: Prediction, notes: tuple[str, ...]) -> dict[str, Any]:
    """A prediction as the added columns. Without room there are no times, and the reason says what is missing."""
    fits = found.fits
    reason = found.reason if fits else found.memory.reason
    return {
        "ttft_ms": milliseconds(found.ttft_s) if fits else None,
        "tpot_ms": milliseconds(found.tpot_s) if fits else None,
        "kv_tokens": found.memory.kv_tokens,
        "fits": fits,
        "saturated": found.saturated if fits else None,
        "source": found.source.value,
        "reason": "; ".join([reason, *notes]),
    }


def overloaded(found: Prediction, notes: tuple[str, ...]) -> dict[str, Any]:
    """The columns that differ where requests arrive faster than they are served.

    The mean wait is that of a run of OVERLOAD_S. One longer than the run is no time that anyone could measure.
    """
    measurable = found.ttft_s <= OVERLOAD_S
    why = (
        f"requests arrive faster than the {found.requests_per_s:.3g} a second that are served, and the queue grows"
        f" without bound; {'TTFT is that of' if measurable else 'there is no TTFT inside'} a run of {OVERLOAD_S:.0f} s"
    )
    ttft_ms = milliseconds(found.ttft_s) if measurable else None
    return {"ttft_ms": ttft_ms, "reason": "; ".join([why, *notes])}


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds with as many digits as a table needs."""
    return round(seconds * 1000, 3)
