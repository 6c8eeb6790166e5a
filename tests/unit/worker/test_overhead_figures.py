"""The bounds that `make bench-overhead` prints, and what its section says of them."""

import random
import statistics
from collections.abc import Callable
from dataclasses import replace
from math import exp, log
from typing import Any

import pytest

from benchmarks.overhead.figures import Noted, blocks, bound, costs, percent, side, upper_rank, windows
from benchmarks.overhead.section import section

PERIOD_S, STEP_S, STREAMS = 0.05, 0.002, 4


@pytest.mark.parametrize(
    ("count", "rank"), [(5, 4), (6, 5), (10, 8), (20, 14), (100, 58)], ids=lambda number: f"{number}"
)
def test_the_median_lies_below_the_value_of_this_rank_with_95_percent_certainty(count: int, rank: int) -> None:
    """Ranks of the sign test as textbooks list them (one-sided, 5 %), counted from 0."""
    assert upper_rank(count) == rank


def test_of_thousands_the_rank_is_that_of_a_normal_distribution() -> None:
    assert upper_rank(2500) == pytest.approx(1250 + 1.645 * 25, abs=1)


def test_four_blocks_bound_nothing() -> None:
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
    assert one.grouped == 1
    assert one.mean_upper - one.mean == pytest.approx(1.645 * statistics.stdev(values) / 10, rel=0.1)


def test_outliers_widen_the_bound_of_the_mean_and_leave_that_of_the_median() -> None:
    one = bound([0.001] * 58 + [3.0, -3.0])
    assert (one.median, one.median_upper) == (0.001, 0.001)
    assert one.mean_upper > 0.05


def test_neighbours_that_are_alike_count_as_one() -> None:
    noise = random.Random(7)
    values = [noise.gauss(0.0, 1.0) for _ in range(100)]
    one, twice = bound(values), bound([value for value in values for _ in range(2)])
    assert (twice.grouped, twice.count) == (2, 100)
    assert twice.mean_upper == pytest.approx(one.mean_upper)


def simulated(cost: float, seconds: float, noise: float = 0.05) -> Noted:
    """Steps of an engine on a machine with noise at all time scales, alike at each; with our layers in they take
    (1 + `cost`) times as long. The core's CPU is half of each step."""
    random_ = random.Random(3)
    scales_s = [STEP_S * 4**power for power in range(9)]
    levels = [random_.gauss(0.0, noise) for _ in scales_s]
    keep = [exp(-STEP_S / scale_s) for scale_s in scales_s]
    now_s, used_s, number = 0.0, 0.0, 0
    tokens: list[float] = []
    edges = [(0.0, 0.0, 0.0)]
    while now_s < seconds:
        levels = [
            one * level + random_.gauss(0.0, noise) * (1 - one * one) ** 0.5
            for one, level in zip(keep, levels, strict=True)
        ]
        step_s = STEP_S * exp(sum(levels)) * (1 + cost * (number % 4 in (0, 3)))
        now_s, used_s = now_s + step_s, used_s + step_s / 2
        tokens.append(now_s)
        while now_s >= (number + 1) * PERIOD_S:
            number += 1
            edges.append((number, number * PERIOD_S, used_s))
    return Noted(0.0, PERIOD_S, [tokens] * STREAMS, {"core": edges, "api": [(*edge[:2], 0.0) for edge in edges]})


@pytest.mark.parametrize("cost", [0.0, 0.02], ids=["no cost is bounded near zero", "a cost of 2 % is found"])
def test_in_noise_of_all_time_scales(cost: float) -> None:
    found, _ = costs(windows(simulated(cost, 160.0)))
    for name in ("throughput lost", "tpot", "cpu per token"):
        one = bound(found[name])
        assert one.spread > 0.03
        error = one.spread / len(found[name]) ** 0.5
        assert one.mean == pytest.approx(log(1 + cost), abs=3 * error)
        assert one.median == pytest.approx(log(1 + cost), abs=3 * 1.25 * error)  # of a median, in theory 1.25 times
        assert one.mean < one.mean_upper < one.mean + 3 * error
        assert one.median < one.median_upper < one.median + 4 * error
        assert (max(one.mean_upper, one.median_upper) < 0.01) == (cost == 0.0)


def test_each_side_has_its_own_sums() -> None:
    seen = windows(simulated(0.1, 20.0, noise=0.0))
    within, out = side(seen, ours=True), side(seen, ours=False)
    assert seen.step_s == pytest.approx(STEP_S, rel=0.11)
    assert out["tpot_ms"] == pytest.approx(1000 * STEP_S)
    assert within["tpot_ms"] == pytest.approx(1100 * STEP_S, rel=0.01)
    assert out["tokens_per_s"] == pytest.approx(STREAMS / STEP_S, rel=0.03)
    assert out["core_us"] == pytest.approx(1e6 * STEP_S / 2 / STREAMS, rel=0.05)
    assert out["api_us"] == 0.0


def late(noted: Noted) -> Noted:
    rows = list(noted.edges["api"])
    rows[9] = (9, rows[9][1] + 0.6 * PERIOD_S, 0.0)
    return replace(noted, edges={**noted.edges, "api": rows})


def missed(noted: Noted) -> Noted:
    rows = list(noted.edges["api"])
    return replace(noted, edges={**noted.edges, "api": [*rows[:9], *rows[10:]]})


def unread(noted: Noted) -> Noted:
    """The client read what came in the tenth window at once, at its end."""
    at_s = 10 * PERIOD_S - STEP_S / 10
    times = [at_s if 9 * PERIOD_S < one < at_s else one for one in noted.tokens_s[0]]
    return replace(noted, tokens_s=[times] * STREAMS)


@pytest.mark.parametrize(
    ("change", "left_out"),
    [
        pytest.param(late, [9], id="a process that turned late spoils its window"),
        pytest.param(missed, [8, 9], id="an edge that a process slept through spoils both windows beside it"),
        pytest.param(unread, [9], id="a window in which the client read nothing in time is spoilt"),
    ],
)
def test_a_block_with_a_spoilt_window_is_left_out(change: Callable[[Noted], Noted], left_out: list[int]) -> None:
    seen = windows(change(simulated(0.0, 2.0, noise=0.0)))
    assert [index for index, bad in enumerate(seen.late | seen.unread) if bad] == left_out
    assert list(blocks(seen)) == [first for first in range(0, 40, 4) if first != 8]


def test_a_gap_over_an_edge_counts_for_no_window() -> None:
    noted = simulated(0.0, 0.2, noise=0.0)
    seen = windows(noted)
    assert list(seen.gap_s / seen.gaps) == pytest.approx([STEP_S] * 4)
    assert all(seen.gaps == seen.tokens - STREAMS)


def test_without_tokens_there_is_nothing_to_say() -> None:
    with pytest.raises(ValueError, match="no stream has two tokens"):
        windows(replace(simulated(0.0, 1.0), tokens_s=[[], [0.5]]))


def results(mean_upper: float, median_upper: float) -> Any:
    cost = {
        "count": 600,
        "grouped": 4,
        "spread": 0.08,
        "median": 0.0,
        "median_upper": log(1 + median_upper),
        "mean": 0.0,
        "mean_upper": log(1 + mean_upper),
    }
    side = {"tokens_per_s": 2000.0, "tpot_ms": 4.0, "core_us": 300.0, "api_us": 80.0}
    run = {
        "shape": {"streams": 8, "tokens": 2000},
        "step_ms": 4.0,
        "windows": 9800,
        "blocks": 2400,
        "late": 30,
        "unread": 7,
        "costs": {"throughput lost": cost, "tpot": cost},
        "added_us_per_token": {**cost, "mean": 3.0, "mean_upper": 5.0},
        "sides": {"in": side, "out": side},
        "supervisor_cores": 0.004,
        "processors": 2,
        "apart": {"requests": 0.0001, "supervisor": 0.002},
        "loadAverage": 2.0,
    }
    alone = {"chunk_us": 0.2, "request_us": 200.0, "step_us": {"8": {"core": 3.0, "api": 1.0}}}
    return {"shapes": [run["shape"]], "alone": alone, "runs": [run], "at": "2026-01-01 00:00"}


@pytest.mark.parametrize(
    ("mean_upper", "median_upper", "words"),
    [
        pytest.param(
            0.0078,
            0.0078,
            "within (throughput lost at most +0.99 % by the mean, +0.99 % by the median",
            id="what is not turned is added, and the sum is within the bound",
        ),
        pytest.param(
            0.008,
            0.0,
            "not within (throughput lost at most +1.01 % by the mean, +0.21 % by the median",
            id="the mean alone is not within it",
        ),
        pytest.param(
            0.0,
            0.008,
            "not within (throughput lost at most +0.21 % by the mean, +1.01 % by the median",
            id="the median alone is not within it",
        ),
    ],
)
def test_the_section_says_plainly_what_was_reached(mean_upper: float, median_upper: float, words: str) -> None:
    text = "\n".join(section(results(mean_upper, median_upper)))
    assert f"8 streams: {words}" in text
    assert "2400 blocks of 9800 windows; left out with their blocks: 30 windows in which a process turned" in text
    assert "| 600 of 4 blocks each | 8.0 % |" in text
    assert "Of a step of 10 ms with as many streams that CPU is at most 0.40 %" in text
    assert "together 0.80 a token of streams of 2000, which is 0.06 % of a step of 10 ms" in text


def test_what_was_not_run_is_said() -> None:
    text = "\n".join(section({**results(0.0, 0.0), "runs": []}))
    assert "together 0.80 a token" in text
    assert "Not run: layers in and out of one engine." in text


def test_where_the_machine_left_too_few_blocks_no_bound_is_shown() -> None:
    found = results(0.0, 0.0)
    del found["runs"][0]["costs"]
    text = "\n".join(section(found))
    assert "No bound with 8 streams: too few good blocks." in text
    assert "Against the bound" not in text


def test_a_logarithm_is_shown_in_percent() -> None:
    assert percent(log(1.05)) == pytest.approx(5.0)
