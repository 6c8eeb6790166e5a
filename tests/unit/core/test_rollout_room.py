"""No replica leaves in vain: where its replacement could stand nowhere once it left, it stays, and that is said."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import Raw, condition, is_ready, merged
from class_worlds import MOST_STEPS, class_of, node_of, on_classes, two_classes, write
from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.effects import Outcome
from modelfleet.core.ending import LATE_S
from modelfleet.core.reconcile import plan
from modelfleet.core.stage import Happening, Stage
from silent_nodes import SilentStage

SMALL = {"accelerators": {"classes": ["small"]}}
NO_SURGE = {"rollout": {"maxSurge": 0}}
NONE_MISSING = {"rollout": {"maxUnavailable": 0}}


def small(replicas: int, *sizes: int, **spec: Any) -> SilentStage:
    """A fleet of so many replicas that serve, on nodes `small-0`, `small-1`, ... with so many accelerators each."""
    made = two_classes(replicas, {}, **{**SMALL, **spec})
    nodes = {f"small-{n}": node_of(f"small-{n}", "small", size) for n, size in enumerate(sizes)}
    stage = SilentStage(made.deployment, made.classes, nodes)
    outcome = last(stage)
    assert outcome.status["readyReplicas"] == replicas
    return stage


def steps(stage: Stage) -> Iterator[Outcome]:
    """What is decided, one after the other, until nothing is to happen any more, or only time would pass."""
    for _ in range(MOST_STEPS):
        outcome = stage.reconcile()
        yield outcome
        if outcome.effects:
            continue
        if stage.next(outcome.wake_after_s) in (Happening.NOTHING, Happening.WAITED):
            return
        stage.happen(outcome.wake_after_s)
    raise AssertionError(f"{MOST_STEPS} steps, and it does not come to rest")


def last(stage: Stage) -> Outcome:
    """The last of them."""
    return list(steps(stage))[-1]


def live(stage: Stage) -> list[Raw]:
    """The pods that nobody has asked to end."""
    return [pod for pod in stage.pods() if "deletionTimestamp" not in pod["metadata"]]


def serving(stage: Stage) -> list[Raw]:
    """The pods that get requests and answer them."""
    label = names.SERVING_LABEL
    return [pod for pod in stage.pods() if is_ready(pod) and pod["metadata"]["labels"].get(label) == "true"]


def least(stage: Stage) -> tuple[int, Outcome]:
    """How many served at the worst moment, and the last decision."""
    seen = [(len(serving(stage)), outcome) for outcome in steps(stage)]
    return min(count for count, _ in seen), seen[-1][1]


def images(pods: list[Raw]) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in pods)


def cordon(stage: Stage, name: str) -> None:
    stage.nodes[name] = merged(stage.nodes[name], {"spec": {"unschedulable": True}})


def progressing(outcome: Outcome) -> tuple[str, str]:
    return condition(outcome.status, "Progressing")[:2]


def test_without_a_surge_no_replica_leaves_a_cordoned_node_before_another_has_room():
    stage = small(2, 1, 1, **NO_SURGE)
    cordon(stage, "small-1")
    fewest, outcome = least(stage)
    assert (fewest, progressing(outcome)) == (2, ("False", "CordonedNode"))
    assert outcome.waits_for_room
    stage.nodes["small-2"] = node_of("small-2", "small", 1)
    fewest, outcome = least(stage)
    assert (fewest, progressing(outcome)) == (2, ("False", "Settled"))
    assert sorted(pod["spec"]["nodeName"] for pod in serving(stage)) == ["small-0", "small-2"]


@pytest.mark.parametrize("surge", [0, 1])
def test_the_only_replica_does_not_leave_for_one_that_no_node_may_hold(surge: int):
    stage = small(1, 1, rollout={"maxSurge": surge})
    write(stage, placement={"nodeSelector": {"pool": "nowhere"}})
    fewest, outcome = least(stage)
    assert (fewest, progressing(outcome)) == (1, ("False", "NoRoom"))
    assert "what an old replica holds would not do" in condition(outcome.status, "Progressing")[2]
    assert outcome.waits_for_room
    again = plan(stage.world())
    assert (again.effects, again.status) == ((), outcome.status)


@pytest.mark.parametrize("surge", [0, 1])
def test_those_leave_first_on_whose_nodes_the_new_ones_may_stand(surge: int):
    stage = small(2, 1, 1, rollout={"maxSurge": surge})
    stage.nodes["small-0"] = merged(stage.nodes["small-0"], {"metadata": {"labels": {"pool": "b"}}})
    before = {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in stage.pods()}
    write(stage, placement={"nodeSelector": {"pool": "b"}})
    fewest, outcome = least(stage)
    after = {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in serving(stage)}
    assert fewest == 1
    assert after["small-1"] == before["small-1"]
    assert after["small-0"] != before["small-0"]
    assert progressing(outcome) == ("False", "NoRoom")


@pytest.mark.parametrize("surge", [0, 1])
def test_a_tainted_node_gives_no_room_to_the_new_ones(surge: int):
    stage = small(2, 1, 1, rollout={"maxSurge": surge})
    taint = {"spec": {"taints": [{"key": "repair", "effect": "NoSchedule"}]}}
    stage.nodes["small-1"] = merged(stage.nodes["small-1"], taint)
    write(stage, engine={"image": "image:2"})
    fewest, outcome = least(stage)
    assert (fewest, len(serving(stage))) == (1, 2)
    assert {pod["spec"]["nodeName"]: images([pod]) for pod in serving(stage)}["small-0"] == ["image:2"]
    assert progressing(outcome) == ("False", "NoRoom")


def test_what_leaves_must_leave_its_room_where_the_new_one_can_use_it():
    stage = small(2, 4, 4, parallelism={"tensor": 2, "pipeline": 2})
    assert [pod["spec"]["nodeName"] for pod in stage.pods()].count("small-0") == 2
    stage.classes["small"] = class_of("small", 4)
    write(stage, parallelism={"tensor": 4, "pipeline": None})  # on one node, of which a group leaves a half
    fewest, outcome = least(stage)
    assert (fewest, progressing(outcome)) == (2, ("False", "NoRoom"))


def test_without_a_surge_a_rollout_goes_on_by_way_of_the_next_class_and_never_holds_more():
    stage = small(1, 1, accelerators={"classes": ["small", "big"]}, **NO_SURGE)
    stage.nodes["big-0"] = node_of("big-0", "big", 4)
    write(stage, parallelism={"tensor": 2})
    seen = [(len(live(stage)), outcome) for outcome in steps(stage)]
    assert max(count for count, _ in seen) == 1
    assert progressing(seen[-1][1]) == ("False", "Settled")
    assert on_classes(stage) == {"big": 1}


def test_without_a_surge_none_leaves_while_the_nodes_are_not_known():
    stage = small(2, 1, 1, **NO_SURGE)
    write(stage, engine={"image": "image:2"})
    outcome = plan(replace(stage.world(), cluster=None, unread="nothing was read"))
    stage.execute(outcome.effects)
    assert len(serving(stage)) == 2
    assert "old ones stay while the nodes are not known" in condition(outcome.status, "Progressing")[2]


def test_the_replacement_of_a_cordoned_replica_goes_on_starting_while_the_nodes_are_not_known():
    stage = small(2, 1, 1, 1)
    cordoned = next(pod["spec"]["nodeName"] for pod in stage.pods())
    stage.nodes[cordoned] = merged(stage.nodes[cordoned], {"spec": {"unschedulable": True}})
    for _ in range(2):  # made, bound
        stage.happen(stage.reconcile().wake_after_s)
    assert (len(live(stage)), len(serving(stage))) == (3, 2)
    outcome = plan(replace(stage.world(), cluster=None, unread="nothing was read"))
    stage.execute(outcome.effects)
    assert len(live(stage)) == 3
    assert progressing(outcome) == ("True", "Scaling")
    assert "nothing was read, so none leaves" in condition(outcome.status, "Progressing")[2]
    assert (progressing(last(stage)), len(serving(stage))) == (("False", "Settled"), 2)
    assert cordoned not in {pod["spec"]["nodeName"] for pod in stage.pods()}


def test_a_rollout_goes_in_place_though_a_pod_never_ends_on_a_dead_node():
    stage = small(2, 1, 1, 1)
    dead = next(pod["spec"]["nodeName"] for pod in stage.pods())
    stage.fall_silent(dead)
    outcome = last(stage)
    assert len(serving(stage)) == 2
    assert progressing(outcome) == ("True", "Draining")
    assert f"cannot end, because node {dead} is not ready" in condition(outcome.status, "Progressing")[2]
    write(stage, engine={"image": "image:2"})
    fewest, outcome = least(stage)
    assert fewest == 1
    assert images(serving(stage)) == ["image:2", "image:2"]
    assert f"cannot end, because node {dead} is not ready" in condition(outcome.status, "Progressing")[2]


@pytest.mark.parametrize("change", [{}, {"engine": {"image": "image:2"}}], ids=["at rest", "in a rollout"])
def test_room_that_a_dead_node_does_not_free_is_missed_and_said(change: Raw):
    stage = small(2, 1, 1)
    stage.fall_silent("small-1")
    write(stage, **change)
    outcome = last(stage)
    assert len(serving(stage)) == 1
    assert progressing(outcome) == ("False", "NoRoom")
    assert "not counted: 1 not ready" in condition(outcome.status, "Progressing")[2]


@pytest.mark.parametrize("change", [{}, {"engine": {"image": "image:2"}}], ids=["at rest", "in a rollout"])
def test_what_a_dead_node_does_not_free_is_taken_of_the_next_class(change: Raw):
    stage = small(2, 1, 1, accelerators={"classes": ["small", "big"]})
    stage.nodes["big-0"] = node_of("big-0", "big", 4)
    stage.fall_silent("small-1")
    write(stage, **change)
    fewest, _ = least(stage)
    assert (fewest, len(serving(stage))) == (1, 2)


@pytest.mark.parametrize(
    ("count", "sizes", "before", "after"),
    [
        pytest.param(1, [2], {}, {"tensor": 2}, id="one leaves what is lacking beside what is free"),
        pytest.param(2, [8], {"tensor": 2}, {"tensor": 4}, id="the second one needs what is left over too"),
        pytest.param(
            1, [2] * 4, {"tensor": 2, "pipeline": 2}, {"tensor": 2, "pipeline": 4}, id="a group on free nodes too"
        ),
    ],
)
def test_a_larger_layout_takes_what_is_free_and_what_an_old_one_leaves(
    count: int, sizes: list[int], before: Raw, after: Raw
):
    stage = small(count, *sizes, **({"parallelism": before} if before else {}))
    stage.classes["small"] = class_of("small", sizes[0])
    write(stage, parallelism=after)
    fewest, outcome = least(stage)
    assert (fewest, progressing(outcome)) == (count - 1, ("False", "Settled"))
    assert outcome.status["readyReplicas"] == count


def test_as_many_leave_as_a_larger_one_needs_where_fewer_are_wanted():
    stage = small(4, *[2] * 4, parallelism={"tensor": 2})
    write(stage, parallelism={"tensor": 2, "pipeline": 2}, scaling={"replicas": 2})
    outcome = last(stage)
    assert (outcome.status["readyReplicas"], progressing(outcome)) == (2, ("False", "Settled"))


def test_where_more_would_have_to_leave_than_may_be_missing_none_does_and_it_is_said():
    stage = small(2, 2)
    write(stage, parallelism={"tensor": 2})
    fewest, outcome = least(stage)
    assert (fewest, progressing(outcome)) == (2, ("False", "NoRoom"))
    said = condition(outcome.status, "Progressing")[2]
    assert "maxUnavailable is 1, so no old replica makes room, and 2 would have to: allow 2" in said
    write(stage, rollout={"maxUnavailable": 2})
    assert last(stage).status["readyReplicas"] == 1  # the node holds no second one


def on_two_classes(replicas: int, rooms: dict[str, int], **spec: Any) -> SilentStage:
    """A fleet that serves on two classes, with one accelerator on each node."""
    made = two_classes(replicas, {}, **spec)
    nodes = {f"{kind}-{n}": node_of(f"{kind}-{n}", kind, 1) for kind, count in rooms.items() for n in range(count)}
    stage = SilentStage(made.deployment, made.classes, nodes)
    assert last(stage).status["readyReplicas"] == replicas
    return stage


@pytest.mark.parametrize("surge", [0, 1])
@pytest.mark.parametrize("small_ones", [2, 0])
def test_an_old_one_on_a_later_class_makes_room_there(small_ones: int, surge: int):
    stage = on_two_classes(3, {"small": small_ones, "big": 3 - small_ones}, rollout={"maxSurge": surge})
    write(stage, engine={"image": "image:2"})
    fewest, outcome = least(stage)
    assert (fewest, progressing(outcome)) == (2, ("False", "Settled"))
    assert images(serving(stage)) == ["image:2"] * 3
    assert on_classes(stage) == {kind: n for kind, n in {"small": small_ones, "big": 3 - small_ones}.items() if n}


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "dead"])
def test_a_node_that_goes_in_the_middle_of_a_rollout_is_made_up_for_on_the_next_class(gone: bool):
    stage = on_two_classes(3, {"small": 3, "big": 0})
    stage.nodes |= {f"big-{n}": node_of(f"big-{n}", "big", 1) for n in range(3)}
    write(stage, engine={"image": "image:2"})
    next(each for each in steps(stage) if "image:2" in images(serving(stage)))
    lost = next(pod["spec"]["nodeName"] for pod in serving(stage) if images([pod]) != ["image:2"])
    stage.fall_silent(lost)
    if gone:
        del stage.nodes[lost]
        stage.objects = {
            key: each for key, each in stage.objects.items() if each.get("spec", {}).get("nodeName") != lost
        }
    assert least(stage)[0] >= 1
    assert images(serving(stage)) == ["image:2"] * 3
    assert on_classes(stage)["big"] >= 1


def test_where_as_many_are_missing_as_may_be_that_is_what_is_said():
    stage = small(2, 1, 1)
    del stage.nodes["small-1"]
    stage.objects = {
        key: each for key, each in stage.objects.items() if each.get("spec", {}).get("nodeName") != "small-1"
    }
    write(stage, engine={"image": "image:2"})
    fewest, outcome = least(stage)
    assert (fewest, progressing(outcome)) == (1, ("False", "NoRoom"))
    assert "because as many are missing as may be" in condition(outcome.status, "Progressing")[2]


@pytest.mark.parametrize("classes", [["small"], ["small", "big"]], ids=["in place", "on the next class"])
def test_a_rollout_does_not_wait_for_a_pod_that_hangs(classes: list[str]):
    stage = small(2, 1, 1, accelerators={"classes": classes}, **({} if len(classes) == 1 else NONE_MISSING))
    stage.nodes |= {f"big-{n}": node_of(f"big-{n}", "big", 1) for n in range(2)}
    write(stage, engine={"image": "image:2"}, scaling={"replicas": 2 if len(classes) > 1 else 1})
    hung = raw.name(stage.pods()[-1])
    stage.hanging.add(hung)
    stage.delete(("Pod", hung))
    waits = last(stage)
    assert progressing(waits) == ("True", "RollingOut")
    assert images(live(stage)) != ["image:2"]
    assert waits.wake_after_s == pytest.approx(LATE_S, abs=1)
    stage.now += timedelta(seconds=LATE_S)
    seen = list(steps(stage))
    assert any(f"{hung} has not ended" in condition(each.status, "Progressing")[2] for each in seen)
    assert images(serving(stage)) == ["image:2"] * len(live(stage))


def test_a_rollout_does_not_wait_for_a_hanging_pod_of_others():
    stage = small(1, 1, 1)
    free = next(name for name in stage.nodes if name != stage.pods()[0]["spec"]["nodeName"])
    other = {"requests": {"modelfleet.dev/small": "1"}}
    stage.others = [
        {
            "kind": "Pod",
            "metadata": {"name": "other", "namespace": "other", "deletionTimestamp": stage.now.isoformat()},
            "spec": {"nodeName": free, "containers": [{"name": "main", "resources": other}]},
            "status": {"phase": "Running"},
        }
    ]
    write(stage, engine={"image": "image:2"})
    waits = last(stage)
    assert waits.wake_after_s == pytest.approx(LATE_S, abs=1)
    assert "a new replica waits for the room of pods that end" in condition(waits.status, "Progressing")[2]
    assert images(serving(stage)) != ["image:2"]
    stage.now += timedelta(seconds=LATE_S)
    last(stage)
    assert images(serving(stage)) == ["image:2"]


def test_what_leaves_gives_back_its_place_in_its_fabric_domain():
    """On a full node of four domains of two: each holds one replica, and each that leaves frees one."""
    stage = small(1, 8, parallelism={"tensor": 2})
    stage.classes["small"] = class_of("small", 8, fabric={"domainSize": 2, "bandwidth": "300G"})
    write(stage, scaling={"replicas": 4})
    assert last(stage).status["readyReplicas"] == 4
    write(stage, engine={"image": "image:2"})
    fewest, outcome = least(stage)
    assert (fewest, progressing(outcome)) == (3, ("False", "Settled"))
    assert images(serving(stage)) == ["image:2"] * 4


def test_at_the_most_accelerators_a_replica_of_a_later_class_still_leaves_a_cordoned_node():
    stage = on_two_classes(2, {"small": 0, "big": 2}, scaling={"maxAccelerators": 2})
    stage.nodes["big-2"] = node_of("big-2", "big", 1)
    cordon(stage, "big-0")
    fewest, outcome = least(stage)
    assert (fewest, progressing(outcome)) == (2, ("False", "Settled"))
    assert {pod["spec"]["nodeName"] for pod in serving(stage)} == {"big-1", "big-2"}


def test_a_pod_that_hangs_is_told_of_in_time_whoever_decides_the_number():
    stage = small(2, 1, 1)
    stage.hanging |= {raw.name(pod) for pod in stage.pods()}
    write(stage, scaling={"replicas": 1})
    waits = last(stage)
    assert len(live(stage)) == 1
    assert waits.wake_after_s is not None
    assert waits.wake_after_s <= LATE_S + 600
