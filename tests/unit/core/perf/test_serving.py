"""TTFT and TPOT under load: what grows, what is bounded, and what is said."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perf_cases import CASES, DENSE, LENGTHS, LOADS, MIXTURE, REGIMES, case

from modelfleet.core.layout.shape import Layout
from modelfleet.core.perf.pace import pace
from modelfleet.core.perf.prediction import Source
from modelfleet.core.perf.profile import Profile
from modelfleet.core.perf.serving import predict, replica
from modelfleet.core.perf.workload import Lengths, Load


@given(CASES, REGIMES, LOADS, st.floats(1, 10))
def test_more_users_never_lower_ttft_or_tpot(one, lengths, concurrency, factor):
    low, high = (predict(one, lengths, Load(concurrency=n)) for n in (concurrency, concurrency * factor))
    assert high.ttft_s >= low.ttft_s * (1 - 1e-9)
    assert high.tpot_s >= low.tpot_s * (1 - 1e-9)


@given(CASES, REGIMES, st.floats(0.01, 50), st.floats(1, 10))
def test_more_arrivals_never_lower_ttft_or_tpot(one, lengths, rate, factor):
    low, high = (predict(one, lengths, Load(requests_per_s=n)) for n in (rate, rate * factor))
    assert high.ttft_s >= low.ttft_s * (1 - 1e-3)
    assert high.tpot_s >= low.tpot_s * (1 - 1e-3)


@given(CASES, REGIMES, LOADS, st.floats(1, 4))
def test_faster_memory_is_never_slower(one, lengths, concurrency, factor):
    hardware = replace(one.hardware, memory_bytes_per_s=one.hardware.memory_bytes_per_s * factor)
    slow, fast = (
        predict(each, lengths, Load(concurrency=concurrency)) for each in (one, replace(one, hardware=hardware))
    )
    assert fast.ttft_s <= slow.ttft_s * (1 + 1e-9)
    assert fast.tpot_s <= slow.tpot_s * (1 + 1e-9)


@given(CASES, REGIMES, LOADS)
def test_figures_are_consistent(one, lengths, concurrency):
    at = predict(one, lengths, Load(concurrency=concurrency))
    assert 0 < at.running <= at.concurrency * (1 + 1e-9)
    assert at.saturated == (at.running < at.concurrency * (1 - 1e-9))
    assert at.output_tokens_per_s == pytest.approx(at.requests_per_s * lengths.output_tokens)
    whole_s = at.ttft_s + at.tpot_s * max(lengths.output_tokens - 1, 0)
    assert at.requests_per_s * whole_s == pytest.approx(concurrency, rel=1e-6)
    assert at.source is Source.PREDICTED
    assert at.uncertainty > 0
    assert at.ttft_uncertainty > 0


def test_past_the_cache_the_others_wait_and_the_reason_says_so():
    room = replica(case(), LENGTHS).most
    at = predict(case(), LENGTHS, Load(concurrency=4 * room))
    below = predict(case(), LENGTHS, Load(concurrency=room))
    assert at.saturated
    assert not below.saturated
    assert at.running == room
    assert at.tpot_s == below.tpot_s
    assert at.ttft_s > 2 * at.tpot_s * LENGTHS.output_tokens
    assert f"the KV cache has room for {room:.0f}" in at.reason


def test_the_sequence_cap_bounds_what_runs():
    at = predict(case(sequence_cap=8), LENGTHS, Load(concurrency=32))
    assert at.running == 8
    assert "the sequence cap is 8" in at.reason


def test_long_prompts_and_short_answers_fill_the_token_budget():
    at = predict(case(token_budget=512), Lengths(input_tokens=4096, output_tokens=16), Load(concurrency=64))
    assert at.saturated
    assert "token budget" in at.reason


def test_a_shared_prefix_is_prefilled_once():
    alone = pace(case(), LENGTHS, 8).prompt_s
    shared = pace(case(), replace(LENGTHS, shared_prefix_tokens=900), 8).prompt_s
    assert shared < alone / 2


def test_an_overloaded_replica_says_so_and_its_rate_is_what_it_serves():
    at = predict(case(sequence_cap=4), LENGTHS, Load(requests_per_s=1000))
    assert at.saturated
    assert at.requests_per_s < 100
    assert at.ttft_s > 60


def test_open_and_closed_loops_agree_on_tpot_at_the_same_number_running():
    opened = predict(case(), LENGTHS, Load(requests_per_s=8))
    closed = predict(case(), LENGTHS, Load(concurrency=opened.running))
    assert opened.tpot_s == pytest.approx(closed.tpot_s)
    assert opened.ttft_p95_s > opened.ttft_s
    assert opened.tpot_p95_s > opened.tpot_s


def test_two_stages_take_the_time_of_one_pass_and_share_the_prompts():
    one, two = (pace(case(layout=layout), LENGTHS, 8) for layout in (Layout(1), Layout(1, 2)))
    assert two.prompts_a_step == one.prompts_a_step / 2
    assert two.decode_s < one.decode_s * 1.05


def test_ranks_of_a_mixture_overlap_their_prompts_in_part():
    one, four = (
        pace(case(MIXTURE, layout=layout), LENGTHS, 64) for layout in (Layout(1), Layout(1, 1, 4, expert=True))
    )
    assert four.prompts_a_step == one.prompts_a_step / 2


def test_a_layout_that_nothing_measured_has_a_wide_interval():
    near, far = (predict(case(layout=layout), LENGTHS, Load(concurrency=8)) for layout in (Layout(8), Layout(8, 2)))
    assert far.uncertainty > 2 * near.uncertainty


def test_a_measured_profile_replaces_the_prediction():
    profile = Profile(prefill=2.0, decode=2.0, overhead=2.0, prefill_samples=5, decode_samples=5, kv_tokens=11250)
    plain, measured = (predict(case(), LENGTHS, Load(concurrency=4), each) for each in (None, profile))
    assert measured.source is Source.MEASURED
    assert measured.tpot_s == pytest.approx(2 * plain.tpot_s)
    assert measured.ttft_s == pytest.approx(2 * plain.ttft_s)
    assert measured.uncertainty < plain.uncertainty
    assert predict(case(), LENGTHS, Load(concurrency=11), profile).saturated


@pytest.mark.parametrize(
    ("lengths", "load", "said"),
    [
        pytest.param(LENGTHS, Load(), "exactly one of the two", id="no load"),
        pytest.param(LENGTHS, Load(concurrency=1, requests_per_s=1), "exactly one", id="both kinds of load"),
        pytest.param(LENGTHS, Load(concurrency=0), "the load is 0: write a number above 0", id="nobody"),
        pytest.param(LENGTHS, Load(requests_per_s=float("inf")), "the load is inf", id="endless arrivals"),
        pytest.param(replace(LENGTHS, output_tokens=0), Load(concurrency=1), "0 output tokens", id="no output"),
        pytest.param(
            replace(LENGTHS, input_tokens=-5), Load(concurrency=1), "-5 input tokens", id="less than no input"
        ),
    ],
)
def test_a_question_without_sense_is_refused_in_a_sentence(lengths, load, said):
    with pytest.raises(ValueError, match=said):
        predict(case(DENSE), lengths, load)
