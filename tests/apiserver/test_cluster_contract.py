"""What the controller relies on at a cluster: the same assertions on the fake and on a real API server."""

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fake_cluster import FakeCluster
from modelfleet.api import names
from modelfleet.controller import credentials
from modelfleet.controller.cluster import Cluster, Conflict, KubernetesCluster, Missing, Refused, Written
from modelfleet.controller.election import Record, read, spec_of
from modelfleet.controller.resources import CONFIG_MAPS, DEPLOYMENTS, EVENTS, LEASES, PODS


@pytest.fixture(params=["fake", "real"])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    if request.param == "fake":
        request.getfixturevalue("namespace")  # the same name for both
        yield FakeCluster(request.getfixturevalue("namespace"))
        return
    async with KubernetesCluster(await credentials.load(str(request.getfixturevalue("kubeconfig")))) as real:
        yield real


def config_map(namespace: str, data: dict[str, str], name: str = "plan", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "data": data,
    }


@pytest.fixture
async def owner(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """A controller reference to an object that exists: the garbage collector deletes what belongs to none."""
    stored = await created(cluster, config_map(namespace, {}, "owner"))
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid(stored), "controller": True}


def model_deployment(namespace: str, **scaling: int) -> dict[str, Any]:
    lengths = {"inputTokens": {"p50": 10, "p95": 20, "max": 100}, "outputTokens": {"p50": 10, "p95": 20}}
    objective = {"name": "chat", "ttft": "2s", "tpot": "200ms", "share": "95%"}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.DEPLOYMENT_KIND,
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {
            "model": {"source": "pvc://models/chat"},
            "objectives": [objective | {"load": {"requestsPerSecond": 1}, "lengths": lengths}],
            "accelerators": {"classes": ["cpu"]},
            "scaling": {"minReplicas": 1, "maxReplicas": 2} | scaling,
        },
    }


async def created(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any]:
    result = await cluster.create(manifest)
    assert isinstance(result, Written), result
    return copy.deepcopy(dict(result.object))


def uid(stored: dict[str, Any]) -> str:
    return str(stored["metadata"]["uid"])


async def test_what_is_not_there_reads_as_none(cluster, namespace):
    assert await cluster.get(CONFIG_MAPS, "plan", namespace) is None


async def test_a_created_object_is_read_back_with_a_uid_and_its_kind(cluster, namespace):
    stored = await created(cluster, config_map(namespace, {"a": "1"}))
    read = await cluster.get(CONFIG_MAPS, "plan", namespace)
    assert (read["data"], read["kind"], uid(read)) == ({"a": "1"}, "ConfigMap", uid(stored))


async def test_creating_a_name_twice_is_a_conflict_and_changes_nothing(cluster, namespace):
    stored = await created(cluster, config_map(namespace, {"a": "1"}))
    assert isinstance(await cluster.create(config_map(namespace, {"a": "2"})), Conflict)
    assert (await cluster.get(CONFIG_MAPS, "plan", namespace))["data"] == stored["data"]


async def test_creating_in_a_namespace_that_is_not_there_is_missing(cluster):
    assert isinstance(await cluster.create(config_map("no-such-namespace", {})), Missing)


async def test_creating_with_a_field_that_the_schema_does_not_know_is_refused_by_name(cluster, namespace):
    result = await cluster.create(config_map(namespace, {}) | {"replicaz": 1})
    assert isinstance(result, Refused)
    assert "replicaz" in result.message


async def test_lists_are_by_namespace_and_label_and_their_items_name_their_kind(cluster, namespace):
    for name, value in (("one", "chat"), ("two", "chat"), ("other", "search")):
        await created(cluster, config_map(namespace, {}, name, labels={names.DEPLOYMENT_LABEL: value}))
    found = await cluster.list(CONFIG_MAPS, namespace, f"{names.DEPLOYMENT_LABEL}=chat")
    assert sorted(item["metadata"]["name"] for item in found) == ["one", "two"]
    assert {(item["apiVersion"], item["kind"]) for item in found} == {("v1", "ConfigMap")}


async def test_an_apply_puts_back_what_somebody_edited_and_leaves_alone_what_they_added(cluster, namespace, owner):
    stored = await created(cluster, config_map(namespace, {"a": "1"}, ownerReferences=[owner]))
    await cluster.apply(config_map(namespace, {"a": "1"}, ownerReferences=[owner]), uid(stored))
    await cluster.merge(CONFIG_MAPS, "plan", namespace, {"data": {"a": "edited", "theirs": "x"}})
    await cluster.apply(config_map(namespace, {"a": "1"}, ownerReferences=[owner]), uid(stored))
    assert (await cluster.get(CONFIG_MAPS, "plan", namespace))["data"] == {"a": "1", "theirs": "x"}


async def test_an_apply_of_the_same_changes_nothing(cluster, namespace, owner):
    stored = await created(cluster, config_map(namespace, {"a": "1"}, ownerReferences=[owner]))
    first = await cluster.apply(config_map(namespace, {"a": "1"}, ownerReferences=[owner]), uid(stored))
    second = await cluster.apply(config_map(namespace, {"a": "1"}, ownerReferences=[owner]), uid(stored))
    assert second.object["metadata"]["resourceVersion"] == first.object["metadata"]["resourceVersion"]


async def test_an_apply_to_an_object_with_another_uid_is_a_conflict(cluster, namespace, owner):
    await created(cluster, config_map(namespace, {"a": "1"}, ownerReferences=[owner]))
    assert isinstance(
        await cluster.apply(config_map(namespace, {"a": "2"}, ownerReferences=[owner]), "another-uid"), Conflict
    )
    assert (await cluster.get(CONFIG_MAPS, "plan", namespace))["data"] == {"a": "1"}


async def test_an_apply_never_creates(cluster, namespace, owner):
    assert isinstance(
        await cluster.apply(config_map(namespace, {"a": "1"}, ownerReferences=[owner]), "some-uid"), Conflict
    )
    assert await cluster.get(CONFIG_MAPS, "plan", namespace) is None


async def test_an_apply_without_a_controller_is_a_bug(cluster, namespace):
    with pytest.raises(ValueError, match="ConfigMap plan names no controller"):
        await cluster.apply(config_map(namespace, {}), "some-uid")


async def test_a_delete_with_the_right_uid_deletes(cluster, namespace):
    stored = await created(cluster, config_map(namespace, {}))
    assert isinstance(await cluster.delete(CONFIG_MAPS, "plan", namespace, uid(stored)), Written)
    assert await cluster.get(CONFIG_MAPS, "plan", namespace) is None


async def test_a_delete_with_another_uid_is_a_conflict(cluster, namespace):
    await created(cluster, config_map(namespace, {}))
    assert isinstance(await cluster.delete(CONFIG_MAPS, "plan", namespace, "another-uid"), Conflict)
    assert await cluster.get(CONFIG_MAPS, "plan", namespace) is not None


async def test_deleting_what_is_not_there_is_missing(cluster, namespace):
    assert isinstance(await cluster.delete(CONFIG_MAPS, "plan", namespace, "some-uid"), Missing)


async def test_an_object_with_a_finalizer_stays_and_says_that_it_is_being_deleted(cluster, namespace):
    stored = await created(cluster, config_map(namespace, {}, finalizers=["example.com/wait"]))
    assert isinstance(await cluster.delete(CONFIG_MAPS, "plan", namespace, uid(stored)), Written)
    assert "deletionTimestamp" in (await cluster.get(CONFIG_MAPS, "plan", namespace))["metadata"]
    await cluster.merge(CONFIG_MAPS, "plan", namespace, {"metadata": {"finalizers": None}})


async def test_a_recreated_object_has_another_uid(cluster, namespace):
    first = await created(cluster, config_map(namespace, {}))
    await cluster.delete(CONFIG_MAPS, "plan", namespace, uid(first))
    assert uid(await created(cluster, config_map(namespace, {}))) != uid(first)


async def test_a_merge_to_what_is_not_there_is_missing(cluster, namespace):
    assert isinstance(await cluster.merge(EVENTS, "chat.1", namespace, {"series": {"count": 2}}), Missing)


def renewal(stored: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]}, "spec": spec}


async def test_a_merge_at_the_version_that_was_read_is_written_and_a_second_one_at_it_is_a_conflict(cluster, namespace):
    stored = await created(cluster, lease(namespace, Record("one", 15, 0, AT, AT)))
    assert isinstance(await cluster.merge(LEASES, "l", namespace, renewal(stored, holderIdentity="two")), Written)
    assert isinstance(await cluster.merge(LEASES, "l", namespace, renewal(stored, holderIdentity="three")), Conflict)
    assert (await cluster.get(LEASES, "l", namespace))["spec"]["holderIdentity"] == "two"


AT = "2026-01-02T03:04:05.000006Z"


def lease(namespace: str, record: Record) -> dict[str, Any]:
    metadata = {"name": "l", "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec_of(record)}


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(Record("one", 15, 3, AT, AT), id="held"),
        pytest.param(Record("", 1, 3, AT, AT), id="given up"),
    ],
)
async def test_a_lease_reads_as_it_was_written_with_its_microseconds(cluster, namespace, record):
    await created(cluster, lease(namespace, Record("before", 15, 2, AT, AT)))
    stored = await cluster.get(LEASES, "l", namespace)
    await cluster.merge(LEASES, "l", namespace, renewal(stored, **spec_of(record)))
    assert read((await cluster.get(LEASES, "l", namespace))["spec"]) == record


def status(stored: dict[str, Any], **fields: Any) -> dict[str, Any]:
    metadata = {key: stored["metadata"][key] for key in ("name", "namespace", "resourceVersion")}
    return {"apiVersion": stored["apiVersion"], "kind": stored["kind"], "metadata": metadata, "status": fields}


def condition(kind: str, state: str = "True") -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    return {
        "type": kind,
        "status": state,
        "reason": "Valid",
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": at,
    }


async def test_a_status_is_written_without_a_new_generation(cluster, namespace):
    stored = await created(cluster, model_deployment(namespace))
    written = await cluster.apply_status(status(stored, replicas=1, conditions=[condition("Ready")]))
    assert written.object["status"]["replicas"] == 1
    assert written.object["metadata"]["generation"] == stored["metadata"]["generation"]


async def test_a_status_that_is_no_longer_written_is_gone(cluster, namespace):
    stored = await created(cluster, model_deployment(namespace))
    two = [condition("Ready"), condition("Placed")]
    written = await cluster.apply_status(status(stored, replicas=1, conditions=two))
    await cluster.apply_status(status(written.object, conditions=[condition("Ready", "False")]))
    read = await cluster.get(DEPLOYMENTS, "chat", namespace)
    read["status"].pop("observedGeneration", None)  # the CRD's default, which nobody owns; the fake has no defaults
    assert read["status"] == {"conditions": [condition("Ready", "False")]}


async def test_the_same_status_again_changes_nothing(cluster, namespace):
    stored = await created(cluster, model_deployment(namespace))
    first = await cluster.apply_status(status(stored, replicas=1))
    second = await cluster.apply_status(status(first.object, replicas=1))
    assert second.object["metadata"]["resourceVersion"] == first.object["metadata"]["resourceVersion"]


async def test_a_status_of_what_is_not_there_is_missing(cluster, namespace):
    absent = model_deployment(namespace)
    absent["metadata"]["resourceVersion"] = "1"
    assert isinstance(await cluster.apply_status(status(absent, replicas=1)), Missing)


async def test_a_status_of_an_object_that_changed_since_it_was_read_is_a_conflict(cluster, namespace):
    stored = await created(cluster, model_deployment(namespace))
    await cluster.merge(DEPLOYMENTS, "chat", namespace, {"spec": {"scaling": {"maxReplicas": 3}}})
    assert isinstance(await cluster.apply_status(status(stored, replicas=1)), Conflict)


async def test_a_status_for_a_predecessor_of_the_same_name_is_a_conflict(cluster, namespace):
    stored = await created(cluster, model_deployment(namespace))
    await cluster.delete(DEPLOYMENTS, "chat", namespace, uid(stored))
    await created(cluster, model_deployment(namespace))
    assert isinstance(await cluster.apply_status(status(stored, replicas=1)), Conflict)


async def test_each_activator_owns_its_entry_and_an_apply_of_nothing_in_its_name_takes_it_out(cluster, namespace):
    stored = await created(cluster, model_deployment(namespace))
    at = "2026-01-01T00:00:00Z"
    for activator in ("a1", "a2"):
        entry = {"activator": activator, "waiting": 1, "at": at}
        written = await cluster.apply_status(status(stored, demand=[entry]), f"{names.ACTIVATOR}-{activator}")
        stored = written.object
    ours = await cluster.apply_status(status(stored, replicas=1))
    assert [each["activator"] for each in ours.object["status"]["demand"]] == ["a1", "a2"]
    left = await cluster.apply_status(status(ours.object), f"{names.ACTIVATOR}-a1")
    assert [each["activator"] for each in left.object["status"]["demand"]] == ["a2"]
    assert left.object["status"]["replicas"] == 1


async def test_a_spec_change_is_a_new_generation_and_no_change_is_none(cluster, namespace):
    stored = await created(cluster, model_deployment(namespace))
    changed = await cluster.merge(DEPLOYMENTS, "chat", namespace, {"spec": {"scaling": {"maxReplicas": 3}}})
    again = await cluster.merge(DEPLOYMENTS, "chat", namespace, {"spec": {"scaling": {"maxReplicas": 3}}})
    generations = [stored["metadata"]["generation"], changed.object["metadata"]["generation"]]
    assert generations == [1, 2]
    assert again.object["metadata"]["resourceVersion"] == changed.object["metadata"]["resourceVersion"]


async def test_the_served_kinds_of_our_group_are_known_and_of_another_group_none(cluster):
    assert {names.DEPLOYMENT_PLURAL, names.CLASS_PLURAL} <= await cluster.served(names.API_VERSION)
    assert await cluster.served("example.com/v1") == frozenset()


def pod(namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace, "labels": {names.SERVING_LABEL: "true"}},
        "spec": {"containers": [{"name": "worker", "image": "example.com/worker:1"}], **spec},
    }


async def test_a_pod_on_a_node_stays_until_its_kubelet_has_ended_it_and_says_that_it_is_being_deleted(
    cluster, namespace
):
    stored = await created(cluster, pod(namespace, nodeName="no-kubelet-answers-for-it"))
    times = []
    for _ in range(2):
        assert isinstance(await cluster.delete(PODS, "p", namespace, uid(stored)), Written)
        times.append((await cluster.get(PODS, "p", namespace))["metadata"]["deletionTimestamp"])
    assert times[0] == times[1]


async def test_a_pod_without_a_node_goes_at_once(cluster, namespace):
    stored = await created(cluster, pod(namespace, nodeSelector={"no": "such-node"}))
    assert isinstance(await cluster.delete(PODS, "p", namespace, uid(stored)), Written)
    assert await cluster.get(PODS, "p", namespace) is None


async def test_an_apply_of_a_pod_s_labels_changes_a_label_that_was_created_and_leaves_its_spec(
    cluster, namespace, owner
):
    made = pod(namespace, nodeSelector={"no": "such-node"})
    made["metadata"]["ownerReferences"] = [owner]
    stored = await created(cluster, made)
    labels = {"metadata": {**made["metadata"], "labels": {names.SERVING_LABEL: "false"}}}
    applied = await cluster.apply({"apiVersion": "v1", "kind": "Pod", **labels}, uid(stored))
    assert applied.object["metadata"]["labels"] == {names.SERVING_LABEL: "false"}
    assert applied.object["spec"]["containers"][0]["image"] == "example.com/worker:1"
    assert uid(applied.object) == uid(stored)
