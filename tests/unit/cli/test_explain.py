"""`modelfleet explain`, as a user runs it: with a kubectl of the test's own on the PATH, or on a saved object."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_tables import Captured
from modelfleet.cli.explain import lines
from modelfleet.cli.main import main

PREDICTED = {
    "ttft": "420ms",
    "tpot": "31ms",
    "concurrency": "12",
    "kvCacheTokens": 456000,
    "kneeRequestsPerSecond": "3.7",
    "kneeBound": "ttft",
    "uncertainty": "22",
    "source": "predicted",
}
OBJECT: dict[str, Any] = {
    "apiVersion": "modelfleet.dev/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"name": "chat", "namespace": "team", "generation": 3},
    "spec": {},
    "status": {
        "observedGeneration": 3,
        "conditions": [
            {"type": "Planned", "status": "True", "reason": "PlanPinned", "message": "tp4 on h100-sxm"},
            {"type": "Placed", "status": "False", "reason": "NoRoom", "message": "4 accelerators are missing"},
        ],
        "plan": {
            "revision": "1a2b3c4d",
            "pools": [
                {
                    "role": "Serve",
                    "class": "h100-sxm",
                    "layout": "tp4",
                    "acceleratorsPerReplica": 4,
                    "replicas": 3,
                    "quantization": {"weights": "fp8", "kvCache": "bf16"},
                    "predicted": PREDICTED,
                }
            ],
            "reasons": [{"check": "Sharding", "sentence": "131 GiB of weights do not fit one accelerator"}],
            "rejected": [{"class": "h100-sxm", "layout": "tp1", "check": "Memory", "sentence": "it does not fit"}],
        },
        "cost": {"currency": "USD", "perHour": "82.56", "perMillionTokens": "1.1", "sentence": "the API is dearer"},
        "scaling": {
            "lastDecision": {
                "from": 2,
                "to": 3,
                "reason": "BelowMinimum",
                "detail": "minReplicas is 3",
                "bound": "minReplicas",
                "at": "2026-01-02T03:04:05Z",
            }
        },
    },
}


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a kubectl on the PATH that notes its arguments, and answers or refuses."""

    def put(answer: str = "", refusal: str = "") -> Path:
        noted = tmp_path / "arguments"
        script = f"""#!{sys.executable}
import sys
open({str(noted)!r}, "a").write("\\n".join(sys.argv[1:]) + "\\n")
print({answer!r})
print({refusal!r}, file=sys.stderr)
sys.exit({1 if refusal else 0})
"""
        (tmp_path / "kubectl").write_text(script)
        (tmp_path / "kubectl").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return noted

    return put


def explain(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    status = main(["explain", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_live_object_is_asked_of_kubectl_in_its_namespace(kubectl, capsys: Captured):
    noted = kubectl(json.dumps(OBJECT))
    status, out, err = explain(capsys, "chat", "-n", "team", "--context", "prod")
    assert (status, err) == (0, "")
    asked = noted.read_text().splitlines()
    assert asked[:2] == ["get", "modeldeployments.modelfleet.dev"]
    at = asked.index("chat")
    assert asked[at - 3 : at] == ["--namespace=team", "--context=prod", "--"]
    assert asked[-4:] == ["--namespace=team", "--context=prod", "--", "chat-state"]
    assert out.startswith("chat in team\n")


@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param("Placed     False   NoRoom      4 accelerators are missing", id="conditions"),
        pytest.param("Serve: 3 × tp4 on h100-sxm, 4 accelerators a replica; weights fp8, KV cache bf16", id="the plan"),
        pytest.param("predicted: TTFT 420ms and TPOT 31ms for the wanted share, ± 22 %", id="what is predicted"),
        pytest.param("  - Sharding: 131 GiB of weights do not fit one accelerator", id="why"),
        pytest.param("h100-sxm  tp1     Memory  it does not fit", id="what was rejected"),
        pytest.param("82.56 USD an hour; 1.1 USD a million tokens; the API is dearer", id="the cost"),
        pytest.param(
            "2 → 3 at 2026-01-02T03:04:05Z: BelowMinimum, minReplicas is 3 (minReplicas)", id="the last change"
        ),
        pytest.param(
            "The plan is pinned: it changes when the spec or a class that it names changes", id="what changes it"
        ),
    ],
)
def test_the_explanation_has(sentence, tmp_path, capsys: Captured):
    (tmp_path / "chat.json").write_text(json.dumps(OBJECT))
    status, out, _ = explain(capsys, "-f", str(tmp_path / "chat.json"))
    assert status == 0
    assert sentence in out


def test_the_remedy_of_what_is_not_true_is_told():
    changed = OBJECT | {"status": {"conditions": [{"type": "Planned", "status": "False", "reason": "ClassNotFound"}]}}
    from modelfleet.api.reasons import Reason

    told = " ".join(" ".join(lines(changed)).split())
    assert f"- ClassNotFound: {Reason('ClassNotFound').remedy}" in told


def test_a_spec_that_was_changed_since_is_said():
    changed = OBJECT | {"metadata": {"name": "chat", "generation": 4}}
    assert "The spec has changed since" in "\n".join(lines(changed))


def test_an_object_that_no_operator_saw_is_said():
    assert "has no status" in "\n".join(lines({"metadata": {"name": "chat"}}))


@pytest.mark.parametrize(
    ("answer", "refusal", "sentence"),
    [
        pytest.param("", 'Error from server (NotFound): "chat" not found', "kubectl refused: Error from", id="refused"),
        pytest.param("no JSON", "", "something that is not JSON", id="no JSON"),
        pytest.param("[]", "", "something that is not an object", id="no object"),
    ],
)
def test_a_kubectl_that_does_not_answer(answer, refusal, sentence, kubectl, capsys: Captured):
    kubectl(answer, refusal)
    status, out, err = explain(capsys, "chat")
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_without_kubectl_the_way_out_is_said(tmp_path, monkeypatch, capsys: Captured):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, _, err = explain(capsys, "chat")
    assert status == 2
    assert "kubectl is not on the PATH; install it, or give a saved object with -f" in err


@pytest.mark.parametrize("arguments", [[], ["chat", "-f", "chat.yaml"]], ids=["neither", "both"])
def test_either_a_name_or_a_file(arguments, capsys: Captured):
    status, _, err = explain(capsys, *arguments)
    assert status == 2
    assert "give the name of a ModelDeployment, or a saved one with -f" in err


def test_a_file_without_a_deployment(tmp_path, capsys: Captured):
    (tmp_path / "other.yaml").write_text("apiVersion: v1\nkind: ConfigMap\n")
    status, _, err = explain(capsys, "-f", str(tmp_path / "other.yaml"))
    assert (status, "it holds no ModelDeployment" in err) == (2, True)


LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=6)
STATUS_KEYS = st.sampled_from(
    ["conditions", "plan", "pools", "predicted", "reasons", "type", "cost", "scaling", "layout"]
)
JSON = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(STATUS_KEYS, inner, max_size=3))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(status=JSON, metadata=JSON)
def test_a_status_of_any_shape_is_explained_as_far_as_it_goes(status, metadata):
    assert list(lines({"metadata": metadata, "status": status}))
