"""The highest load that keeps a promise."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perf_cases import CASES, LENGTHS, REGIMES, case

from modelfleet.core.perf.case import Limits
from modelfleet.core.perf.knee import find_knee
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import Load

LIMITS = Limits(ttft_s=1.0, tpot_s=0.03, share=0.95)
PROMISES = st.builds(Limits, ttft_s=st.floats(0.05, 20), tpot_s=st.floats(0.005, 0.5), share=st.floats(0.5, 0.999))


@given(CASES, REGIMES, PROMISES, st.floats(1, 3), st.floats(1, 3))
@settings(max_examples=60)
def test_looser_limits_never_lower_the_knee(one, lengths, limits, ttft, tpot):
    looser = replace(limits, ttft_s=limits.ttft_s * ttft, tpot_s=limits.tpot_s * tpot)
    tight, loose = (find_knee(one, lengths, each) for each in (limits, looser))
    if tight is not None:
        assert loose is not None
        assert loose.requests_per_s >= tight.requests_per_s * 0.99


def test_the_promise_holds_at_the_knee_and_breaks_past_it():
    knee = find_knee(case(), LENGTHS, LIMITS)
    assert knee is not None
    for factor, kept in ((0.98, True), (1.05, False)):
        at = predict(case(), LENGTHS, Load(requests_per_s=knee.requests_per_s * factor))
        assert at.spread is not None
        assert (at.spread.share(LIMITS.ttft_s, LIMITS.tpot_s) >= LIMITS.share) == kept


def test_a_promise_that_one_request_breaks_has_no_knee():
    assert find_knee(case(), LENGTHS, replace(LIMITS, tpot_s=0.001)) is None
    assert find_knee(case(), LENGTHS, replace(LIMITS, ttft_s=0.001)) is None


def test_a_model_that_does_not_fit_has_no_knee():
    assert find_knee(case(accelerator="t4"), LENGTHS, LIMITS) is None


@pytest.mark.parametrize(
    ("changes", "setup", "bound"),
    [
        pytest.param({"ttft_s": 60.0}, {}, "tpot", id="a tight TPOT breaks first"),
        pytest.param({"tpot_s": 10.0, "ttft_s": 0.06}, {}, "ttft", id="a tight TTFT breaks first"),
        pytest.param({"tpot_s": 10.0, "ttft_s": 600.0}, {"sequence_cap": 4}, "throughput", id="the cap is full first"),
    ],
)
def test_the_knee_names_what_breaks_first(changes, setup, bound):
    knee = find_knee(case(**setup), LENGTHS, replace(LIMITS, **changes))
    assert knee is not None
    assert knee.bound == bound


@pytest.mark.parametrize(
    "changes", [{"share": 0.0}, {"share": 1.5}, {"ttft_s": 0.0}, {"tpot_s": -1.0}], ids=lambda one: str(one)
)
def test_limits_without_sense_are_refused(changes):
    with pytest.raises(ValueError, match="limits have times above 0"):
        find_knee(case(), LENGTHS, replace(LIMITS, **changes))
