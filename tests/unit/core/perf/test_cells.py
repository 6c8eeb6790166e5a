"""Steps by composition: what replicas have in common, and the corrections that they give."""

from dataclasses import replace

import pytest
from perf_cases import case

from modelfleet.core.perf.cells import Cell, Light, common, corrected_s, fit, pooled, since
from modelfleet.core.perf.pace import pace
from modelfleet.core.perf.steps import Batch, step_time
from modelfleet.core.perf.workload import Lengths

LENGTHS = Lengths(input_tokens=600.0, output_tokens=200.0)
MIXES = ((1.0, 0.0), (16.0, 0.0), (64.0, 0.0), (16.0, 600.0), (64.0, 1200.0))


def cells(decode: float, prefill: float, steps: float = 1000.0, mixes=MIXES):
    found, of = {}, case()
    for sequences, tokens in mixes:
        alone = Batch(decode_sequences=sequences, decode_context_tokens=700.0)
        alone_s = step_time(of, alone).total_s
        more_s = step_time(of, replace(alone, prefill_tokens=tokens)).total_s - alone_s
        found[str(sequences), str(tokens)] = Cell(
            steps=steps,
            seconds=steps * (decode * alone_s + prefill * more_s),
            decode_sequences=steps * sequences,
            prefill_tokens=steps * tokens,
        )
    return found


@pytest.mark.parametrize(
    ("decode", "prefill", "tolerance"),
    [
        pytest.param(1.0, 1.0, 0.03, id="as predicted"),
        pytest.param(1.4, 0.7, 0.03, id="slower answers and faster prompts"),
        pytest.param(0.5, 2.5, 0.03, id="far off both ways"),
        pytest.param(40.0, 60.0, 0.08, id="a processor that is no accelerator, shrunk a little"),
    ],
)
def test_known_factors_are_found_again(decode, prefill, tolerance):
    found = fit(case(), LENGTHS, cells(decode, prefill))
    assert found is not None
    assert found.decode == pytest.approx(decode, rel=tolerance)
    assert found.prefill == pytest.approx(prefill, rel=tolerance)
    assert (found.decode_samples, found.prefill_samples) == (5000, 2000)


def test_the_corrected_curve_gives_the_measured_times_back():
    seen = cells(1.4, 0.7)
    found = fit(case(), LENGTHS, seen)
    assert found is not None
    for cell in seen.values():
        assert corrected_s(case(), LENGTHS, found, cell.sequences, cell.tokens) == pytest.approx(cell.mean_s, rel=0.03)


def test_more_compositions_that_agree_are_surer():
    one = fit(case(), LENGTHS, cells(1.4, 0.7, mixes=MIXES[:1]))
    all_of_them = fit(case(), LENGTHS, cells(1.4, 0.7))
    assert one is not None
    assert all_of_them is not None
    assert all_of_them.uncertainty[1] < one.uncertainty[1]


def test_first_tokens_say_what_a_request_takes_outside_of_steps_and_nothing_of_steps():
    without = fit(case(), LENGTHS, cells(1.2, 1.2))
    now = pace(case(), LENGTHS, 1.0)
    assert without is not None
    slow_s = now.first_token_s(replace(without.factors, overhead=4.0), ahead=0.0)
    found = fit(case(), LENGTHS, cells(1.2, 1.2), [Light(running=1.0, ttft_s=slow_s)])
    assert found is not None
    assert (found.decode, found.prefill) == (without.decode, without.prefill)
    assert found.overhead == pytest.approx(2.0, rel=0.01)  # one measurement, halfway by logarithms


def test_without_a_step_nothing_is_found():
    assert fit(case(), LENGTHS, {}) is None


def test_of_three_replicas_the_middle_one_counts():
    found = common([cells(1.0, 1.0), cells(1.1, 1.0), cells(9.0, 1.0)], 100.0)
    middle = cells(1.1, 1.0)
    assert {each: cell.mean_s for each, cell in found.items()} == pytest.approx(
        {each: cell.mean_s for each, cell in middle.items()}
    )
    assert sum(cell.steps for cell in found.values()) == 15_000


def test_compositions_with_few_steps_of_each_replica_do_not_count():
    assert common([cells(1.0, 1.0, steps=60.0)] * 3, 100.0) == {}


def test_rare_compositions_of_one_engine_are_put_together_and_still_tell_the_factors():
    rare = {each: cell for step in (3.0, 4.0, 5.0) for each, cell in _mixes(step).items()}
    found = pooled(rare, 10.0)
    assert list(found) == [("any", "600.0")]
    again = fit(case(), LENGTHS, found)
    assert again is not None
    now = corrected_s(case(), LENGTHS, again, found["any", "600.0"].sequences, found["any", "600.0"].tokens)
    assert now == pytest.approx(found["any", "600.0"].mean_s, rel=0.03)
    assert pooled(rare, 100.0) == {}


def _mixes(steps: float):
    return cells(1.4, 0.7, steps=steps, mixes=((8.0 * steps, 600.0),))


def test_what_an_engine_did_between_two_pages_is_their_difference():
    before, after = cells(1.0, 1.0, steps=100.0), cells(1.0, 1.0, steps=350.0)
    assert {cell.steps for cell in since(before, after).values()} == {250.0}


def test_after_a_restart_all_of_the_newer_page_counts():
    assert since(cells(1.0, 1.0, steps=900.0), cells(1.0, 1.0, steps=300.0)) == cells(1.0, 1.0, steps=300.0)
