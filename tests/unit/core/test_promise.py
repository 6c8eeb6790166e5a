"""The promise that reaches running workers: what it says, when it is another one, that it restarts nothing."""

import json
from typing import Any

import pytest

from builders import Fleet, deployment
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.parse import parse_deployment
from modelfleet.core.plan import read
from modelfleet.core.promise import digest, promise
from modelfleet.core.render.metadata import Owner
from modelfleet.core.render.pod import pod
from modelfleet_worker.promise import parse_promise


def with_objective(**change: Any) -> dict[str, Any]:
    one = deployment()
    one["spec"]["objectives"][0] |= change
    return one


def parsed(raw: dict[str, Any]) -> ModelDeployment:
    found = parse_deployment(raw)
    assert isinstance(found, ModelDeployment)
    return found


LENGTHS = {"inputTokens": {"p50": 900, "p95": 4000, "max": 5000}, "outputTokens": {"p50": 250, "p95": 800}}


def test_a_worker_reads_what_the_operator_writes() -> None:
    said = promise(parsed(with_objective(ttft="1500ms", tpot="45ms", lengths=LENGTHS)))
    (objective,) = parse_promise(json.dumps(said)).objectives
    assert (objective.ttft_s, objective.tpot_s, objective.input_max_tokens) == (1.5, 0.045, 5000)
    assert (objective.input_edges, objective.output_edges) == ((900, 1125, 4000, 5000), (250, 313, 800, 1000))


def test_without_a_longest_prompt_the_context_is_the_longest() -> None:
    one = deployment()
    one["spec"]["model"]["maxContextTokens"] = 4096
    assert promise(parsed(one))["objectives"][0]["inputMaxTokens"] == 4096


@pytest.mark.parametrize(
    ("change", "same"),
    [
        pytest.param({"share": "90%"}, True, id="another share is judged from the same counts"),
        pytest.param({"load": {"requestsPerSecond": 77}}, True, id="so is another load"),
        pytest.param({"ttft": "9s"}, False, id="another ttft is another promise"),
        pytest.param({"tpot": "9s"}, False, id="another tpot too"),
        pytest.param({"name": "other"}, False, id="another name too, since counts carry it"),
        pytest.param({"lengths": LENGTHS}, False, id="other lengths too, since windows are judged at them"),
    ],
)
def test_the_digest_names_what_a_request_is_judged_by(change: dict[str, Any], same: bool) -> None:
    assert (digest(parsed(with_objective(**change))) == digest(parsed(deployment()))) is same


def test_a_changed_promise_reaches_the_workers_and_restarts_none() -> None:
    fleet = Fleet()
    fleet.settle()
    pods = {key: item["metadata"]["uid"] for key, item in fleet.objects.items() if key[0] == "Pod"}
    fleet.deployment["spec"]["objectives"][0]["ttft"] = "77s"
    fleet.settle()
    assert {key: item["metadata"]["uid"] for key, item in fleet.objects.items() if key[0] == "Pod"} == pods
    assert '"ttft_s": 77.0' in fleet.objects["ConfigMap", "chat-promise"]["data"]["promise.json"]


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        pytest.param({"data": {"promise.json": "{}"}}, ["Apply"], id="an edited promise is put back"),
        pytest.param({"data": {"promise.json": "{}"}, "immutable": True}, ["Delete", "Create"], id="a frozen one too"),
        pytest.param({"metadata": {"deletionTimestamp": "now"}}, [], id="one that goes is waited for"),
    ],
)
def test_an_edited_promise(edit: dict[str, Any], told: list[str]) -> None:
    fleet = Fleet()
    fleet.settle()
    stored = fleet.objects["ConfigMap", "chat-promise"]
    stored["metadata"] |= edit.get("metadata", {})
    stored |= {key: part for key, part in edit.items() if key != "metadata"}
    assert [type(effect).__name__ for effect in fleet.reconcile().effects] == told


def test_keys_of_others_in_the_promise_are_left_alone() -> None:
    fleet = Fleet()
    fleet.settle()
    fleet.objects["ConfigMap", "chat-promise"]["data"]["note"] = "mine"
    assert fleet.reconcile().effects == ()


def test_a_promise_of_somebody_else_is_not_touched() -> None:
    fleet = Fleet()
    fleet.objects["ConfigMap", "chat-promise"] = {
        "metadata": {"name": "chat-promise", "uid": "other", "labels": {"modelfleet.dev/deployment": "chat"}}
    }
    fleet.settle()
    assert "data" not in fleet.objects["ConfigMap", "chat-promise"]


def test_a_pod_of_a_plan_from_before_the_promise_is_rendered_as_it_was() -> None:
    fleet = Fleet()
    fleet.settle()
    stored = next(item for key, item in fleet.objects.items() if key[0] == "ControllerRevision")
    before = read({key: part for key, part in stored["data"]["plan"].items() if key != "promise"})
    assert before is not None
    volumes = pod(Owner("chat", "team", "uid"), "1a2b3c4d", 0, before)["spec"]["volumes"]
    assert [volume["name"] for volume in volumes] == ["plan", "model", "tmp", "run", "shm"]


def test_an_excused_first_caller_and_the_activators_reach_the_worker_only_where_it_goes_to_zero() -> None:
    one = with_objective(firstCaller="Excused")
    assert "callers" not in promise(parsed(one), ("ab" * 32,))
    one["spec"]["scaling"] |= {"minReplicas": 0, "toZero": {"firstCallerWaits": "5m"}}
    read_back = parse_promise(json.dumps(promise(parsed(one), ("ab" * 32,))))

    assert read_back.callers == {"ab" * 32}
    assert read_back.objectives[0].first_caller_waits_s == 300.0
