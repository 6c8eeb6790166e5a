"""`modelfleet simulate`: its document, its table, and a sentence for each question that cannot be read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from modelfleet.cli.main import main
from modelfleet.sim.contest import OURS, STATIC

MODEL = ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--class", "l40s"]
SHORT = [
    "--shape",
    "step:1-4,2m",
    "--hours",
    "0.08",
    "--lengths",
    "2000:150",
    "--max-replicas",
    "6",
    "--cold-start",
    "1m",
]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    rows = "".join(f"2023-11-16 18:{at // 60:02}:{at % 60:02}.5,1500,100\n" for at in range(120))
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    return path


def document(capsys: Captured, *arguments: str) -> dict[str, Any]:
    assert main(["simulate", *MODEL, *arguments, "-o", "json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    found: dict[str, Any] = json.loads(said.out)
    return found


def test_json_has_the_world_and_a_curve_for_each_policy(capsys: Captured) -> None:
    found = document(capsys, *SHORT, "--policy", f"{OURS},hpa-queue,{STATIC}", "--seeds", "2")

    assert found["apiVersion"] == "modelfleet.dev/simulation/v1alpha1"
    assert found["world"]["share"] == 0.99
    assert found["world"]["coldStart_s"] == 60
    assert [one["policy"] for one in found["policies"]] == [OURS, "hpa-queue", STATIC]
    assert [one["causal"] for one in found["policies"]] == [True, True, False]
    for policy in found["policies"]:
        assert {point["seed"] for point in policy["points"]} == {1, 2}
        assert all(0 <= point["share"] <= 1 and point["acceleratorHours"] > 0 for point in policy["points"])
        assert policy["asShipped"]["share"] <= 1
    named = [note for note in found["world"]["notes"] if note.startswith("however strict, hpa-queue (")]
    assert [note.split(" on ")[1][:6] for note in named] == ["seed 1", "seed 2"]
    assert found["policies"][1]["acceleratorHoursAtOurShare"] is None


def test_a_trace_file_is_run_and_the_same_seed_prints_the_same(capsys: Captured, trace: Path) -> None:
    arguments = ["--trace", str(trace), "--policy", f"{OURS},{STATIC}"]
    first, second = (document(capsys, *arguments) for _ in range(2))

    assert first == second
    assert first["world"]["requests"] == 120
    assert first["world"]["duration_s"] == 119


def test_the_table_has_a_line_for_each_policy(capsys: Captured, trace: Path) -> None:
    assert main(["simulate", *MODEL, "--trace", str(trace), "--policy", "kpa,keda"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("120 requests in 0.03 h; one replica takes ")
    assert [line.split()[0] for line in lines if line.startswith("k")] == ["kpa", "keda"]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        pytest.param(["--trace", "/no/such"], "/no/such: No such file or directory", id="no file"),
        pytest.param([*SHORT, "--policy", "best"], "--policy: 'best' is none of all, modelfleet, ", id="no policy"),
        pytest.param([*SHORT, "--policy", ""], "--policy: '' is none of all", id="an empty policy"),
        pytest.param([*SHORT, "--class", "abacus"], "--class: 'abacus' is not in the catalogue", id="no class"),
        pytest.param([*SHORT, "--model", "my/own"], "--model: 'my/own' is not a model known by name", id="no model"),
        pytest.param([*SHORT, "--tensor", "3"], "--tensor: 32 attention heads", id="heads that cannot be shared out"),
        pytest.param([*SHORT, "--ttft", "1ms"], "even one at a time; relax the promise", id="a promise out of reach"),
        pytest.param([*SHORT, "--ttft", "-1s"], "--ttft: ", id="a negative time"),
        pytest.param([*SHORT, "--share", "200%"], "--share: a share is a percentage", id="no share"),
        pytest.param([*SHORT, "--seeds", "0"], "--seeds: 0 must be from 1 to 100", id="no seed"),
        pytest.param([*SHORT, "--max-replicas", "0"], "--max-replicas: '0' must be a whole number", id="no replica"),
        pytest.param(
            [*SHORT, "--min-replicas", "9"], "--max-replicas: 6 is below --min-replicas (9)", id="bounds crossed"
        ),
        pytest.param([*SHORT, "--capacity-error", "x"], "--capacity-error: 'x' must be a number", id="no error"),
        pytest.param([*SHORT, "--scale", "50"], "--scale: it is of a --trace", id="a trace's scale"),
        pytest.param([*SHORT, "--series", "foo"], "--series: it is of a --trace", id="a trace's series"),
        pytest.param([*SHORT, "--from-hour", "1"], "--from-hour: it is of a --trace", id="a trace's hour"),
        pytest.param([*SHORT, "--lengths-file", "f"], "--lengths-file: it is of a --trace", id="a trace's lengths"),
        pytest.param(["--trace", "f", "--spread", "1"], "--spread: it is of a --shape", id="a shape's spread"),
        pytest.param(["--trace", "f", "--lengths", "1:1"], "--lengths: it is of a --shape", id="a shape's lengths"),
        pytest.param([*SHORT, "--lengths", ""], "--lengths: '' must be a whole number", id="no lengths"),
        pytest.param(
            [*SHORT, "--cold-start", "node=1s,fetch=1s,load=30s,load=1s"], "--cold-start: ", id="a phase given twice"
        ),
        pytest.param([*SHORT, "--lengths", "10"], "--lengths: '' must be a whole number", id="half of the lengths"),
        pytest.param(
            [*SHORT, "--lengths", "900000:10"], "--tensor: meta-llama/Llama-3.1-8B-Instruct does not fit l40s",
            id="requests longer than any cache",
        ),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(arguments: list[str], sentence: str, capsys: Captured) -> None:
    assert main(["simulate", *MODEL, *arguments]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("modelfleet: ")
    assert said.err.count("\n") == 1
    assert sentence in said.err


def test_a_cold_start_is_given_by_its_phases_and_the_supply_of_nodes_is_a_bound(capsys: Captured) -> None:
    phases = [*SHORT, "--cold-start", "node=20s,fetch=25s,load=15s", "--supply", "2"]
    found = document(capsys, *phases, "--policy", OURS)

    assert found["world"]["coldStart_s"] == 60
    assert found["world"]["warmStart_s"] == 15
    assert found["world"]["supplyReplicas"] == 2
    assert all(point["acceleratorHours"] <= 2 * 0.08 + 0.001 for point in found["policies"][0]["points"])


def test_phases_that_are_not_the_three_are_refused_in_one_sentence(capsys: Captured) -> None:
    assert main(["simulate", *MODEL, *SHORT, "--cold-start", "node=20s,load=15s"]) == 2
    assert capsys.readouterr().err == (
        "modelfleet: --cold-start: 'node=20s,load=15s' must be one time, or node=TIME,fetch=TIME,load=TIME\n"
    )


def test_the_page_stands_alone_and_draws_the_policies_and_the_replicas_over_time(capsys: Captured) -> None:
    assert main(["simulate", *MODEL, *SHORT, "--policy", f"{OURS},kpa,{STATIC}", "-o", "html"]) == 0
    page = capsys.readouterr().out

    assert page.startswith("<!doctype html>")
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    for name in (OURS, "kpa", STATIC):
        assert f'<td class="name">{name}' in page
    assert page.count("<svg") == 2
    assert all(
        0 <= float(each) <= 100 for pair in re.findall(r'points="([^"]*)"', page) for each in re.split("[ ,]", pair)
    )


def test_the_page_without_our_policy_has_no_replicas_over_time(capsys: Captured) -> None:
    assert main(["simulate", *MODEL, *SHORT, "--policy", "kpa", "-o", "html"]) == 0
    page = capsys.readouterr().out

    assert page.count("<svg") == 1
    assert 'id="course"' not in page


def test_all_among_names_is_all(capsys: Captured) -> None:
    found = document(capsys, *SHORT, "--policy", f"all,{STATIC}")

    assert {"modelfleet", "static", "oracle", "kpa"} <= {one["policy"] for one in found["policies"]}


def test_a_page_of_a_trace_that_ends_before_the_first_decision(tmp_path: Path, capsys: Captured) -> None:
    trace = tmp_path / "two.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n0,10,2\n1,10,2\n")

    assert main(["simulate", *MODEL, "--trace", str(trace), "--policy", OURS, "-o", "html"]) == 0
    assert "<html" in capsys.readouterr().out
