"""Random and half-valid worlds: no exception, every condition said, nothing of others touched, and then quiet."""

import pytest
import soak
from fuzz_run import world_of
from fuzz_worlds import case

from builders import condition
from modelfleet.core.reconcile import plan

PARTS = 8
OBJECTS = 20_000


@pytest.mark.parametrize("part", range(PARTS))
def test_fuzzed_worlds_are_decided_on_without_an_exception_and_become_quiet(part: int) -> None:
    tally = soak.soak(part * 10_000_000, objects=OBJECTS // PARTS)
    assert tally.objects >= OBJECTS // PARTS
    assert tally.decisions > tally.worlds
    assert not tally.failures, f"run again with: python tests/fuzz/soak.py --seed N --worlds 1\n{tally.failures[0]}"


def test_worlds_are_neither_all_sound_nor_all_broken() -> None:
    accepted = 0
    for seed in range(200):
        world = world_of(case(seed))
        said = plan(world).status.get("conditions")
        accepted += bool(said) and condition({"conditions": said}, "Accepted")[0] == "True"
    assert 20 < accepted < 160  # most have a fault or two in one of their many fields
