"""What a user gets for a world that cannot work: a condition that names the remedy, and recovery by itself."""

import json
from contextlib import contextmanager

import pytest
from operator_process import Operator, chart_rules

from modelfleet.api import names

CRD = f"{names.DEPLOYMENT_PLURAL}.{names.GROUP}"


def test_a_class_that_does_not_exist_is_named_and_picked_up_when_it_appears(operator, fleet):
    fleet.apply(fleet.deployment())
    message = fleet.wait_condition("Accepted", "False", "ClassNotFound")
    assert fleet.class_name in message
    assert fleet.condition("Ready")[:2] == ("False", "ClassNotFound")
    fleet.create_class()
    fleet.settled()


def test_a_replica_that_finds_no_node_is_told_with_what_is_missing_and_placed_when_there_is_one(operator, fleet):
    fleet.create_class(resourceName="example.com/none-of-this")
    fleet.apply(fleet.deployment())
    message = fleet.wait_condition("Placed", "False", "NoRoom")
    assert f"needs 1 node × 1 free {fleet.class_name}" in message
    fleet.create_class()
    fleet.settled()


def test_a_rollout_whose_pod_fits_no_node_says_so_and_the_old_replica_serves_on(operator, fleet):
    fleet.create_class()
    fleet.apply(fleet.deployment())
    fleet.settled()
    nowhere = fleet.deployment(placement={"nodeSelector": {"no": "such-node"}})
    fleet.apply(nowhere)
    message = fleet.wait_condition("Progressing", "False", "NoRoom")
    assert "spec.placement.nodeSelector" in message
    assert fleet.condition("Ready")[0] == "True"
    fleet.apply(fleet.deployment())
    fleet.settled()


def test_what_admission_refuses_is_told_with_its_words_and_tried_again(operator, fleet):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": fleet.namespace},
        "spec": {"hard": {"pods": "0"}},
    }
    fleet.create_class()
    fleet.apply(quota)
    fleet.wait("the quota counts", lambda: "hard" in (fleet.get("resourcequotas", "none") or {}).get("status", {}))
    fleet.apply(fleet.deployment())
    message = fleet.wait_condition("Placed", "False", "PodsRefused")
    assert "exceeded quota: none" in message
    fleet.kubectl("delete", "resourcequota", "none")
    fleet.settled()


FOREIGN = {
    "services": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}},
    "configmaps": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"theirs": "untouched"}},
}


def test_a_foreign_service_under_the_name_is_refused_named_untouched_and_the_name_used_when_free(operator, fleet):
    theirs = {**FOREIGN["services"], "metadata": {"name": "chat", "namespace": fleet.namespace}}
    fleet.create_class()
    fleet.apply(theirs)
    before = fleet.get("services", "chat")
    fleet.apply(fleet.deployment())
    message = fleet.wait_condition("Accepted", "False", "NameTaken")
    assert "Service chat" in message
    assert fleet.get("services", "chat") == before
    fleet.kubectl("delete", "service", "chat")
    fleet.settled()


def test_an_object_that_only_wears_our_label_is_not_taken_over(operator, fleet):
    labels = {names.DEPLOYMENT_LABEL: "chat"}
    theirs = {**FOREIGN["configmaps"], "metadata": {"name": "theirs", "namespace": fleet.namespace, "labels": labels}}
    fleet.create_class()
    fleet.apply(theirs)
    before = fleet.get("configmaps", "theirs")
    fleet.apply(fleet.deployment())
    fleet.settled()
    fleet.kubectl("delete", "mdep", "chat")
    fleet.wait("the service goes", lambda: fleet.get("services", "chat") is None)
    assert fleet.get("configmaps", "theirs") == before


@contextmanager
def lax_schema(fleet):
    """The CRD without its rules, as an older version may have been."""
    stored = json.loads(fleet.kubectl("get", "crd", CRD, "--output=json"))
    set_spec(fleet, without_rules(stored["spec"]))
    try:
        yield
    finally:
        set_spec(fleet, stored["spec"])


def without_rules(schema):
    if isinstance(schema, dict):
        return {key: without_rules(value) for key, value in schema.items() if key != "x-kubernetes-validations"}
    return [without_rules(item) for item in schema] if isinstance(schema, list) else schema


def set_spec(fleet, spec):
    patch = json.dumps([{"op": "replace", "path": "/spec", "value": spec}])
    fleet.kubectl("patch", "crd", CRD, "--type=json", "--patch-file=/dev/stdin", stdin=patch)


def test_an_old_object_that_breaks_a_newer_rule_is_told_and_recovers_when_it_is_corrected(operator, fleet):
    fleet.create_class()
    broken = json.dumps(fleet.deployment(scaling={"minReplicas": 3, "maxReplicas": 1}))
    with lax_schema(fleet):
        # The schema reaches the API server's handlers a moment after the CRD.
        fleet.wait("a lax schema", lambda: not fleet.cluster.kubectl("apply", "-f-", stdin=broken).returncode)
        fleet.wait_condition("Accepted", "False", "SpecInvalid")
    fleet.wait(
        "a strict schema",
        lambda: fleet.cluster.kubectl("create", "--dry-run=server", "-f-", stdin=other(broken)).returncode,
    )
    fleet.create_class(acceleratorsPerNode=7)  # any reconcile; its status is written although the spec breaks a rule
    message = fleet.wait_condition("Accepted", "False", "SpecInvalid")
    assert "spec.scaling" in message
    fleet.kubectl("apply", "-f-", stdin=json.dumps(fleet.deployment()))
    fleet.settled()


def other(manifest):
    return manifest.replace('"name": "chat"', '"name": "other"', 1)


def test_a_status_that_somebody_filled_with_nonsense_is_written_over(operator, fleet):
    fleet.create_class()
    fleet.apply(fleet.deployment())
    fleet.settled()
    told = [{"type": "Ready", "status": "False", "reason": "Nonsense", "message": "", "observedGeneration": 1}]
    told[0]["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    nonsense = {"status": {"replicas": 77, "readyReplicas": 77, "conditions": told}}
    fleet.kubectl("patch", "mdep", "chat", "--subresource=status", "--type=merge", f"--patch={json.dumps(nonsense)}")
    fleet.create_class(acceleratorsPerNode=7)  # any reconcile will do
    fleet.settled()
    assert fleet.get(names.DEPLOYMENT_PLURAL, "chat")["status"]["replicas"] == 1


@pytest.mark.thorough
def test_an_operator_that_may_not_read_nodes_places_nothing_and_says_why(account, fleet, tmp_path):
    rules = [{**rule, "resources": [each for each in rule["resources"] if each != "nodes"]} for rule in chart_rules()]
    blind = Operator(account(rules), tmp_path / "log", (f"--namespaces={fleet.namespace}",))
    blind.start()
    try:
        fleet.create_class()
        fleet.apply(fleet.deployment())
        fleet.wait("the refusal", lambda: "nodes is forbidden" in fleet.condition("Placed")[2])
        assert fleet.condition("Placed")[:2] == ("False", "NodesNotRead")
        assert fleet.children("pods") == []
    finally:
        assert blind.stop() == 0


@pytest.mark.parametrize("seen", ["pods", "services", "configmaps"])
def test_an_operator_that_is_killed_on_the_way_and_started_again_goes_on(own_operator, fleet, seen):
    own_operator.start()
    fleet.create_class()
    fleet.apply(fleet.deployment(scaling={"minReplicas": 4, "maxReplicas": 4}))
    fleet.wait(f"the first of {seen}", lambda: bool(fleet.children(seen)))
    own_operator.kill()
    own_operator.start()
    fleet.wait_condition("Ready", "True", "Serving")
    fleet.wait("four pods", lambda: len(fleet.children("pods")) == 4)
    assert len(fleet.children("services")) == 1


def test_what_happened_while_no_operator_ran_is_found_by_the_next_one(own_operator, fleet):
    own_operator.start()
    fleet.create_class()
    fleet.apply(fleet.deployment())
    fleet.settled()
    assert own_operator.stop() == 0
    fleet.kubectl("delete", "service", "chat")
    fleet.apply(fleet.deployment(scaling={"minReplicas": 2, "maxReplicas": 4}))
    own_operator.start()
    fleet.wait(
        "a service and two pods", lambda: fleet.child_names("services") == ["chat"] and len(fleet.children("pods")) == 2
    )
