"""The number of replicas follows what workers measure: stories of a whole fleet, by the real reconcile."""

from dataclasses import replace
from datetime import timedelta

import pytest

from modelfleet.core.scaling.samples import Samples
from modelfleet.core.scaling.scaled import decide_scaled
from scaling_worlds import Sampled, sampled


def _at(fleet: Sampled, knees: float) -> float:
    return fleet.knee_rps * knees


def test_a_step_up_is_followed_within_a_minute_and_the_change_is_told() -> None:
    fleet = sampled().run(300, 1.0)
    before = fleet.replicas

    fleet.run(60, _at(fleet, 4))

    assert before == 1
    assert fleet.replicas >= 4
    assert fleet.decision["reason"] in ("LoadGrew", "BacklogGrew")
    assert "requests a second" in fleet.decision["detail"]
    assert "the declared load is 1 requests a second" in fleet.decision["detail"]
    assert any(f"to {fleet.replicas} replicas" in note for note in fleet.events("Scaled"))


def test_after_a_burst_the_number_falls_to_the_minimum_and_says_why() -> None:
    fleet = sampled()
    for step in range(8):
        fleet.run(200, _at(fleet, 0.5 + step / 4))
    high = fleet.replicas

    fleet.run(1500, 0.5)

    assert high >= 2
    assert fleet.replicas == 1
    assert fleet.decision["reason"] == "LoadFell"


def test_a_taken_over_fleet_keeps_its_number_until_its_load_is_known() -> None:
    fleet = sampled()
    fleet.fleet.deployment["spec"]["scaling"] |= {"mode": "Manual", "replicas": 5}
    fleet.run(60, 1.0)
    fleet.fleet.deployment["spec"]["scaling"] |= {"mode": "Active", "replicas": 1}

    fleet.run(500, 1.0)

    assert set(fleet.numbers[-100:]) == {5}
    assert fleet.decision["to"] == 5


@pytest.mark.parametrize(
    ("scaling", "knees", "bound", "replicas"),
    [
        pytest.param({"maxReplicas": 3}, 6, "maxReplicas", 3, id="the most replicas"),
        pytest.param({"maxAccelerators": 2}, 6, "maxAccelerators", 2, id="the most accelerators"),
        pytest.param({"minReplicas": 4}, 0.1, "minReplicas", 4, id="the fewest replicas"),
    ],
)
def test_the_bound_that_clips_is_named(scaling: dict[str, int], knees: float, bound: str, replicas: int) -> None:
    fleet = sampled(**scaling)

    fleet.run(800, _at(fleet, knees))

    assert (fleet.decision["bound"], fleet.replicas) == (bound, replicas)


def test_without_data_the_number_is_held_and_an_event_says_so_and_later_the_declared_load_counts() -> None:
    fleet = sampled()
    fleet.run(300, _at(fleet, 3))
    held = fleet.replicas
    fleet.silent = {name for name in fleet.fleet.pods()}

    fleet.run(120)
    said, reason = fleet.replicas, fleet.decision["reason"]
    fleet.run(700)

    assert (said, reason) == (held, "NoData")
    assert fleet.events("NoData")
    assert fleet.decision["reason"] == "SafeState"
    assert fleet.replicas >= held

    fleet.silent = set()
    fleet.run(60)

    assert fleet.decision["reason"] not in ("NoData", "SafeState")
    assert fleet.events("DataBack")


def test_who_comes_after_a_time_without_any_replica_has_not_been_silent_meanwhile() -> None:
    """Ten minutes nobody served, so nobody was silent: the first to serve again is not read yet, and no alarm."""
    fleet = sampled()
    fleet.run(100, 1.0)
    for name in fleet.fleet.pods():
        fleet.fleet.pods()[name]["status"]["conditions"] = []
    case = fleet.scaling.case
    nobody = replace(case, seats=replace(case.seats, serving=()), samples=Samples(at_s=fleet.at_s + 5.0))
    kept = fleet.scaling.again(nobody).kept
    later = replace(case, samples=Samples(at_s=fleet.at_s + 1000.0), now=case.now + timedelta(seconds=1000))
    kept = decide_scaled(replace(nobody, samples=Samples(at_s=fleet.at_s + 995.0)), kept)

    kept = decide_scaled(later, kept)

    assert kept.shown.reason not in ("NoData", "SafeState")


def test_a_bound_that_clips_another_way_is_told_though_the_clock_was_set_back() -> None:
    fleet = sampled(maxReplicas=3)
    fleet.run(300, _at(fleet, 6))
    assert fleet.decision["bound"] == "maxReplicas"
    fleet.fleet.now -= timedelta(days=1)
    fleet.fleet.deployment["spec"]["scaling"] |= {"maxReplicas": 12, "maxAccelerators": 3}
    fleet.reconcile()

    fleet.run(30)

    assert (fleet.replicas, fleet.decision["bound"]) == (3, "maxAccelerators")


def test_a_restart_in_mid_burst_goes_on_and_never_falls_below_what_was_decided() -> None:
    fleet = sampled().run(300, 1.0)
    fleet.run(60, _at(fleet, 5))
    decided, seen = fleet.replicas, len(fleet.numbers)

    fleet.restart()
    fleet.run(120)

    assert min(fleet.numbers[seen:]) >= decided


def test_a_restart_that_finds_nothing_kept_starts_from_what_stands() -> None:
    fleet = sampled()
    fleet.run(300, _at(fleet, 3))
    decided, seen = fleet.replicas, len(fleet.numbers)
    for key in [key for key in fleet.fleet.objects if key[1].endswith("-state")]:
        del fleet.fleet.objects[key]

    fleet.restart()
    fleet.run(300, 0.5)

    assert set(fleet.numbers[seen:]) == {decided}


def test_noise_of_five_percent_moves_the_number_by_one_at_most() -> None:
    fleet = sampled()
    fleet.run(1500, _at(fleet, 2.4))
    before = len(fleet.numbers)
    for number in range(120):
        fleet.run(5, _at(fleet, 2.4) * (1.05 if number % 7 < 3 else 0.95))

    assert max(fleet.numbers[before:]) - min(fleet.numbers[before:]) <= 1


def test_an_unchanged_world_gives_the_same_status_and_writes_nothing() -> None:
    fleet = sampled().run(400, 2.0)
    fleet.reconcile()

    again = fleet.reconcile()

    assert not again.effects
    assert again.status == fleet.outcomes[-2].status


def test_memory_is_written_at_once_with_a_changed_number_and_else_every_five_minutes() -> None:
    fleet = sampled().run(900, 2.0)
    before = len(fleet.fleet.written)

    fleet.run(600)
    quiet = [effect for effect in fleet.fleet.written[before:]]

    assert 1 <= len(quiet) <= 3


def test_advisory_changes_nothing_and_says_what_it_would_do() -> None:
    fleet = sampled(mode="Advisory")
    declared = fleet.replicas

    fleet.run(400, _at(fleet, 5))

    assert fleet.replicas == declared
    assert "mode Active would run" in fleet.decision["detail"]
    assert len(fleet.fleet.pods()) == declared


def test_manual_is_kubectl_scale() -> None:
    fleet = sampled(mode="Manual", replicas=2)

    fleet.run(400, _at(fleet, 5))

    assert fleet.replicas == 2
    assert fleet.kept is None


def test_a_slow_replica_is_named_and_replaced_and_nothing_is_bought_for_it() -> None:
    fleet = sampled(minReplicas=3)
    fleet.run(900, _at(fleet, 1.5))
    before = fleet.replicas
    slow = sorted(fleet.fleet.pods())[0]
    fleet.slow = {slow}
    uid = fleet.fleet.pods()[slow]["metadata"]["uid"]

    fleet.run(400)

    assert any(f"pod {slow}" in note for note in fleet.events("SlowReplica"))
    assert uid not in {pod["metadata"]["uid"] for pod in fleet.fleet.pods().values()}
    assert fleet.replicas == before
    assert len(fleet.events("SlowReplica")) == 1


def test_slow_replicas_do_not_hide_each_other() -> None:
    fleet = sampled(minReplicas=6)
    fleet.run(900, _at(fleet, 4.5))
    fleet.slow = slow = set(sorted(fleet.fleet.pods())[:2])
    known = {pod["metadata"]["uid"] for pod in fleet.fleet.pods().values()}
    before = most = fleet.replicas

    for _ in range(20):
        fleet.run(60)
        there = {name for name in slow if fleet.fleet.pods().get(name, {}).get("metadata", {}).get("uid") in known}
        fleet.slow = there  # what comes in their places is well
        most = max(most, fleet.replicas)

    assert not there
    assert len(fleet.events("SlowReplica")) == 2
    assert most <= before + 2  # until the two are known, what is late may be the load's
    assert fleet.replicas <= before


def _with_a_slow_new_replica() -> tuple[Sampled, str]:
    fleet = sampled(minReplicas=3)
    fleet.run(600, _at(fleet, 1.5))
    known = set(fleet.fleet.pods())
    fleet.fleet.deployment["spec"]["scaling"] |= {"minReplicas": fleet.replicas + 1}
    fleet.reconcile()
    (new,) = fleet.slow = set(fleet.fleet.pods()) - known
    return fleet, new


def test_a_new_replica_that_is_slow_while_it_is_cold_is_not_replaced() -> None:
    fleet, cold = _with_a_slow_new_replica()

    fleet.run(100)
    fleet.slow = set()
    fleet.run(600)

    assert cold in fleet.fleet.pods()
    assert not fleet.events("SlowReplica")


def test_a_new_replica_that_stays_slow_is_replaced() -> None:
    fleet, slow = _with_a_slow_new_replica()

    fleet.run(300)

    assert slow not in fleet.fleet.pods()


def test_replicas_that_are_slow_one_after_the_other_are_replaced_with_a_growing_pause() -> None:
    fleet = sampled(minReplicas=3)
    fleet.run(600, _at(fleet, 1.5))

    for _ in range(20):
        fleet.slow = {sorted(fleet.fleet.pods())[0]}
        fleet.run(60)

    assert 1 <= len(fleet.events("SlowReplica")) <= 3


def test_when_all_are_late_without_a_load_none_is_replaced_none_is_bought_and_it_is_said() -> None:
    fleet = sampled(minReplicas=4)
    fleet.run(300, _at(fleet, 1))
    fleet.slow = set(fleet.fleet.pods())
    pods = set(fleet.fleet.pods())

    fleet.run(600)

    assert fleet.replicas == 4
    assert set(fleet.fleet.pods()) == pods
    assert len(fleet.events("LateWithoutLoad")) == 1


def test_a_foreign_autoscaler_is_named_and_not_followed() -> None:
    fleet = sampled().run(60, 1.0)
    fleet.fleet.deployment["spec"]["scaling"]["replicas"] = 7
    fleet.fleet.deployment["metadata"]["managedFields"] = [
        {
            "manager": "kube-controller-manager",
            "subresource": "scale",
            "fieldsV1": {"f:spec": {"f:scaling": {"f:replicas": {}}}},
        }
    ]

    fleet.run(120)

    (note,) = set(fleet.events("ReplicasIgnored"))
    assert "replicas 7, written by a HorizontalPodAutoscaler" in note
    assert fleet.replicas == 1


def test_several_objectives_name_the_one_that_binds() -> None:
    fleet = sampled()
    second = {**fleet.fleet.deployment["spec"]["objectives"][0], "name": "batch", "share": "50%"}
    fleet.fleet.deployment["spec"]["objectives"].append(second)
    fleet.run(30)
    fleet.run(120, _at(fleet, 0.4), "interactive")
    assert fleet.kept is not None
    one_rps = fleet.kept.load_rps
    fleet.run(120, _at(fleet, 0.4), "batch")

    assert fleet.kept.binding == "interactive"
    assert fleet.kept.load_rps == pytest.approx(2 * one_rps, rel=0.1)


def test_a_schedule_keeps_more_and_is_named_and_ends() -> None:
    fleet = sampled(schedules=[{"cron": "0 4 * * *", "duration": "30m", "minReplicas": 3}])
    before = fleet.replicas
    fleet.run(3300, 1.0)  # from 3:04 on: it is asked for before it begins
    ahead, bound = fleet.replicas, fleet.decision.get("bound")

    fleet.run(2400)

    assert (before, ahead, bound) == (1, 3, "schedules[0]")
    assert fleet.replicas == 1


def test_advisory_tells_each_change_of_its_advice() -> None:
    fleet = sampled(mode="Advisory")

    fleet.run(300, _at(fleet, 3))

    assert any("mode Active would run" in note for note in fleet.events("Advised"))
