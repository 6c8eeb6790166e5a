"""`modelfleet predict --calibrate` and `--profile`: measured rows correct the predictions for their kind."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli_tables import Captured, answers, model, table
from modelfleet.cli.main import main

ROW: dict[str, Any] = {"class": "h100-sxm", "input_tokens": 1000, "output_tokens": 200, "concurrency": 8}


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    """Rows of one group at several loads, with the times that are predicted of them."""
    dense = model(tmp_path / "llama-8b")
    asked = [{"model": dense, **ROW, "concurrency": load} for load in (1, 2, 4, 8, 12, 16, 24, 32, 40, 48)]
    _, found = answers("predict", table(tmp_path / "asked.csv", *asked))
    return [row | {"ttft_ms": one["ttft_ms"], "tpot_ms": one["tpot_ms"]} for row, one in zip(asked, found, strict=True)]


def slowed(row: dict[str, Any], factor: float) -> dict[str, Any]:
    return row | {key: float(row[key]) * factor for key in ("ttft_ms", "tpot_ms")}


def question(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("ttft_ms", "tpot_ms")}


def test_rows_of_a_group_are_corrected_by_what_was_measured_of_it(rows, tmp_path):
    measured = table(tmp_path / "measured.csv", *(slowed(row, 2.0) for row in rows[:8]))
    asked = table(tmp_path / "asked.csv", question(rows[9]), question(rows[9]) | {"class": "a100-80"})
    status, (same, other) = answers("predict", asked, "--calibrate", str(measured))
    assert status == 0
    assert (same["source"], other["source"]) == ("measured", "predicted")
    assert float(same["tpot_ms"]) == pytest.approx(2 * float(rows[9]["tpot_ms"]), rel=0.15)
    assert float(same["ttft_ms"]) == pytest.approx(2 * float(rows[9]["ttft_ms"]), rel=0.3)


def test_a_profile_that_was_saved_gives_the_same_figures(rows, tmp_path):
    measured = table(tmp_path / "measured.csv", *(slowed(row, 1.5) for row in rows[:6]))
    asked, saved = table(tmp_path / "asked.csv", question(rows[9])), str(tmp_path / "profile.json")
    _, first = answers("predict", asked, "--calibrate", str(measured), "--save-profile", saved)
    _, second = answers("predict", asked, "--profile", saved)
    assert first == second
    assert first[0]["source"] == "measured"


def test_one_of_the_two_times_is_enough(rows, tmp_path):
    measured = table(tmp_path / "measured.csv", *(slowed(row, 2.0) | {"ttft_ms": ""} for row in rows[:8]))
    _, (found,) = answers("predict", table(tmp_path / "asked.csv", question(rows[9])), "--calibrate", str(measured))
    assert float(found["tpot_ms"]) == pytest.approx(2 * float(rows[9]["tpot_ms"]), rel=0.15)


def test_rows_beyond_eight_of_a_group_are_passed_over_and_counted(rows, tmp_path, capsys: Captured):
    asked = table(tmp_path / "asked.csv", question(rows[9]))
    few, many = (table(tmp_path / f"{count}.csv", *rows[:count]) for count in (8, 10))
    _, first = answers("predict", asked, "--calibrate", str(few))
    assert capsys.readouterr().err == ""
    _, second = answers("predict", asked, "--calibrate", str(many))
    assert "2 rows are passed over: more than 8 of their group" in capsys.readouterr().err
    assert first == second


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        pytest.param({"tpot_ms": "30ms"}, "line 2: tpot_ms: '30ms' is not a number; write 30 without", id="a unit"),
        pytest.param({"tpot_ms": "", "ttft_ms": ""}, "line 2: ttft_ms: is empty, and so is tpot_ms", id="no time"),
        pytest.param({"concurrency": "", "request_rate": 2}, "line 2: concurrency: is empty", id="an open loop"),
        pytest.param({"class": "h900"}, "line 2: class: 'h900' is not in the catalogue", id="an unknown class"),
    ],
)
def test_a_measured_row_that_cannot_be_used_stops_it(change, sentence, rows, tmp_path, capsys: Captured):
    measured = table(tmp_path / "measured.csv", rows[0] | change)
    asked = table(tmp_path / "asked.csv", question(rows[9]))
    assert main(["predict", "-f", str(asked), "--calibrate", str(measured)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("", "it is not JSON", id="nothing"),
        pytest.param("{}", "groups: field required", id="no groups"),
        pytest.param('{"groups": [{"group": "x"}]}', "groups[0].prefill: field required", id="half a group"),
        pytest.param('{"groups": 1}', "groups: input should be a valid list", id="no list"),
    ],
)
def test_a_file_that_holds_no_profile(text, sentence, rows, tmp_path, capsys: Captured):
    (tmp_path / "profile.json").write_text(text)
    asked = table(tmp_path / "asked.csv", question(rows[0]))
    assert main(["predict", "-f", str(asked), "--profile", str(tmp_path / "profile.json")]) == 2
    assert f"profile.json: {sentence}; write it with --save-profile" in capsys.readouterr().err


def test_a_factor_of_nothing_is_refused(rows, tmp_path, capsys: Captured):
    saved = tmp_path / "profile.json"
    asked = table(tmp_path / "asked.csv", question(rows[0]))
    measured = table(tmp_path / "measured.csv", rows[0])
    answers("predict", asked, "--calibrate", str(measured), "--save-profile", str(saved))
    content = json.loads(saved.read_text())
    content["groups"][0]["decode"] = 0
    saved.write_text(json.dumps(content))
    capsys.readouterr()
    assert main(["predict", "-f", str(asked), "--profile", str(saved)]) == 2
    assert "groups[0].decode: input should be greater than 0" in capsys.readouterr().err


def test_saving_needs_something_to_save(rows, tmp_path, capsys: Captured):
    asked = table(tmp_path / "asked.csv", question(rows[0]))
    assert main(["predict", "-f", str(asked), "--save-profile", str(tmp_path / "profile.json")]) == 2
    assert "there is nothing to save; give measured rows with --calibrate" in capsys.readouterr().err
