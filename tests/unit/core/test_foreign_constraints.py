"""What somebody else requires of a gated pod's nodes: Kueue at admission, a webhook."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from builders import Fleet, condition, manual
from group_worlds import grouped, members, wrote
from modelfleet.core.effects import Lift, Outcome
from modelfleet.core.placement.affinity import required_terms
from modelfleet.core.placement.fit import selected
from modelfleet.core.placement.project import pinned_node
from modelfleet.core.placement.view import Taint
from modelfleet.core.reconcile import plan
from unit.core.placement.sites import node, want

ONE = {"parallelism": {"tensor": 1}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def gated(**parts: Any) -> Fleet:
    fleet = grouped(**parts)
    fleet.reconcile()
    return fleet


def decide(fleet: Fleet, labels: Mapping[str, Mapping[str, str]], taints: Mapping[str, Taint] | None = None) -> Outcome:
    """The decision where nodes carry these labels and taints besides."""
    seen = fleet.world()
    assert seen.cluster is not None
    nodes = tuple(
        replace(
            each,
            labels={**each.labels, **labels.get(each.name, {})},
            taints=(taints[each.name],) if taints and each.name in taints else (),
        )
        for each in seen.cluster.nodes
    )
    return plan(replace(seen, cluster=replace(seen.cluster, nodes=nodes)))


def targets(outcome: Outcome) -> list[str]:
    """Where gates are lifted to, by rank."""
    lifts = [effect for effect in outcome.effects if isinstance(effect, Lift)]
    return [pinned_node({"spec": lift.patch["spec"]}) for lift in reversed(lifts)]


def admitted(fleet: Fleet, **selector: str) -> None:
    """Somebody adds this to the selector of every pod."""
    for pod in fleet.pods().values():
        pod["spec"]["nodeSelector"] |= selector


def test_a_pod_goes_where_the_selector_that_was_added_lets_it_run():
    fleet = gated(spec=ONE)
    admitted(fleet, flavor="spot")
    assert targets(decide(fleet, {"n3": {"flavor": "spot"}})) == ["n3"]


def test_without_such_a_node_it_is_not_withdrawn_and_says_what_is_required():
    fleet = gated(spec=ONE)
    admitted(fleet, flavor="spot")
    outcome = decide(fleet, {})
    assert wrote(outcome.effects) == []
    assert outcome.waits_for_room
    status, reason, message = condition(outcome.status, "Placed")
    assert (status, reason) == ("False", "NoRoom")
    assert "others have added to what its pods require of a node: flavor In spot" in message


def test_a_required_affinity_that_was_added_is_kept_to():
    fleet = gated(spec=ONE)
    (pod,) = fleet.pods().values()
    term = {"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["a", "b"]}]}
    pod["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    assert targets(decide(fleet, {"n1": {"rack": "a"}, "n2": {"rack": "b"}, "n3": {"rack": "c"}})) == ["n3"]


def test_a_group_whose_ranks_got_a_node_each_goes_there():
    fleet = gated()
    for pod, name in zip(members(fleet), ("n3", "n1"), strict=True):
        pod["spec"]["nodeSelector"] |= {"kubernetes.io/hostname": name}
    assert targets(decide(fleet, {})) == ["n3", "n1"]


def test_a_toleration_that_was_added_opens_a_node():
    fleet = gated(spec=ONE)
    (pod,) = fleet.pods().values()
    taints = {name: Taint("flavor", "spot", "NoSchedule") for name in fleet.machines}
    assert wrote(decide(fleet, {}, taints).effects) == ["delete 0"]
    pod["spec"]["tolerations"].append({"key": "flavor", "operator": "Exists"})
    assert targets(decide(fleet, {}, taints)) == ["n1"]


def test_what_was_added_to_the_requests_counts():
    fleet = gated(spec=ONE)
    (pod,) = fleet.pods().values()
    pod["spec"]["containers"][0]["resources"]["requests"] |= {"example.com/licence": "1"}
    assert targets(decide(fleet, {})) == []


def test_half_of_a_group_that_is_lifted_is_withdrawn_as_ever():
    fleet = gated()
    fleet._execute((next(effect for effect in plan(fleet.world()).effects if isinstance(effect, Lift)),))
    admitted(fleet, flavor="spot")
    assert wrote(decide(fleet, {}).effects) == ["delete 0", "delete 1"]


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        pytest.param({"operator": "In", "values": ["7", "8"]}, True, id="in"),
        pytest.param({"operator": "In", "values": ["8"]}, False, id="not in"),
        pytest.param({"operator": "NotIn", "values": ["8"]}, True, id="another value"),
        pytest.param({"operator": "NotIn", "values": ["7"]}, False, id="that value"),
        pytest.param({"key": "none", "operator": "NotIn", "values": ["7"]}, True, id="no label is not in"),
        pytest.param({"operator": "Exists"}, True, id="there"),
        pytest.param({"key": "none", "operator": "Exists"}, False, id="not there"),
        pytest.param({"key": "none", "operator": "DoesNotExist"}, True, id="must not be there"),
        pytest.param({"operator": "Gt", "values": ["6"]}, True, id="more"),
        pytest.param({"operator": "Gt", "values": ["7"]}, False, id="not more"),
        pytest.param({"operator": "Lt", "values": ["8"]}, True, id="less"),
        pytest.param({"operator": "Lt", "values": ["x"]}, False, id="no number"),
        pytest.param({"operator": "Near", "values": ["7"]}, False, id="an operator of a later version"),
    ],
)
def test_an_expression_holds_as_kubernetes_has_it(expression: dict[str, Any], holds: bool):
    pod = {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "size", **expression}]}]}
                }
            }
        }
    }
    asked = want(required=(required_terms(pod, {}),))
    assert selected(node("n1", labels={"size": "7"}), asked) is holds


def test_what_the_plan_says_is_nothing_that_others_added():
    fleet = gated(spec=ONE)
    (pod,) = fleet.pods().values()
    assert required_terms(pod, pod["spec"]["nodeSelector"]) == ()
    assert wrote(fleet.reconcile().effects) == ["lift 0"]


def test_a_rollout_says_which_gate_of_others_it_waits_for():
    fleet = Fleet(manual(1, engine={"image": "image:1"}))
    fleet.settle()
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    fleet.reconcile()
    new = next(pod for pod in fleet.pods().values() if pod["spec"].get("schedulingGates"))
    new["spec"]["schedulingGates"].append({"name": "kueue.x-k8s.io/admission"})
    outcome = fleet.reconcile()
    assert wrote(outcome.effects) == []
    assert "waits behind the scheduling gate kueue.x-k8s.io/admission" in condition(outcome.status, "Progressing")[2]
