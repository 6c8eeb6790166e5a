"""What a calibration makes of a few measurements."""

from dataclasses import replace

import pytest
from perf_cases import LENGTHS, case

from modelfleet.core.perf.pace import Factors, pace
from modelfleet.core.perf.profile import Observation, Profile, calibrate

TRUTH = Factors(prefill=1.6, decode=0.8, overhead=1.3)
USERS = (1, 2, 4, 8, 16, 32, 64, 128)


def observations(users: tuple[int, ...] = USERS, truth: Factors = TRUTH) -> list[Observation]:
    """A replica that is as the model says but for the factors of the truth."""
    found = []
    for n in users:
        now = pace(case(), LENGTHS, n)
        first, step = now.first_token_s(truth), now.step_s(truth)
        found.append(Observation(case=case(), lengths=LENGTHS, concurrency=n, ttft_s=first, tpot_s=step))
    return found


def test_eight_rows_give_the_factors_back():
    got = calibrate(observations())
    assert got.prefill == pytest.approx(TRUTH.prefill, rel=0.05)
    assert got.decode == pytest.approx(TRUTH.decode, rel=0.05)
    assert (got.prefill_samples, got.decode_samples) == (8, 8)


def test_nothing_measured_corrects_nothing():
    got = calibrate([])
    assert (got.prefill, got.decode, got.overhead, got.samples) == (1.0, 1.0, 1.0, 0)


def test_few_rows_are_trusted_less_than_many():
    one, eight = calibrate(observations((8,))), calibrate(observations())
    assert abs(one.prefill - 1) < abs(eight.prefill - 1)
    assert one.uncertainty[0] >= eight.uncertainty[0]


def test_one_wild_row_moves_little():
    rows = observations()
    rows[3] = replace(rows[3], ttft_s=100 * (rows[3].ttft_s or 0), tpot_s=10 * (rows[3].tpot_s or 0))
    got = calibrate(rows)
    assert got.decode == pytest.approx(TRUTH.decode, rel=0.15)
    assert got.uncertainty[0] > calibrate(observations()).uncertainty[0]


def test_a_time_that_was_not_measured_is_no_sample():
    rows = [replace(row, ttft_s=None) for row in observations()]
    got = calibrate(rows)
    assert (got.prefill_samples, got.decode_samples) == (0, 8)
    assert got.overhead == pytest.approx(1.0)


def test_the_measured_room_is_carried():
    assert calibrate(observations(), kv_tokens=123456).kv_tokens == 123456
    assert Profile().kv_tokens is None
