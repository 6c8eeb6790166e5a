"""Odd clusters, on the real API server: CRDs that are missing, go and come back; what older ones let through."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from apiserver.fleet import Fleet
from apiserver.operator_process import Operator
from cluster_fixtures import apply_crds
from modelfleet.api import names
from modelfleet_local import Cluster
from modelfleet_local.waiting import wait_until

DEPLOYMENTS = f"{names.DEPLOYMENT_PLURAL}.{names.GROUP}"
CLASSES = f"{names.CLASS_PLURAL}.{names.GROUP}"


@pytest.fixture
def without_crds(api_server: Cluster) -> Iterator[Cluster]:
    """A cluster that has lost our CRDs, and gets them back."""
    remove_crds(api_server)
    yield api_server
    apply_crds(api_server)


def remove_crds(cluster: Cluster) -> None:
    done = cluster.kubectl("delete", "crd", DEPLOYMENTS, CLASSES, "--ignore-not-found", "--timeout=60s")
    assert done.returncode == 0, done.stderr


def says(operator: Operator, words: str) -> Callable[[], bool]:
    return lambda: words in operator.log.read_text()


def test_crds_that_are_missing_at_the_start_are_waited_for(
    own_operator: Operator, fleet: Fleet, without_crds: Cluster
) -> None:
    own_operator.start(wait=False)
    wait_until("the reason", says(own_operator, f"the cluster lacks the CRDs {DEPLOYMENTS}, {CLASSES}"), timeout_s=30)
    assert own_operator.finds_port()
    assert own_operator.get("/readyz")[0] == 503
    apply_crds(without_crds)
    own_operator.wait_ready()
    fleet.create_class()
    fleet.apply(fleet.deployment())
    fleet.settled()


def test_crds_that_go_while_it_runs_end_it_and_the_next_one_waits_for_them_and_mends_what_is_left(
    api_server: Cluster, own_operator: Operator, fleet: Fleet
) -> None:
    own_operator.start()
    fleet.create_class()
    fleet.apply(fleet.deployment())
    fleet.settled()
    remove_crds(api_server)
    try:
        assert own_operator.wait() == 1
        lines = own_operator.lines()
        # What kopf's futures leave behind may be told after it, when the interpreter collects them.
        assert len([line for line in lines if "the process ends, to be started again" in line["message"]]) == 1
        assert not [line for line in lines if "traceback" in line]
        own_operator.start(wait=False)
        wait_until("the reason", says(own_operator, "waiting: the cluster lacks the CRDs"), timeout_s=60)
    finally:
        apply_crds(api_server)
    own_operator.wait_ready()
    fleet.create_class()
    fleet.apply(fleet.deployment())
    fleet.settled()


def passed(seconds: float) -> Callable[[], bool]:
    """True when so many seconds have passed."""
    end_s = time.monotonic() + seconds
    return lambda: time.monotonic() > end_s


@contextmanager
def replaced_crd(fleet: Fleet, change: Callable[[Any], Any]) -> Iterator[None]:
    """The CRD of ModelDeployments as another version had it."""
    stored = json.loads(fleet.kubectl("get", "crd", DEPLOYMENTS, "--output=json"))["spec"]
    set_spec(fleet, change(json.loads(json.dumps(stored))))
    try:
        yield
    finally:
        set_spec(fleet, stored)


def set_spec(fleet: Fleet, spec: Any) -> None:
    patch = json.dumps([{"op": "replace", "path": "/spec", "value": spec}])
    fleet.kubectl("patch", "crd", DEPLOYMENTS, "--type=json", "--patch-file=/dev/stdin", stdin=patch)


_BOUNDS = {"x-kubernetes-validations", "maxLength", "minimum", "maximum", "minItems", "maxItems", "pattern", "enum"}


def lax(spec: Any) -> Any:
    """Without rules and bounds, and with conditions of any form."""
    version = spec["versions"][0]
    schema = _without_bounds(version["schema"]["openAPIV3Schema"])
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema["properties"]["status"]["properties"]["conditions"] = {"type": "array", "items": anything}
    version["schema"]["openAPIV3Schema"] = schema
    return spec


def _without_bounds(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _without_bounds(part) for key, part in schema.items() if key not in _BOUNDS}
    return [_without_bounds(part) for part in schema] if isinstance(schema, list) else schema


def test_a_crd_that_is_replaced_while_it_runs_disturbs_nothing(own_operator: Operator, fleet: Fleet) -> None:
    own_operator.start()
    fleet.create_class()
    fleet.apply(fleet.deployment())
    fleet.settled()
    pods = fleet.child_names("pods")
    with replaced_crd(fleet, lax):
        fleet.apply(fleet.deployment(scaling={"minReplicas": 2, "maxReplicas": 4}))
        fleet.wait("two pods", lambda: len(fleet.children("pods")) == 2)
        fleet.settled()
    fleet.apply(fleet.deployment(scaling={"minReplicas": 3, "maxReplicas": 4}))
    fleet.wait("three pods", lambda: len(fleet.children("pods")) == 3)
    fleet.settled()
    assert set(pods) < set(fleet.child_names("pods"))


def test_what_a_laxer_schema_let_into_status_and_spec_is_told_and_mended_under_the_strict_one(
    own_operator: Operator, fleet: Fleet
) -> None:
    own_operator.start()
    fleet.create_class()
    with replaced_crd(fleet, lax):
        broken = fleet.deployment(scaling={"minReplicas": 7000, "maxReplicas": 1}, objectives=[])
        fleet.wait(
            "a lax schema", lambda: not fleet.cluster.kubectl("apply", "-f-", stdin=json.dumps(broken)).returncode
        )
        fleet.wait_condition("Accepted", "False", "SpecInvalid")
        status = {"status": {"conditions": [{"nonsense": 1}, {"type": "Ready"}], "replicas": 7}}
        fleet.kubectl("patch", "mdep", "chat", "--subresource=status", "--type=merge", f"--patch={json.dumps(status)}")
    fleet.create_class(acceleratorsPerNode=7)  # any reconcile
    fleet.wait("conditions of a form", lambda: all("type" in told for told in conditions(fleet)))
    message = fleet.wait_condition("Accepted", "False", "SpecInvalid")
    assert "spec.scaling.minReplicas" in message
    fleet.kubectl("apply", "-f-", stdin=json.dumps(fleet.deployment()))
    fleet.settled()


def conditions(fleet: Fleet) -> list[dict[str, Any]]:
    stored = fleet.get(names.DEPLOYMENT_PLURAL, "chat")
    return list(stored["status"]["conditions"]) if stored else []


def test_a_name_that_an_older_schema_let_through_gets_the_reason(own_operator: Operator, fleet: Fleet) -> None:
    own_operator.start()
    fleet.create_class()
    name = "a" * 100
    with replaced_crd(fleet, lax):
        long = json.dumps(fleet.deployment(name))
        fleet.wait("a lax schema", lambda: not fleet.cluster.kubectl("apply", "-f-", stdin=long).returncode)
        message = fleet.wait_condition("Accepted", "False", "SpecInvalid", name)
    assert "at most 63" in message


def test_a_namespace_that_is_being_deleted_is_told_and_makes_no_storm(own_operator: Operator, fleet: Fleet) -> None:
    own_operator.start()
    fleet.create_class()
    held = fleet.deployment()
    held["metadata"]["finalizers"] = ["example.com/held"]
    fleet.apply(held)
    fleet.settled()
    other = fleet.deployment("waiting")
    other["metadata"]["finalizers"] = ["example.com/held"]
    fleet.kubectl("delete", "namespace", fleet.namespace, "--wait=false")
    before = own_operator.metric("api_request_seconds_count")
    fleet.wait("the pods go", lambda: not fleet.children("pods"))
    fleet.wait("six seconds, of which a storm asks forty times each", passed(6))
    assert own_operator.metric("api_request_seconds_count") - before < 200
    release = json.dumps([{"op": "remove", "path": "/metadata/finalizers"}])
    fleet.kubectl("patch", "mdep", "chat", "--type=json", f"--patch={release}")
    fleet.wait("the deployment goes", lambda: fleet.get(names.DEPLOYMENT_PLURAL, "chat") is None)
    assert not [line for line in own_operator.lines() if "traceback" in line]
