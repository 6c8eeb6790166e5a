"""The best of given layouts inside two means: most output an accelerator, the simpler of equals, none if none keeps."""

import pytest

from modelfleet.core.layout.best_of import best_of, simplicity
from modelfleet.core.layout.shape import Layout
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import EngineSetup, Lengths, Load
from questions import LARGE, facts

LENGTHS = Lengths(input_tokens=1000, output_tokens=200)


def case(layout: Layout, cap: int | None = 256) -> Case:
    setup = EngineSetup(version="0.32.0", token_budget=2048, sequence_cap=cap, context_limit_tokens=8192)
    return Case(facts=facts("Llama-3.1-8B-Instruct"), hardware=LARGE, layout=layout, setup=setup)


CASES = [case(Layout(1)), case(Layout(2)), case(Layout(4))]


def test_the_winner_keeps_both_means_and_no_power_of_two_does_better_by_more_than_a_tenth():
    got = best_of(CASES, LENGTHS, ttft_s=1.0, tpot_s=0.03)
    assert got is not None
    assert got.prediction.ttft_s <= 1.0
    assert got.prediction.tpot_s <= 0.03
    for one in CASES:
        for power in range(9):
            at = predict(one, LENGTHS, Load(concurrency=2**power))
            if at.ttft_s <= 1.0 and at.tpot_s <= 0.03:
                speed = at.output_tokens_per_s / one.layout.accelerators
                assert speed * 0.9 <= got.output_tokens_per_s_per_accelerator


def test_the_reason_has_the_winner_the_others_and_those_that_cannot():
    got = best_of(CASES, LENGTHS, ttft_s=1.0, tpot_s=0.03)
    assert got is not None
    assert str(got.layout) in got.why
    assert "output tokens/s an accelerator" in got.why


def test_no_layout_where_none_keeps_both():
    assert best_of(CASES, LENGTHS, ttft_s=1e-6, tpot_s=1e-6) is None


def test_a_tighter_tpot_never_gives_more_output():
    speeds = []
    for tpot in (0.01, 0.02, 0.05, 0.2):
        got = best_of(CASES, LENGTHS, ttft_s=2.0, tpot_s=tpot)
        speeds.append(got.output_tokens_per_s_per_accelerator if got else 0.0)
    assert speeds == sorted(speeds)


def test_the_sequence_cap_ends_the_search():
    got = best_of([case(Layout(1), cap=4)], LENGTHS, ttft_s=10.0, tpot_s=1.0)
    assert got is not None
    assert got.concurrency == 4


@pytest.mark.parametrize(
    ("simple", "other"),
    [
        (Layout(4), Layout(8)),
        (Layout(8), Layout(4, 2)),
        (Layout(8), Layout(4, 1, 2)),
        (Layout(8), Layout(8, expert=True)),
    ],
)
def test_simpler_layouts_come_first(simple, other):
    assert simplicity(simple) < simplicity(other)


def test_the_concurrency_is_the_most_inside_both_times_and_not_only_a_power_of_two():
    setup = EngineSetup(version="0.32.0", context_limit_tokens=8192)
    seventy = Case(facts=facts("Llama-3.3-70B-Instruct"), hardware=LARGE, layout=Layout(4), setup=setup)
    got = best_of([seventy], LENGTHS, ttft_s=1.0, tpot_s=0.05)
    assert got is not None
    past = predict(seventy, LENGTHS, Load(concurrency=got.concurrency * 1.1))
    assert got.prediction.ttft_s <= 1.0
    assert got.prediction.tpot_s <= 0.05
    assert past.ttft_s > 1.0 or past.tpot_s > 0.05


def test_a_cap_that_is_no_power_of_two_is_reached():
    got = best_of([case(Layout(1), cap=6)], LENGTHS, ttft_s=10.0, tpot_s=1.0)
    assert got is not None
    assert got.concurrency == 6


def test_the_reason_says_at_which_concurrency_layouts_were_compared():
    got = best_of([case(Layout(1), cap=6), case(Layout(2), cap=4)], LENGTHS, ttft_s=10.0, tpot_s=1.0)
    assert got is not None
    assert "with 6 requests in flight" in got.why
    assert "compared at powers of two: 4 give" in got.why
