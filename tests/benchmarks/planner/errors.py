"""How far predicted times are from measured ones, and what a calibration of a few rows leaves.

The split is leave one architecture out: its rows are predicted with constants fitted on all other architectures. The
calibration sees at most 8 rows of a group (architecture × accelerator × engine) and is held to the group's other rows.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks.planner.fit import Fit
from benchmarks.planner.rows import Measured
from modelfleet.core.perf.constants import NAMES, Constants
from modelfleet.core.perf.pace import Pace, course
from modelfleet.core.perf.profile import calibrate_paces

CALIBRATION_ROWS = 8
ENGINES = ("vllm", "sglang", "trtllm")


@dataclass(frozen=True)
class Predicted:
    """A measured row with its predicted times in seconds."""

    row: Measured
    ttft_s: float
    tpot_s: float

    @property
    def ttft_error(self) -> float:
        """Signed, of what was measured."""
        return self.ttft_s / self.row.ttft_s - 1

    @property
    def tpot_error(self) -> float:
        """Signed, of what was measured."""
        return self.tpot_s / self.row.tpot_s - 1


@dataclass(frozen=True)
class Paced:
    """A measured row with its predicted pace, before any calibration."""

    row: Measured
    pace: Pace

    @property
    def plain(self) -> Predicted:
        """The times without a calibration."""
        return Predicted(self.row, self.pace.first_token_s(), self.pace.step_s())


def fitted(fit: Fit) -> list[Paced]:
    """Every row with constants fitted on all rows."""
    lines = np.arange(len(fit.matrix.rows))
    return _paced(fit, fit.solve(lines), lines)


def left_out(fit: Fit) -> list[Paced]:
    """Every row with constants fitted on all other architectures."""
    names = np.array([row.architecture for row in fit.matrix.rows])
    found = []
    for name in sorted(set(names)):
        found += _paced(fit, fit.solve(np.flatnonzero(names != name)), np.flatnonzero(names == name))
    return found


def _paced(fit: Fit, parameters: Any, lines: Any) -> list[Paced]:
    constants = fit.constants(parameters, lines)
    found = []
    for line, values in zip(lines, constants, strict=True):
        row = fit.matrix.rows[line]
        named = Constants(**dict(zip(NAMES, map(float, values), strict=True)))
        found.append(Paced(row, course(row.case, row.lengths, named).at(row.concurrency)))
    return found


def calibrated(paced: Sequence[Paced]) -> list[Predicted]:
    """The rows of each group that its calibration did not see, corrected by it; small groups are left out."""
    groups = defaultdict(list)
    for one in paced:
        groups[one.row.group].append(one)
    found = []
    for ones in groups.values():
        if len(ones) >= 2 * CALIBRATION_ROWS:
            found += _corrected(ones)
    return found


def _corrected(ones: list[Paced]) -> list[Predicted]:
    """The calibration's rows are spread evenly over the group, sorted by precision, layout, lengths and concurrency."""
    ones = sorted(ones, key=_order)
    chosen = {round((index + 0.5) * len(ones) / CALIBRATION_ROWS - 0.5) for index in range(CALIBRATION_ROWS)}
    seen = [(ones[index].pace, ones[index].row.ttft_s, ones[index].row.tpot_s) for index in chosen]
    factors = calibrate_paces(seen).factors
    return [
        Predicted(one.row, one.pace.first_token_s(factors), one.pace.step_s(factors))
        for index, one in enumerate(ones)
        if index not in chosen
    ]


def _order(one: Paced) -> tuple[Any, ...]:
    row = one.row
    lengths = row.lengths
    return row.precision, str(row.case.layout), lengths.input_tokens, lengths.output_tokens, row.concurrency, row.name


def summary(predicted: Iterable[Predicted]) -> dict[str, float]:
    """Median and mean of the absolute relative errors."""
    ones = list(predicted)
    ttft, tpot = [abs(one.ttft_error) for one in ones], [abs(one.tpot_error) for one in ones]
    return {
        "rows": len(ones),
        "tpot_median": median(tpot),
        "tpot_mean": mean(tpot),
        "ttft_median": median(ttft),
        "ttft_mean": mean(ttft),
    }


def by(predicted: Sequence[Predicted], key: Callable[[Measured], str]) -> dict[str, dict[str, float]]:
    """Summaries of the rows by what `key` says of them."""
    parts = defaultdict(list)
    for one in predicted:
        parts[key(one.row)].append(one)
    return {name: summary(ones) for name, ones in sorted(parts.items())}


def worst(predicted: Sequence[Predicted], count: int = 5) -> list[Predicted]:
    """Rows with the largest errors of either time, counted as factors, at most one a group."""
    ranked = sorted(predicted, key=lambda one: -max(_factor(one.ttft_error), _factor(one.tpot_error)))
    found: dict[tuple[str, str, str], Predicted] = {}
    for one in ranked:
        found.setdefault(one.row.group, one)
    return list(found.values())[:count]


def _factor(error: float) -> float:
    return max(1 + error, 1 / (1 + error))
