"""A sample of seeds. `make soak` plays ten thousand; `tests/sim/sim_soak.py --seed N --runs 1` plays one again."""

import pytest
from sim_run import Run

RUNS, TOGETHER = 300, 20


@pytest.mark.parametrize("first", range(0, RUNS, TOGETHER))
def test_a_fleet_in_trouble_keeps_what_it_promised_and_comes_to_rest(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        assert Run(seed).play() > 0
