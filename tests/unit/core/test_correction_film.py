"""Corrections as films over the pure cluster: a death, a step, a rollout, and what may happen in between."""

import pytest

from builders import Fleet, condition
from memory_deaths import STATE, die, fractions, gpu_fleet, memory_state
from modelfleet.core.correction import PAUSE_S
from planner_worlds import PlannedFleet, gpu_class, planned

DAY = PAUSE_S + 1


def revision(fleet: Fleet) -> str:
    return fleet.deployment["status"]["plan"]["revision"]


def test_a_death_that_the_plan_is_to_blame_for_becomes_a_new_revision_with_a_lower_share():
    fleet = gpu_fleet()
    before = revision(fleet)
    die(fleet, "0.87")
    outcome = fleet.reconcile()
    assert revision(fleet) != before
    assert ("Warning", "MemoryCorrected") in [(event.type, event.reason) for event in outcome.events]
    fleet.settle()
    assert fractions(fleet) == {"0.87"}
    status = fleet.deployment["status"]
    assert condition(status, "Progressing")[1] == "Settled"
    said = condition(status, "Planned")[2]
    assert f"pinned as revision {revision(fleet)}" in said
    assert said.endswith(
        "gpu-memory-utilization is 0.87 instead of its default since a worker died: MemoryFractionTooHigh"
    )


def test_a_settled_correction_moves_nothing_and_says_the_same_bytes():
    fleet = gpu_fleet()
    die(fleet, "0.87")
    settled = fleet.settle().status
    for _ in range(3):
        fleet.tick(DAY)
        outcome = fleet.reconcile()
        assert (outcome.effects, outcome.events, outcome.status) == ((), (), settled)


def test_a_foreign_process_changes_no_plan_however_often_it_kills():
    fleet = gpu_fleet()
    before = revision(fleet)
    for _ in range(5):
        die(fleet, "0.87", reason="ForeignMemory")
        fleet.reconcile()
        fleet.tick(DAY)
    assert revision(fleet) == before
    assert STATE not in fleet.objects


def test_one_step_a_day_and_three_in_all_then_it_says_so_and_stays():
    fleet = gpu_fleet()
    for value in ("0.87", "0.83", "0.79"):
        die(fleet, value)
        fleet.settle()
        assert fractions(fleet) == {value}
        die(fleet, "0.78")
        waits = fleet.reconcile()
        assert fractions(fleet) == {value}, "the day has not passed"
        assert (waits.wake_after_s is not None) == (value != "0.79"), "after the third step no day is waited for"
        fleet.tick(DAY)
    die(fleet, "0.75")
    fleet.reconcile()
    assert fractions(fleet) == {"0.79"}
    assert "3 corrections were made" in condition(fleet.deployment["status"], "Planned")[2]


def test_a_lost_state_gives_no_pod_another_plan_and_is_written_again():
    fleet = gpu_fleet()
    die(fleet, "0.87")
    fleet.settle()
    before, kept = fleet.pods(), memory_state(fleet)
    del fleet.objects[STATE]
    fleet.settle()
    assert fleet.pods() == before
    assert memory_state(fleet) == kept


@pytest.mark.parametrize("text", ["", "[]", "{", '{"scopes": 7}', '{"scopes": [{"steps": []}]}', "[" * 5000])
def test_what_somebody_writes_into_the_state_moves_no_pod(text):
    fleet = gpu_fleet()
    die(fleet, "0.87")
    fleet.settle()
    before = fleet.pods()
    fleet.objects[STATE]["data"]["memory.json"] = text
    fleet.settle()
    assert fleet.pods() == before


def test_a_clock_that_goes_back_gives_no_second_step():
    fleet = gpu_fleet()
    die(fleet, "0.87")
    fleet.settle()
    die(fleet, "0.83")
    fleet.tick(-30 * DAY)
    die(fleet, "0.83")
    fleet.reconcile()
    assert fractions(fleet) == {"0.87"}


def test_a_value_of_the_user_s_is_not_touched_and_the_plan_says_what_would_do():
    fleet = gpu_fleet(engine={"args": {"gpu-memory-utilization": "0.97"}})
    die(fleet, "0.92")
    fleet.reconcile()
    assert fractions(fleet) == {"0.97"}
    said = condition(fleet.deployment["status"], "Planned")[2]
    assert said.endswith("spec.engine.args.gpu-memory-utilization is yours and is not touched: set 0.92 there")


def test_another_model_starts_without_what_was_learned_and_finds_it_when_it_comes_back():
    fleet = gpu_fleet()
    die(fleet, "0.87")
    fleet.settle()
    fleet.deployment["spec"]["model"]["source"] = "pvc://models/other"
    fleet.settle()
    assert fractions(fleet) == {""}
    fleet.deployment["spec"]["model"]["source"] = "pvc://models/tiny"
    fleet.settle()
    assert fractions(fleet) == {"0.87"}


def test_a_changed_promise_keeps_what_was_learned_and_restarts_nothing():
    fleet = PlannedFleet(planned(), {"h100": gpu_class()})
    fleet.settle()
    die(fleet, "0.85")
    fleet.settle()
    before, name = fleet.pods(), revision(fleet)
    assert fractions(fleet) == {"0.85"}
    assert fleet.deployment["status"]["plan"]["reasons"][0]["check"] == "memory"
    fleet.deployment["spec"]["objectives"][0]["name"] = "renamed"
    fleet.deployment["spec"]["objectives"][0]["share"] = "98%"
    fleet.settle()
    assert (fleet.pods(), revision(fleet)) == (before, name)
