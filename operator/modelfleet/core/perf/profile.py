"""What was measured of one case, as corrections of what is predicted of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

from modelfleet.core.perf.case import Case
from modelfleet.core.perf.pace import Factors, Pace, pace
from modelfleet.core.perf.workload import Lengths

_SHRINK = 0.5
"""Deviation of ln(factor) before anything is measured: half of all groups are within a third of the prediction."""
_NOISE = (0.15, 0.07)
"""Deviation of ln(measured / corrected) of one TTFT and one TPOT."""
_ROUNDS = 12


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Factors on the predicted times of one case, with the number of measurements behind each; 1 is no correction."""

    prefill: float = 1.0
    decode: float = 1.0
    overhead: float = 1.0
    prefill_samples: int = 0
    decode_samples: int = 0
    kv_tokens: int | None = None
    """What the engine reported; replaces the predicted room."""
    uncertainty: tuple[float, float] = (0.3, 0.15)
    """Relative half-widths of the 90 % intervals of TTFT and TPOT."""
    knee_rps: float | None = None
    """The measured knee of the promise that is asked about, at its pessimistic end; replaces the predicted one."""

    @property
    def samples(self) -> int:
        """Measurements behind the profile."""
        return max(self.prefill_samples, self.decode_samples)

    @property
    def factors(self) -> Factors:
        """What they do to a pace."""
        return Factors(prefill=self.prefill, decode=self.decode, overhead=self.overhead)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Mean times measured of a case in a closed loop, below the cliff; a time that was not measured is None."""

    case: Case
    lengths: Lengths
    concurrency: float
    ttft_s: float | None
    tpot_s: float | None


Seen = tuple[Pace, float | None, float | None]
"""A predicted pace with the measured TTFT and TPOT."""


@dataclass(frozen=True)
class _Row:
    """One linearized equation: what is missed, how much it counts, and how it moves with the three logarithms."""

    residual: float
    weight: float
    slope: tuple[float, float, float]


def calibrate(observations: Sequence[Observation], kv_tokens: int | None = None) -> Profile:
    """Factors that bring predictions nearest to the observations, shrunk towards 1 as long as those are few.

    No observation gives a profile that corrects nothing.
    """
    seen = [(pace(each.case, each.lengths, each.concurrency), each.ttft_s, each.tpot_s) for each in observations]
    return calibrate_paces(seen, kv_tokens)


def calibrate_paces(paces: Sequence[Seen], kv_tokens: int | None = None, most_log: float = 2.0) -> Profile:
    """The same from predicted paces, each with the measured TTFT and TPOT. No factor's logarithm is above `most_log`.

    Least squares of the logarithms of the three factors, by Gauss and Newton.
    """
    found = [0.0, 0.0, 0.0]
    for _ in range(_ROUNDS):
        step = _solve(*_normal_equations(paces, found))
        found = [max(-most_log, min(most_log, value + change)) for value, change in zip(found, step, strict=True)]
    factors = _factors(found)
    return Profile(
        prefill=factors.prefill,
        decode=factors.decode,
        overhead=factors.overhead,
        prefill_samples=sum(ttft is not None for _, ttft, _ in paces),
        decode_samples=sum(tpot is not None for _, _, tpot in paces),
        kv_tokens=kv_tokens,
        uncertainty=widths_left(paces, factors),
    )


def _factors(logarithms: Sequence[float]) -> Factors:
    prefill, decode, overhead = (exp(value) for value in logarithms)
    return Factors(prefill=prefill, decode=decode, overhead=overhead)


def _rows(now: Pace, ttft: float | None, tpot: float | None, factors: Factors) -> list[_Row]:
    """The equations of the times that were measured."""
    rows = []
    if tpot:
        value = now.step_s(factors)
        decode = now.decode_s * factors.decode / value
        rows.append(_Row(log(tpot / value), 1 / _NOISE[1] ** 2, (1 - decode, decode, 0.0)))
    if ttft:
        value = now.first_token_s(factors)
        outside = now.outside_s * factors.overhead / value
        waited = now.waited_steps * now.decode_s * factors.decode / value
        rows.append(_Row(log(ttft / value), 1 / _NOISE[0] ** 2, (1 - outside - waited, waited, outside)))
    return rows


def _normal_equations(paces: Sequence[Seen], found: Sequence[float]) -> tuple[list[list[float]], list[float]]:
    prior = 1 / _SHRINK**2
    matrix = [[prior if row == column else 0.0 for column in range(3)] for row in range(3)]
    right = [-prior * value for value in found]
    factors = _factors(found)
    for equation in (each for now, ttft, tpot in paces for each in _rows(now, ttft, tpot, factors)):
        residual, weight, slope = equation.residual, equation.weight, equation.slope
        robust = weight / sqrt(1 + residual * residual * weight / 4)  # an outlier counts like two deviations
        for row in range(3):
            right[row] += robust * residual * slope[row]
            for column in range(3):
                matrix[row][column] += robust * slope[row] * slope[column]
    return matrix, right


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Three equations by elimination; the prior keeps the matrix positive definite, so that no pivot is 0."""
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for pivot in range(3):
        for row in range(3):
            if row != pivot:
                share = rows[row][pivot] / rows[pivot][pivot]
                rows[row] = [a - share * b for a, b in zip(rows[row], rows[pivot], strict=True)]
    return [rows[row][3] / rows[row][row] for row in range(3)]


def widths_left(paces: Sequence[Seen], factors: Factors) -> tuple[float, float]:
    """Half-widths of 90 % from what the observations still miss, mixed with the usual noise as if of eight more."""
    first = [log(ttft / now.first_token_s(factors)) for now, ttft, _ in paces if ttft]
    step = [log(tpot / now.step_s(factors)) for now, _, tpot in paces if tpot]
    widths = [
        1.645 * sqrt((sum(value * value for value in left) + 8 * noise * noise) / (len(left) + 8))
        for left, noise in ((first, _NOISE[0]), (step, _NOISE[1]))
    ]
    return widths[0], widths[1]
