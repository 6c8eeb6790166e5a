"""Films: the real decision, iterated against a tiny cluster from seeded random starts, always comes to rest."""

import random

import pytest

from builders import Fleet, accelerator_class, condition, deployment, foreign, manual, merged
from modelfleet.core.effects import Delete
from modelfleet.core.reconcile import plan

IMAGES = ("image:1", "image:2", "image:3")


def wanted(fleet: Fleet) -> int:
    return int(fleet.deployment["spec"]["scaling"]["replicas"])


def change(fleet: Fleet, choose: random.Random) -> None:
    """Something that a user, a node or an accident does."""
    pods = list(fleet.pods().values())
    match choose.randrange(8):
        case 0 | 1:
            fleet.deployment["spec"]["scaling"]["replicas"] = choose.randint(1, 5)
        case 2 | 3:
            fleet.deployment["spec"]["engine"] = {"image": choose.choice(IMAGES)}
        case 4 if pods:
            choose.choice(pods)["metadata"]["deletionTimestamp"] = fleet.now.isoformat()
        case 5 if pods:
            choose.choice(pods)["status"] = {"phase": "Failed", "reason": "Evicted"}
        case 6 if pods:
            choose.choice(pods)["metadata"]["labels"]["modelfleet.dev/serving"] = choose.choice(["false", "no"])
        case 7:
            others = [key for key in fleet.objects if key[0] != "Pod"]
            if others:
                del fleet.objects[choose.choice(sorted(others))]


@pytest.mark.parametrize("seed", range(40))
def test_any_story_comes_to_rest_and_stays_there(seed: int) -> None:
    choose = random.Random(seed)
    fleet = Fleet(manual(choose.randint(1, 5)), room=choose.choice([5, 6, 100]))
    for _ in range(choose.randint(5, 40)):
        if choose.random() < 0.3:
            change(fleet, choose)
        fleet.reconcile()
        fleet.tick(choose.choice([1.0, 5.0, 20.0]), choose)
    last = fleet.settle()
    assert not last.effects
    assert plan(fleet.world()).status == last.status == fleet.deployment["status"]
    assert last.status["readyReplicas"] == last.status["replicas"] == wanted(fleet)
    assert {c["type"]: c["status"] for c in last.status["conditions"]} == {
        "Accepted": "True",
        "Planned": "True",
        "Placed": "True",
        "Available": "True",
        "Progressing": "False",
        "Ready": "True",
        "ObjectivesMet": "Unknown",
    }
    assert not last.events


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_a_healthy_rollout_never_serves_with_fewer_replicas_than_wanted(seed: int, replicas: int) -> None:
    choose = random.Random(seed)
    fleet = Fleet(manual(replicas, engine={"image": "image:1"}))
    fleet.settle()
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    most = 0
    for _ in range(120):
        fleet.reconcile()
        assert fleet.serving() >= replicas
        alive = [pod for pod in fleet.pods().values() if "deletionTimestamp" not in pod["metadata"]]
        most = max(most, len(alive))
        fleet.tick(2.0, choose)
    assert {pod["spec"]["containers"][0]["image"] for pod in fleet.pods().values()} == {"image:2"}
    assert most == replicas + 1
    assert not fleet.reconcile().effects


@pytest.mark.parametrize("replicas", [1, 3])
def test_without_room_to_surge_an_old_replica_makes_room_and_at_most_one_is_missing(replicas: int) -> None:
    fleet = Fleet(manual(replicas, engine={"image": "image:1"}), room=replicas)
    fleet.settle()
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    said = set()
    for _ in range(100):
        outcome = fleet.reconcile()
        said |= {c["message"] for c in outcome.status["conditions"] if c["type"] == "Progressing"}
        assert fleet.serving() >= replicas - 1
        fleet.tick(7.0)
    assert {pod["spec"]["containers"][0]["image"] for pod in fleet.pods().values()} == {"image:2"}
    assert any("leave first" in message for message in said)


def test_no_old_replica_leaves_while_what_holds_the_room_is_ending() -> None:
    fleet = Fleet(manual(1, engine={"image": "image:1"}), room=2)
    fleet.settle()
    (machine,) = fleet.machines
    ending = foreign("Pod", "other") | {"spec": {"nodeName": machine, "containers": []}, "status": {}}
    ending["metadata"] |= {"labels": {}, "deletionTimestamp": fleet.now.isoformat()}
    fleet.add(ending)
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    for _ in range(3):
        status = fleet.reconcile().status
        assert fleet.serving() == 1
        assert condition(status, "Placed")[:2] == ("False", "NoRoom")
    fleet.settle()
    assert "other" not in fleet.pods()
    assert fleet.serving() == 1


def test_a_broken_new_revision_leaves_the_old_replicas_alone_and_is_withdrawn_when_the_spec_is_set_back() -> None:
    fleet = Fleet(manual(3, engine={"image": "image:1"}), broken_images={"image:2"})
    fleet.settle()
    before = set(fleet.pods())
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    for _ in range(50):
        fleet.reconcile()
        fleet.tick()
    assert before < set(fleet.pods())
    assert fleet.serving() == 3
    fleet.deployment["spec"]["engine"] = {"image": "image:1"}
    fleet.settle()
    assert set(fleet.pods()) == before


def test_a_fleet_that_never_came_up_is_replaced_at_once_by_a_good_revision() -> None:
    fleet = Fleet(manual(4, engine={"image": "image:1"}), broken_images={"image:1"}, room=4)
    for _ in range(10):
        fleet.reconcile()
        fleet.tick()
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    outcome = fleet.reconcile()
    assert sum(isinstance(effect, Delete) for effect in outcome.effects) == 4
    fleet.settle()
    assert fleet.serving() == 4


def test_an_operator_upgrade_with_another_worker_image_writes_nothing() -> None:
    fleet = Fleet(manual(2))
    before = fleet.settle()
    fleet.settings = type(fleet.settings)(worker_image="registry.example/modelfleet-worker:9.9.9", drain_s=1.0)
    after = fleet.reconcile()
    assert not after.effects
    assert after.status == before.status


def test_a_change_of_the_class_that_says_the_same_in_other_words_writes_nothing() -> None:
    fleet = Fleet(deployment())
    before = fleet.settle()
    same = {"hostPerAccelerator": {"cpu": "2000m", "memory": "4096Mi"}, "acceleratorsPerNode": 8}
    fleet.classes["cpu"] = merged(accelerator_class(), {"spec": same})
    after = fleet.reconcile()
    assert not after.effects
    assert after.status == before.status
