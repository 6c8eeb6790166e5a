"""How many pods Kubernetes must leave alone, and the budget that says so."""

from dataclasses import replace
from typing import Any

import pytest

from builders import Fleet, condition, foreign, manual, merged
from modelfleet.core.capacity import Spare
from modelfleet.core.disruption import pods_to_leave
from modelfleet.core.effects import Apply, Create, Delete, Effect
from modelfleet.core.groups import Replica, alone
from modelfleet.core.reconcile import plan
from scenes import NEW, OFF, STARTING, old, pod

KEY = ("PodDisruptionBudget", "chat")


def group(slot: int, size: int = 2) -> Replica:
    members = tuple(
        replace(pod(slot), name=f"g{slot}-{rank}", uid=f"g{slot}-{rank}", rank=rank) for rank in range(size)
    )
    return Replica(revision=NEW, slot=slot, members=tuple(replace(one, running=True) for one in members))


def spare(replicas: int, evictable: int = 0) -> Spare:
    return Spare(replicas=replicas, missing=1, evictable=evictable)


@pytest.mark.parametrize(
    ("fleet", "victims", "size", "of", "expected"),
    [
        pytest.param([alone(pod(0)), alone(pod(1))], (), 1, spare(2), 2, id="all of them"),
        pytest.param([alone(pod(0)), alone(pod(1))], (), 1, spare(2, 1), 1, id="one may be missing"),
        pytest.param([], (), 1, spare(3), 3, id="none is there yet"),
        pytest.param([alone(pod(0)), alone(pod(1, **STARTING))], (), 1, spare(2), 2, id="one starts"),
        pytest.param([alone(pod(0)), alone(pod(1)), alone(old(2))], (), 1, spare(2), 2, id="one more in a rollout"),
        pytest.param(
            [alone(pod(0)), alone(pod(1)), alone(old(2, **OFF))],
            ("chat-aaaaaaaa-2",),
            1,
            spare(2),
            3,
            id="one that drains is Ready for Kubernetes, and is not one of those that stay",
        ),
        pytest.param([group(0), group(1)], (), 2, spare(2), 4, id="groups: all pods of both"),
        pytest.param(
            [group(0), group(1), group(2)],
            (),
            2,
            spare(3, 1),
            5,
            id="one evicted pod ends a whole group, so one may go",
        ),
        pytest.param([alone(pod(0)), group(1)], (), 2, spare(3), 5, id="layouts of a rollout count as they are"),
        pytest.param([alone(pod(0))], (), 1, spare(1, 1), 0, id="nothing to protect"),
    ],
)
def test_pods_to_leave(fleet: list[Replica], victims: tuple[str, ...], size: int, of: Spare, expected: int) -> None:
    assert pods_to_leave(fleet, frozenset(victims), size, of) == expected


def of_budget(effects: tuple[Effect, ...]) -> list[str]:
    """What is done to the budget, in short."""
    found = []
    for effect in effects:
        match effect:
            case Create(manifest) | Apply(manifest, _) if manifest["kind"] == KEY[0]:
                found.append(f"{type(effect).__name__} {manifest['spec']['minAvailable']}")
            case Delete(_, kind, _, _) if kind == KEY[0]:
                found.append("Delete")
    return found


@pytest.fixture
def fleet() -> Fleet:
    made = Fleet(manual(2))
    made.settle()
    return made


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        pytest.param({}, [], id="as it was made"),
        pytest.param({"spec": {"minAvailable": 0}}, ["Apply 2"], id="another bound"),
        pytest.param({"spec": {"unhealthyPodEvictionPolicy": None}}, ["Apply 2"], id="without its policy"),
        pytest.param(
            {"spec": {"minAvailable": None, "maxUnavailable": 1}},
            ["Delete", "Create 2"],
            id="a bound that excludes ours and is not ours to take off",
        ),
    ],
)
def test_an_edited_budget_is_put_back(fleet: Fleet, edit: dict[str, Any], expected: list[str]) -> None:
    fleet.objects[KEY] = merged(fleet.objects[KEY], edit)
    assert of_budget(plan(fleet.world()).effects) == expected


def test_it_follows_the_number_of_replicas(fleet: Fleet) -> None:
    fleet.deployment["spec"]["scaling"]["replicas"] = 3
    assert of_budget(fleet.reconcile().effects) == ["Apply 3"]


def test_one_that_would_protect_nothing_goes_and_comes_back(fleet: Fleet) -> None:
    fleet.deployment["spec"]["rollout"] = {"maxUnavailable": 2}
    assert of_budget(fleet.reconcile().effects) == ["Delete"]
    del fleet.deployment["spec"]["rollout"]
    assert of_budget(fleet.reconcile().effects) == ["Create 2"]


def test_while_nothing_is_wanted_it_stays_as_it_was(fleet: Fleet) -> None:
    fleet.deployment["spec"]["accelerators"] = {"classes": ["nope"]}
    assert of_budget(fleet.reconcile().effects) == []


def test_somebody_else_s_of_this_name_is_left_alone() -> None:
    fleet = Fleet(manual(2))
    fleet.add(foreign(*KEY))
    last = fleet.settle()
    assert condition(last.status, "Progressing")[:2] == ("False", "Settled")
    assert "minAvailable" not in fleet.objects[KEY].get("spec", {})
