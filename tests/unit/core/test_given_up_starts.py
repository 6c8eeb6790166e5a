"""Replicas that were wanted of a load that did not come are given up while they begin to start, and no others."""

from dataclasses import replace

from modelfleet.core.scaling import memory as remembered
from modelfleet.core.scaling.arbitration import Grant
from modelfleet.core.scaling.terms import STARTS
from scaling_worlds import Sampled, sampled


def starting(fleet: Sampled) -> set[str]:
    """The pods that a short rise was answered with, which go on starting from here on, as starts take four minutes."""
    fleet.run(700, fleet.knee_rps * 1.5)
    assert fleet.scaling is not None
    slow = replace(fleet.scaling.kept, starts_s=(240.0,) * STARTS)
    fleet.kept, fleet.scaling = slow, replace(fleet.scaling, kept=slow)
    before, step = set(fleet.fleet.pods()), fleet.fleet._step
    fleet.fleet._step = lambda key: step(key) if key[1] in before else None  # type: ignore[method-assign]
    fleet.run(20, fleet.knee_rps * 8)
    return set(fleet.fleet.pods()) - before


def test_what_began_to_start_for_a_load_that_is_over_is_given_up_and_what_serves_stays() -> None:
    fleet = sampled()
    new = starting(fleet)
    serving = fleet.fleet.pods().keys() - new

    fleet.run(85, fleet.knee_rps * 1.5)

    pods = fleet.fleet.pods()
    leaving = {name for name, pod in pods.items() if "deletionTimestamp" in pod["metadata"]}
    assert fleet.replicas < max(fleet.numbers)
    assert leaving
    assert not leaving & serving


def test_what_starts_in_the_room_that_others_left_is_seen_through() -> None:
    fleet = sampled().run(5, 1.0)
    assert fleet.scaling is not None
    grant = Grant(giver="team/other", taker=fleet.scaling.case.key, replicas=1, at_s=0.0, sentence="it left one")
    fleet.read = lambda: {"grants": (grant,)}
    starting(fleet)

    fleet.run(85, fleet.knee_rps * 1.5)

    assert fleet.replicas == max(fleet.numbers)


def test_nothing_that_starts_is_given_up_while_one_ends_or_another_revision_is_there() -> None:
    fleet = sampled()
    starting(fleet)
    assert fleet.scaling is not None
    made = fleet.scaling.case.seats.made_at
    fleet.fleet.deployment["spec"]["engine"] = {"args": {"seed": 7}}
    fleet.run(10)

    assert made
    assert fleet.scaling.case.seats.made_at == ()


def test_after_a_lost_ledger_all_that_was_decided_is_held_again() -> None:
    fleet = sampled()
    fleet.run(700, fleet.knee_rps * 4)
    assert fleet.kept is not None
    stored = remembered.dumped(replace(fleet.kept, begun=1)) | {"ledger": "edited"}

    kept = remembered.loaded(stored, fleet.replicas)

    assert kept is not None
    assert kept.begun == fleet.replicas > 1
