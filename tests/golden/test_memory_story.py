"""A fleet whose engine dies for lack of memory, as prose: what is told and what runs, hour by hour."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import Fleet, condition
from memory_deaths import die, fractions, gpu_fleet

FILE = Path(__file__).parent / "stories" / "memory-correction.txt"
HOUR_S = 3600.0


def scene(fleet: Fleet, hour: float, what: str) -> Iterator[str]:
    yield f"hour {hour:g}: {what}"
    for _ in range(12):
        outcome = fleet.reconcile()
        yield from (f"  event {event.type} {event.reason}: {event.message}" for event in outcome.events)
        fleet.tick(5)
    status = fleet.deployment["status"]
    yield f"  revision {status['plan']['revision']}, shares {sorted(fractions(fleet))}"
    yield f"  Planned: {condition(status, 'Planned')[2]}"


def story() -> Iterator[str]:
    fleet = gpu_fleet()
    yield from scene(fleet, 0, "a fleet serves")
    die(fleet, "0.87")
    yield from scene(fleet, 0, "a worker dies: its share of the memory is too high")
    die(fleet, "0.83")
    yield from scene(fleet, 0, "it dies again within the day")
    fleet.tick(24 * HOUR_S)
    die(fleet, "0.83")
    yield from scene(fleet, 24, "and again a day later")
    fleet.tick(24 * HOUR_S)
    die(fleet, "0.75", reason="ForeignMemory")
    yield from scene(fleet, 48, "a foreign process takes the memory, which is no fault of the plan")
    die(fleet, "256", reason="LongPromptSpike", flag="long-prefill-token-threshold")
    yield from scene(fleet, 48, "a long prompt needs more than is left")
    fleet.tick(24 * HOUR_S)
    die(fleet, "0.80")
    yield from scene(fleet, 72, "three steps were taken")
    del fleet.objects["ConfigMap", "chat-state"]
    yield from scene(fleet, 72, "somebody deletes NAME-state")


def test_the_story_of_a_correction(request: pytest.FixtureRequest) -> None:
    told = "\n".join(story()) + "\n"
    if request.config.getoption("--update-golden"):
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(told)
    assert FILE.read_text() == told, "run `make golden`, then read the diff"
