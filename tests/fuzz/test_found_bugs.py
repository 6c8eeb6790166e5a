"""Worlds that the fuzzer found to break a promise, each as small as it can be. What broke is in the test's name."""

import json
from typing import Any

import pytest
from fuzz_checks import check

from builders import Fleet, condition, deployment, manual, world
from fake_cluster import FakeCluster
from modelfleet.controller.cluster import Conflict, Written
from modelfleet.controller.execute import StatusWriter
from modelfleet.core.effects import Create
from modelfleet.core.reconcile import plan


def revision_with(**changes: Any) -> tuple[Fleet, Any]:
    """A settled fleet, and its one revision with another plan."""
    fleet = Fleet(manual(1))
    fleet.settle()
    (item,) = (item for (kind, _), item in fleet.objects.items() if kind == "ControllerRevision")
    item["data"]["plan"] |= changes
    return fleet, item


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"className": "x" * 254}, id="a class's name that no object has"),
        pytest.param({"accelerators": 2**31}, id="more accelerators than a number of 32 bits"),
        pytest.param({"tensor": 10**63}, id="a layout whose name is too long for the status"),
        pytest.param({"accelerators": -1}, id="fewer accelerators than none"),
        pytest.param({"limits": {"startDeadline_s": -1, "drain_s": 1e308, "propagation_s": 1}}, id="endless times"),
    ],
)
def test_a_stored_plan_that_no_operator_pins_is_planned_anew_and_breaks_nothing(changes: dict[str, Any]) -> None:
    fleet, _ = revision_with(**changes)
    seen = fleet.world()
    outcome = plan(seen)
    check(seen, outcome)
    made = [effect.manifest for effect in outcome.effects if isinstance(effect, Create)]
    assert [item["kind"] for item in made] == ["ControllerRevision"]
    fleet.settle()


def test_a_stored_plan_out_of_bounds_does_not_break_the_status_of_an_invalid_spec() -> None:
    fleet, _ = revision_with(className="x" * 254)
    fleet.deployment["spec"] = {}
    outcome = plan(fleet.world())
    assert condition(outcome.status, "Accepted")[:2] == ("False", "SpecInvalid")
    assert "plan" not in outcome.status


def test_a_bound_that_somebody_else_wrote_into_the_last_decision_does_not_move_its_time() -> None:
    fleet = Fleet(manual(2))
    fleet.settle()
    fleet.deployment["status"]["scaling"]["lastDecision"]["bound"] = "minReplicas"
    before = fleet.deployment["status"]["scaling"]["lastDecision"]["at"]
    fleet.tick(3600)
    decision = plan(fleet.world()).status["scaling"]["lastDecision"]
    assert (decision["at"], "bound" in decision) == (before, False)


@pytest.mark.parametrize("stored", ["2026-01-02T03:04:05", "2026-01-02", 5])
def test_a_time_without_a_zone_in_a_stored_condition_is_written_back_with_one(stored: Any) -> None:
    fleet = Fleet(manual(1))
    fleet.settle()
    for told in fleet.deployment["status"]["conditions"]:
        told["lastTransitionTime"] = stored
    fleet.deployment["status"]["scaling"]["lastDecision"]["at"] = stored
    seen = fleet.world()
    check(seen, plan(seen))


def test_a_revision_with_the_highest_number_there_is_does_not_make_the_next_one_impossible() -> None:
    fleet, item = revision_with()
    item["revision"] = 2**63 - 1
    fleet.deployment["spec"]["engine"] = {"image": "registry.example/worker:2"}
    seen = fleet.world()
    check(seen, plan(seen))
    fleet.settle()


def test_half_a_character_in_a_worker_s_last_words_is_told_without_it() -> None:
    fleet = Fleet(manual(1))
    fleet.settle()
    (pod,) = fleet.pods().values()
    note = json.dumps({"reason": "EngineDied", "message": "lost \ud800 here", "remedy": "none"})
    ended = {"exitCode": 1, "message": note}
    status = {"name": "worker", "state": {"terminated": ended}, "restartCount": 1}
    pod["status"] |= {"conditions": [], "containerStatuses": [status]}
    seen = fleet.world()
    outcome = plan(seen)
    check(seen, outcome)
    assert "lost" in condition(outcome.status, "Available")[2]


def test_an_object_that_was_stored_without_a_spec_is_answered() -> None:
    broken = deployment()
    del broken["spec"]
    seen = world(broken)
    check(seen, plan(seen))


async def test_a_stored_status_that_nothing_can_be_merged_into_is_taken_away_first() -> None:
    cluster = FakeCluster("team")
    stored = cluster.put(deployment(metadata={"uid": None}))
    told = {"conditions": [{"nonsense": 1}, {"type": "Ready"}]}
    stored = cluster.put({**stored, "status": told})
    written = await StatusWriter(cluster).write(stored, {"replicas": 1})
    assert isinstance(written, Written)
    assert written.object["status"] == {"replicas": 1}
    assert cluster.writes == [("patch", "ModelDeployment", "chat"), ("apply_status", "ModelDeployment", "chat")]


async def test_a_status_that_moved_while_it_was_taken_away_is_left_for_the_next_time() -> None:
    cluster = FakeCluster("team")
    stored = cluster.put({**deployment(metadata={"uid": None})})
    stored = cluster.put({**stored, "status": {"conditions": [{}]}})
    cluster.put({**stored, "status": {"conditions": [{}], "replicas": 3}})
    assert isinstance(await StatusWriter(cluster).write(stored, {"replicas": 1}), Conflict)
    assert cluster.writes == []
