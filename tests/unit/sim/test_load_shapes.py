"""Synthetic loads follow their shape."""

from itertools import pairwise

import pytest

from modelfleet.sim.requests import Request
from modelfleet.sim.shapes import Regime, shaped
from modelfleet.sim.traces import TraceError

FIXED = Regime(input_tokens=1000, output_tokens=200)


def rate(requests: tuple[Request, ...], start_s: float, end_s: float) -> float:
    return sum(start_s <= one.arrival_s < end_s for one in requests) / (end_s - start_s)


@pytest.mark.parametrize(
    "shape, parts",
    [
        pytest.param("sine:5-45,600s", [(0, 30, 5.3), (285, 315, 44.8), (0, 600, 25)], id="a sine begins low"),
        pytest.param("step:2-20", [(0, 1800, 2), (1800, 3600, 20)], id="a step after half an hour"),
        pytest.param("step:2-20,10m", [(0, 600, 2), (600, 3600, 20)], id="a step after ten minutes"),
        pytest.param("burst:2-20,10m", [(0, 540, 2), (540, 600, 20), (1140, 1200, 20)], id="a tenth of each period"),
        pytest.param("daily:1-10", [(0, 3600, 1.05)], id="a day begins at night"),
    ],
)
def test_a_shape(shape: str, parts: list[tuple[float, float, float]]) -> None:
    trace = shaped(shape, FIXED, 1.0, 1)

    for start_s, end_s, wanted in parts:
        assert rate(trace.requests, start_s, end_s) == pytest.approx(wanted, rel=0.12)
    assert trace.duration_s == 3600
    assert {(one.input_tokens, one.output_tokens) for one in trace.requests} == {(1000, 200)}


def test_spikes_come_at_random_times_of_the_seed_between_the_ends() -> None:
    trace = shaped("spikes:2-20,10m", FIXED, 4.0, 1)
    minutes = [rate(trace.requests, 60 * at, 60 * at + 60) for at in range(240)]

    starts = [at for at in range(1, 240) if minutes[at - 1] < 5 <= minutes[at]]
    gaps = {after - before for before, after in pairwise(starts)}
    assert 8 <= len(starts) <= 30
    assert len(gaps) > 4
    assert 9 <= max(minutes) <= 23
    assert min(minutes) >= 1
    assert trace == shaped("spikes:2-20,10m", FIXED, 4.0, 1)
    assert trace != shaped("spikes:2-20,10m", FIXED, 4.0, 2)


def test_a_seed_decides_arrivals_and_lengths() -> None:
    spread = Regime(input_tokens=1000, output_tokens=200, spread=0.8)

    assert shaped("step:2-20", spread, 0.1, 1) == shaped("step:2-20", spread, 0.1, 1)
    assert shaped("step:2-20", spread, 0.1, 1) != shaped("step:2-20", spread, 0.1, 2)


@pytest.mark.parametrize(
    "shape, sentence",
    [
        pytest.param("wave:1-2", "wave:1-2 is no shape; write sine", id="an unknown shape"),
        pytest.param("sine:1..-2", "is no shape", id="no number"),
        pytest.param("sine:5-1", "low is at most high", id="low above high"),
        pytest.param("sine:0-0", "high is above 0", id="nothing at all"),
        pytest.param("sine:1-2,0s", "a period at least 1s", id="no period"),
        pytest.param("sine:1-900", "requests are more than 200000", id="too many"),
        pytest.param("sine:0-0.0001", "fewer than two requests", id="too few"),
    ],
)
def test_what_is_no_shape_gets_a_sentence(shape: str, sentence: str) -> None:
    with pytest.raises(TraceError, match=r"^--shape: ") as fault:
        shaped(shape, FIXED, 1.0, 1)

    assert sentence in str(fault.value)
