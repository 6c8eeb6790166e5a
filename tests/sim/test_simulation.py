"""A sample of seeds. `make soak` plays ten thousand; `tests/sim/sim_soak.py --seed N --runs 1` plays one again."""

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest
from sim_run import told_of

RUNS, TOGETHER = 300, 20
LEARNED = (9080, 1830, 3118)
"""Seeds whose soak found a fault. 9080: a revision's object is deleted while replicas of it stand on a later class.
1830 and 3118: without a surge another old one left, which made no room, where one too many was leaving already."""


@pytest.fixture(scope="module")
def players() -> Iterator[ProcessPoolExecutor]:
    """A process for each processor: a run takes a fifth of a second, and none knows of another."""
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as made:
        yield made


@pytest.mark.parametrize("first", range(0, RUNS, TOGETHER))
def test_a_fleet_in_trouble_keeps_what_it_promised_and_comes_to_rest(first: int, players: ProcessPoolExecutor) -> None:
    told = players.map(told_of, range(first, first + TOGETHER))
    assert "\n\n".join(filter(None, told)) == ""


def test_what_soaks_found_stays_mended(players: ProcessPoolExecutor) -> None:
    assert "\n\n".join(filter(None, players.map(told_of, LEARNED))) == ""
