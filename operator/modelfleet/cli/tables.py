"""Tables in and out, one row at a time, so that their length is no matter: CSV with a header, or JSON lines."""

import csv
import io
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TextIO

from modelfleet.cli.yaml_io import UnreadableError, json_value

STDIO = "-"
_LONGEST_LINE = 1 << 20


class Format(StrEnum):
    """How a table is written."""

    CSV = "csv"
    JSONL = "jsonl"


_ENDINGS = {".csv": Format.CSV, ".jsonl": Format.JSONL, ".ndjson": Format.JSONL, ".json": Format.JSONL}


class TableError(Exception):
    """A table that cannot be read or written at all; the message is a sentence for the user."""


@dataclass(frozen=True)
class Row:
    """One row: its line in the file, its values by column, and what is wrong with it as a row, if anything is."""

    line: int
    cells: Mapping[str, Any]
    fault: str | None = None


class CsvReader(Protocol):
    """What csv.reader gives: it has no public type."""

    @property
    def line_num(self) -> int:
        """The line that was read last."""

    def __next__(self) -> list[str]:
        """The cells of the next row."""

    def __iter__(self) -> Iterator[list[str]]:
        """Itself."""


class Writer(Protocol):
    """Takes rows with the same meaning of columns, one after the other."""

    def write(self, cells: Mapping[str, Any]) -> None:
        """Writes a row; TableError if it does not fit the rows before it."""


def format_of(name: str, stated: Format | None, otherwise: Format = Format.CSV) -> Format:
    """The format of a file: what its ending says, else what was stated, else `otherwise`."""
    return _ENDINGS.get(Path(name).suffix.lower()) or stated or otherwise


@contextmanager
def reading(name: str) -> Iterator[TextIO]:
    """The text of a file, or of standard input for `-`. Raises TableError if there is none."""
    if name == STDIO:
        yield io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
        return
    with _opened(lambda: Path(name).open(encoding="utf-8-sig", newline=""), name) as stream:
        yield stream


@contextmanager
def writing(name: str) -> Iterator[TextIO]:
    """A stream whose text becomes the file `name` when all went well, and leaves what was there when not."""
    path = Path(name)
    if name == STDIO:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as files are, whatever the terminal's locale
        yield sys.stdout
        return
    whole = path.is_file() or not path.exists()  # a device or a pipe cannot be replaced
    part = path.with_name(f".{path.name}.{os.getpid()}") if whole else path
    with _opened(lambda: part.open("w", encoding="utf-8", newline=""), name) as stream:
        try:
            yield stream
        except BaseException:
            part.unlink() if whole else None
            raise
    if whole:
        part.replace(path)


def _opened(opening: Callable[[], TextIO], name: str) -> TextIO:
    try:
        return opening()
    except (OSError, ValueError) as error:
        raise TableError(f"{name}: {_why(error)}") from error


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def header_of(stream: TextIO, name: str) -> tuple[list[str], CsvReader]:
    """The columns of a CSV file, and the reader that stands behind them. Raises TableError if it has no header."""
    reader = csv.reader(_lines(stream, name), strict=True)
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise TableError(f"{name}: line {max(reader.line_num, 1)} is not CSV: {error}") from error
    if not header:
        raise TableError(f"{name}: there is no header; the first line names the columns, such as model,class")
    header = [column.strip() for column in header]
    twice = [column for column, count in Counter(header).items() if count > 1]
    if twice:
        raise TableError(f"{name}: the header names the column {twice[0]!r} twice; give each column its own name")
    return header, reader


def csv_rows(header: Sequence[str], reader: CsvReader, name: str) -> Iterator[Row]:
    """The rows behind the header. A row with too few cells leaves the last columns empty."""
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(f"{name}: line {reader.line_num} is not CSV: {error}") from error
        if not cells:
            continue
        fault = None
        if len(cells) > len(header):
            fault = f"the row has {len(cells)} cells and the header has {len(header)}; quote cells with commas in them"
        padded = [*cells, *[""] * (len(header) - len(cells))]
        yield Row(reader.line_num, dict(zip(header, padded, strict=False)), fault)


def json_rows(stream: TextIO, name: str) -> Iterator[Row]:
    """The objects of a file of JSON lines. The first one must be an object; a later line that is none is a bad row."""
    for line, text in enumerate(_lines(stream, name), start=1):
        if not text.strip():
            continue
        fault = f"line {line} is not a JSON object"
        try:
            content = json_value(text)
        except UnreadableError as error:
            content = None
            if not isinstance(error.__cause__, json.JSONDecodeError):
                fault = f"line {line}: {error}"
        if isinstance(content, dict):
            yield Row(line, content)
        elif line == 1:
            raise TableError(f"{name}: {fault}; JSON lines have one object a line")
        else:
            yield Row(line, {}, fault)


def _lines(stream: TextIO, name: str) -> Iterator[str]:
    line = 0
    while True:
        line += 1
        try:
            text = stream.readline(_LONGEST_LINE)
        except UnicodeDecodeError as error:
            raise TableError(f"{name}: it is not UTF-8 text, at line {line} or soon after") from error
        except OSError as error:
            raise TableError(f"{name}: {_why(error)}") from error
        if not text:
            return
        if len(text) == _LONGEST_LINE:
            raise TableError(f"{name}: line {line} is longer than {_LONGEST_LINE} characters; this is not a table")
        yield text


class JsonWriter:
    """Writes JSON lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, cells: Mapping[str, Any]) -> None:
        """Writes a row."""
        try:
            line = json.dumps(cells, ensure_ascii=False, allow_nan=False)
        except ValueError:
            line = json.dumps(_finite(cells), ensure_ascii=False, allow_nan=False)
        self._stream.write(line + "\n")


def _finite(value: Any) -> Any:
    """The value with null where Python reads a number that JSON has no word for, such as NaN."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {key: _finite(one) for key, one in value.items()}
        case list():
            return [_finite(one) for one in value]
    return value


class CsvWriter:
    """Writes CSV. The columns are those of the first row if they are not given."""

    def __init__(self, stream: TextIO, columns: Iterable[str] = ()) -> None:
        self._writer = csv.writer(stream, lineterminator="\n")
        self._quoting = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)
        self._columns = tuple(columns)
        if self._columns:
            self._writer.writerow(self._columns)

    def write(self, cells: Mapping[str, Any]) -> None:
        """Writes a row; TableError if it has a column that the first row did not have."""
        if not self._columns:
            self._columns = tuple(cells)
            self._writer.writerow(self._columns)
        more = [key for key in cells if key not in self._columns]
        if more:
            raise TableError(f"CSV has the columns of the first row, and {more[0]!r} is none; write .jsonl instead")
        row = [_cell(cells.get(column)) for column in self._columns]
        lone_return = any(isinstance(value, str) and "\r" in value for value in row)  # csv quotes only its own line end
        (self._quoting if lone_return else self._writer).writerow(row)


def _cell(value: Any) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
    return value
