"""The fitted constants, and that the fit's formulas are the model's."""

import numpy as np
import pytest
from perf_cases import LENGTHS, MIXTURE, case

from benchmarks.planner.design_matrix import Matrix
from benchmarks.planner.fit import Fit
from benchmarks.planner.replay import Request, replay
from benchmarks.planner.rows import Measured
from modelfleet.core.layout.shape import Layout
from modelfleet.core.perf import fitted
from modelfleet.core.perf.constants import NAMES, Constants, constants_for
from modelfleet.core.perf.pace import pace
from modelfleet.core.perf.steps import Batch, step_time

CASES = [case(), case(MIXTURE, layout=Layout(2)), case(MIXTURE, "b200", Layout(1, 1, 4, expert=True), engine="trtllm")]


def rows() -> list[Measured]:
    return [
        Measured(str(n), "a", "g", "bf16", "tp", one, LENGTHS, n, ttft_s=0.1, tpot_s=0.01)
        for one in CASES
        for n in (1, 64)
    ]


def test_every_constant_of_every_kind_is_above_zero_and_named():
    assert set(fitted.BASE) == set(NAMES)
    for table in (fitted.BY_ENGINE, fitted.BY_GENERATION, fitted.BY_UNIT):
        for factors in table.values():
            assert set(factors) <= set(NAMES)
            assert all(0.05 < value < 200 for value in factors.values())
    assert all(value > 0 for value in fitted.BASE.values())


def test_no_kernel_reads_much_faster_than_memory():
    for one in CASES:
        assert constants_for(one).weights_s > 0.8
        assert constants_for(one).experts_s > 0.8


def test_an_engine_that_nobody_measured_is_taken_as_vllm():
    assert constants_for(case(engine="other")) == constants_for(case())


def test_the_fit_computes_the_models_own_times():
    matrix = Matrix(rows())
    values = np.array([[getattr(constants_for(row.case), name) for name in NAMES] for row in matrix.rows])
    ttft, tpot, _, _ = matrix.times(values, np.arange(len(matrix.rows)))
    for line, row in enumerate(matrix.rows):
        now = pace(row.case, row.lengths, row.concurrency)
        assert ttft[line] == pytest.approx(now.first_token_s())
        assert tpot[line] == pytest.approx(now.step_s())


def test_the_fits_derivatives_are_right():
    fit = Fit(rows())
    lines, start = np.arange(len(fit.matrix.rows)), fit.start
    base = fit.constants(start, lines)
    ttft, tpot, by_ttft, by_tpot = fit.matrix.times(base, lines)
    for column in range(len(NAMES)):
        moved = base.copy()
        moved[:, column] *= 1 + 1e-6
        next_ttft, next_tpot, _, _ = fit.matrix.times(moved, lines)
        assert np.allclose(by_ttft[:, column], np.log(next_ttft / ttft) / 1e-6, atol=1e-4)
        assert np.allclose(by_tpot[:, column], np.log(next_tpot / tpot) / 1e-6, atol=1e-4)


def test_a_fit_on_what_the_model_says_finds_it_again():
    made = [
        Measured(
            row.name,
            "a",
            "g",
            "bf16",
            "tp",
            row.case,
            row.lengths,
            row.concurrency,
            2 * now.first_token_s(),
            2 * now.step_s(),
        )
        for row in rows()
        for now in [pace(row.case, row.lengths, row.concurrency)]
    ]
    fit = Fit(made)
    ttft, tpot = fit.predict(fit.solve(np.arange(len(made))), np.arange(len(made)))
    assert np.allclose(tpot, fit.matrix.tpot, rtol=0.1)
    assert np.allclose(ttft, fit.matrix.ttft, rtol=0.2)


def test_a_replayed_request_takes_its_steps():
    alone = Request(0.0, 1000, 11)
    (times,) = replay(case(), [alone])
    step = step_time(case(), Batch(decode_sequences=1, decode_context_tokens=1006)).total_s
    assert times.tpot_s == pytest.approx(step, rel=0.01)
    prompt = step_time(case(), Batch(prefill_tokens=1000)).total_s
    assert times.ttft_s == pytest.approx(prompt + constants_for(case()).prompt_s)


def test_a_replay_shares_the_replica():
    many = [Request(0.0, 500, 50) for _ in range(40)]
    times = replay(case(sequence_cap=8), many)
    assert len(times) == 40
    assert max(one.ttft_s for one in times) > 5 * min(one.ttft_s for one in times)
    with pytest.raises(ValueError, match="does not fit"):
        replay(case(), [Request(0.0, 10_000_000, 1)])


def test_constants_have_a_name_for_every_term():
    assert len(NAMES) == len(set(NAMES)) == len(Constants.__dataclass_fields__)
