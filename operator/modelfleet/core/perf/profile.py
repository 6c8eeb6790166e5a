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


def calibrate(observations: Sequence[Observation], kv_tokens: int | None = None) -> Profile:
    """Factors that bring predictions nearest to the observations, shrunk towards 1 as long as those are few.

    Least squares of the logarithms of the three factors, by Gauss and Newton. No observation gives a profile that
    corrects nothing.
    """
    paces = [(pace(seen.case, seen.lengths, seen.concurrency), seen) for seen in observations]
    found = [0.0, 0.0, 0.0]
    for _ in range(_ROUNDS):
        step = _solve(*_normal_equations(paces, found))
        found = [max(-2.0, min(2.0, value + change)) for value, change in zip(found, step, strict=True)]
    factors = _factors(found)
    ttft = sum(seen.ttft_s is not None for seen in observations)
    tpot = sum(seen.tpot_s is not None for seen in observations)
    return Profile(
        prefill=factors.prefill,
        decode=factors.decode,
        overhead=factors.overhead,
        prefill_samples=ttft,
        decode_samples=tpot,
        kv_tokens=kv_tokens,
        uncertainty=_left(paces, factors),
    )


def _factors(logarithms: Sequence[float]) -> Factors:
    prefill, decode, overhead = (exp(value) for value in logarithms)
    return Factors(prefill=prefill, decode=decode, overhead=overhead)


def _rows(now: Pace, seen: Observation, factors: Factors) -> list[tuple[float, float, tuple[float, float, float]]]:
    """Residual, weight and derivative by the three logarithms, of each time that was measured."""
    rows = []
    if seen.tpot_s:
        value = now.step_s(factors)
        decode = now.decode_s * factors.decode / value
        rows.append((log(seen.tpot_s / value), 1 / _NOISE[1] ** 2, (1 - decode, decode, 0.0)))
    if seen.ttft_s:
        value = now.first_token_s(factors)
        outside = now.outside_s * factors.overhead / value
        waited = now.waited_steps * now.decode_s * factors.decode / value
        rows.append((log(seen.ttft_s / value), 1 / _NOISE[0] ** 2, (1 - outside - waited, waited, outside)))
    return rows


def _normal_equations(
    paces: Sequence[tuple[Pace, Observation]], found: Sequence[float]
) -> tuple[list[list[float]], list[float]]:
    prior = 1 / _SHRINK**2
    matrix = [[prior if row == column else 0.0 for column in range(3)] for row in range(3)]
    right = [-prior * value for value in found]
    factors = _factors(found)
    for now, seen in paces:
        for residual, weight, slope in _rows(now, seen, factors):
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


def _left(paces: Sequence[tuple[Pace, Observation]], factors: Factors) -> tuple[float, float]:
    """Half-widths from what the observations still miss, mixed with the usual noise as if of eight more."""
    widths = []
    for part, noise in enumerate(_NOISE):
        squares = [
            log((seen.ttft_s, seen.tpot_s)[part] / (now.first_token_s(factors), now.step_s(factors))[part]) ** 2  # type: ignore[operator]
            for now, seen in paces
            if (seen.ttft_s, seen.tpot_s)[part]
        ]
        widths.append(1.645 * sqrt((sum(squares) + 8 * noise * noise) / (len(squares) + 8)))
    return widths[0], widths[1]
