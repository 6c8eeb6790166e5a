"""The operator as a process against a real API server, with kwok for kubelets: what a user sees."""

import itertools
import json

import pytest
from operator_process import IMAGE

from modelfleet.api import names


@pytest.fixture
def settled(operator, fleet):
    """A ModelDeployment `chat` that serves."""
    fleet.create_class()
    fleet.apply(fleet.deployment())
    fleet.settled()
    return fleet


def test_a_model_deployment_becomes_pods_a_service_config_maps_and_a_revision(settled):
    (pod,), (service,), (plan, promise), (revision,) = (
        settled.children(plural) for plural in ("pods", "services", "configmaps", "controllerrevisions")
    )
    hashed = pod["metadata"]["labels"][names.REVISION_LABEL]
    found = [item["metadata"]["name"] for item in (pod, service, plan, promise, revision)]
    assert found == [f"chat-{hashed}-0", "chat", f"chat-{hashed}", "chat-promise", f"chat-{hashed}"]
    assert pod["spec"]["containers"][0]["image"] == IMAGE


def test_each_child_names_its_owner_as_controller_and_does_not_block_its_deletion(settled):
    owner = settled.get(names.DEPLOYMENT_PLURAL, "chat")["metadata"]["uid"]
    for plural in ("pods", "services", "configmaps", "controllerrevisions"):
        for child in settled.children(plural):
            (reference,) = child["metadata"]["ownerReferences"]
            assert (reference["uid"], reference["controller"]) == (owner, True)
            assert not reference.get("blockOwnerDeletion")


def test_the_user_s_object_carries_no_annotation_no_finalizer_and_no_spec_field_of_ours(settled):
    metadata = settled.get(names.DEPLOYMENT_PLURAL, "chat")["metadata"]
    assert ("annotations" in metadata, "finalizers" in metadata) == (False, False)
    ours = [entry for entry in settled_managers(settled) if entry["manager"] != "kubectl"]
    assert [(entry["manager"], entry["subresource"]) for entry in ours] == [(names.STATUS_MANAGER, "status")]


def settled_managers(fleet):
    shown = json.loads(fleet.kubectl("get", "mdep", "chat", "--show-managed-fields", "--output=json"))
    return shown["metadata"]["managedFields"]


def test_kubectl_diff_of_the_applied_manifest_is_empty(settled):
    manifest = json.dumps(settled.deployment())
    where = f"--namespace={settled.namespace}"

    def same() -> bool:
        """kubectl reads twice; between the reads the operator may have written status."""
        return settled.cluster.kubectl("diff", where, "--server-side", "--filename=-", stdin=manifest).returncode == 0

    settled.wait("no difference", same)


@pytest.mark.parametrize(
    ("plural", "edit", "reads"),
    [
        pytest.param(
            "services",
            {"spec": {"selector": {names.SERVING_LABEL: "nonsense"}}},
            lambda child: child["spec"]["selector"][names.SERVING_LABEL] == "true",
            id="a Service's selector",
        ),
        pytest.param(
            "pods",
            {"metadata": {"labels": {names.SERVING_LABEL: "false"}}},
            lambda child: child["metadata"]["labels"][names.SERVING_LABEL] == "true",
            id="a pod's serving label",
        ),
        pytest.param(
            "services",
            {"metadata": {"labels": {names.MANAGED_BY_LABEL: None}}},
            lambda child: child["metadata"]["labels"].get(names.MANAGED_BY_LABEL) == names.MANAGED_BY,
            id="a label that was removed",
        ),
    ],
)
def test_a_child_that_was_edited_by_hand_is_put_back(settled, plural, edit, reads):
    (name,) = settled.child_names(plural)
    settled.api.patch(settled.path(plural, name), edit)
    settled.wait("the edit is undone", lambda: reads(settled.get(plural, name)))


def test_a_child_that_lost_the_label_by_which_it_is_found_gets_it_back(settled):
    settled.api.patch(settled.path("services", "chat"), {"metadata": {"labels": {names.DEPLOYMENT_LABEL: None}}})
    settled.wait("the label is back", lambda: settled.child_names("services") == ["chat"])


def test_a_pod_that_was_given_to_another_deployment_by_its_label_comes_back_and_is_not_replaced(settled):
    (pod,) = settled.children("pods")
    edit = {"metadata": {"labels": {names.DEPLOYMENT_LABEL: "other"}}}
    settled.api.patch(settled.path("pods", pod["metadata"]["name"]), edit)
    settled.wait("the pod is back", lambda: settled.child_names("pods") == [pod["metadata"]["name"]])
    settled.settled()
    assert [child["metadata"]["uid"] for child in settled.children("pods")] == [pod["metadata"]["uid"]]


@pytest.mark.parametrize("plural", ["pods", "services", "configmaps", "controllerrevisions"])
def test_a_child_that_was_deleted_by_hand_is_made_again(settled, plural):
    before, *_ = settled.children(plural)
    name = before["metadata"]["name"]
    settled.kubectl("delete", plural, name)
    settled.wait(
        "a new one", lambda: (settled.get(plural, name) or before)["metadata"]["uid"] != before["metadata"]["uid"]
    )
    settled.settled()


def test_the_next_reconciles_of_an_unchanged_world_write_nothing(settled, operator):
    def look_again(number):
        """Every deployment is looked at again; no pod depends on this field."""
        runs = operator.metric("reconcile_seconds_count")
        settled.create_class(acceleratorsPerNode=number)
        operator.runs_after(runs)

    numbers = itertools.cycle((7, 8))

    def stands_still() -> bool:
        """What is measured may still come; three looks in a row without a write are an unchanged world."""
        before = writes_of_operator(settled)
        for _ in range(3):
            look_again(next(numbers))
        return writes_of_operator(settled) == before

    settled.wait("three looks in a row that write nothing", stands_still)


def writes_of_operator(fleet):
    """The operator's requests that write in the namespace, as the API server's audit log tells them."""
    with fleet.cluster.audit_log.open() as log:
        entries = [json.loads(line) for line in log]
    ours = [e for e in entries if e.get("userAgent") == "modelfleet" and e["verb"] not in ("get", "list", "watch")]
    found = [(e["requestReceivedTimestamp"], e["verb"], e["requestURI"]) for e in ours]
    return [each for each in found if f"/namespaces/{fleet.namespace}/" in each[2]]


def test_a_changed_spec_replaces_the_pods_one_at_a_time_and_never_serves_with_less(operator, fleet):
    fleet.create_class()
    fleet.apply(fleet.deployment(scaling={"minReplicas": 3, "maxReplicas": 4}))
    fleet.settled()
    old = set(fleet.child_names("pods"))
    changed = fleet.deployment(
        scaling={"minReplicas": 3, "maxReplicas": 4}, model={"source": "pvc://models/chat", "maxContextTokens": 512}
    )
    fleet.apply(changed)
    counts = set()

    def rolled() -> bool:
        pods = fleet.children("pods")
        serving = [p for p in pods if p["metadata"]["labels"][names.SERVING_LABEL] == "true"]
        counts.add((len(serving) >= 3, len(pods) <= 5))  # one in surge, one that terminates
        return not old & {p["metadata"]["name"] for p in pods} and len(pods) == 3

    fleet.wait("three new pods", rolled)
    assert counts == {(True, True)}
    fleet.settled()
    assert max(revision["revision"] for revision in fleet.children("controllerrevisions")) == 2


def test_kubectl_scale_moves_a_deployment_in_mode_manual(operator, fleet):
    fleet.create_class()
    fleet.apply(fleet.deployment(scaling={"mode": "Manual", "minReplicas": 1, "maxReplicas": 4}))
    fleet.settled()
    fleet.kubectl("scale", "mdep", "chat", "--replicas=3")
    fleet.wait("three pods", lambda: len(fleet.children("pods")) == 3)
    fleet.settled()
    fleet.kubectl("scale", "mdep", "chat", "--replicas=1")
    fleet.wait("one pod", lambda: len(fleet.children("pods")) == 1)


def test_kubectl_scale_outside_mode_manual_moves_nothing_and_is_answered_by_an_event(settled):
    settled.kubectl("scale", "mdep", "chat", "--replicas=3")
    settled.wait("an event", lambda: "ReplicasIgnored" in events(settled))
    assert len(settled.children("pods")) == 1


def events(fleet):
    return {event["reason"]: event["note"] for event in fleet.api.get(fleet.path("events"))["items"]}


def test_deleting_the_object_takes_every_child_with_it(settled):
    settled.kubectl("delete", "mdep", "chat")
    settled.wait(
        "no children", lambda: not any(map(settled.children, ("pods", "services", "configmaps", "controllerrevisions")))
    )
