"""Reading and writing tables row by row."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_tables import answers, model, table
from modelfleet.cli.fields import RowError, number, share, text, whole
from modelfleet.cli.main import main
from modelfleet.cli.tables import CsvWriter, JsonWriter, Row, TableError, csv_rows, header_of, json_rows


class Counted(io.StringIO):
    """A text that counts the lines that were taken from it."""

    taken = 0

    def readline(self, size: Any = -1) -> str:
        self.taken += 1
        return super().readline(size)


def test_a_csv_row_is_given_before_the_next_one_is_read():
    stream = Counted("model,class\na,b\nc,d\n")
    rows = csv_rows(*header_of(stream, "rows"), "rows")
    assert next(rows) == Row(2, {"model": "a", "class": "b"})
    assert stream.taken == 2


def test_a_json_row_is_given_before_the_next_one_is_read():
    stream = Counted('{"a": 1}\n{"a": 2}\n')
    assert next(json_rows(stream, "rows")) == Row(1, {"a": 1})
    assert stream.taken == 1


def test_a_line_without_an_end_is_no_table():
    with pytest.raises(TableError, match="line 1 is longer than"):
        header_of(io.StringIO("a" * (1 << 21)), "rows")


def test_csv_refuses_a_column_that_the_first_row_did_not_have():
    writer = CsvWriter(io.StringIO())
    writer.write({"a": 1})
    with pytest.raises(TableError, match=r"'b' is none; write \.jsonl instead"):
        writer.write({"a": 1, "b": 2})


CELL = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


@given(rows=st.lists(st.lists(CELL, min_size=2, max_size=2), max_size=5))
def test_what_is_written_as_csv_is_read_again(rows):
    stream = io.StringIO(newline="")
    writer = CsvWriter(stream, ["x", "y"])
    for row in rows:
        writer.write(dict(zip("xy", row, strict=True)))
    stream.seek(0)
    read = csv_rows(*header_of(stream, "rows"), "rows")
    assert [list(row.cells.values()) for row in read] == rows


VALUE = st.recursive(st.none() | st.booleans() | st.integers() | CELL, lambda inner: st.lists(inner, max_size=3))


@given(rows=st.lists(st.dictionaries(CELL, VALUE, max_size=3), max_size=5))
def test_what_is_written_as_json_lines_is_read_again(rows):
    stream = io.StringIO()
    for row in rows:
        JsonWriter(stream).write(row)
    stream.seek(0)
    assert [row.cells for row in json_rows(stream, "rows")] == rows


def fault(kind: type[Exception], call: Any) -> str | None:
    """What a call says when it fails in the way that it may."""
    try:
        call()
    except kind as error:
        return str(error)
    return None


READERS = {
    "csv": lambda stream: list(csv_rows(*header_of(stream, "rows"), "rows")),
    "json": lambda stream: list(json_rows(stream, "rows")),
}


@given(text=st.text(max_size=200), kind=st.sampled_from(sorted(READERS)))
def test_any_text_is_a_table_or_says_why_not(text, kind):
    said = fault(TableError, lambda: READERS[kind](io.StringIO(text)))
    assert said is None or (said.startswith("rows: ") and "\n" not in said)


JSON = VALUE | st.dictionaries(CELL, VALUE, max_size=2) | st.floats()


@given(value=JSON, reader=st.sampled_from([text, lambda *_: number(*_, 100), lambda *_: whole(*_, 100), share]))
def test_any_cell_is_a_value_or_says_why_not(value, reader):
    said = fault(RowError, lambda: reader({"x": value}, "x"))
    assert said is None or (said.startswith("x: ") and "\n" not in said)


@given(value=JSON)
def test_a_number_that_is_taken_is_inside_its_bounds(value):
    if fault(RowError, lambda: number({"x": value}, "x", 100)) is None:
        assert 0 < (number({"x": value}, "x", 100) or 1) <= 100


def test_json_lines_have_null_where_json_has_no_word_for_a_number(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"model": "x", "class": "h100-sxm", "mine": [NaN, {"a": -Infinity}], "more": 1e999}\n')

    main(["predict", "-f", str(path), "-o", str(tmp_path / "out.jsonl")])

    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    assert "NaN" not in line
    assert "Infinity" not in line
    assert json.loads(line)["mine"] == [None, {"a": None}]


def test_a_number_with_too_many_digits_is_called_that(tmp_path: Path) -> None:
    path = table(tmp_path / "rows.csv", {"model": model(tmp_path / "m", '{"a": 1' + "0" * 5000 + "}"), "class": "h20"})

    _, (row,) = answers("predict", path)

    assert row["reason"].endswith("it holds a number with too many digits")


def test_a_line_with_too_many_digits_is_a_row_that_says_so() -> None:
    first, second = json_rows(io.StringIO('{"a": 1}\n{"a": 1' + "0" * 5000 + "}\n"), "rows.jsonl")
    assert (first.fault, second.fault) == (None, "line 2: it holds a number with too many digits")
