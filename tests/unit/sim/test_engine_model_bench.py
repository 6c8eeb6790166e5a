"""What `make bench-engine-model` prints of measured and simulated requests."""

import pytest

from benchmarks.autoscaler.engine import lines, simulated
from benchmarks.planner.replay import Request
from benchmarks.planner.tail_requests import RUNS, case_of


def test_requests_that_arrive_out_of_order_all_come_back_and_a_lone_one_waits_for_its_own_steps_only() -> None:
    made = simulated(case_of(*RUNS[1][1:]), [Request(900.0, 500, 50), Request(0.0, 500, 50)])

    assert len(made) == 2
    assert made[0].ttft_s == pytest.approx(made[1].ttft_s)
    assert 0 < made[0].tpot_s < made[0].ttft_s


def test_the_section_sets_both_side_by_side_in_milliseconds_and_leaves_out_what_a_row_does_not_state() -> None:
    names = ("ttft_mean", "ttft_p95", "ttft_p99", "tpot_mean", "tpot_p95")
    run = {
        "name": "a run",
        "measured": dict.fromkeys(names, 0.05),
        "simulated": dict.fromkeys(names, 12.0),
        "off": {"mean": 0.02, "largest": 0.1},
    }
    row = {"name": "a row", "measured": {"tpot_mean": 0.02}, "simulated": dict.fromkeys(names, 0.03)}
    text = lines([run], [row])

    assert "| a run | 50 / 12000 | 50 / 12000 | 50 / 12000 | 50 / 12000 | 50 / 12000 | 0.020 | 0.100 |" in text
    assert text[-1] == "| a row | - | - | 20 / 30 |"
