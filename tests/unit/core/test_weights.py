"""Where a plan's weights come from: what they are pinned to, where pods keep them, who sees the secret."""

import json
from dataclasses import replace
from typing import Any

import pytest

from builders import SETTINGS, Raw, condition
from modelfleet.api.sources import ModelSource
from modelfleet.core.plan import Plan, read
from modelfleet.core.reconcile import plan
from planner_worlds import PlannedFleet, planned
from weight_worlds import CACHE, COMMIT, HUB_MODEL, fetching, plan_json, planned_by, report, workers

STATE = ("ConfigMap", "chat-state")


def said(fleet: PlannedFleet) -> tuple[str, str, str]:
    return condition(plan(fleet.world()).status, "Planned")


def mounts(container: Raw) -> dict[str, Raw]:
    return {mount["mountPath"]: mount for mount in container["volumeMounts"]}


def volume(pod: Raw) -> Raw:
    return next(each for each in pod["spec"]["volumes"] if each["name"] == "weights")


def test_a_branch_is_asked_for_its_commit_before_a_pod_exists():
    fleet = fetching()
    fleet.reconcile()
    assert said(fleet)[1] == "Inspecting"
    assert workers(fleet) == []
    (job,) = fleet.jobs().values()
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == [
        "modelfleet-worker",
        "inspect",
        "--endpoint=https://hub.example.com",
        "hf://org/model@main",
    ]
    assert container["envFrom"] == [{"prefix": "MODELFLEET_CREDENTIAL_", "secretRef": {"name": "hub-token"}}]
    assert [each["name"] for each in job["spec"]["template"]["spec"]["volumes"]] == ["tmp"]


def test_every_pod_of_a_plan_fetches_the_commit_that_the_branch_was():
    fleet = planned_by(fetching())
    assert said(fleet)[:2] == ("True", "PlanPinned")
    weights = plan_json(fleet)["weights"]
    assert (weights["source"], weights["revision"]) == ("hf://org/model@main", COMMIT)
    assert plan_json(fleet)["model"]["path"] == f"/models/fetched/models/{weights['key']}"
    fleet.words = report("f" * 40)
    fleet.deployment["spec"]["scaling"] |= {"mode": "Manual", "replicas": 3}
    for _ in range(3):
        fleet.reconcile()
    assert len(workers(fleet)) == 3
    assert plan_json(fleet)["weights"]["revision"] == COMMIT


def test_a_lost_state_moves_no_pod_of_a_branch_that_moved():
    fleet = planned_by(fetching())
    before = workers(fleet)
    del fleet.objects[STATE]
    fleet.words = report("f" * 40)
    fleet.reconcile()
    assert (fleet.jobs(), workers(fleet)) == ({}, before)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(f"hf://org/model@{COMMIT}", id="a whole commit"),
        pytest.param(f"oci://ghcr.io/org/model@sha256:{'a' * 64}", id="a digest"),
    ],
)
def test_what_cannot_change_needs_no_job(source: str):
    fleet = fetching({"source": source})
    fleet.reconcile()
    assert fleet.jobs() == {}
    assert plan_json(fleet)["weights"]["revision"] == ModelSource(source).revision


def test_only_the_container_that_fetches_sees_the_secret():
    (pod,) = workers(planned_by(fetching()))
    (fetch,) = pod["spec"]["initContainers"]
    assert fetch["envFrom"][0]["secretRef"] == {"name": "hub-token"}
    assert "envFrom" not in pod["spec"]["containers"][0]
    assert "hub-token" not in json.dumps(pod["spec"]["containers"])
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert fetch["securityContext"] == pod["spec"]["containers"][0]["securityContext"]


def test_without_a_cache_each_pod_fetches_for_itself_and_the_plan_says_so():
    fleet = planned_by(fetching())
    (pod,) = workers(fleet)
    assert volume(pod) == {"name": "weights", "emptyDir": {}}
    assert said(fleet)[2].endswith(
        "each pod fetches the weights for itself, because spec.model.cache names no claim and the class grants no"
        " nodeCache"
    )


def test_a_granted_cache_is_mounted_for_the_namespace_alone():
    fleet = planned_by(fetching(cache=CACHE))
    (pod,) = workers(fleet)
    assert volume(pod)["hostPath"] == {"path": "/var/lib/modelfleet/weights", "type": "DirectoryOrCreate"}
    fetch, worker = mounts(pod["spec"]["initContainers"][0]), mounts(pod["spec"]["containers"][0])
    assert fetch["/models/fetched"]["subPath"] == "team"
    assert "readOnly" not in fetch["/models/fetched"]
    assert (worker["/models/fetched"]["subPath"], worker["/models/fetched"]["readOnly"]) == ("team", True)
    assert worker["/models/use"]["subPath"] == "team/use"
    order = plan_json(fleet)["weights"]
    assert (order["sizeBytes"], order["maxAge_s"], order["shared"]) == (500 * 2**30, 86400, True)
    assert "fetches the weights for itself" not in said(fleet)[2]


def test_a_claim_is_taken_before_the_granted_cache():
    fleet = planned_by(fetching(HUB_MODEL | {"cache": {"claimName": "big"}}, cache=CACHE))
    (pod,) = workers(fleet)
    assert volume(pod)["persistentVolumeClaim"] == {"claimName": "big"}
    assert plan_json(fleet)["weights"]["root"] == "/models/fetched/modelfleet-weights"


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        pytest.param(CACHE, CACHE | {"size": "1Ti", "maxAge": "1h"}, True, id="not its size or age"),
        pytest.param(CACHE, CACHE | {"path": "/mnt/weights"}, False, id="another path"),
        pytest.param(CACHE, None, False, id="a grant that is taken back"),
    ],
)
def test_what_of_a_grant_is_another_revision(before: Raw, after: Raw | None, same: bool):
    fleet = planned_by(fetching(cache=before))
    revision = fleet.deployment["status"]["plan"]["revision"]
    fleet.classes = fetching(cache=after).classes
    for _ in range(3):
        fleet.reconcile()
        fleet.run_jobs()
    assert (fleet.deployment["status"]["plan"]["revision"] == revision) is same


def test_a_grant_moves_no_pod_of_a_model_on_a_claim():
    fleet = fetching({"source": "pvc://models/tiny"})
    fleet.reconcile()
    revision = fleet.deployment["status"]["plan"]["revision"]
    fleet.classes = fetching(cache=CACHE).classes
    fleet.reconcile()
    assert fleet.deployment["status"]["plan"]["revision"] == revision


FOLDERS = replace(SETTINGS, node_folders=("/mnt", "/mnt/models"))


def test_a_folder_of_the_node_is_refused_where_none_is_listed():
    fleet = fetching({"source": "file:///mnt/models/llama"})
    fleet.reconcile()
    assert condition(fleet.deployment["status"], "Accepted") == (
        "False",
        "SpecInvalid",
        "spec.model.source: file:///mnt/models/llama is no folder of nodes that models may be read from: none is"
        " allowed in this cluster; its administrator may list some (the chart's worker.nodeFolders)",
    )


@pytest.mark.parametrize("path", ["/mnt2/llama", "/mn", "/etc"])
def test_a_folder_beside_the_listed_ones_is_refused(path: str):
    fleet = fetching({"source": f"file://{path}"}, settings=FOLDERS)
    fleet.reconcile()
    assert condition(fleet.deployment["status"], "Accepted")[2].endswith("allowed is what is below /mnt, /mnt/models")


def test_a_listed_folder_is_mounted_read_only_and_no_link_leads_out_of_it():
    fleet = fetching({"source": "file:///mnt/models/llama/8b"}, settings=FOLDERS)
    fleet.reconcile()
    (pod,) = workers(fleet)
    assert volume(pod)["hostPath"] == {"path": "/mnt/models", "type": "Directory"}
    assert mounts(pod["spec"]["containers"][0])["/models/node"] == {
        "name": "weights",
        "mountPath": "/models/node",
        "subPath": "llama/8b",
        "readOnly": True,
    }
    assert plan_json(fleet)["model"]["path"] == "/models/node"
    assert "initContainers" not in pod["spec"]


def test_a_predicted_plan_reads_facts_and_commit_with_one_job():
    fleet = PlannedFleet(planned(None, model={"source": "hf://org/model"}), words=report(COMMIT))
    planned_by(fleet)
    assert said(fleet)[:2] == ("True", "PlanPinned")
    assert fleet.deployment["status"]["model"]["architecture"] == "LlamaForCausalLM"
    assert plan_json(fleet)["weights"]["revision"] == COMMIT


def test_stated_facts_still_need_the_commit():
    fleet = PlannedFleet(planned(model={"source": "hf://org/model"}), words=report(COMMIT))
    fleet.reconcile()
    assert workers(fleet) == []
    planned_by(fleet)
    assert plan_json(fleet)["weights"]["revision"] == COMMIT


def test_variants_are_pinned_too():
    variants = [{"weights": "fp8", "source": "hf://org/model-fp8"}]
    fleet = PlannedFleet(
        planned(model={"source": "hf://org/model", "variants": variants}), words=report(COMMIT, "b" * 40)
    )
    fleet.reconcile()
    (job,) = fleet.jobs().values()
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][-2:] == [
        "hf://org/model@main",
        "hf://org/model-fp8@main",
    ]
    planned_by(fleet)
    order = plan_json(fleet)["weights"]
    assert order["revision"] == {"hf://org/model@main": COMMIT, "hf://org/model-fp8@main": "b" * 40}[order["source"]]


def test_a_report_without_revisions_is_told_and_read_again():
    fleet = planned_by(fetching(words=report()))
    assert said(fleet) == ("False", "InspectFailed", "the report does not say which revision hf://org/model@main is")
    assert workers(fleet) == []


def test_a_refusal_of_the_server_is_the_plan_s():
    words = json.dumps({"reason": "CredentialsRefused", "message": "The hub says no.", "remedy": "Name a Secret."})
    fleet = fetching(words=words, exit_code=1)
    fleet.reconcile()
    fleet.run_jobs()
    fleet.reconcile()
    assert said(fleet)[1] == "CredentialsRefused"


def test_another_secret_is_tried_at_once():
    fleet = fetching(words=json.dumps({"reason": "CredentialsRefused", "message": "No."}), exit_code=1)
    fleet.reconcile()
    fleet.run_jobs()
    fleet.reconcile()
    fleet.deployment["spec"]["model"]["credentialsSecretRef"] = {"name": "another"}
    fleet.words, fleet.exit_code = report(COMMIT), 0
    planned_by(fleet)
    assert said(fleet)[:2] == ("True", "PlanPinned")


@pytest.mark.parametrize(
    ("model", "flag", "order"),
    [
        pytest.param({"remoteCode": "Allow"}, True, {}, id="code on a claim"),
        pytest.param({"pickledWeights": "Allow"}, False, {"pickledWeights": "Allow"}, id="pickles on a claim"),
        pytest.param({}, False, {}, id="neither"),
    ],
)
def test_what_is_allowed_reaches_the_worker(model: Raw, flag: bool, order: Raw):
    fleet = fetching({"source": "pvc://models/tiny"} | model)
    fleet.reconcile()
    assert ("--trust-remote-code" in plan_json(fleet)["engine"]["args"]) is flag
    assert plan_json(fleet).get("weights", {}) == order


def test_a_plan_from_before_there_were_sources_reads_as_it_was():
    stored = fetching({"source": "pvc://models/tiny"})
    stored.reconcile()
    value: Any = next(item for (kind, _), item in stored.objects.items() if kind == "ControllerRevision")["data"][
        "plan"
    ]
    assert "weights" not in value
    assert "pickled" not in value
    again = read(value)
    assert isinstance(again, Plan)
    assert (again.weights, again.pickled, again.to_json()) == (None, False, value)


def test_a_stored_plan_of_a_fetched_model_reads_as_it_was():
    stored = planned_by(fetching(cache=CACHE))
    value: Any = next(item for (kind, _), item in stored.objects.items() if kind == "ControllerRevision")["data"][
        "plan"
    ]
    again = read(json.loads(json.dumps(value)))
    assert again is not None
    assert again.to_json() == value
