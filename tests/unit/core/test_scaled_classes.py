"""The number of replicas on classes of different strength: as many as carry the load, and none in vain."""

from typing import Any

from builders import Raw, condition
from class_worlds import ClassedFleet
from modelfleet.core import raw
from modelfleet.core.reconcile import plan
from planner_worlds import gpu_class, planned
from scaling_worlds import Sampled

STRONG = gpu_class("strong")
WEAK = gpu_class("weak", memoryBandwidth="1000G", compute={"bf16": "150T", "fp8": "300T"}, resourceName="x.dev/gpu")


def fleet_of(rooms: dict[str, int], *classes: str, **scaling: Any) -> Sampled:
    """A model that is sampled, on these classes in this order."""
    of = planned(
        accelerators={"classes": list(classes), "prefer": "Order"},
        scaling={"minReplicas": 1, "maxReplicas": 12, "mode": "Active", **scaling},
    )
    made = ClassedFleet(of, classes={"strong": STRONG, "weak": WEAK}, nodes=(), rooms=rooms)
    found = Sampled(fleet=made, knee_rps=1e9)
    found.run(40.0, 0.0)
    return found


def knees(fleet: Sampled) -> dict[str, float]:
    return {pool["class"]: float(pool["predicted"]["kneeRequestsPerSecond"]) for pool in told(fleet)}


def told(fleet: Sampled) -> list[Raw]:
    return list(raw.items(fleet.fleet.deployment, "status", "plan", "pools"))


def counts(fleet: Sampled) -> dict[str, int]:
    return {pool["class"]: pool["replicas"] for pool in told(fleet)}


def carried(fleet: Sampled) -> float:
    """Requests a second that the replicas serve inside the promise, as it was predicted."""
    return sum(knees(fleet)[kind] * count for kind, count in counts(fleet).items())


def test_the_weaker_class_gets_as_many_replicas_as_carry_the_load_and_leaves_first():
    fleet = fleet_of({"strong": 1, "weak": 8}, "strong", "weak")
    each = knees(fleet)
    assert each["weak"] < 0.8 * each["strong"]
    load_rps = 1.9 * each["strong"]
    fleet.run(150.0, load_rps)
    assert counts(fleet)["strong"] == 1
    assert carried(fleet) >= load_rps
    assert fleet.decision["to"] == sum(counts(fleet).values()) > 2
    assert fleet.fleet.deployment["status"]["readyReplicas"] == fleet.decision["to"]
    assert plan(fleet.world()).effects == ()
    before = len(fleet.numbers)
    fleet.run(4500.0, 0.2 * each["strong"])  # what an hour with a broken promise needed is held for an hour
    assert fleet.numbers[before:] == sorted(fleet.numbers[before:], reverse=True)
    assert counts(fleet) == {"strong": 1, "weak": 0}
    assert condition(fleet.fleet.deployment["status"], "Placed")[2] == "1 of 1 replicas have a node"


def test_a_strong_replica_of_a_later_class_is_not_given_back_and_bought_again():
    fleet = fleet_of({"strong": 8, "weak": 3}, "weak", "strong")
    each = knees(fleet)
    fleet.run(150.0, 3 * each["weak"] + 0.5 * each["strong"])
    before = len(fleet.numbers)
    fleet.run(600.0)
    assert fleet.numbers[before:] == sorted(fleet.numbers[before:], reverse=True)
    assert counts(fleet) == {"weak": 3, "strong": 1}
    assert any("of replicas of several classes 4 carry it" in row for row in said(fleet))


def said(fleet: Sampled) -> list[str]:
    """What the last decision of the policy says."""
    return [fleet.kept.now] if fleet.kept is not None else []
