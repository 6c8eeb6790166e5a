"""`modelfleet predict` and `choose` on whatever there may be in a file: an answer or a sentence, never a crash."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_tables import Captured
from modelfleet.cli import choose, predict
from modelfleet.cli.main import main

COMMANDS = {"predict": predict, "choose": choose}
ANYWHERE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80)

ODD = [
    "0",
    "-1",
    "1e400",
    "nan",
    "inf",
    "2.5",
    "8.0",
    "on",
    "fp8 native",
    "tp4;tp8-ep8",
    "tp0",
    "ep",
    "500ms",
    "1,5",
    "½",
]
NUMBER = st.integers(-2, 2**70).map(str) | st.floats().map(str)
CELL = st.sampled_from(ODD) | NUMBER | st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
VALUE: Any = CELL | st.none() | st.booleans() | st.floats() | st.lists(st.integers(), max_size=2)
MODEL = st.sampled_from(["Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "gpt-oss-120b", ".", "\0", "./a\nb"])
CLASS = st.sampled_from(["h100-sxm", "t4", "mi300x", "gb300", "H100"])


def run(command: str, path: Path, capsys: Captured) -> tuple[int, str, str]:
    status = main([command, "-f", str(path), "-o", str(path.parent / f"out{path.suffix}")])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@ANYWHERE
@given(raw=st.binary(max_size=120) | st.binary(max_size=60).map(lambda raw: b"model,class\n" + raw))
def test_any_bytes_are_answered_or_refused_in_one_sentence(command, ending, raw, tmp_path, capsys: Captured):
    (tmp_path / f"rows{ending}").write_bytes(raw)
    status, out, err = run(command, tmp_path / f"rows{ending}", capsys)
    assert status in (0, 1, 2)
    assert out == ""
    assert (status == 0) <= ("no answer" not in err)
    assert status == 0 or err.startswith("modelfleet: ")


@pytest.mark.parametrize("command", COMMANDS)
@ANYWHERE
@given(data=st.data(), model=MODEL, kind=CLASS)
def test_any_cells_are_answered_or_the_reason_says_which_column(command, data, model, kind, tmp_path, capsys: Captured):
    columns = COMMANDS[command].COLUMNS
    some = data.draw(st.lists(st.sampled_from(columns[2:]), max_size=4, unique=True))
    row = {column: "" for column in columns} | {"model": model, "class": kind}
    row |= {"layouts": "tp1;tp2", "ttft_ms": "1e6", "tpot_ms": "1e6"} if command == "choose" else {}
    row |= {column: data.draw(CELL, label=column) for column in some}
    with (tmp_path / "rows.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, row)
        writer.writeheader()
        writer.writerow(row)
    status, _, _ = run(command, tmp_path / "rows.csv", capsys)
    assert status in (0, 1)
    with (tmp_path / "out.csv").open(newline="") as stream:
        (found,) = csv.DictReader(stream)
    added = [found[column] for column in COMMANDS[command].ADDED[:-1]]
    assert found["reason"]
    assert "\n" not in found["reason"]
    if status == 1:
        assert added == [""] * len(added)
        assert found["reason"].partition(":")[0] in columns


@ANYWHERE
@given(row=st.dictionaries(st.sampled_from(predict.COLUMNS[2:]), VALUE, max_size=4), model=MODEL, kind=CLASS)
def test_any_json_values_are_answered_or_the_reason_says_which_column(row, model, kind, tmp_path, capsys: Captured):
    (tmp_path / "rows.jsonl").write_text(json.dumps(row | {"model": model, "class": kind}) + "\n")
    status, _, _ = run("predict", tmp_path / "rows.jsonl", capsys)
    found = json.loads((tmp_path / "out.jsonl").read_text())
    assert status in (0, 1)
    assert status == 0 or found["reason"].partition(":")[0] in predict.COLUMNS
    assert list(found)[-len(predict.ADDED) :] == list(predict.ADDED)


@ANYWHERE
@given(data=st.data(), kind=st.sampled_from(["h100-sxm", "b200"]))
def test_more_requests_are_never_answered_sooner(data, kind, tmp_path, capsys: Captured):
    loads = sorted(data.draw(st.sets(st.integers(1, 600), min_size=2, max_size=5)))
    rows = [f"Llama-3.1-8B,{kind},{load}" for load in loads]
    (tmp_path / "rows.csv").write_text("\n".join(["model,class,concurrency", *rows]) + "\n")
    assert run("predict", tmp_path / "rows.csv", capsys)[0] == 0
    with (tmp_path / "out.csv").open(newline="") as stream:
        found = list(csv.DictReader(stream))
    for column in ("ttft_ms", "tpot_ms"):
        times = [float(row[column]) for row in found]
        assert times == sorted(times)
