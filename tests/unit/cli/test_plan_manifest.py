"""`modelfleet plan -f` on a ModelDeployment, as a user runs it; no cluster is asked."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api_objects import ABSENT, changed
from cli_tables import Captured, model
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.parse import parse_class, strict_faults
from modelfleet.cli.catalog import manifest
from modelfleet.cli.main import main
from modelfleet.core.asking import hardware
from modelfleet.core.catalog import CATALOG

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "modelfleet.dev/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"name": "chat"},
    "spec": {
        "model": {"source": "pvc://weights/Llama-3.1-8B-Instruct", "maxContextTokens": 16384},
        "objectives": [
            {
                "name": "interactive",
                "ttft": "4s",
                "tpot": "300ms",
                "share": "90%",
                "load": {"requestsPerSecond": 2},
                "lengths": {"inputTokens": {"p50": 900, "p95": 4000}, "outputTokens": {"p50": 250, "p95": 800}},
            }
        ],
        "accelerators": {"classes": ["h100-sxm"]},
        "scaling": {"minReplicas": 1, "maxReplicas": 40},
    },
}


@pytest.fixture
def plan(tmp_path: Path, capsys: Captured) -> Any:
    """Runs the command on these objects: status, the answer of -o json, and errors."""

    def run(*objects: Any, more: tuple[str, ...] = ()) -> tuple[int, Any, str]:
        path = tmp_path / "chat.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        status = main(["plan", "-f", str(path), "-o", "json", *more])
        out, err = capsys.readouterr()
        return status, json.loads(out) if out else None, err

    return run


def chosen(document: Any) -> Any:
    return document["answer"]["plans"][0]


def test_a_manifest_needs_no_class_that_the_catalogue_has(plan):
    status, document, err = plan(DEPLOYMENT)
    assert (status, err, document["name"]) == (0, "", "chat")
    assert chosen(document)["className"] == "h100-sxm"
    assert chosen(document)["pools"][0]["source"] == "pvc://weights/Llama-3.1-8B-Instruct"


def test_a_class_in_the_file_wins_over_the_catalogues(plan):
    own = manifest(CATALOG["h100-sxm"])
    own["spec"]["supplies"] = [{"name": "ours", "pricePerAcceleratorHour": "1.25", "currency": "EUR"}]
    _, document, _ = plan(own, DEPLOYMENT)
    assert chosen(document)["currency"] == "EUR"
    assert float(chosen(document)["costPerHour"]) == 1.25 * chosen(document)["pools"][0]["replicas"] * int(
        chosen(document)["pools"][0]["layout"].removeprefix("tp")
    )


def test_classes_of_the_command_line_replace_those_of_the_spec(plan):
    _, document, _ = plan(DEPLOYMENT, more=("--class", "a100-80"))
    assert [one["className"] for one in document["answer"]["plans"]] == ["a100-80"]


def test_the_model_may_be_a_file_in_place_of_what_its_name_says(plan, tmp_path):
    own = changed(DEPLOYMENT, {"spec.model.source": "pvc://weights/our-own"})
    status, _, err = plan(own)
    assert status == 2
    assert "spec.model.source: pvc://weights/our-own is not read here; give its config.json with --model" in err
    status, document, _ = plan(own, more=("--model", model(tmp_path / "own")))
    assert status == 0
    assert chosen(document)["pools"][0]["facts"] == "own"


NODE = {
    "kind": "Node",
    "metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
    "status": {"allocatable": {"nvidia.com/gpu": "1"}},
}


@pytest.mark.parametrize(
    ("nodes", "short"),
    [
        pytest.param([{"class": "h100-sxm", "count": 4}], False, id="a short list with room"),
        pytest.param([{"class": "l4", "count": 4}], True, id="a short list of another class"),
        pytest.param({"kind": "List", "items": [NODE] * 3}, False, id="kubectl's nodes with room"),
        pytest.param({"kind": "List", "items": []}, True, id="no nodes"),
    ],
)
def test_nodes_bound_what_can_run(nodes, short, plan, tmp_path):
    (tmp_path / "nodes.json").write_text(json.dumps(nodes))
    _, document, _ = plan(DEPLOYMENT, more=("--nodes", str(tmp_path / "nodes.json")))
    plans = document["answer"]["plans"]
    assert (not plans or plans[0]["shortfall"] > 0) is short


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        pytest.param({"accelerators.classes": ["h100"]}, "no file has an AcceleratorClass h100", id="no class"),
        pytest.param({"scaling.minReplicas": 0}, "minReplicas: minReplicas 0 needs toZero", id="a bad value"),
        pytest.param({"scaling": ABSENT}, "spec.scaling: is required", id="a missing field"),
        pytest.param({"engine": {"args": {"block-size": "wide"}}}, "spec.engine.args: block-size", id="a bad flag"),
    ],
)
def test_a_spec_that_cannot_be_planned_is_said_with_its_field(change, sentence, plan):
    status, document, err = plan(changed(DEPLOYMENT, {f"spec.{path}": value for path, value in change.items()}))
    assert (status, document) == (2, None)
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("memory", 80, "spec.memory is 80 bytes; write the unit, as in 80Gi"),
        ("memoryBandwidth", 3350, "spec.memoryBandwidth is 3350 bytes a second; write the unit, as in 3350G"),
        ("compute.bf16", 989, "spec.compute.bf16 is 989 operations a second; write the unit, as in 989T"),
    ],
)
def test_a_figure_of_a_class_without_its_unit_is_told(field, value, sentence, plan):
    status, _, err = plan(changed(manifest(CATALOG["h100-sxm"]), {f"spec.{field}": value}), DEPLOYMENT)
    assert (status, err) == (2, f"modelfleet: AcceleratorClass h100-sxm: {sentence}\n")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"spec.acelerators": {"classes": ["h100-sxm"]}}, id="a mistyped field"),
        pytest.param({"spec.disaggregation": {"enabled": True}}, id="a block that there is not"),
        pytest.param({"apiVersion": "modelfleet.dev/v9"}, id="a version that is not served"),
        pytest.param({"spec.objectives": [{"name": "x"}]}, id="several faults"),
    ],
)
def test_what_lint_refuses_is_refused_in_the_same_words(changes, plan, tmp_path, capsys):
    status, document, err = plan(changed(DEPLOYMENT, changes))
    assert (status, document) == (2, None)
    assert main(["lint", str(tmp_path / "chat.yaml")]) == 1
    assert [line.removeprefix("modelfleet: ") for line in err.splitlines()] == capsys.readouterr().out.splitlines()


def test_a_manifest_in_json_is_refused_with_the_line_of_the_fault(plan, tmp_path, capsys):
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(changed(DEPLOYMENT, {"spec.speed": 1}), indent=1))
    assert main(["plan", "-f", str(path)]) == 2
    line = path.read_text().splitlines().index('  "speed": 1') + 1
    assert f"{path}:{line}:3: spec.speed: unknown field" in capsys.readouterr().err


def test_two_deployments_are_one_too_many(plan):
    status, _, err = plan(DEPLOYMENT, DEPLOYMENT)
    assert (status, "there is more than one ModelDeployment" in err) == (2, True)


def test_a_class_without_facts_is_said(plan):
    own = manifest(CATALOG["h100-sxm"])
    for fact in ("memory", "memoryBandwidth", "compute"):
        del own["spec"][fact]
    status, _, err = plan(own, DEPLOYMENT)
    assert (status, "AcceleratorClass h100-sxm states no memory" in err) == (2, True)


@pytest.mark.parametrize("name", CATALOG)
def test_a_class_of_the_catalogue_says_to_the_planner_what_the_catalogue_says(name):
    written = manifest(CATALOG[name])
    assert strict_faults(AcceleratorClass, written) == ()
    parsed, entry = parse_class(written), CATALOG[name].hardware
    assert isinstance(parsed, AcceleratorClass)
    read = hardware(parsed)
    assert replace(read, memory_bytes=0) == replace(entry, memory_bytes=0, price_per_hour=None)
    assert 0 <= entry.memory_bytes - read.memory_bytes < 1 << 20


LEAF = st.none() | st.booleans() | st.integers(-5, 10**12) | st.text(max_size=6)
JSON = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner))
PLACE = st.sampled_from(["model", "objectives", "accelerators", "scaling", "parallelism", "engine", "quantization"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(place=PLACE, value=JSON)
def test_any_value_in_a_spec_is_planned_or_refused_with_a_line_a_fault(place, value, plan):
    status, _, err = plan({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], place: value}})
    assert status in (0, 1, 2)
    assert bool(err) == (status == 2)
    assert all(line.startswith("modelfleet: ") for line in err.splitlines())


def test_a_status_that_an_operator_wrote_is_passed_over(plan):
    status, _, err = plan({**DEPLOYMENT, "status": {"older": True}})
    assert (status, err) == (0, "")
