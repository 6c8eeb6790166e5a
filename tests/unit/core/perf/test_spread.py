"""How single requests spread around the means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelfleet.core.perf.spread import Spread
from modelfleet.core.perf.tails import waiting

SPREADS = st.builds(
    Spread,
    ttft_s=st.floats(0.01, 100),
    tpot_s=st.floats(0.001, 1),
    ttft_cv=st.floats(0.01, 2),
    tpot_cv=st.floats(0.01, 1),
)


@given(SPREADS, st.floats(0.01, 0.99))
def test_the_share_at_a_quantile_is_the_quantile(one, share):
    assert one.share(one.ttft_at(share), float("inf")) == pytest.approx(share, abs=1e-6)
    assert one.share(float("inf"), one.tpot_at(share)) == pytest.approx(share, abs=1e-6)


@given(SPREADS, st.floats(0.001, 100), st.floats(0.0001, 1), st.floats(1, 5))
def test_wider_limits_hold_no_fewer_requests(one, ttft_s, tpot_s, factor):
    assert one.share(ttft_s * factor, tpot_s * factor) >= one.share(ttft_s, tpot_s)


def test_without_spread_the_mean_decides():
    one = Spread(ttft_s=1.0, tpot_s=0.1, ttft_cv=0.0, tpot_cv=0.0)
    assert one.share(1.0, 0.1) == 1.0
    assert one.share(0.9, 0.1) == 0.0
    assert one.ttft_at(0.99) == 1.0


@pytest.mark.parametrize(
    ("running", "most", "low", "high"),
    [
        pytest.param(10, 100, 0.0, 1e-9, id="plenty of room: nobody waits"),
        pytest.param(90, 100, 0.1, 0.4, id="nine tenths taken: some wait, as Erlang's formula has it"),
        pytest.param(100, 100, 0.9, 1.0, id="full: nearly all wait"),
    ],
)
def test_who_waits_for_room(running, most, low, high):
    assert low <= waiting(running, most).probability <= high
