"""What requests taught of a knee holds for what they were answered by, and is written as measured only there."""

from dataclasses import replace
from typing import Any

import pytest

from class_worlds import ClassedFleet
from modelfleet.core.knee import is_of_one
from modelfleet.core.profiling import knee_of
from modelfleet.core.scaling import ledger as books
from modelfleet.core.scaling.ledger import Ledger
from modelfleet.core.scaling.policy import Memory, Terms, decide
from planner_worlds import gpu_class, objective, planned
from scaling_ticks import AT, TERMS, inputs
from scaling_worlds import Sampled, sampled

LEARNED = Memory(log_knee=0.3, knee_sure=300.0, last_s=0.0, knee_of="here")
UNSURE = Memory().knee_sure


def learned(terms: Terms, memory: Memory = LEARNED, *, ended: int = 0) -> Memory:
    """What is kept of it with these terms, after a moment that teaches nothing of the knee."""
    sample = inputs(5.0, 0, 1, 1, 9).sample
    return decide(replace(sample, ended=ended, good=ended), memory, terms)[1]


@pytest.mark.parametrize(
    ("terms", "log_knee", "sure"),
    [
        pytest.param({"knee_of": "here"}, 0.3, 300.0, id="of the same it is kept"),
        pytest.param({}, 0.3, 300.0, id="where nobody says of what it is kept"),
        pytest.param({"knee_of": "there"}, 0.3, UNSURE, id="of something else it is a guess"),
        pytest.param(
            {"knee_of": "here", "measured": True, "told_rps": 3.6}, 0.0, UNSURE, id="in a knee that was measured it is"
        ),
    ],
)
def test_what_was_learned(terms: dict[str, Any], log_knee: float, sure: float) -> None:
    after = learned(replace(TERMS, **terms))

    assert (after.log_knee, after.knee_sure) == (log_knee, sure)


def test_a_memory_of_an_earlier_version_goes_on_and_then_is_of_what_serves() -> None:
    after = learned(replace(TERMS, knee_of="here"), replace(LEARNED, knee_of=""))

    assert (after.knee_sure, after.knee_of, after.knee_ended) == (300.0, "here", None)


def test_each_change_of_what_stands_keeps_what_was_learned_on_a_measured_knee() -> None:
    """Replicas of other classes change the mean knee; the plan's is what was measured."""
    terms = replace(TERMS, measured=True, told_rps=3.6, knee_of="among")
    memory = replace(LEARNED, told_rps=3.6, knee_of="among")

    for mean_rps in (3.6, 3.1, 2.9):
        memory = learned(replace(terms, knee_rps=mean_rps), memory)

    assert (memory.log_knee, memory.knee_sure) == (0.3, 300.0)


def test_a_measured_knee_that_is_told_again_after_another_begins_anew() -> None:
    measured = replace(TERMS, measured=True, told_rps=3.6, knee_of="here")
    memory = learned(measured)
    memory = replace(learned(replace(TERMS, knee_of="there"), memory), log_knee=0.2, knee_sure=200.0)

    after = learned(measured, memory)

    assert (after.log_knee, after.knee_sure) == (0.0, UNSURE)


def test_the_requests_behind_it_are_those_that_ended_since() -> None:
    before = learned(replace(TERMS, knee_of="here"), ended=70)
    there = learned(replace(TERMS, knee_of="there"), before, ended=40)
    after = learned(replace(TERMS, knee_of="there"), there, ended=2)

    assert (before.knee_ended, there.knee_ended, after.knee_ended) == (None, 40, 42)


def test_a_ledger_of_an_earlier_version_is_read_and_gives_the_same_answers() -> None:
    ledger, current = Ledger(base=replace(LEARNED, knee_of=""), memory=replace(LEARNED, knee_of="")), 1
    for number in range(1, 40):
        weighed, ledger = ledger.decide(inputs(number * 5.0, 30, current, 1, 50), AT)
        current = weighed.replicas
    stored = books.dumped(ledger)
    for each in (stored["base"], *(item["terms"] for item in stored["shared"] if "terms" in item)):
        for name in ("knee_of", "knee_ended", *(("told_rps",) if "share" in each else ())):
            each.pop(name, None)

    loaded = books.loaded(stored)

    assert loaded is not None
    assert all(each.same for each in books.replay(loaded)[0])
    assert loaded.memory.knee_sure >= 300.0


def sure(fleet: Sampled, **changes: Any) -> None:
    """Requests taught the policy that a replica does more than planned."""
    assert fleet.kept is not None
    memory = replace(fleet.kept.ledger.memory, log_knee=0.2, knee_sure=200.0, **changes)
    fleet.kept = replace(fleet.kept, ledger=replace(fleet.kept.ledger, memory=memory), evidence=12_000)
    assert fleet.scaling is not None
    fleet.scaling = replace(fleet.scaling, kept=fleet.kept)


def is_told(fleet: Sampled) -> bool:
    """Whether a knee would be written as measured."""
    fleet.reconcile()
    return knee_of(fleet.scaling, "promise") is not None


def write(fleet: Sampled, **spec: Any) -> None:
    """The user writes these fields of the spec."""
    fleet.fleet.deployment["spec"] |= spec
    fleet.fleet.deployment["metadata"]["generation"] += 1


def memory_of(fleet: Sampled) -> Memory:
    assert fleet.kept is not None
    return fleet.kept.ledger.memory


def test_a_knee_that_was_learned_is_told() -> None:
    fleet = sampled(minReplicas=2).run(60, 1.0)
    sure(fleet)

    assert is_told(fleet)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"parallelism": {"tensor": 2}}, id="another layout"),
        pytest.param({"objectives": objective(ttft="5s", tpot="500ms")}, id="another promise"),
    ],
)
def test_it_is_not_told_of(spec: dict[str, Any]) -> None:
    fleet = sampled(minReplicas=2).run(60, 1.0)
    sure(fleet)
    write(fleet, **spec)
    fleet.run(300)

    assert not is_told(fleet)
    assert memory_of(fleet).knee_sure < 100.0
    assert memory_of(fleet).log_knee == pytest.approx(0.2, abs=0.05)


def test_a_new_image_of_the_same_plan_keeps_it() -> None:
    fleet = sampled(minReplicas=2).run(60, 1.0)
    sure(fleet)
    write(fleet, engine={"image": "registry.example/worker:2"})
    fleet.run(300)

    assert is_told(fleet)


def test_while_replicas_of_another_layout_serve_it_is_not_told_and_begins_anew_after_them() -> None:
    fleet = sampled(minReplicas=2).run(60, 1.0)
    fleet.fleet.room, old = 2, set(fleet.fleet.pods())
    write(fleet, parallelism={"tensor": 2})
    fleet.reconcile()
    fleet.run(10)
    wanted = fleet.fleet.deployment["status"]["plan"]["revision"]
    assert any(wanted not in name for name in fleet.fleet.pods())
    assert not is_of_one(memory_of(fleet).knee_of)
    sure(fleet)
    among, mixed = is_told(fleet), memory_of(fleet).knee_sure
    fleet.fleet.room = 100
    fleet.run(300)

    assert not among
    assert mixed >= 200.0
    assert not old & set(fleet.fleet.pods())
    assert memory_of(fleet).knee_sure < 100.0


def test_while_replicas_stand_on_a_later_class_it_is_not_told() -> None:
    of = planned(
        accelerators={"classes": ["strong", "weak"], "prefer": "Order"},
        scaling={"minReplicas": 2, "maxReplicas": 12, "mode": "Active"},
    )
    weak = gpu_class("weak", memoryBandwidth="1000G", compute={"bf16": "150T"}, resourceName="x.dev/gpu")
    rooms = {"strong": 1, "weak": 8}
    made = ClassedFleet(of, classes={"strong": gpu_class("strong"), "weak": weak}, nodes=(), rooms=rooms)
    fleet = Sampled(fleet=made, knee_rps=1e9).run(60.0, 0.5)
    sure(fleet)

    assert not is_told(fleet)
