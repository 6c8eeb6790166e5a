"""Runs a table through a function, row by row: a bad row says why and does not stop the others."""

import argparse
import difflib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from modelfleet.cli.fields import RowError
from modelfleet.cli.tables import (
    STDIO,
    CsvWriter,
    Format,
    JsonWriter,
    Row,
    TableError,
    Writer,
    csv_rows,
    format_of,
    header_of,
    json_rows,
    reading,
    writing,
)

_QUIET_S = 2.0
_GIVEN = "given_"


@dataclass(frozen=True)
class Batch:
    """What a command does with a table: the columns it must have, those it knows, and what it adds to each row."""

    needed: tuple[str, ...]
    known: tuple[str, ...]
    adds: tuple[str, ...]
    answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """The added columns of a row; RowError if it cannot be answered."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of every command that runs a table."""
    parser.add_argument("-f", "--file", required=True, metavar="FILE", help="the rows; - is standard input")
    parser.add_argument("-o", "--output", default=STDIO, metavar="FILE", help="default: standard output")
    parser.add_argument(
        "--format",
        type=Format,
        choices=list(Format),
        metavar="csv|jsonl",
        help="the format where a file's name does not end in .csv or .jsonl; default: csv",
    )


def run_batch(arguments: argparse.Namespace, batch: Batch) -> int:
    """Writes each row with what `batch` adds. 0: all rows are answered; 1: some are not; 2: not a table."""
    try:
        return _run(arguments, batch)
    except TableError as error:
        print(f"modelfleet: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `main` knows what to do when the reader has seen enough
        raise
    except OSError as error:
        print(f"modelfleet: {arguments.output}: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("modelfleet: stopped", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace, batch: Batch) -> int:
    name, output = arguments.file, arguments.output
    shown = "<stdin>" if name == STDIO else name
    into = format_of(name, arguments.format)
    if STDIO not in (name, output) and Path(output).is_file() and Path(name).exists() and Path(output).samefile(name):
        raise TableError(f"{output}: the output would replace the rows that are read; write to another file")
    tally = _Tally()
    with reading(name) as source:
        rows, columns = _rows(source, shown, into, batch)
        with writing(output) as sink:
            kept = _kept(columns, batch, shown)
            writer: Writer
            if format_of(output, arguments.format, into) is Format.CSV:
                writer = CsvWriter(sink, [*(kept.get(one, one) for one in columns), *batch.adds] if columns else ())
            else:
                writer = JsonWriter(sink)
            for row in rows:
                _write(writer, row, kept, batch, tally)
        tally.done()
    if tally.bad:
        print(f"modelfleet: {tally.bad} of {tally.rows} rows have no answer; their reason says why", file=sys.stderr)
    return 1 if tally.bad else 0


def _rows(source: TextIO, shown: str, into: Format, batch: Batch) -> tuple[Iterator[Row], Sequence[str]]:
    """The rows and the columns that the first of them has."""
    if into is Format.CSV:
        header, reader = header_of(source, shown)
        rows = csv_rows(header, reader, shown)
        columns: Sequence[str] = header
    else:
        rows = json_rows(source, shown)
        first = next(rows, None)
        if first is None:
            return iter(()), ()
        rows, columns = chain([first], rows), list(first.cells)
    _check_columns(columns, shown, batch)
    return rows, columns


def _check_columns(columns: Sequence[str], shown: str, batch: Batch) -> None:
    missing = [column for column in batch.needed if column not in columns]
    if missing:
        found = ", ".join(columns)
        hint = "; columns are separated by commas" if len(columns) == 1 and (";" in found or "\t" in found) else ""
        found = found if len(found) <= 120 else found[:120] + "…"
        word, verb = ("column", "is") if len(missing) == 1 else ("columns", "are")
        raise TableError(f"{shown}: the {word} {' and '.join(missing)} {verb} needed; there are: {found}{hint}")
    for column in columns:
        near = difflib.get_close_matches(column.lower().replace(" ", "_"), batch.known, n=1, cutoff=0.85)
        if near and column not in batch.known and near[0] not in columns:
            print(f"modelfleet: {shown}: column {column} is passed through; is it {near[0]}?", file=sys.stderr)


def _kept(columns: Sequence[str], batch: Batch, shown: str) -> dict[str, str]:
    """New names of columns that are there already and that the command adds too."""
    kept = {column: _GIVEN + column for column in columns if column in batch.adds and column not in batch.known}
    if kept:
        moved = ", ".join(f"{old} is kept as {new}" for old, new in kept.items())
        print(f"modelfleet: {shown}: columns that are added here are there already; {moved}", file=sys.stderr)
    return kept


def _write(writer: Writer, row: Row, kept: Mapping[str, str], batch: Batch, tally: "_Tally") -> None:
    tally.count()
    added: Mapping[str, Any] = dict.fromkeys(batch.adds)
    try:
        if row.fault:
            raise RowError(row.fault)
        added = batch.answer(row.cells)
    except RowError as error:
        tally.bad += 1
        added = dict.fromkeys(batch.adds) | {"reason": str(error)}
    given = {kept.get(key, key if key not in batch.adds else _GIVEN + key): value for key, value in row.cells.items()}
    writer.write({**given, **added})


class _Tally:
    """Counts rows, and shows the count on a terminal when it takes long."""

    def __init__(self) -> None:
        self.rows = self.bad = 0
        self._shows = sys.stderr.isatty()
        self._next_s = time.monotonic() + _QUIET_S
        self._shown = False

    def count(self) -> None:
        """One more row."""
        self.rows += 1
        if self._shows and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + 0.5
            self._shown = True
            print(f"\r{self.rows:,} rows", end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        """Takes the count off the terminal."""
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
