"""What `modelfleet explain` says of a number that is not the one of the last decision on samples."""

import json
from datetime import timedelta
from typing import Any

from modelfleet.cli.explain import lines
from modelfleet.cli.explain_scaling import scaling_lines
from modelfleet.core.scaling.ledger import Ledger, dumped
from planner_worlds import PlannedFleet, objective, planned
from scaling_ticks import AT, inputs
from scaling_worlds import Sampled, sampled

THRESHOLDS = ("One more: a load", "One less: a load", "Not more:", "Not less:")


def told(fleet: Sampled) -> str:
    """The explanation in one line."""
    state = next(dict(item) for key, item in fleet.fleet.objects.items() if key[1].endswith("-state"))
    return " ".join("\n".join(lines(fleet.fleet.deployment, state)).split())


def number(said: str) -> str:
    """The section on the number, from its title on."""
    return said[said.index("The number of replicas, as decided at") :]


def test_a_number_without_data_is_told_as_it_was_decided_and_no_load_is_named() -> None:
    of = planned(objectives=objective(load={"requestsPerSecond": 200}), scaling={"minReplicas": 1, "maxReplicas": 12})
    fleet = Sampled(fleet=PlannedFleet(deployment=of), knee_rps=1e9).run(1700, 0.5)
    fleet.silent, low = set(fleet.fleet.pods()), fleet.replicas
    held = number(told(fleet.run(60)))
    fleet.run(540)
    for _ in range(12):
        fleet.silent = set(fleet.run(5).fleet.pods())
    safe = number(told(fleet))

    assert f" {low}: NoData, no serving replica says anything" in held
    assert fleet.replicas > low
    assert f" {fleet.replicas}: SafeState, no serving replica has said anything for 10 minutes" in safe
    for said in (held, safe):
        assert said.index("It is not from samples") < said.index("The last number that samples gave")
        assert not any(each in said for each in THRESHOLDS)


def test_once_it_is_read_again_samples_are_explained_again() -> None:
    fleet = sampled().run(100, 1.0)
    fleet.silent = set(fleet.fleet.pods())
    fleet.run(60)
    without = told(fleet)
    fleet.silent = set()
    fleet.run(60)

    assert "not from samples" in without
    assert "not from samples" not in told(fleet)
    assert any(each in told(fleet) for each in THRESHOLDS)


def test_a_bound_that_moved_the_number_is_named_before_samples_are() -> None:
    fleet = sampled(minReplicas=3).run(100, 1.0)
    fleet.fleet.deployment["spec"]["scaling"]["maxReplicas"] = 2
    fleet.fleet.deployment["spec"]["scaling"]["minReplicas"] = 1
    fleet.fleet.now += timedelta(seconds=1)
    fleet.reconcile()
    said = number(told(fleet))

    assert " 2: OutOfBounds, 3 is outside what maxReplicas allows (maxReplicas)" in said
    assert "a bound moved it after the last decision" in said
    assert not any(each in said for each in THRESHOLDS)


def _stored(rows: int, **stored: Any) -> str:
    ledger = Ledger()
    for index in range(rows):
        _, ledger = ledger.decide(inputs(index * 5.0, 5, 1, 1, 9), AT + timedelta(seconds=5 * index))
    content = {"ledger": dumped(ledger) if rows else {}, **stored}
    return " ".join(" ".join(scaling_lines({"data": {"scaling.json": json.dumps(content)}})).split())


def shown(after_s: float, to: int, reason: str) -> dict[str, Any]:
    at = (AT + timedelta(seconds=after_s)).isoformat()
    return {"replicas": to, "shown": {"at": at, "from": 1, "to": to, "reason": reason, "detail": "because of it"}}


def test_the_number_that_classes_of_different_strength_carry_is_the_one_that_is_told() -> None:
    said = _stored(3, **shown(10.0, 4, "Steady"))

    assert " 4: Steady, because of it" in said
    assert "those that would leave first are not the mean one" in said
    assert not any(each in said for each in THRESHOLDS)


def test_before_any_sample_the_number_is_told() -> None:
    said = _stored(0, **shown(0.0, 2, "NoData"))

    assert " 2: NoData, because of it" in said
    assert "It is not from samples" in said


def test_a_number_of_samples_is_told_though_the_clock_was_set_back() -> None:
    said = _stored(3, **shown(1e6, 1, "LoadFell"))

    assert "not from samples" not in said
    assert any(each in said for each in THRESHOLDS)


def test_a_row_whose_time_has_no_zone_is_compared_all_the_same() -> None:
    ledger = Ledger().decide(inputs(0.0, 5, 1, 1, 9), AT)[1]
    stored = {"ledger": dumped(ledger), **shown(60.0, 1, "NoData")}
    stored["ledger"]["rows"][0]["at"] = "2026-01-01T00:00:00"
    said = " ".join(" ".join(scaling_lines({"data": {"scaling.json": json.dumps(stored)}})).split())

    assert " 1: NoData, because of it" in said


def test_a_number_that_nobody_follows_is_said_to_be_advice() -> None:
    fleet = sampled(mode="Advisory").run(100, 1.0)

    assert "The number of replicas that mode Active would run, as decided at" in told(fleet)
