"""The bounds that `make bench-overhead` prints, and what its section says of them."""

import random
import statistics
from math import log
from typing import Any

import pytest

from benchmarks.overhead.figures import bound, percent, upper_rank
from benchmarks.overhead.section import section


@pytest.mark.parametrize(
    ("count", "rank"), [(5, 4), (6, 5), (10, 8), (20, 14), (100, 58)], ids=lambda number: f"{number}"
)
def test_the_median_lies_below_the_value_of_this_rank_with_95_percent_certainty(count: int, rank: int) -> None:
    """Ranks of the sign test as textbooks list them (one-sided, 5 %), counted from 0."""
    assert upper_rank(count) == rank


def test_four_pairs_bound_nothing() -> None:
    with pytest.raises(ValueError, match="4 values bound no median"):
        bound([1.0, 2.0, 3.0, 4.0])


def test_the_bound_of_the_median_holds_in_nineteen_of_twenty_cases() -> None:
    noise, rank = random.Random(7), upper_rank(40)
    held = sum(sorted(noise.gauss(0.0, 1.0) for _ in range(40))[rank] >= 0 for _ in range(400))
    assert held >= 0.93 * 400


def test_the_bound_of_the_mean_is_that_of_a_normal_distribution_where_it_is_one() -> None:
    noise = random.Random(7)
    values = [noise.gauss(0.0, 1.0) for _ in range(100)]
    one = bound(values)
    assert one.mean_upper - one.mean == pytest.approx(1.645 * statistics.stdev(values) / 10, rel=0.1)


def test_outliers_widen_the_bound_of_the_mean_and_leave_that_of_the_median() -> None:
    one = bound([0.001] * 58 + [3.0, -3.0])
    assert (one.median, one.median_upper) == (0.001, 0.001)
    assert one.mean_upper > 0.05


def results(median_upper: float) -> Any:
    cost = {"count": 60, "median": 0.0, "median_upper": log(1 + median_upper), "mean": 0.0, "mean_upper": 0.02}
    side = {"tokens_per_s": 2000.0, "tpot_ms": 4.0, "core_us": 300.0, "api_us": 80.0, "supervisor_us": 2.0}
    run = {
        "shape": {"streams": 8, "tokens": 256, "waves": 4},
        "pairs": 120,
        "costs": {"throughput lost": cost, "tpot": cost},
        "added_us_per_token": {**cost, "median": 3.0, "median_upper": 5.0},
        "sides": {"in": side, "out": side},
        "loadAverage": 2.0,
    }
    alone = {"chunk_us": 0.2, "request_us": 25.6, "step_us": {"8": {"core": 3.0, "api": 1.0}}}
    return {
        "shapes": [run["shape"]],
        "alone": alone,
        "switched": [run],
        "starts": [{"tpot": log(1.02)}, {"tpot": log(0.97)}],
        "at": "2026-01-01 00:00",
    }


@pytest.mark.parametrize(
    ("upper", "words"),
    [
        pytest.param(0.009, "8 streams: within (throughput lost at most +0.90 %", id="within the bound"),
        pytest.param(0.011, "8 streams: not within (throughput lost at most +1.10 %", id="not within it"),
    ],
)
def test_the_section_says_plainly_what_was_reached(upper: float, words: str) -> None:
    text = "\n".join(section(results(upper)))
    assert words in text
    assert "of one of 10 ms with as many streams that were at most 0.40 %" in text
    assert (
        "a step of 8 streams 3.0 in the core and 1.0 in the API server, together 0.80 a token of streams of 256" in text
    )
    assert "which is 0.06 % of a step of 10 ms" in text
    assert "tpot +2.0, -3.0 %" in text


def test_what_was_not_run_is_said() -> None:
    text = "\n".join(section({**results(0.0), "switched": [], "starts": []}))
    assert "together 0.80 a token" in text
    assert "Not run: pairs within one engine." in text
    assert "Not run: pairs of processes." in text


def test_a_logarithm_is_shown_in_percent() -> None:
    assert percent(log(1.05)) == pytest.approx(5.0)
