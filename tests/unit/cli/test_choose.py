"""`modelfleet choose`, as a user runs it."""

from pathlib import Path

import pytest

from cli_tables import MIXTURE, Captured, answers, model, table
from modelfleet.cli.choose import ADDED

ROW = {
    "class": "h100-sxm",
    "engine": "vllm",
    "precision": "bf16",
    "input_tokens": 1000,
    "output_tokens": 200,
    "ttft_ms": 2000,
    "tpot_ms": 50,
    "layouts": "tp1;tp2;tp4",
}


@pytest.fixture
def dense(tmp_path: Path) -> str:
    return model(tmp_path / "llama-8b")


def test_a_layout_and_a_concurrency_are_added_with_figures_inside_both_times(tmp_path, dense):
    rows = table(tmp_path / "questions.csv", {"id": 7, "model": dense, **ROW})
    status, (found,) = answers("choose", rows)
    assert status == 0
    assert list(found) == ["id", "model", *ROW, *ADDED]
    assert found["layout"] in ROW["layouts"].split(";")
    assert int(found["concurrency"]) >= 1
    assert 0 < float(found["predicted_ttft_ms"]) <= 2000
    assert 0 < float(found["predicted_tpot_ms"]) <= 50
    assert float(found["output_tokens_per_s_per_gpu"]) > 0
    assert "output tokens/s an accelerator" in found["reason"]


def test_a_promise_that_no_layout_keeps_is_an_answer_with_the_nearest(tmp_path, dense, capsys: Captured):
    status, (found,) = answers("choose", table(tmp_path / "q.csv", {"model": dense, **ROW, "tpot_ms": 0.1}))
    assert (status, capsys.readouterr().err) == (0, "")
    assert [found[column] for column in ADDED[:-1]] == [""] * 5
    assert found["reason"].startswith("no layout keeps both times: tp")


def test_a_layout_that_cannot_run_is_left_out_and_said(tmp_path, dense):
    row = {"model": dense, **ROW, "layouts": "tp1; tp3 ;tp2-ep2"}
    status, (found,) = answers("choose", table(tmp_path / "q.csv", row))
    assert (status, found["layout"]) == (0, "tp1")
    assert "tp3 is left out (tp: 32 attention heads" in found["reason"]
    assert "tp2-ep2 is left out (ep: " in found["reason"]


def test_the_layout_is_answered_in_the_words_of_the_question(tmp_path):
    row = {"model": model(tmp_path / "mixtral", MIXTURE), **ROW, "engine": "sglang", "layouts": "tp4-ep2"}
    status, (found,) = answers("choose", table(tmp_path / "q.csv", row))
    assert (status, found["layout"]) == (0, "tp4-ep2")
    assert "tp4-ep2 predicted with experts over all 4" in found["reason"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        pytest.param({"layouts": ""}, "layouts: is empty; write such as tp4;tp8-ep8", id="no layouts"),
        pytest.param({"layouts": "four"}, "is not a layout: write parts such as tp8", id="no layout's word"),
        pytest.param({"layouts": "tp4-ep2"}, "expert parallelism spans tensor × data", id="experts over some"),
        pytest.param({"layouts": "tp1;" * 300}, "write at most 256", id="too many of them"),
        pytest.param({"ttft_ms": ""}, "ttft_ms: is empty; write the longest mean time", id="no limit"),
        pytest.param({"ttft_ms": "500ms"}, "write 500 without a unit, the column is in milliseconds", id="a unit"),
        pytest.param({"ttft_ms": "2 s"}, "ttft_ms: '2 s' is not a number; write 2000", id="seconds"),
        pytest.param({"tpot_ms": "0"}, "tpot_ms: '0' is out of range", id="a limit of zero"),
        pytest.param({"output_tokens": "-5"}, "output_tokens: '-5' is out of range", id="a negative length"),
    ],
)
def test_a_bad_row_says_why_and_does_not_stop_the_others(change, sentence, tmp_path, dense, capsys: Captured):
    good = {"model": dense, **ROW}
    status, (bad, last) = answers("choose", table(tmp_path / "q.csv", good | change, good))
    assert status == 1
    assert sentence in bad["reason"]
    assert [bad[column] for column in ADDED[:-1]] == [""] * 5
    assert last["layout"]
    assert "1 of 2 rows have no answer" in capsys.readouterr().err


def test_a_needed_column_that_is_absent_is_named(tmp_path, dense, capsys: Captured):
    status, rows = answers("choose", table(tmp_path / "q.csv", {"model": dense, "class": "l4", "ttft_ms": 1}))
    assert (status, rows) == (2, [])
    assert "the columns tpot_ms and layouts are needed" in capsys.readouterr().err


def test_a_degree_named_twice_is_no_layout(tmp_path):
    rows = {"model": "llama-3.1-8b-instruct", "class": "h100-sxm", "ttft_ms": 5000, "tpot_ms": 500}
    status, (row,) = answers("choose", table(tmp_path / "rows.csv", rows | {"layouts": "tp8-tp4"}))
    assert (status, row["layout"]) == (1, "")
    assert "'tp8-tp4' names tp twice: write each degree once" in row["reason"]
