"""The planner in the reconcile: when it chooses, what it makes of it, and what is said where it cannot."""

from dataclasses import replace
from typing import Any

import pytest

from builders import Fleet, Raw, condition
from modelfleet.core.placement.project import empty_node
from modelfleet.core.placement.view import ClusterView
from modelfleet.core.reconcile import plan
from planner_worlds import FACTS_70B, FACTS_405B, PlannedFleet, gpu_class, node, objective, planned, settled

SLOW = {"ttft": "5s", "tpot": "500ms"}
PLAIN = gpu_class(memory=None, memoryBandwidth=None, compute=None)


def refused(of: Raw, **parts: Any) -> tuple[str, str]:
    """Reason and message of what has no plan; nothing was made."""
    fleet = PlannedFleet(of, **parts)
    outcome = fleet.reconcile()
    assert outcome.effects == ()
    state, reason, message = condition(outcome.status, "Planned")
    assert state == "False"
    assert [event.reason for event in outcome.events if event.type == "Warning"] == [reason]
    return reason, message


def args(fleet: Fleet) -> list[str]:
    (item,) = [item for (kind, _), item in fleet.objects.items() if kind == "ControllerRevision"]
    return list(item["data"]["plan"]["engineArgs"])


def test_without_parallelism_a_layout_is_chosen_pinned_and_explained():
    fleet = PlannedFleet(planned())
    outcome = fleet.reconcile()
    pool = outcome.status["plan"]["pools"][0]
    assert (pool["layout"], pool["class"], pool["acceleratorsPerReplica"]) == ("tp1", "h100", 1)
    assert pool["predicted"]["source"] == "predicted"
    assert pool["engine"]["tokenBudget"] > 0
    assert {reason["check"] for reason in outcome.status["plan"]["reasons"]} >= {"FitsOneAccelerator", "TokenBudget"}
    assert outcome.status["plan"]["rejected"][0]["layout"] == "tp2"
    (event,) = [event for event in outcome.events if event.reason == "PlanPinned"]
    assert event.message == condition(outcome.status, "Planned")[2]
    assert "fits one accelerator" in event.message


def test_what_the_planner_chose_is_what_the_engine_is_started_with():
    fleet = settled(planned())
    engine = fleet.deployment["status"]["plan"]["pools"][0]["engine"]
    assert f"--max-num-batched-tokens={engine['tokenBudget']}" in args(fleet)
    assert f"--max-num-seqs={engine['sequenceCap']}" in args(fleet)


def test_a_users_flag_is_a_pin_and_stands_once():
    fleet = settled(planned(engine={"args": {"max-num-seqs": 24}}))
    assert [flag for flag in args(fleet) if flag.startswith("--max-num-seqs")] == ["--max-num-seqs=24"]
    assert fleet.deployment["status"]["plan"]["pools"][0]["engine"]["sequenceCap"] == 24


def test_a_model_that_one_accelerator_does_not_hold_is_sharded():
    fleet = settled(planned(FACTS_70B, objectives=objective(**SLOW)))
    pool = fleet.deployment["status"]["plan"]["pools"][0]
    assert pool["acceleratorsPerReplica"] > 1
    (pod,) = fleet.pods().values()
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/gpu": str(pool["acceleratorsPerReplica"])
    }


def test_as_many_replicas_run_as_the_load_needs_inside_the_bounds():
    fleet = settled(planned(objectives=objective(load={"requestsPerSecond": 120}), scaling={"maxReplicas": 3}))
    decision = fleet.deployment["status"]["scaling"]["lastDecision"]
    assert decision["reason"] == "SizedForLoad"
    assert 1 < decision["to"] <= 3
    assert len(fleet.pods()) == decision["to"]


def test_fewer_accelerators_than_the_load_needs_clip_the_replicas_and_say_so():
    many = planned(objectives=objective(load={"requestsPerSecond": 120}))
    fleet = settled(many)
    wanted = len(fleet.pods())
    many["spec"]["scaling"]["maxAccelerators"] = wanted - 1
    fleet.deployment["spec"] = many["spec"]
    fleet.settle()
    decision = fleet.deployment["status"]["scaling"]["lastDecision"]
    assert (decision["to"], decision["bound"]) == (wanted - 1, "maxAccelerators")


def test_the_cheapest_class_that_keeps_the_promise_is_taken():
    two = {"h100": gpu_class(), "cheap": gpu_class("cheap", supplies=[{"name": "a", "pricePerAcceleratorHour": "1"}])}
    nodes = (node("one"), node("two", "cheap"))
    by_cost = settled(planned(accelerators={"classes": ["h100", "cheap"]}), classes=two, nodes=nodes)
    by_order = settled(
        planned(accelerators={"classes": ["h100", "cheap"], "prefer": "Order"}), classes=two, nodes=nodes
    )
    assert by_cost.deployment["status"]["plan"]["pools"][0]["class"] == "cheap"
    assert by_order.deployment["status"]["plan"]["pools"][0]["class"] == "h100"
    assert by_order.deployment["status"]["plan"]["pools"][1]["class"] == "cheap"


@pytest.mark.parametrize(
    ("free", "said"),
    [
        pytest.param(8, False, id="a free node"),
        pytest.param(1, False, id="one accelerator is enough"),
        pytest.param(0, True, id="others hold all of it"),
    ],
)
def test_what_pods_of_others_hold_is_not_free_to_a_plan(free: int, said: bool):
    one = replace(empty_node(node("one")), free={"nvidia.com/gpu": free})
    world = PlannedFleet(planned()).world().showing(ClusterView(nodes=(one,)), "")
    message = condition(plan(world).status, "Planned")[2]
    assert ("class h100 has 0 free accelerators in 1 node" in message) == said


def test_while_the_nodes_are_not_known_no_layout_is_chosen_and_the_condition_says_why():
    world = PlannedFleet(planned()).world().showing(None, "the pods of the cluster are not all read yet")
    outcome = plan(world)
    assert outcome.effects == ()
    assert condition(outcome.status, "Planned") == (
        "Unknown",
        "NodesNotRead",
        "the pods of the cluster are not all read yet, so no layout is chosen",
    )


def test_what_our_own_pods_hold_is_free_to_a_plan():
    fleet = settled(planned())
    own = next(iter(fleet.pods().values()))
    own["spec"]["nodeName"] = "one"
    fleet.deployment["spec"]["objectives"] = objective(tpot="20ms")
    full = replace(empty_node(node("one", count=1)), free={"nvidia.com/gpu": 0})
    message = condition(plan(fleet.world().showing(ClusterView(nodes=(full,)), "")).status, "Planned")[2]
    assert "free accelerators" not in message


def test_the_standard_of_the_class_chooses_among_the_variants():
    variants = {"variants": [{"weights": "fp8", "source": "pvc://quantized/llama-fp8"}]}
    fleet = settled(planned(model=variants), classes={"h100": gpu_class(standardQuantization={"weights": "fp8"})})
    pool = fleet.deployment["status"]["plan"]["pools"][0]
    assert pool["quantization"]["weights"] == "fp8"
    (pod,) = fleet.pods().values()
    assert {"claimName": "quantized", "readOnly": True} in [
        volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"]
    ]


def test_a_price_that_changed_shows_in_the_cost_without_a_new_plan():
    fleet = settled(planned())
    fleet.classes = {"h100": gpu_class(supplies=[{"name": "spot", "pricePerAcceleratorHour": "9"}])}
    fleet.settle()
    assert fleet.deployment["status"]["cost"]["perHour"] == "9"


def test_an_api_to_compare_with_is_answered_and_changes_nothing():
    price = {"inputPerMillionTokens": "0.2", "outputPerMillionTokens": "0.6"}
    fleet = settled(planned(economics={"apiPrice": price, "reasons": ["DataControl"]}))
    cost = fleet.deployment["status"]["cost"]
    assert (cost["cheaper"], cost["reasons"]) == ("Api", ["DataControl"])
    assert float(cost["breakEvenRequestsPerSecond"]) > 1


def test_a_class_without_a_price_costs_nothing_that_is_known():
    fleet = settled(planned(), classes={"h100": gpu_class(supplies=None)})
    assert "perHour" not in fleet.deployment["status"]["cost"]


def test_an_infeasible_promise_names_the_bound_and_offers_and_makes_no_pod():
    reason, message = refused(planned(objectives=objective(ttft="1ms")))
    assert reason == "Infeasible"
    assert "ttft" in message
    assert "nearest that would work" in message


def test_what_runs_goes_on_while_the_new_wish_is_infeasible():
    fleet = settled(planned())
    pods = fleet.pods()
    fleet.deployment["spec"]["objectives"] = objective(ttft="1ms")
    outcome = fleet.reconcile()
    assert condition(outcome.status, "Planned")[1] == "Infeasible"
    assert fleet.pods() == pods
    assert condition(outcome.status, "Available")[0] == "True"


@pytest.mark.parametrize(
    ("of", "parts", "reason", "words"),
    [
        pytest.param(
            planned(parallelism={"tensor": 3}),
            {},
            "Infeasible",
            ("32 attention heads", "3 accelerators", "without spec.parallelism.tensor"),
            id="a tensor that does not divide the heads",
        ),
        pytest.param(
            planned(model={"maxContextTokens": 1_000_000}),
            {},
            "Contradiction",
            ("spec.model.maxContextTokens", "131,072"),
            id="a context longer than the model's",
        ),
        pytest.param(
            planned(parallelism={"strategy": "Disaggregated"}),
            {},
            "NotRolledOut",
            ("spec.parallelism.strategy is Disaggregated",),
            id="prefill and decode apart",
        ),
        pytest.param(
            planned(engine={"version": "0.30.0"}),
            {"classes": {"h100": gpu_class(engineVersions=["0.32.0", "0.33.0"])}},
            "EngineVersionNotAllowed",
            ("spec.engine.version is 0.30.0", "0.32.0, 0.33.0"),
            id="an engine version that the class does not allow",
        ),
        pytest.param(
            planned(scaling={"minReplicas": 2, "maxAccelerators": 1}),
            {},
            "Contradiction",
            ("spec.scaling.maxAccelerators is 1", "2"),
            id="too few accelerators for minReplicas",
        ),
        pytest.param(
            planned(model={"variants": [{"weights": "bf16", "source": "pvc://weights/again"}]}),
            {},
            "Contradiction",
            ("spec.model.variants[0].weights", "stored in bf16 already"),
            id="a variant that is the source",
        ),
        pytest.param(
            planned(parallelism={"strategy": "Sharded"}),
            {"classes": {"h100": PLAIN}},
            "NothingPredicted",
            ("spec.parallelism.strategy", "class h100 states no performance"),
            id="a choice that needs predictions on a class without performance",
        ),
        pytest.param(
            planned(parallelism={"tensor": 64, "pipeline": 64, "data": 64}),
            {"classes": {"h100": PLAIN}},
            "NotRolledOut",
            ("tp64-pp64-dp64", "262144 accelerators", "32768 nodes"),
            id="a pinned layout over more nodes than are rolled out",
        ),
        pytest.param(
            planned(parallelism={"tensor": 16}),
            {"classes": {"h100": PLAIN}},
            "TensorExceedsNode",
            ("tensor is 16", "has 8"),
            id="tensor parallelism over more than a node has",
        ),
    ],
)
def test_what_has_no_plan_is_said_with_what_would_work(of: Raw, parts: Raw, reason: str, words: tuple[str, ...]):
    got, message = refused(of, **parts)
    assert got == reason
    assert [word for word in words if word not in message] == []


def test_a_plan_that_is_not_rolled_out_is_shown():
    shown = PlannedFleet(planned(parallelism={"strategy": "Disaggregated"})).reconcile().status["plan"]
    assert shown["revision"] == ""
    assert shown["pools"][0]["replicas"] == 0


def test_a_replica_over_several_nodes_is_a_group_of_pods():
    asked = planned(FACTS_405B, objectives=objective(**SLOW), model={"maxContextTokens": 8192})
    fleet = PlannedFleet(asked, machines=("one", "two"))
    status = fleet.reconcile().status
    (pool,) = status["plan"]["pools"]
    assert (pool["layout"], pool["acceleratorsPerReplica"]) == ("tp8-pp2", 16)
    leader, follower = list(fleet.pods().values())[:2]
    assert follower["metadata"]["name"] == f"{leader['metadata']['name']}-1"
    for pod in (leader, follower):
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}


def test_a_class_without_performance_is_used_as_pinned_and_says_that_nothing_was_predicted():
    fleet = settled(planned(parallelism={"tensor": 2, "pipeline": 2}), classes={"h100": PLAIN})
    status = fleet.deployment["status"]
    assert status["plan"]["pools"] == [
        {"role": "Serve", "class": "h100", "layout": "tp2-pp2", "acceleratorsPerReplica": 4, "replicas": 1}
    ]
    assert "nothing was predicted, because class h100 states no performance" in condition(status, "Planned")[2]
    assert args(fleet)[:2] == ["--tensor-parallel-size=2", "--pipeline-parallel-size=2"]


def test_of_several_classes_only_those_with_performance_are_compared():
    fleet = settled(
        planned(accelerators={"classes": ["plain", "h100"]}),
        classes={"plain": gpu_class("plain", memory=None, memoryBandwidth=None, compute=None), "h100": gpu_class()},
    )
    assert fleet.deployment["status"]["plan"]["pools"][0]["class"] == "h100"


def test_the_status_of_an_unchanged_world_is_the_same_bytes():
    fleet = settled(planned())
    assert plan(fleet.world()).status == fleet.deployment["status"]
