"""`modelfleet predict`, as a user runs it."""

import io
import json
import sys
from pathlib import Path

import pytest

from cli_tables import MIXTURE, Captured, answers, model, table
from modelfleet.cli.main import main
from modelfleet.cli.predict import ADDED

ROW = {"class": "h100-sxm", "input_tokens": 1000, "output_tokens": 200, "concurrency": 8}


@pytest.fixture
def dense(tmp_path: Path) -> str:
    return model(tmp_path / "llama-8b")


@pytest.fixture
def mixture(tmp_path: Path) -> str:
    return model(tmp_path / "mixtral", MIXTURE)


def test_figures_are_added_behind_columns_that_pass_through_in_order(tmp_path, dense):
    rows = table(tmp_path / "rows.csv", {"id": "a,b", "model": dense, **ROW, "note": "Ω"})
    status, (found,) = answers("predict", rows)
    assert status == 0
    assert list(found) == ["id", "model", *ROW, "note", *ADDED]
    assert (found["id"], found["note"], found["fits"], found["source"]) == ("a,b", "Ω", "true", "predicted")
    assert float(found["ttft_ms"]) > 0 < float(found["tpot_ms"])
    assert int(found["kv_tokens"]) > 0
    assert found["reason"]


def test_only_model_and_class_are_needed_and_what_is_assumed_is_said(tmp_path, dense):
    status, (found,) = answers("predict", table(tmp_path / "rows.csv", {"model": dense, "class": "h100-sxm"}))
    assert status == 0
    assert "1024 input tokens assumed; 256 output tokens assumed; concurrency 1 assumed" in found["reason"]


def test_a_known_name_needs_no_file(tmp_path):
    status, (found,) = answers("predict", table(tmp_path / "rows.csv", {"model": "Qwen/Qwen3-32B", "class": "h200"}))
    assert (status, found["fits"]) == (0, "true")


def test_a_model_may_lie_beside_the_rows(tmp_path, dense):
    status, (found,) = answers("predict", table(tmp_path / "rows.csv", {"model": "llama-8b/config.json", **ROW}))
    assert (status, found["fits"]) == (0, "true")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"tp": "2"}, id="tensor parallel"),
        pytest.param({"tp": "2.0", "concurrency": "8.0"}, id="whole numbers as tables of floats write them"),
        pytest.param({"request_rate": "0.5", "concurrency": ""}, id="a rate in place of a concurrency"),
        pytest.param({"request_rate": "nan"}, id="nan is no value"),
        pytest.param({"ep": "1", "dp": ""}, id="experts off"),
        pytest.param({"precision": "FP8 native"}, id="a precision as papers write it"),
        pytest.param({"precision": "fp4", "class": "b200"}, id="fp4 is nvfp4"),
        pytest.param({"class": "H100_SXM"}, id="a class in another spelling"),
        pytest.param({"engine": "TRT-LLM", "engine_version": "v1.0"}, id="another engine"),
        pytest.param({"memory_fraction": "0.8", "token_budget": "4096", "sequence_cap": "64"}, id="engine settings"),
    ],
)
def test_spellings_that_are_understood(change, tmp_path, dense):
    status, (found,) = answers("predict", table(tmp_path / "rows.csv", {"model": dense, **ROW, **change}))
    assert status == 0, found["reason"]
    assert found["ttft_ms"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        pytest.param({"model": ""}, "model: is empty; write the path of a config.json or a known name", id="no model"),
        pytest.param({"model": "./gone/config.json"}, "there is no such file", id="a file that is not there"),
        pytest.param({"model": "Qwen/Qwen3-32"}, "did you mean", id="a name with a slip"),
        pytest.param({"class": "h100"}, "class: 'h100' is not in the catalogue; did you mean", id="an unknown class"),
        pytest.param({"tp": "3"}, "tp: 32 attention heads", id="heads that cannot be shared out"),
        pytest.param({"tp": "0"}, "tp: '0' is out of range", id="a degree of zero"),
        pytest.param({"tp": "2.5"}, "tp: 2.5 is not a whole number", id="half a degree"),
        pytest.param({"pp": "64"}, "pp: ", id="more stages than layers"),
        pytest.param({"ep": "4", "tp": "4"}, "ep: ", id="experts of a model without any"),
        pytest.param({"ep": "3", "tp": "2", "dp": "2"}, "so ep is 1 or 4 here, not 3", id="experts over some"),
        pytest.param({"concurrency": "-1"}, "concurrency: '-1' is out of range", id="a negative number"),
        pytest.param({"concurrency": "1e300"}, "concurrency: '1e300' is out of range", id="a huge number"),
        pytest.param({"input_tokens": "1,000"}, "write it without commas", id="a number with commas"),
        pytest.param({"input_tokens": "1k"}, "input_tokens: '1k' is not a number; write 1 without a unit", id="a unit"),
        pytest.param({"request_rate": "2"}, "request_rate: is given beside concurrency", id="two kinds of load"),
        pytest.param({"precision": "fp7"}, "precision: 'fp7' is not known; write bf16", id="an unknown precision"),
        pytest.param({"kv_precision": "int4"}, "kv_precision: 'int4' is not a KV cache's", id="a KV cache in int4"),
        pytest.param({"memory_fraction": "90"}, "memory_fraction: '90' is not a share; write 0.9", id="percent"),
        pytest.param({"context_limit": "1100"}, "context_limit: 1000 input and 200 output", id="a limit too low"),
        pytest.param({"engine": "lmdeploy"}, "engine: 'lmdeploy' is not known", id="an unknown engine"),
    ],
)
def test_a_bad_row_says_why_and_does_not_stop_the_others(change, sentence, tmp_path, dense, capsys: Captured):
    good = {"model": dense, "tp": "", "pp": "", "dp": "", "ep": "", "request_rate": "", **ROW}
    good |= dict.fromkeys(["precision", "kv_precision", "memory_fraction", "context_limit", "engine"], "")
    status, (first, bad, last) = answers("predict", table(tmp_path / "rows.csv", good, good | change, good))
    assert status == 1
    assert sentence in bad["reason"]
    assert [bad[column] for column in ADDED[:-1]] == [""] * 6
    assert first["ttft_ms"] == last["ttft_ms"] != ""
    assert "1 of 3 rows have no answer" in capsys.readouterr().err


def test_a_model_too_large_is_an_answer(tmp_path):
    row = {"model": "deepseek-ai/DeepSeek-V3", "class": "h100-sxm", "tp": 1}
    status, (found,) = answers("predict", table(tmp_path / "rows.csv", row))
    assert (status, found["fits"], found["ttft_ms"], found["tpot_ms"]) == (0, "false", "", "")
    assert "GiB" in found["reason"]


def test_experts_over_all_accelerators(tmp_path, mixture):
    row = {"model": mixture, "class": "h100-sxm", "tp": 2, "dp": 2, "ep": 4}
    status, (found,) = answers("predict", table(tmp_path / "rows.csv", row))
    assert (status, found["fits"]) == (0, "true")


def test_an_engine_under_a_longer_name_is_said_to_be_taken_as_the_known_one(tmp_path, dense):
    row = {"model": dense, **ROW, "engine": "NIM (trtllm)"}
    status, (found,) = answers("predict", table(tmp_path / "rows.csv", row))
    assert status == 0
    assert "'nim (trtllm)' taken as trtllm" in found["reason"]


def test_experts_over_some_are_said_to_be_taken_as_over_all_where_the_engine_can(tmp_path, mixture):
    row = {"model": mixture, "class": "h100-sxm", "engine": "sglang", "tp": 4, "ep": 2}
    status, (found,) = answers("predict", table(tmp_path / "rows.csv", row))
    assert status == 0
    assert "experts over 2 of 4 predicted as over all" in found["reason"]


def test_more_accelerators_than_the_fabric_joins_are_read_as_tables_that_multiply_a_degree_mean_them(tmp_path, mixture):
    row = {"model": mixture, "class": "h100-sxm", "engine": "sglang", "concurrency": 8}
    rows = table(tmp_path / "rows.csv", row | {"tp": 16, "ep": 4}, row | {"tp": 4, "ep": 4})
    status, (multiplied, plain) = answers("predict", rows)
    assert status == 0
    assert "16 accelerators with ep 4 read as 4: the fabric joins 8" in multiplied["reason"]
    assert multiplied["tpot_ms"] == plain["tpot_ms"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        pytest.param("{", "is not JSON", id="broken JSON"),
        pytest.param("[1]", "is not a JSON object", id="a list"),
        pytest.param({"model_type": "llama"}, "is missing", id="no sizes"),
        pytest.param({"model_type": "resnet"}, "resnet", id="no language model"),
    ],
)
def test_a_config_that_cannot_be_sized(config, words, tmp_path):
    row = {"model": model(tmp_path / "odd", config), "class": "h100-sxm"}
    status, (found,) = answers("predict", table(tmp_path / "rows.csv", row))
    assert status == 1
    assert words in found["reason"]


def test_json_lines_keep_types_and_nested_values(tmp_path, dense):
    rows = tmp_path / "rows.jsonl"
    given = {"id": {"a": [1]}, "model": dense, "class": "h100-sxm", "concurrency": 4, "input_tokens": None}
    rows.write_text(json.dumps(given) + "\n\nnot json\n")
    assert main(["predict", "-f", str(rows), "-o", str(tmp_path / "out.jsonl")]) == 1
    first, second = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {key: first[key] for key in given} == given
    assert first["fits"] is True
    assert isinstance(first["ttft_ms"], float)
    assert second == dict.fromkeys(ADDED) | {"reason": "line 3 is not a JSON object"}


def test_json_lines_become_csv_by_the_outputs_name(tmp_path, dense):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"model": dense, "class": "h100-sxm"}))
    _, (found,) = answers("predict", rows)
    assert found["fits"] == "true"


def test_standard_streams(dense, monkeypatch, capsys: Captured):
    text = f"\ufeffmodel,class\r\n{dense},l4\r\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["predict", "-f", "-"]) == 0
    assert capsys.readouterr().out.startswith("model,class,ttft_ms,")


def test_a_column_that_is_there_already_is_kept_under_another_name(tmp_path, dense, capsys: Captured):
    rows = table(tmp_path / "rows.csv", {"model": dense, "class": "h100-sxm", "ttft_ms": 99, "source": "a lab"})
    _, (found,) = answers("predict", rows)
    assert (found["given_ttft_ms"], found["given_source"], found["source"]) == ("99", "a lab", "predicted")
    assert "ttft_ms is kept as given_ttft_ms, source is kept as given_source" in capsys.readouterr().err


def test_a_column_that_looks_like_a_known_one_is_asked_about(tmp_path, dense, capsys: Captured):
    rows = table(tmp_path / "rows.csv", {"model": dense, "class": "h100-sxm", "Input tokens": 5})
    answers("predict", rows)
    assert "column Input tokens is passed through; is it input_tokens?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"", "there is no header", id="nothing"),
        pytest.param(b"model,gpu\nx,y\n", "the column class is needed; there are: model, gpu", id="no class"),
        pytest.param(b"model;class\nx;y\n", "columns are separated by commas", id="semicolons"),
        pytest.param(b"model,class,class\n", "names the column 'class' twice", id="a column twice"),
        pytest.param(b"model,class\n\xff\xfe,x\n", "it is not UTF-8 text", id="not text"),
        pytest.param(b'model,class\n"a"b,c\n', "line 2 is not CSV", id="a stray quote"),
        pytest.param(b'model,class\n"' + b"a" * 200_000 + b'",c\n', "is not CSV", id="an endless cell"),
    ],
)
def test_what_is_no_table_is_said_in_one_sentence(content, sentence, tmp_path, capsys: Captured):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    status, rows = answers("predict", path)
    err = capsys.readouterr().err
    assert (status, rows) == (2, [])
    assert sentence in err
    assert err.count("\n") == 1


def test_a_row_with_more_cells_than_columns_is_bad(tmp_path, dense):
    path = tmp_path / "rows.csv"
    path.write_text(f"model,class\n{dense},l4,more\n{dense},l4\n")
    status, (bad, good) = answers("predict", path)
    assert status == 1
    assert bad["reason"].startswith("the row has 3 cells and the header has 2")
    assert good["fits"]


@pytest.mark.parametrize(
    ("file", "output", "sentence"),
    [
        pytest.param("gone.csv", "out.csv", "no such file", id="no input"),
        pytest.param("rows.csv", "no/folder/out.csv", "no/folder/out.csv: no such file", id="no place for the output"),
        pytest.param("rows.csv", "rows.csv", "the output would replace the rows", id="the input as output"),
        pytest.param(".", "out.csv", "is a directory", id="a folder"),
        pytest.param("rows.csv", "/dev/full", "/dev/full: no space left on device", id="a full disk"),
    ],
)
def test_files_that_cannot_be_used(file, output, sentence, tmp_path, monkeypatch, capsys: Captured):
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "rows.csv", {"model": "x", "class": "y"})
    assert main(["predict", "-f", file, "-o", output]) == 2
    assert sentence in capsys.readouterr().err


def test_a_failure_half_way_leaves_an_older_output_as_it_was(tmp_path, dense):
    path = tmp_path / "rows.csv"
    path.write_bytes(f"model,class\n{dense},l4\n".encode() + b"\xff,l4\n")
    output = tmp_path / "out.csv"
    output.write_text("older")
    assert main(["predict", "-f", str(path), "-o", str(output)]) == 2
    assert output.read_text() == "older"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["llama-8b", "out.csv", "rows.csv"]


LLAMA = {"model": "llama-3.1-8b-instruct", "class": "h100-sxm", "input_tokens": 1024, "output_tokens": 256}


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        pytest.param(
            {"class": "mi300x", "engine": "trtllm"},
            "engine: trtllm does not run on mi300x; write vllm or sglang",
            id="an engine that the accelerator has not",
        ),
        pytest.param(
            {"context_limit": 99999999},
            "context_limit: is 99,999,999, and llama-3.1-8b-instruct has a context of 131,072 tokens; write at most"
            " 131072",
            id="a context that the model has not",
        ),
        pytest.param(
            {"memory_fraction": "1.5"},
            "memory_fraction: '1.5' is out of range; write a number above 0 and up to 1",
            id="a little too much memory",
        ),
        pytest.param(
            {"memory_fraction": "90"}, "memory_fraction: '90' is not a share; write 0.9", id="memory in percent"
        ),
    ],
)
def test_a_row_that_no_engine_could_serve_says_why(tmp_path, cells, reason):
    status, (row,) = answers("predict", table(tmp_path / "rows.csv", LLAMA | cells))
    assert (status, row["ttft_ms"], row["reason"]) == (1, "", reason)


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        pytest.param({"ep": "0"}, "ep 0 read as 1: no expert parallelism", id="no experts"),
        pytest.param(
            {"engine_version": "banana"},
            "engine_version 'banana' has no number such as 0.32.1 and counts as unknown",
            id="a version without a number",
        ),
    ],
)
def test_what_is_read_in_a_way_of_its_own_is_noted(tmp_path, cells, note):
    status, (row,) = answers("predict", table(tmp_path / "rows.csv", LLAMA | {"concurrency": 1} | cells))
    assert (status, row["reason"].split("; ")[0][:21], row["reason"].split("; ")[1]) == (
        0,
        "1 request in flight, ",
        note,
    )


def test_an_overload_has_a_time_only_inside_the_run_that_it_is_of(tmp_path):
    rows = [LLAMA | {"request_rate": rate} for rate in (1, 30, 100_000)]
    status, (calm, over, far) = answers("predict", table(tmp_path / "rows.csv", *rows))
    assert status == 0
    assert [row["saturated"] for row in (calm, over, far)] == ["false", "true", "true"]
    assert "without bound" not in calm["reason"]
    assert "the queue grows without bound; TTFT is that of a run of 300 s" in over["reason"]
    assert "the queue grows without bound; there is no TTFT inside a run of 300 s" in far["reason"]
    assert 0 < float(over["ttft_ms"]) <= 300_000
    assert far["ttft_ms"] == ""
    assert float(far["tpot_ms"]) > 0


def test_a_crowded_closed_loop_keeps_its_time(tmp_path):
    _, (row,) = answers("predict", table(tmp_path / "rows.csv", LLAMA | {"concurrency": 100_000}))
    assert float(row["ttft_ms"]) > 300_000
