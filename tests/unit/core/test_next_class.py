"""A replica without room on the first listed class is made on the next one, and nothing is said that is not so."""

from datetime import timedelta
from typing import Any

import pytest

from builders import accelerator_class, check_status, condition
from class_worlds import class_of, node_of, on_classes, pools, settle, two_classes, write
from modelfleet.core import raw
from modelfleet.core.reconcile import plan
from planner_worlds import gpu_class, planned, settled


def told(outcome: Any) -> list[tuple[str, str]]:
    return [(event.reason, event.message) for event in outcome.events if event.reason == "NextClassUsed"]


def test_a_replica_without_room_on_the_first_class_is_made_on_the_next():
    stage = two_classes(3, {"small": 2, "big": 4})
    first = stage.reconcile()
    ((_, message),) = told(first)
    assert "is made on class big: class small needs 1 node × 1 free small; the best of 1 node has 0 free" in message
    outcome = settle(stage)
    check_status(outcome.status)
    assert on_classes(stage) == {"small": 2, "big": 1}
    assert pools(outcome) == [("small", 2), ("big", 1)]
    assert condition(outcome.status, "Placed") == (
        "True",
        "AllPlaced",
        "3 of 3 replicas have a node, 1 on class big because class small had no room when they were made",
    )
    assert outcome.status["readyReplicas"] == 3


def test_a_second_look_at_a_fleet_of_two_classes_writes_nothing_and_says_the_same():
    stage = two_classes(3, {"small": 2, "big": 4})
    settled = settle(stage)
    again = plan(stage.world())
    assert (again.effects, again.events) == ((), ())
    assert again.status == settled.status == stage.deployment["status"]


def test_what_serves_is_not_moved_when_the_first_class_has_room_again():
    stage = two_classes(3, {"small": 2, "big": 4})
    settle(stage)
    stage.nodes["small-1"] = node_of("small-1", "small", 2)
    assert settle(stage).effects == ()
    assert on_classes(stage) == {"small": 2, "big": 1}


def test_a_rollout_goes_back_to_the_first_class():
    stage = two_classes(3, {"small": 2, "big": 4})
    settle(stage)
    stage.nodes["small-1"] = node_of("small-1", "small", 2)
    write(stage, engine={"image": "image:2"})
    outcome = settle(stage)
    assert on_classes(stage) == {"small": 3}
    assert pools(outcome) == [("small", 3), ("big", 0)]


def test_the_later_class_is_left_first_at_a_scale_down():
    stage = two_classes(4, {"small": 2, "big": 4})
    settle(stage)
    assert on_classes(stage) == {"small": 2, "big": 2}
    write(stage, scaling={"replicas": 3})
    settle(stage)
    assert on_classes(stage) == {"small": 2, "big": 1}
    write(stage, scaling={"replicas": 1})
    settle(stage)
    assert on_classes(stage) == {"small": 1}


def test_where_no_class_has_room_the_shortfall_of_each_is_said():
    stage = two_classes(4, {"small": 2, "big": 1})
    outcome = settle(stage)
    status, reason, message = condition(outcome.status, "Placed")
    assert (status, reason) == ("False", "NoRoom")
    assert "needs 1 node × 1 free small" in message
    assert "class big needs 1 node × 1 free big; the best of 1 node has 0 free" in message
    assert pools(outcome) == [("small", 3), ("big", 1)]
    assert outcome.waits_for_room


def test_replicas_of_all_classes_count_against_the_wanted_number():
    stage = two_classes(8, {"small": 2, "big": 40}, scaling={"maxReplicas": 3})
    outcome = settle(stage)
    assert outcome.status["replicas"] == 3
    assert on_classes(stage) == {"small": 2, "big": 1}


def test_max_accelerators_holds_over_all_classes():
    stage = two_classes(
        4, {"small": 2, "big": 8}, parallelism={"tensor": 2}, scaling={"maxAccelerators": 5, "minReplicas": 1}
    )
    outcome = settle(stage)
    assert on_classes(stage) == {"small": 1, "big": 1}
    assert outcome.status["scaling"]["lastDecision"]["bound"] == "maxAccelerators"


def test_a_rollout_takes_the_room_of_old_replicas_before_another_class():
    stage = two_classes(2, {"small": 2, "big": 4})
    settle(stage)
    assert on_classes(stage) == {"small": 2}
    write(stage, engine={"image": "image:2"})
    settle(stage)
    assert on_classes(stage) == {"small": 2}


def test_a_rollout_that_may_take_nothing_away_goes_on_by_way_of_the_next_class():
    stage = two_classes(2, {"small": 2, "big": 4}, rollout={"maxUnavailable": 0})
    settle(stage)
    write(stage, engine={"image": "image:2"})
    outcome = settle(stage)
    assert condition(outcome.status, "Progressing")[1] == "Settled"
    assert on_classes(stage) == {"small": 1, "big": 1}


def test_a_class_that_cannot_carry_the_layout_is_named_with_the_reason():
    stage = two_classes(3, {"small": 2, "big": 4}, parallelism={"tensor": 2})
    stage.classes["big"] = class_of("big", 1)
    outcome = settle(stage)
    assert pools(outcome) == [("small", 3)]
    message = condition(outcome.status, "Planned")[2]
    assert "class big is not used: tensor parallelism stays inside a node" in message
    assert [(each["class"], each["check"]) for each in outcome.status["plan"]["rejected"]] == [
        ("big", "TensorExceedsNode")
    ]


def test_a_group_goes_to_the_next_class_as_a_whole():
    stage = two_classes(1, {"small": 2}, parallelism={"tensor": 2, "pipeline": 2})
    stage.nodes |= {f"big-{n}": node_of(f"big-{n}", "big", 4) for n in range(2)}
    outcome = settle(stage)
    assert on_classes(stage) == {"big": 1}
    assert pools(outcome) == [("small", 0), ("big", 1)]
    assert plan(stage.world()).effects == ()


def test_the_plan_of_the_later_pool_is_what_its_pods_mount():
    stage = two_classes(3, {"small": 2, "big": 4})
    settle(stage)
    for pod in stage.pods():
        (mounted,) = [v["configMap"]["name"] for v in pod["spec"]["volumes"] if v["name"] == "plan"]
        assert mounted == f"chat-{pod['metadata']['labels']['modelfleet.dev/revision']}"
        assert ("ConfigMap", mounted) in stage.objects


def test_the_map_of_a_pool_without_pods_goes():
    stage = two_classes(3, {"small": 2, "big": 4})
    settle(stage)
    write(stage, scaling={"replicas": 2})
    settle(stage)
    maps = [name for kind, name in stage.objects if kind == "ConfigMap" and name.count("-") == 1]
    assert len([name for name in maps if name not in ("chat-promise", "chat-state")]) == 1


BUYS = [{"name": "cloud", "provisioning": "Autoscaled"}]


def test_a_class_that_buys_nodes_is_asked_before_the_next_one():
    stage = two_classes(3, {"small": 2, "big": 4})
    stage.classes["small"] = class_of("small", 2, supplies=BUYS)
    settle(stage)
    assert on_classes(stage) == {"small": 3}


def test_a_class_at_its_limit_is_passed_over():
    stage = two_classes(3, {"small": 2, "big": 4})
    stage.classes["small"] = class_of("small", 2, supplies=[{**BUYS[0], "limit": 2}])
    ((_, message),) = told(stage.reconcile())
    settle(stage)
    assert on_classes(stage) == {"small": 2, "big": 1}
    assert "class small" in message


@pytest.mark.parametrize("later", [pytest.param(["cpu"], id="one class"), pytest.param(["cpu", "big"], id="two")])
def test_a_class_that_is_listed_later_restarts_nothing(later: list[str]):
    stage = two_classes(2, {}, accelerators={"classes": ["cpu"]})
    stage.classes |= {"cpu": accelerator_class()}
    stage.nodes = {"one": node_of("one", "cpu", 2), "two": node_of("two", "big", 4)}
    settle(stage)
    before = [pod["metadata"]["uid"] for pod in stage.pods()]
    write(stage, accelerators={"classes": later}, scaling={"replicas": 3})
    outcome = settle(stage)
    after = [pod["metadata"]["uid"] for pod in stage.pods()]
    assert before == [uid for uid in after if uid in before]
    assert on_classes(stage) == ({"cpu": 2, "big": 1} if "big" in later else {"cpu": 2})
    assert plan(stage.world()).status == outcome.status


def test_a_class_that_is_taken_off_the_list_is_left():
    stage = two_classes(3, {"small": 2, "big": 4})
    settle(stage)
    stage.nodes["small-1"] = node_of("small-1", "small", 2)
    write(stage, accelerators={"classes": ["small"]})
    outcome = settle(stage)
    assert on_classes(stage) == {"small": 3}
    assert pools(outcome) == [("small", 3)]


def test_a_plan_that_was_pinned_for_the_first_class_alone_stays_as_it_is():
    stage = two_classes(2, {"small": 2, "big": 4}, accelerators={"classes": ["small"]})
    settle(stage)
    # What a version pinned that used the first class alone: the same hash, made from the whole list.
    (stored,) = stage.of("ControllerRevision")
    stored["data"]["spec"]["accelerators"]["classes"] = ["small", "big"]
    write(stage, accelerators={"classes": ["small", "big"]}, scaling={"replicas": 3})
    outcome = settle(stage)
    assert on_classes(stage) == {"small": 2}
    assert pools(outcome) == [("small", 3)]
    assert condition(outcome.status, "Placed")[1] == "NoRoom"
    assert [raw.name(each) for each in stage.of("ControllerRevision")] == [raw.name(stored)]


def test_a_predicted_plan_that_was_pinned_for_one_class_stays_as_it_is():
    two = {"h100": gpu_class(), "other": gpu_class("other")}
    fleet = settled(planned(accelerators={"classes": ["h100", "other"]}), classes=two)
    (stored,) = (item for (kind, _), item in fleet.objects.items() if kind == "ControllerRevision")
    assert [each["className"] for each in stored["data"]["plan"].pop("others")] == ["other"]
    fleet.settle(rounds=400)  # it waits for room until the progress deadline
    assert [pool["class"] for pool in fleet.deployment["status"]["plan"]["pools"]] == ["h100"]
    assert "others" not in stored["data"]["plan"]


def test_what_the_operator_remembers_of_a_class_listed_later_may_be_lost():
    stage = two_classes(2, {"small": 2, "big": 4}, accelerators={"classes": ["small"]})
    settle(stage)
    write(stage, accelerators={"classes": ["small", "big"]}, scaling={"replicas": 3})
    settle(stage)
    before = [pod["metadata"]["uid"] for pod in stage.pods()]
    del stage.objects["ConfigMap", "chat-state"]
    settle(stage)
    assert on_classes(stage) == {"small": 2, "big": 1}
    assert [pod["metadata"]["uid"] for pod in stage.pods()] == before


def test_a_class_whose_nodes_do_not_come_gives_way_to_the_next():
    stage = two_classes(1, {"big": 4})
    stage.classes["small"] = class_of("small", 2, supplies=BUYS)
    stage.reconcile()
    (pod,) = stage.pods()
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    pod["status"] = {"phase": "Pending", "conditions": [refused | {"lastTransitionTime": stage.now.isoformat()}]}
    stage.now += timedelta(seconds=600)
    assert stage.reconcile().effects == ()
    stage.now += timedelta(seconds=301)
    ((_, message),) = told(stage.reconcile())
    settle(stage)
    assert "is made on class big" in message
    assert on_classes(stage) == {"big": 1}


def test_an_image_that_is_taken_back_is_not_kept_by_a_revision_of_the_same_form():
    stage = two_classes(1, {"small": 2, "big": 4}, engine={"image": "mine:1"})
    settle(stage)
    write(stage, engine=None)
    settle(stage)
    (pod,) = stage.pods()
    assert pod["spec"]["containers"][0]["image"] == "worker"
