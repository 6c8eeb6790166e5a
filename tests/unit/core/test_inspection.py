"""Reading what a model is made of, as a film: the Job, its words, NAME-state, and what the user is told meanwhile."""

import json
from typing import Any

import pytest

from builders import Raw, condition, foreign, unschedulable
from modelfleet.core.effects import Create, Delete
from modelfleet.core.reconcile import plan
from planner_worlds import LLAMA_8B, PlannedFleet, gpu_class, planned

STATE = ("ConfigMap", "chat-state")


def inspecting(**parts: Any) -> PlannedFleet:
    """A fleet whose model nobody described, after its first reconcile."""
    fleet = PlannedFleet(planned(None), **parts)
    fleet.reconcile()
    return fleet


def planned_now(fleet: PlannedFleet) -> tuple[str, str, str]:
    return condition(fleet.reconcile().status, "Planned")


def refusal(reason: str, message: str) -> str:
    return json.dumps({"reason": reason, "message": message, "remedy": "Mend it."})


def test_a_job_is_made_and_no_pod_until_it_has_reported():
    fleet = inspecting()
    (job,) = fleet.jobs()
    assert job.startswith("chat-inspect-")
    assert condition(fleet.deployment["status"], "Planned") == (
        "Unknown",
        "Inspecting",
        "what pvc://weights/llama is made of is being read where the weights are",
    )
    assert fleet.pods() == {}


def test_its_report_becomes_facts_a_plan_and_pods_and_the_job_goes():
    fleet = inspecting()
    fleet.run_jobs()
    fleet.reconcile()
    status = fleet.deployment["status"]
    assert condition(status, "Planned")[:2] == ("True", "PlanPinned")
    assert status["model"] == {
        "source": "pvc://weights/llama",
        "facts": "Inspected",
        "architecture": "LlamaForCausalLM",
        "layers": 32,
        "parameters": "8.03B",
        "weights": "bf16",
        "maxContextTokens": 131072,
        "checkpoint": "15 GiB",
    }
    assert fleet.jobs() == {}
    assert [name for name in fleet.pods() if "inspect" not in name] == [
        f"chat-{status['plan']['revision']}-0",
    ]
    assert json.loads(fleet.objects[STATE]["data"]["model.json"])["report"]["config"] == LLAMA_8B


def test_the_model_is_not_read_again_for_a_pinned_plan_even_if_the_state_is_lost():
    fleet = inspecting()
    fleet.run_jobs()
    fleet.settle()
    del fleet.objects[STATE]
    before = fleet.pods()
    outcome = fleet.settle()
    assert (fleet.jobs(), outcome.effects) == ({}, ())
    assert fleet.pods() == before


def test_another_revision_uses_the_facts_that_are_known():
    fleet = inspecting()
    fleet.run_jobs()
    fleet.settle()
    fleet.deployment["spec"]["model"]["servedNames"] = ["other"]
    fleet.reconcile()
    assert fleet.jobs() == {}
    assert condition(fleet.deployment["status"], "Planned")[1] == "PlanPinned"


def test_another_source_is_read_and_the_old_job_goes():
    fleet = inspecting()
    (old,) = fleet.jobs()
    fleet.deployment["spec"]["model"]["source"] = "pvc://weights/other"
    fleet.reconcile()
    (new,) = fleet.jobs()
    assert new != old


def test_a_pinned_layout_on_a_class_without_performance_has_no_job():
    plain = gpu_class(memory=None, memoryBandwidth=None, compute=None)
    fleet = PlannedFleet(planned(None, parallelism={"tensor": 2}), classes={"h100": plain})
    fleet.reconcile()
    assert fleet.jobs() == {}
    assert len(fleet.pods()) == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(
            refusal("ModelNotFound", "There is no model at /models/weights/llama."),
            ("ModelNotFound", "the model's facts cannot be read: There is no model at /models/weights/llama; Mend it"),
            id="a missing path",
        ),
        pytest.param(
            refusal("ModelRefused", "config.json is not valid JSON."),
            ("ModelRefused", "the model's facts cannot be read: config.json is not valid JSON; Mend it"),
            id="a config.json that is none",
        ),
        pytest.param(
            "Traceback (most recent call last)",
            (
                "InspectFailed",
                "the model's facts cannot be read: the worker ended with exit code 1 and said nothing; see kubectl logs"
                " --previous",
            ),
            id="a worker that said nothing readable",
        ),
    ],
)
def test_a_reason_is_told_kept_and_the_job_is_tried_again_later(words: str, expected: tuple[str, str]):
    fleet = inspecting(words=words, exit_code=1)
    (job,) = fleet.jobs()
    first = fleet.jobs()[job]["metadata"]["uid"]
    fleet.run_jobs()
    outcome = fleet.reconcile()
    assert condition(outcome.status, "Planned") == ("False", *expected)
    assert outcome.wake_after_s == 60
    assert [event.reason for event in outcome.events if event.type == "Warning"] == [expected[0]]
    fleet.pass_time(61)
    fleet.reconcile()
    assert fleet.jobs() == {}
    again = fleet.reconcile()
    assert condition(again.status, "Planned") == ("False", *expected), "it stands until there is other news"
    assert again.events == ()
    assert fleet.jobs()[job]["metadata"]["uid"] != first


def test_what_was_mended_is_found_by_the_next_try():
    fleet = inspecting(words=refusal("ModelNotFound", "There is none."), exit_code=1)
    fleet.run_jobs()
    fleet.reconcile()
    fleet.pass_time(61)
    fleet.reconcile()
    fleet.reconcile()
    fleet.words, fleet.exit_code = PlannedFleet().words, 0
    fleet.run_jobs()
    assert planned_now(fleet)[:2] == ("True", "PlanPinned")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            unschedulable('persistentvolumeclaim "weights" not found.'),
            (
                "Unschedulable",
                'the pod that reads the model\'s facts finds no node: persistentvolumeclaim "weights" not found',
            ),
            id="a claim that is missing",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "containerStatuses": [
                    {"name": "worker", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
                ],
            },
            (
                "ImageNotPullable",
                "the pod that reads the model's facts does not start: the image"
                " registry.example/modelfleet-worker:0.1.0 cannot be pulled: no such image; correct spec.engine.image"
                " (unset: the operator's worker image) or spec.imagePullSecrets",
            ),
            id="an image that cannot be pulled",
        ),
    ],
)
def test_a_pod_that_cannot_start_is_told_by_its_own_words(pod: Raw, expected: tuple[str, str]):
    fleet = inspecting(job_pod=pod)
    fleet.run_jobs()
    assert planned_now(fleet) == ("False", *expected)
    assert len(fleet.jobs()) == 1


def test_a_job_that_takes_long_says_where_to_look():
    fleet = inspecting()
    assert fleet.reconcile().wake_after_s == 120
    fleet.pass_time(121)
    outcome = fleet.reconcile()
    (job,) = fleet.jobs()
    assert condition(outcome.status, "Planned") == (
        "Unknown",
        "Inspecting",
        "what pvc://weights/llama is made of is being read where the weights are, and takes long:"
        f" `kubectl describe job {job}` and its pod's events say why",
    )
    assert outcome.wake_after_s is None


def test_a_job_whose_pods_were_evicted_is_told_and_tried_again():
    fleet = inspecting(exit_code=1)
    fleet.run_jobs()
    (name,) = fleet.jobs()
    del fleet.objects["Pod", f"{name}-x1y2z"]
    assert planned_now(fleet) == (
        "False",
        "InspectFailed",
        "the Job that reads the model's facts failed: its pods were evicted, or hung",
    )


def test_a_worker_of_another_version_that_reports_nothing_is_told():
    fleet = inspecting(words="")
    fleet.run_jobs()
    assert planned_now(fleet)[:2] == ("False", "InspectFailed")


def test_an_unknown_architecture_is_said_and_never_guessed():
    fleet = inspecting(words=json.dumps({"model": {"config": {"model_type": "mamba9", "hidden_size": 1}}}))
    fleet.run_jobs()
    status, reason, message = planned_now(fleet)
    assert (status, reason) == ("False", "UnknownArchitecture")
    assert "'mamba9'" in message
    assert fleet.jobs() == {}, "its words were understood, so reading it again would not help"
    assert fleet.pods() == {}


def test_a_report_that_is_not_understood_is_asked_for_again_and_a_mended_folder_is_found():
    fleet = inspecting(words=json.dumps({"model": {"config": {}}}))
    fleet.run_jobs()
    fleet.reconcile()
    assert fleet.reconcile().wake_after_s == 300
    fleet.pass_time(301)
    outcome = fleet.reconcile()
    assert condition(outcome.status, "Planned")[1] == "UnknownArchitecture"
    assert (len(fleet.jobs()), outcome.events) == (1, ())
    fleet.words = PlannedFleet().words
    fleet.run_jobs()
    fleet.reconcile()
    assert planned_now(fleet)[:2] == ("True", "PlanPinned")


def test_somebody_else_s_job_under_the_name_is_not_touched():
    fleet = PlannedFleet(planned(None))
    create = next(e for e in plan(fleet.world()).effects if isinstance(e, Create) and e.manifest["kind"] == "Job")
    fleet.add(foreign("Job", create.manifest["metadata"]["name"]))
    outcome = fleet.reconcile()
    assert condition(outcome.status, "Planned")[:2] == ("False", "NameTaken")
    assert not any(isinstance(effect, Delete) for effect in fleet.written)


def test_a_report_that_cannot_be_kept_is_not_read_again_and_again():
    """Where a promise cannot be kept, nothing but NAME-state remembers what was read."""
    fleet = inspecting()
    fleet.deployment["spec"]["objectives"][0]["ttft"] = "1ms"
    fleet.add(foreign("ConfigMap", "chat-state"))
    for _ in range(3):
        fleet.run_jobs()
        fleet.reconcile()
    fleet.written.clear()
    for _ in range(3):
        fleet.run_jobs()
        outcome = fleet.reconcile()
    assert condition(outcome.status, "Planned")[:2] == ("False", "NameTaken")
    assert "chat-state" in condition(outcome.status, "Planned")[2]
    assert [effect for effect in fleet.written if isinstance(effect, Create | Delete)] == []
    assert fleet.jobs() == {}


def test_a_pod_whose_owner_is_no_text_is_nobody_s():
    fleet = inspecting()
    fleet.run_jobs()
    pod = next(iter(fleet.pods().values()))
    pod["metadata"]["ownerReferences"][0]["uid"] = []
    assert condition(plan(fleet.world()).status, "Planned")[0] == "False"


def test_a_state_that_was_scribbled_on_is_as_if_it_were_not_there():
    fleet = inspecting()
    fleet.run_jobs()
    fleet.settle()
    fleet.objects[STATE]["data"]["model.json"] = "{"
    fleet.deployment["spec"]["model"]["servedNames"] = ["other"]
    fleet.reconcile()
    assert len(fleet.jobs()) == 1
    fleet.run_jobs()
    fleet.settle()
    assert json.loads(fleet.objects[STATE]["data"]["model.json"])["source"] == "pvc://weights/llama"


def test_other_keys_of_the_state_stay():
    fleet = inspecting()
    state = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"attempts.json": "[]"}}
    owner = {"kind": "ModelDeployment", "name": "chat", "uid": "uid-of-chat", "controller": True}
    label = {"modelfleet.dev/deployment": "chat"}
    fleet.add({**state, "metadata": {"name": "chat-state", "uid": "s", "labels": label, "ownerReferences": [owner]}})
    fleet.run_jobs()
    fleet.reconcile()
    assert set(fleet.objects[STATE]["data"]) == {"attempts.json", "model.json"}


def test_the_job_is_restricted_holds_no_token_and_reads_the_claim_only():
    fleet = inspecting()
    (job,) = fleet.jobs().values()
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["modelfleet-worker", "inspect", "/models/weights/llama"]
    assert (pod["automountServiceAccountToken"], pod["restartPolicy"]) == (False, "Never")
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "weights", "readOnly": True}
    assert container["volumeMounts"][0]["readOnly"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert job["metadata"]["ownerReferences"][0]["uid"] == "uid-of-chat"
    assert "nvidia.com/gpu" not in json.dumps(container["resources"])
