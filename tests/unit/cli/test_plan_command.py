"""`modelfleet plan` on a bare model, as a user runs it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_tables import Captured, model
from modelfleet.cli.main import main
from modelfleet.cli.plan_json import schema, schema_text

SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "plan.schema.json"
PROMISE = {"--class": "h100-sxm", "--ttft": "4s", "--tpot": "300ms", "--load": "2", "--lengths": "900,4000:250,800"}
IMPOSSIBLE = {"tpot": "1ms", "ttft": "1ms"}


def plan(capsys: Captured, *more: str, **changes: Any) -> tuple[int, str, str]:
    """Status, output and errors; `changes` are flags without dashes, None takes one away."""
    flags = {"--model": "Llama-3.1-8B-Instruct", **PROMISE}
    flags |= {f"--{flag.replace('_', '-')}": value for flag, value in changes.items()}
    given = [part for flag, value in flags.items() if value is not None for part in (flag, value)]
    status = main(["plan", *given, *more])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_table_has_the_choice_the_reasons_the_figures_and_the_memory(capsys: Captured):
    status, out, err = plan(capsys)
    assert (status, err) == (0, "")
    title, verdict = out.splitlines()[:2]
    assert title == "Llama-3.1-8B-Instruct"
    assert re.fullmatch(r"  h100-sxm: \d+ replicas? of tp\d+, \d+ accelerators?, [\d.]+ USD an hour\.", verdict)
    for heading in ("Why", "Figures", "Memory of one accelerator", "Quantization and speculation", "Engine settings"):
        assert f"\n{heading}\n" in out
    assert re.search(r"TTFT +\S+ m?s +for 99 %; the promise is 4 s", out)
    assert re.search(r"│█+.*░+ *│ [\d.]+ GiB", out)
    assert "± " in out
    assert max(map(len, out.splitlines())) <= 110


def test_a_terminal_without_the_marks_shows_question_marks():
    flags = [part for pair in PROMISE.items() for part in pair]
    command = [sys.executable, "-c", "import sys; from modelfleet.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    command += ["plan", "--model", "Llama-3.1-8B-Instruct", *flags]
    done = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "latin-1"}, check=True)
    assert b"?????" in done.stdout
    assert done.stderr == b""


def test_a_config_file_is_planned_like_a_known_name(capsys: Captured, tmp_path):
    folder = model(tmp_path / "llama-8b")
    known = plan(capsys, "-o", "json")[1]
    as_model = plan(capsys, "-o", "json", model=folder)[1]
    as_file = plan(capsys, "-o", "json", "-f", f"{folder}/config.json", model=None)[1]
    assert json.loads(as_file)["name"] == "llama-8b"
    assert json.loads(as_file)["answer"] == json.loads(as_model)["answer"]
    chosen = [json.loads(text)["answer"]["plans"][0] for text in (known, as_file)]
    assert chosen[0]["pools"][0]["layout"] == chosen[1]["pools"][0]["layout"]


@pytest.mark.parametrize("flags", [{}, IMPOSSIBLE], ids=["a plan", "no plan"])
def test_json_and_yaml_say_the_same_and_keep_the_schema(flags, capsys: Captured):
    status, text, _ = plan(capsys, "-o", "json", **flags)
    assert status == (1 if flags else 0)
    document = json.loads(text)
    jsonschema.validate(document, schema(), cls=jsonschema.Draft202012Validator)
    assert yaml.safe_load(plan(capsys, "-o", "yaml", **flags)[1]) == document


def test_the_schema_in_the_docs_is_the_one_of_the_code(capsys: Captured):
    assert main(["plan", "--schema"]) == 0
    assert capsys.readouterr().out == schema_text() == SCHEMA.read_text(), "run `make generate`, then read the diff"
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_schema_refuses_what_the_code_does_not_write(capsys: Captured):
    document = json.loads(plan(capsys, "-o", "json")[1])
    del document["answer"]["plans"][0]["score"]
    with pytest.raises(jsonschema.ValidationError, match="'score' is a required property"):
        jsonschema.validate(document, schema(), cls=jsonschema.Draft202012Validator)


def test_prose_and_a_page_come_from_the_same_answer(capsys: Captured):
    layout = json.loads(plan(capsys, "-o", "json")[1])["answer"]["plans"][0]["pools"][0]["layout"]
    assert f" of {layout} on h100-sxm" in plan(capsys, "-o", "prose")[1]
    page = plan(capsys, "-o", "html")[1]
    assert page.startswith("<!doctype html>")
    assert f">{layout}<" in page


def test_a_promise_that_nothing_keeps_is_said_with_what_would_work(capsys: Captured):
    status, out, _ = plan(capsys, **IMPOSSIBLE)
    assert status == 1
    assert out.splitlines()[1].startswith("  Nothing keeps the promise: ")
    assert "\nWhat would work near this\n  - looser objective: with --t" in out


def test_several_classes_are_compared(capsys: Captured):
    status, out, _ = plan(capsys, "--class", "l40s,a100-80")
    assert status == 0
    assert out.index("What each class would take") < out.index("\n  l40s ")
    assert "\n  a100-80 " in out


def test_weights_that_are_offered_are_chosen_by_the_standard_of_the_class(capsys: Captured):
    document = json.loads(plan(capsys, "-o", "json", weights="bf16,fp8")[1])
    assert document["answer"]["plans"][0]["quantization"]["weights"] == "fp8"


NODES = {
    "short list": "- {class: h100-sxm, count: 2, accelerators: 8, free: 0}\n",
    "kubectl": json.dumps(
        {
            "kind": "List",
            "items": [
                {
                    "kind": "Node",
                    "metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
                    "spec": {"unschedulable": True},
                    "status": {"allocatable": {"nvidia.com/gpu": "8"}},
                }
            ],
        }
    ),
}


@pytest.mark.parametrize("text", NODES.values(), ids=NODES)
def test_nodes_without_room_are_a_shortfall(text, capsys: Captured, tmp_path):
    (tmp_path / "nodes").write_text(text)
    document = json.loads(plan(capsys, "-o", "json", nodes=str(tmp_path / "nodes"))[1])["answer"]
    chosen = document["plans"][0] if document["plans"] else None
    assert chosen is None or chosen["shortfall"] > 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        pytest.param({"ttft": None}, "a bare model needs a promise, and --ttft is not given", id="no ttft"),
        pytest.param({"class": None}, "and --class is not given", id="no class"),
        pytest.param({"ttft": None, "tpot": None}, "and --ttft and --tpot are not given", id="no times"),
        pytest.param({"ttft": "-1s"}, "--ttft: a duration is whole numbers", id="a negative time"),
        pytest.param({"engine_version": "banana"}, "--engine-version: an engine version is", id="a version of words"),
        pytest.param({"lengths": "900,800:250"}, "--lengths: p95 of the prompts is 800, below", id="p95 below p50"),
        pytest.param({"load": None}, "--load: give either --load", id="no load"),
        pytest.param({"concurrency": "4"}, "--load: give either --load", id="two loads"),
        pytest.param({"ttft": "500"}, "--ttft: ", id="a time without a unit"),
        pytest.param({"tpot": "0s"}, "--tpot: ", id="a time of zero"),
        pytest.param({"share": "101%"}, "--share: ", id="more than all"),
        pytest.param({"load": "-1"}, "--load: ", id="a negative load"),
        pytest.param({"load": None, "concurrency": "0"}, "--concurrency: must be a whole number", id="nobody"),
        pytest.param({"lengths": "900"}, "--lengths: write p50,p95:p50,p95", id="no output lengths"),
        pytest.param({"lengths": "0:10"}, "--lengths: write p50,p95:p50,p95", id="no input"),
        pytest.param({"class": "h100"}, "--class: 'h100' is not in the catalogue; did you mean", id="unknown class"),
        pytest.param({"model": "no/such-model"}, "is not a model known by name", id="an unknown model"),
        pytest.param({"model": None}, "give a file with a ModelDeployment, a config.json or --model", id="no model"),
        pytest.param({"weights": "fp7"}, "--weights: 'fp7' is none of bf16", id="unknown weights"),
        pytest.param({"nodes": "gone.yaml"}, "gone.yaml: no such file or directory", id="no nodes file"),
    ],
)
def test_a_question_that_cannot_be_asked_is_said_in_one_sentence(changes, sentence, capsys: Captured):
    status, out, err = plan(capsys, **changes)
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("- {class: h100-sxm, gpus: 8}", "[0].gpus is unknown; there are class, count", id="unknown key"),
        pytest.param("- {count: 2}", "[0] needs a class", id="no class"),
        pytest.param("- {class: l4, count: many}", "[0].count is 'many'; write a whole number", id="no number"),
        pytest.param("- {class: l4, accelerators: 2, free: 3}", "[0].free is 3, more than the node's 2", id="too many"),
        pytest.param("a: 1", "it holds no nodes", id="no nodes"),
        pytest.param("a: [", "it is not YAML", id="not YAML"),
    ],
)
def test_nodes_that_cannot_be_read(text, sentence, capsys: Captured, tmp_path):
    (tmp_path / "nodes").write_text(text)
    status, _, err = plan(capsys, nodes=str(tmp_path / "nodes"))
    assert status == 2
    assert sentence in err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("[1]", "it holds neither a ModelDeployment nor a config.json", id="a list"),
        pytest.param("a: 1", "it is neither an object of modelfleet.dev", id="something else"),
        pytest.param('{"model_type": "llama"}', "num_hidden_layers is missing", id="a config.json without sizes"),
        pytest.param("apiVersion: v1\nkind: ConfigMap\n", "give a file with a ModelDeployment", id="a foreign object"),
    ],
)
def test_a_file_that_cannot_be_planned(text, sentence, capsys: Captured, tmp_path):
    (tmp_path / "file").write_text(text)
    status, _, err = plan(capsys, "-f", str(tmp_path / "file"), model=None)
    assert status == 2
    assert sentence in err


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(raw=st.binary(max_size=120) | st.text(max_size=80).map(str.encode))
def test_any_bytes_are_planned_or_refused_in_one_sentence(raw, capsys: Captured, tmp_path):
    (tmp_path / "file").write_bytes(raw)
    for more in (("-f", str(tmp_path / "file")), ("--nodes", str(tmp_path / "file"))):
        status, _, err = plan(capsys, *more, model=None if "-f" in more else "Llama-3.1-8B-Instruct")
        assert status in (0, 1, 2)
        assert err.count("\n") == (1 if status == 2 else 0)


KEY = st.sampled_from(["num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "intermediate_size"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(key=KEY, value=st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5))
def test_any_size_in_a_config_is_planned_or_refused_in_one_sentence(key, value, capsys: Captured, tmp_path):
    from cli_tables import DENSE

    folder = model(tmp_path / "odd", DENSE | {key: value})
    status, _, err = plan(capsys, model=folder)
    assert status in (0, 1, 2)
    assert err.count("\n") == (1 if status == 2 else 0)


def test_weights_that_need_evidence_say_that_a_manifest_can_state_it(capsys: Captured):
    status, out, _ = plan(capsys, weights="int4")
    assert status == 1
    assert "spec.quantization.evidence of a manifest (plan -f FILE; no flag states it) has no" in " ".join(out.split())


def test_a_context_past_the_models_is_told_with_its_flag_once(capsys: Captured):
    status, out, _ = plan(capsys, max_context="500000")
    assert status == 1
    assert out.splitlines()[1].startswith("  --max-context is 500,000, and Llama-3.1-8B-Instruct has a context")


def test_one_request_in_flight_is_one(capsys: Captured):
    _, out, _ = plan(capsys, "-o", "prose", load=None, concurrency="1")
    assert "1 request in flight" in out
    assert "1 requests" not in out
