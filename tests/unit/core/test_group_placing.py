"""How groups get their nodes: created behind a gate, lifted whole, finished or withdrawn from what is observed."""

from dataclasses import replace
from typing import Any

import pytest

from builders import condition
from group_worlds import grouped, members, ranks, serving, wrote
from modelfleet.api import names
from modelfleet.core.effects import Create, Lift
from modelfleet.core.placement.project import pinned_node
from modelfleet.core.reconcile import plan


def test_a_group_is_created_behind_the_gate_then_lifted_with_the_leader_last():
    fleet = grouped()
    assert wrote(fleet.reconcile().effects) == ["create 0", "create 1"]
    assert [pod["spec"]["schedulingGates"] for pod in members(fleet)] == [[{"name": names.PLACED_GATE}]] * 2
    assert wrote(fleet.reconcile().effects) == ["lift 1", "lift 0"]
    assert [pinned_node(pod) for pod in members(fleet)] == ["n1", "n2"]
    fleet.settle()
    assert sorted(ranks(fleet).values()) == ["n1", "n2"]
    assert fleet.deployment["status"]["placedReplicas"] == 1


def test_where_the_whole_group_has_no_room_nothing_is_created_and_the_shortfall_is_said():
    outcome = grouped(machines=("n1",)).reconcile()
    assert wrote(outcome.effects) == []
    status, reason, message = condition(outcome.status, "Placed")
    assert (status, reason) == ("False", "NoRoom")
    assert "needs 2 nodes × 1 free cpu; 1 has that" in message
    assert outcome.waits_for_room
    assert ("Warning", "NoRoom") in [(event.type, event.reason) for event in outcome.events]


def test_of_two_groups_the_one_that_fits_is_placed():
    fleet = grouped(2)
    assert wrote(fleet.reconcile().effects) == ["create 0", "create 1"]
    status = fleet.settle().status
    assert (status["placedReplicas"], status["readyReplicas"]) == (1, 1)
    assert condition(status, "Placed")[1] == "NoRoom"


def test_nothing_is_created_or_lifted_while_the_nodes_are_not_known():
    fleet = grouped()
    blind = plan(replace(fleet.world(), cluster=None))
    assert wrote(blind.effects) == []
    assert condition(blind.status, "Progressing")[:2] == ("True", "NodesNotRead")
    fleet.reconcile()
    assert wrote(plan(replace(fleet.world(), cluster=None)).effects) == []


def test_a_lost_inventory_moves_nothing_that_runs():
    fleet = serving()
    assert wrote(plan(replace(fleet.world(), cluster=None)).effects) == []


def test_a_rank_that_was_not_made_yet_is_made_and_only_then_the_group_is_lifted():
    fleet = grouped()
    fleet.reconcile()
    del fleet.objects["Pod", members(fleet)[1]["metadata"]["name"]]
    assert wrote(fleet.reconcile().effects) == ["create 1"]
    assert wrote(fleet.reconcile().effects) == ["lift 1", "lift 0"]


def half_lifted(fleet: Any) -> None:
    """The follower is pinned to its node; the operator ended before the leader's turn."""
    fleet.reconcile()
    lift = next(effect for effect in plan(fleet.world()).effects if isinstance(effect, Lift))
    fleet._execute((lift,))


def test_a_half_lifted_group_is_finished_on_the_node_that_is_pinned():
    fleet = grouped()
    half_lifted(fleet)
    pinned = pinned_node(members(fleet)[1])
    assert wrote(fleet.reconcile().effects) == ["lift 0"]
    assert pinned_node(members(fleet)[1]) == pinned != pinned_node(members(fleet)[0])


def test_a_half_lifted_group_that_cannot_be_finished_is_withdrawn_whole():
    fleet = grouped(machines=("n1", "n2"))
    half_lifted(fleet)
    fleet.machines = (pinned_node(members(fleet)[1]),)
    assert wrote(fleet.reconcile().effects) == ["delete 0", "delete 1"]
    fleet.tick()
    assert condition(fleet.reconcile().status, "Placed")[1] == "NoRoom"


def test_a_gated_group_whose_room_is_gone_is_withdrawn():
    fleet = grouped(machines=("n1", "n2"))
    fleet.reconcile()
    fleet.machines = ("n1",)
    assert wrote(fleet.reconcile().effects) == ["delete 0", "delete 1"]


def test_a_gate_of_somebody_else_is_waited_for_and_no_room_is_held_meanwhile():
    fleet = grouped()
    fleet.reconcile()
    members(fleet)[1]["spec"]["schedulingGates"].append({"name": "kueue.x-k8s.io/admission"})
    outcome = fleet.reconcile()
    assert (wrote(outcome.effects), outcome.reservations) == ([], ())
    assert condition(outcome.status, "Placed")[1:] == (
        "WaitsForGate",
        "0 of 1 replicas have a node; pods wait behind the scheduling gate kueue.x-k8s.io/admission",
    )
    members(fleet)[1]["spec"]["schedulingGates"].pop()
    assert wrote(fleet.reconcile().effects) == ["lift 1", "lift 0"]


def test_the_pin_is_added_to_every_term_that_somebody_else_requires_and_other_gates_stay():
    fleet = grouped()
    fleet.reconcile()
    pod = members(fleet)[1]
    zone = {"key": "pool", "operator": "In", "values": ["serving"]}
    terms = [{"matchExpressions": [zone]}, {"matchExpressions": [{**zone, "values": ["b"]}]}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pod["spec"]["affinity"] = {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}
    lift = next(effect for effect in plan(fleet.world()).effects if isinstance(effect, Lift))
    written = lift.patch["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert [term["matchExpressions"] for term in written] == [term["matchExpressions"] for term in terms]
    assert {tuple(term["matchFields"][0]["values"]) for term in written} == {("n2",)}
    assert lift.patch["spec"]["schedulingGates"] is None
    assert lift.patch["metadata"]["uid"] == pod["metadata"]["uid"]


def test_room_is_reserved_for_every_rank_from_the_creation_on():
    fleet = grouped()
    outcome = fleet.reconcile()
    names_of = [pod["metadata"]["name"] for pod in members(fleet)]
    assert [one.pod for one in outcome.reservations] == [f"team/{name}" for name in names_of]
    assert len({one.node for one in outcome.reservations}) == 2


def test_a_gated_group_of_an_older_revision_makes_way():
    fleet = grouped()
    fleet.reconcile()
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    assert "delete 0" in wrote(fleet.reconcile().effects)
    fleet.settle()
    assert {pod["spec"]["containers"][0]["image"] for pod in fleet.pods().values()} == {"image:2"}


def test_an_ungated_pod_of_an_older_operator_stays_as_it_is():
    fleet = grouped(spec={"parallelism": {"tensor": 1}})
    fleet.reconcile()
    (pod,) = fleet.pods().values()
    del pod["spec"]["schedulingGates"]
    before = plan(fleet.world())
    assert wrote(before.effects) == []
    fleet.settle()
    assert [name for name in fleet.pods()] == [pod["metadata"]["name"]]


def test_members_find_their_leader_by_a_headless_service_and_one_config_map_serves_all():
    fleet = grouped()
    made = [effect.manifest for effect in fleet.reconcile().effects if isinstance(effect, Create)]
    (service,) = [item for item in made if item["kind"] == "Service" and item["spec"].get("clusterIP") == "None"]
    leader, follower = members(fleet)
    name = service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert {pod["spec"]["subdomain"] for pod in (leader, follower)} == {name}
    assert leader["spec"]["hostname"] == leader["metadata"]["name"]
    told = {one["name"]: one.get("value") for one in follower["spec"]["containers"][0]["env"]}
    assert told[names.LEADER_VARIABLE] == f"{leader['metadata']['name']}.{name}.team.svc"
    assert told[names.RANK_VARIABLE] == "1"
    plans = {
        volume["configMap"]["name"]
        for pod in (leader, follower)
        for volume in pod["spec"]["volumes"]
        if volume["name"] == "plan"
    }
    assert len(plans) == 1
    assert [pod["metadata"]["labels"][names.SERVING_LABEL] for pod in (leader, follower)] == ["true", "false"]


@pytest.mark.parametrize(
    ("spec", "per_node", "pods"),
    [
        pytest.param({"tensor": 1, "pipeline": 2}, 1, 2, id="two stages on nodes with one accelerator: two pods"),
        pytest.param({"tensor": 2}, 2, 1, id="tensor 2 on a node with two: one pod"),
        pytest.param({"tensor": 2, "pipeline": 3}, 4, 3, id="a stage is never cut: one stage a node"),
        pytest.param({"tensor": 2, "pipeline": 4}, 4, 2, id="two stages a node"),
        pytest.param({"tensor": 1, "data": 4, "expert": "Always"}, 2, 2, id="data-parallel ranks over nodes"),
    ],
)
def test_a_pinned_layout_makes_as_many_pods_as_it_needs_nodes(spec: dict[str, Any], per_node: int, pods: int):
    fleet = grouped(spec={"parallelism": spec}, machines=("a", "b", "c", "d"))
    fleet.classes["cpu"]["spec"]["acceleratorsPerNode"] = per_node
    fleet.reconcile()
    asked = [pod["spec"]["containers"][0]["resources"]["limits"]["modelfleet.dev/cpu"] for pod in fleet.pods().values()]
    layout = fleet.deployment["status"]["plan"]["pools"][0]
    assert len(asked) == pods
    assert sum(map(int, asked)) == layout["acceleratorsPerReplica"]


def test_no_old_replica_leaves_for_a_new_one_that_no_node_is_fit_for():
    fleet = serving()
    before = ranks(fleet)
    fleet.deployment["spec"]["placement"] = {"nodeSelector": {"no": "such-node"}}
    for _ in range(5):
        status = fleet.reconcile().status
        fleet.tick()
    assert ranks(fleet) == before
    assert condition(status, "Ready")[0] == "True"
    assert condition(status, "Progressing")[:2] == ("False", "NoRoom")
