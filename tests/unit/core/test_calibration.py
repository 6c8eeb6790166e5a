"""Which rate a calibration drives a replica at next, and the knee that the steps give."""

import pytest

from modelfleet.core.calibration import CLOSE, MOST_TARGETS, Goal, Step, knee_of, next_rate

GOAL = Goal(share=0.99, target_rps=8.0)


def step(rate: float, share: float = 1.0, counted: int = 100) -> Step:
    return Step(rate_rps=rate, counted=counted, good=round(share * counted), ttft_s=0.1, tpot_s=0.01, running=1.0)


KEPT, BROKEN = 1.0, 0.5


@pytest.mark.parametrize(
    ("steps", "rate"),
    [
        pytest.param([], 1.0, id="an eighth of the target first"),
        pytest.param([(1.0, KEPT)], 2.0, id="twice as much while it is kept"),
        pytest.param([(40.0, KEPT)], 64.0, id="not above eight targets"),
        pytest.param([(64.0, KEPT)], None, id="the end where nothing broke"),
        pytest.param([(1.0, BROKEN)], 0.25, id="a quarter where the lightest broke"),
        pytest.param([(1.0, BROKEN), (0.25, BROKEN)], 0.0625, id="and once more"),
        pytest.param([(1.0, BROKEN), (0.25, BROKEN), (0.0625, BROKEN)], None, id="then no rate keeps it"),
        pytest.param([(4.0, KEPT), (8.0, BROKEN)], 32**0.5, id="between kept and broken"),
        pytest.param([(8.0, KEPT), (8.5, BROKEN)], None, id="the end where they are close"),
        pytest.param([(4.0, BROKEN), (8.0, KEPT), (2.0, KEPT)], 8**0.5, id="a rate kept above a broken one is luck"),
    ],
)
def test_the_next_rate(steps, rate):
    found = next_rate([step(*each) for each in steps], GOAL)
    assert found == (None if rate is None else pytest.approx(rate))


@pytest.mark.parametrize("true_rps", [0.5, 3.0, 9.0, 31.0])
def test_a_replica_with_a_sharp_knee_is_found_inside_the_stated_uncertainty(true_rps):
    steps: list[Step] = []
    while (rate := next_rate(steps, GOAL)) is not None:
        steps.append(step(rate, KEPT if rate <= true_rps else BROKEN))
        assert len(steps) < 20
    knee = knee_of(steps, GOAL)
    assert knee is not None
    assert knee.rps == pytest.approx(true_rps, rel=knee.uncertainty)
    assert knee.uncertainty < CLOSE - 1 + 0.05
    assert knee.rps * (1 - knee.uncertainty) <= true_rps


def test_a_replica_that_never_breaks_has_no_broken_rate():
    steps: list[Step] = []
    while (rate := next_rate(steps, GOAL)) is not None:
        steps.append(step(rate))
    knee = knee_of(steps, GOAL)
    assert knee is not None
    assert (knee.kept_rps, knee.broken_rps) == (MOST_TARGETS * GOAL.target_rps, None)


def test_a_step_without_a_request_kept_nothing():
    assert step(1.0, counted=0).share == 0.0
