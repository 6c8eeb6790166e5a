"""Groups on a class whose nodes an autoscaler brings: what is asked for stays together wherever it is bound."""

from typing import Any

import pytest

from builders import Fleet, Raw, accelerator_class, condition, manual
from group_worlds import grouped, members, wrote
from modelfleet.api import names
from modelfleet.core.effects import Apply
from modelfleet.core.group_life import BUY_S
from modelfleet.core.placement.project import pinned_node
from modelfleet.core.reconcile import plan

CLOUD = [{"name": "cloud", "provisioning": "Autoscaled"}]
FABRIC = {"bandwidth": "10G"}


def bought(parallelism: Raw, **spec: Any) -> Fleet:
    """A fleet of one replica on a class of two accelerators a node, of which no node is there yet."""
    kind = accelerator_class(acceleratorsPerNode=2, supplies=CLOUD, **spec)
    return Fleet(manual(1, parallelism=parallelism), {"cpu": kind}, machines=())


def terms(pod: Raw, which: str) -> list[tuple[str, dict[str, str], list[Any]]]:
    """Key, labels and further expressions of each required term of a pod's affinity to pods."""
    found = pod["spec"].get("affinity", {}).get(which, {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
    return [
        (
            term["topologyKey"],
            term["labelSelector"]["matchLabels"],
            [each["values"] for each in term["labelSelector"].get("matchExpressions", [])],
        )
        for term in found
    ]


def own_labels(pod: Raw) -> dict[str, str]:
    keys = (names.DEPLOYMENT_LABEL, names.REVISION_LABEL, names.REPLICA_LABEL)
    return {key: pod["metadata"]["labels"][key] for key in keys}


def test_ranks_that_nobody_pins_get_a_node_each():
    fleet = bought({"tensor": 2, "pipeline": 2})
    assert wrote(fleet.reconcile().effects) == ["create 0", "create 1"]
    for pod in members(fleet):
        assert terms(pod, "podAntiAffinity") == [("kubernetes.io/hostname", own_labels(pod), [])]
        assert terms(pod, "podAffinity") == []


def test_a_bought_group_stays_in_one_domain_of_the_farthest_topology_key():
    fleet = bought({"tensor": 2, "pipeline": 2}, topologyKeys=["rack", "block"])
    fleet.reconcile()
    assert [terms(pod, "podAffinity") for pod in members(fleet)] == [
        [("block", own_labels(pod), [])] for pod in members(fleet)
    ]


def test_tensor_parallelism_of_a_bought_group_stays_in_one_domain_of_the_fabric():
    fabric = {**FABRIC, "domainSize": 4}
    fleet = bought({"tensor": 4, "pipeline": 2}, fabric=fabric, topologyKeys=["clique", "block"])
    fleet.reconcile()
    for rank, pod in enumerate(fleet.pods().values()):
        part = [["0", "1"]] if rank < 2 else [["2", "3"]]
        assert terms(pod, "podAffinity") == [("clique", own_labels(pod), part)]


def test_one_pod_that_nobody_pins_is_bound_to_no_other():
    fleet = bought({"tensor": 2})
    fleet.reconcile()
    (pod,) = fleet.pods().values()
    assert "affinity" not in pod["spec"]


@pytest.mark.parametrize(
    ("parallelism", "fabric", "said"),
    [
        pytest.param({"tensor": 2}, {"domainSize": 1}, "over 2 leaves the fabric, which joins 1", id="in a node"),
        pytest.param({"tensor": 4}, {"domainSize": 4}, "names no topologyKeys", id="over nodes that no label joins"),
    ],
)
def test_no_node_is_bought_for_a_layout_that_no_node_could_hold(parallelism: Raw, fabric: Raw, said: str):
    fleet = bought(parallelism, fabric=FABRIC | fabric)
    outcome = fleet.reconcile()
    assert wrote(outcome.effects) == []
    status, reason, message = condition(outcome.status, "Placed")
    assert (status, reason) == ("False", "NoRoom")
    assert said in message


def test_a_rank_that_is_missing_beside_pinned_ones_is_gated_and_joins_them():
    fleet = grouped()
    for _ in range(2):
        fleet.reconcile()
    leader, lost = members(fleet)
    del fleet.objects["Pod", lost["metadata"]["name"]]
    assert wrote(fleet.reconcile().effects) == ["create 1"]
    assert members(fleet)[1]["spec"]["schedulingGates"] == [{"name": names.PLACED_GATE}]
    assert wrote(fleet.reconcile().effects) == ["lift 1"]
    assert pinned_node(members(fleet)[1]) not in ("", pinned_node(leader))


def test_a_rank_that_is_missing_of_a_bought_group_is_asked_for_as_the_others_were():
    fleet = bought({"tensor": 2, "pipeline": 2})
    fleet.reconcile()
    name = members(fleet)[1]["metadata"]["name"]
    made = fleet.objects.pop(("Pod", name))
    assert wrote(fleet.reconcile().effects) == ["create 1"]
    assert fleet.objects["Pod", name]["spec"] == made["spec"]
    assert wrote(plan(fleet.world()).effects) == []


def rolling(replicas: int, limit: int | None = None) -> Fleet:
    """A full fleet on a class that buys nodes up to a limit, whose image was just changed."""
    supply = [{**CLOUD[0], "limit": limit}] if limit else CLOUD
    kind = accelerator_class(acceleratorsPerNode=1, supplies=supply)
    machines = tuple(f"n{index}" for index in range(replicas))
    fleet = Fleet(manual(replicas, engine={"image": "image:1"}), {"cpu": kind}, machines=machines, room=1)
    fleet.settle()
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    return fleet


def run(fleet: Fleet, seconds: float) -> tuple[int, set[str]]:
    """How few served meanwhile, and what Progressing said."""
    fewest, told = fleet.serving(), set()
    for _ in range(int(seconds / 30)):
        told.add(condition(fleet.reconcile().status, "Progressing")[2])
        fewest = min(fewest, fleet.serving())
        fleet.tick(30.0)
    return fewest, told


def images(fleet: Fleet) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in fleet.pods().values()}


def test_a_rollout_goes_in_place_at_once_where_no_more_may_be_bought():
    fleet = rolling(2, limit=2)
    fewest, told = run(fleet, 900)
    assert (fewest, fleet.serving(), images(fleet)) == (1, 2, {"image:2"})
    assert any("at most 1 of 2 leave first" in each for each in told)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_rollout_takes_no_replica_away_while_a_node_is_bought_for_the_new_one(replicas: int):
    fleet = rolling(replicas)
    fewest, told = run(fleet, BUY_S - 30)
    assert (fewest, len(fleet.pods())) == (replicas, replicas + 1)
    assert any("waits for a node that a cluster autoscaler is to bring" in each for each in told)
    fleet.machines = (*fleet.machines, "bought")
    fewest, told = run(fleet, 900)
    assert (fewest, fleet.serving(), images(fleet)) == (replicas, replicas, {"image:2"})
    assert not any("leave first" in each for each in told)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_rollout_goes_in_place_once_nobody_has_brought_a_node(replicas: int):
    fleet = rolling(replicas)
    assert run(fleet, BUY_S - 30)[0] == replicas
    fewest, told = run(fleet, 900)
    assert (fewest, fleet.serving(), images(fleet)) == (replicas - 1, replicas, {"image:2"})
    assert any(f"at most 1 of {replicas} leave first" in each for each in told)
    drained = [effect for effect in fleet.written if isinstance(effect, Apply) and _serves(effect) == "true"]
    assert drained == []  # nobody that is taken out of the Service is put back


def _serves(effect: Apply) -> str | None:
    labels = effect.manifest["metadata"].get("labels", {})
    return labels.get(names.SERVING_LABEL) if effect.manifest["kind"] == "Pod" else None


def test_a_pod_that_waits_for_a_bought_node_is_on_its_way():
    fleet = bought({"tensor": 2})
    fleet.reconcile()
    fleet.tick()
    status = fleet.reconcile().status
    assert condition(status, "Progressing")[:2] == ("True", "Placing")
    assert condition(status, "Placed")[:2] == ("False", "Placing")
    assert "waits for a node that a cluster autoscaler is to bring: 0/1 nodes" in condition(status, "Progressing")[2]
    assert condition(status, "Available")[1] == "Unschedulable"
