"""Odd worlds by name: what a fuzzer may not hit by chance, each through the whole loop on the fake cluster."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random
from typing import Any

import pytest
from fuzz_run import Bench, Clock, decide, run
from fuzz_states import foreign_status
from fuzz_worlds import NAMESPACE, UID, Case

from builders import READY, Fleet, accelerator_class, condition, deployment, manual, unschedulable, waiting
from modelfleet.api import names
from modelfleet.controller.resources import CHILDREN, DEPLOYMENTS

Raw = dict[str, Any]
LONG = "a" * 63


@pytest.fixture
def loop() -> Iterator[Clock]:
    with closing(Clock()) as made:
        yield made


def objects(of: Raw | None = None) -> list[Raw]:
    """A settled fleet, as everything in the cluster, the ModelDeployment first."""
    wanted = of or manual(2)
    wanted["metadata"] |= {"uid": UID, "namespace": NAMESPACE}
    fleet = Fleet(wanted)
    fleet.settle()
    versions = {child.kind: child.api_version for child in CHILDREN}
    children = [{**item, "apiVersion": versions[item["kind"]]} for item in fleet.objects.values()]
    return json.loads(json.dumps([fleet.deployment, *fleet.classes.values(), *children]))


def pods(made: list[Raw]) -> list[Raw]:
    return [item for item in made if item["kind"] == "Pod"]


def settled(loop: Clock, made: list[Raw], **parts: Any) -> tuple[Bench, Raw]:
    """Runs a world until it is quiet; the status that it ends with."""
    bench = run(Case(0, made[0]["metadata"]["name"], made, **parts), loop)
    stored = loop.run_until_complete(bench.cluster.get(DEPLOYMENTS, made[0]["metadata"]["name"], NAMESPACE))
    assert stored is not None
    return bench, stored["status"]


def test_a_settled_world_is_left_alone(loop: Clock) -> None:
    bench, _ = settled(loop, objects())
    assert bench.cluster.writes == []


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param({"objectives": None}, "spec.objectives: is required", id="a field that became required"),
        pytest.param({"parallelism": {"tensor": 65}}, "spec.parallelism.tensor: must be at most 64", id="a new bound"),
        pytest.param({"scaling": {"minReplicas": 0}}, "minReplicas 0 needs toZero", id="a value that was allowed"),
        pytest.param({"model": {"source": "ftp://a/b"}}, "a source is hf://", id="a form that was allowed"),
        pytest.param({"engine": {"args": {"trust-remote-code": "true"}}}, "is refused", id="a flag that was allowed"),
    ],
)
def test_an_old_object_under_a_tightened_schema_is_told_and_what_runs_goes_on(
    loop: Clock, spec: Raw, says: str
) -> None:
    made = objects()
    for key, part in spec.items():
        made[0]["spec"][key] = made[0]["spec"].get(key, {}) | part if isinstance(part, dict) else part
    bench, status = settled(loop, made)
    assert condition(status, "Accepted")[:2] == ("False", "SpecInvalid")
    assert says in condition(status, "Accepted")[2]
    assert condition(status, "Available")[0] == "True"
    assert {verb for verb, _, _ in bench.cluster.writes} == {"create", "apply_status"}  # events alone are created
    assert {kind for verb, kind, _ in bench.cluster.writes if verb == "create"} == {"Event"}


@pytest.mark.parametrize("seed", range(10))
def test_a_status_written_by_others_is_written_over_and_moves_no_pod(loop: Clock, seed: int) -> None:
    made = objects()
    made[0]["status"] = foreign_status(Random(seed))
    bench, status = settled(loop, made)
    assert condition(status, "Ready")[:2] == ("True", "Serving")
    assert not {"Pod", "Service", "ConfigMap", "ControllerRevision"} & {kind for _, kind, _ in bench.cluster.writes}


def test_a_name_of_63_characters_gives_children_that_fit_and_none_that_collide(loop: Clock) -> None:
    sibling = deployment("a" * 62 + "b")
    fleet = Fleet(deployment(LONG)), Fleet(sibling)
    for one in fleet:
        one.settle()
    first, second = ({name for kind, name in one.objects if kind != "Service"} for one in fleet)
    assert not first & second
    assert max(map(len, first | second)) == 63
    _, status = settled(loop, objects(deployment(LONG)))
    assert condition(status, "Ready")[0] == "True"


@pytest.mark.parametrize("length", [64, 200, 253])
def test_an_object_with_a_name_that_no_service_can_have_gets_the_reason(loop: Clock, length: int) -> None:
    made = [deployment("a" * length, metadata={"uid": UID}), accelerator_class()]
    bench, status = settled(loop, made)
    assert condition(status, "Accepted")[:2] == ("False", "SpecInvalid")
    assert "at most 63" in condition(status, "Accepted")[2]
    assert {kind for _, kind, _ in bench.cluster.writes} == {"ModelDeployment", "Event"}


@pytest.mark.parametrize("text", ["日本語🚀", "e\u0301\u200d\u202e", "\x00\x07", "a\nb", "\ufeff", "\ufffd"])
def test_unicode_in_every_text_is_told_as_it_is_or_left_out(loop: Clock, text: str) -> None:
    made = objects()
    made[0]["metadata"]["annotations"] = {"note": text}
    made[0]["spec"]["model"]["source"] = f"pvc://models/{text}"
    note = json.dumps({"reason": "EngineDied", "message": text, "remedy": text})
    for pod in pods(made):
        ended = {"exitCode": 1, "message": note}
        pod["status"] = {"containerStatuses": [{"name": "worker", "state": {"terminated": ended}, "restartCount": 1}]}
    _, status = settled(loop, made)
    assert condition(status, "Accepted")[:2] == ("False", "SpecInvalid")
    assert condition(status, "Available")[:2] == ("False", "EngineDied")


@pytest.mark.parametrize("number", [2**31, 2**53, 2**63 - 1, -(2**63), 1e308, 0.5])
def test_huge_numbers_are_refused_or_bounded(loop: Clock, number: float) -> None:
    made = objects()
    made[0]["metadata"]["generation"] = 2**63 - 1
    made[0]["spec"]["scaling"] |= {"replicas": number, "maxReplicas": number}
    made[0]["spec"]["model"]["maxContextTokens"] = number
    for item in made:
        if item["kind"] == "ControllerRevision":
            item["revision"] = 2**63 - 1
        if item["kind"] == "Pod":
            item["status"]["containerStatuses"] = [{"name": "worker", "restartCount": number, "state": {}}]
    _, status = settled(loop, made)
    assert condition(status, "Accepted")[:2] == ("False", "SpecInvalid")


def test_thousands_of_labels_and_annotations_are_nobody_s_business(loop: Clock) -> None:
    made = objects()
    for item in made:
        labels = {f"team.example.com/label-{number}": "x" * 63 for number in range(5000)}
        item["metadata"] |= {"labels": labels | item["metadata"].get("labels", {}), "annotations": {"a": "x" * 250_000}}
    bench, status = settled(loop, made)
    assert (bench.cluster.writes, condition(status, "Ready")[0]) == ([], "True")


def test_a_namespace_that_is_being_deleted_is_told_with_the_server_s_words(loop: Clock) -> None:
    made = [manual(2), accelerator_class()]
    made[0]["metadata"] |= {"uid": UID}
    bench, status = settled(loop, made, terminating=True)
    told = condition(status, "Progressing")
    assert told[:2] == ("False", "PodsRefused")
    assert "because it is being terminated" in told[2]
    assert {kind for _, kind, _ in bench.cluster.writes} == {"ModelDeployment", "Event"}


def test_an_object_that_is_being_deleted_and_held_by_a_finalizer_is_left_to_the_garbage_collector(loop: Clock) -> None:
    made = objects()
    made[0]["metadata"] |= {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["example.com/held"]}
    for pod in pods(made):
        pod["metadata"]["labels"][names.SERVING_LABEL] = "false"
    bench, _ = settled(loop, made)
    assert bench.cluster.writes == []


@pytest.mark.parametrize("skew_s", [3600.0, -3600.0, 86400.0 * 3650, -86400.0 * 3650])
@pytest.mark.parametrize("what", ["Failed", "Unschedulable", "Ready"])
def test_clocks_an_hour_apart_delay_nothing_for_ever_and_make_no_storm(loop: Clock, skew_s: float, what: str) -> None:
    made = objects()
    made[0]["spec"]["engine"] = {"image": "registry.example/worker:2"}
    now = "2026-01-02T03:04:05Z"
    no_node = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": now}
    states: dict[str, Callable[[], Raw]] = {
        "Failed": lambda: {"phase": "Failed", "reason": "Evicted"},
        "Unschedulable": lambda: {"phase": "Pending", "conditions": [{**no_node, "message": "1 Insufficient cpu."}]},
        "Ready": lambda: READY,
    }
    for pod in pods(made):
        pod["status"] = json.loads(json.dumps(states[what]()))
        pod["metadata"]["creationTimestamp"] = now
    bench, _ = settled(loop, made, skew_s=skew_s)
    created = [name for verb, kind, name in bench.cluster.writes if (verb, kind) == ("create", "Pod")]
    assert 1 <= len(created) == len(set(created)) <= 2


PENDING: Raw = {"phase": "Pending"}


def crowd(made: list[Raw], count: int, revision: str, status: Raw) -> None:
    """Puts so many pods of ours beside a fleet's, of a revision, in a state."""
    one, name = pods(made)[0], made[0]["metadata"]["name"]
    for slot in range(count):
        metadata = {**one["metadata"], "name": f"{name}-{revision}-{slot + 5}", "uid": f"uid-extra-{slot}"}
        made.append({**one, "metadata": metadata, "status": status})


def test_three_thousand_pods_of_ours_are_decided_on(loop: Clock) -> None:
    made = objects()
    crowd(made, 2_998, pods(made)[0]["metadata"]["labels"][names.REVISION_LABEL], PENDING)
    bench, status = settled(loop, made)
    deleted = [name for verb, kind, name in bench.cluster.writes if (verb, kind) == ("delete", "Pod")]
    assert len(deleted) == len(set(deleted)) == 2_998
    assert (status["replicas"], status["readyReplicas"]) == (2, 2)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(PENDING, id="pending"),
        pytest.param({"phase": "Failed"}, id="ended"),
        pytest.param(unschedulable("1 Insufficient cpu."), id="without a node"),
        pytest.param(waiting("ErrImagePull"), id="broken"),
        pytest.param(READY, id="ready"),
    ],
)
def test_ten_thousand_pods_of_an_older_revision_are_decided_on_at_once(status: Raw) -> None:
    """Comparing each with each would take most of a minute."""
    made = objects()
    crowd(made, 10_000, "0123abcd", status)
    decide(Case(0, made[0]["metadata"]["name"], made))


def test_ten_thousand_pods_of_others_are_not_touched(loop: Clock) -> None:
    made = objects()
    label = {names.DEPLOYMENT_LABEL: made[0]["metadata"]["name"]}
    for number in range(10_000):
        metadata = {"name": f"theirs-{number}", "namespace": NAMESPACE, "uid": f"uid-theirs-{number}", "labels": label}
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {}})
    bench, _ = settled(loop, made)
    assert bench.cluster.writes == []
