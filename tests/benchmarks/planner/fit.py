"""Fits the performance model's constants on measured rows and writes `modelfleet/core/perf/fitted.py`.

    python -m benchmarks.planner.fit

All constants are positive by construction (their logarithms are fitted), found by Gauss and Newton on the logarithms of
both times with a robust loss: rows of the source that ran with speculation unsaid, or before anything was warm, weigh
little. A factor of an engine, a generation or an arithmetic unit is shrunk towards 1. Groups of many rows weigh less a
row, so that no architecture decides alone. Nothing is fitted to a row, a group or an architecture.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.planner.design_matrix import COLUMN, Array, Matrix
from benchmarks.planner.rows import Measured, missing, silicon
from modelfleet.core.perf.constants import NAMES
from modelfleet.core.perf.numbers import generation, unit
from modelfleet.core.perf.serving import replica

TARGET = Path(__file__).parents[3] / "operator" / "modelfleet" / "core" / "perf" / "fitted.py"

START: Mapping[str, float] = {
    "weights_s": 1.35,
    "experts_s": 1.4,
    "kv_s": 1.4,
    "gemm_s": 1.5,
    "expert_gemm_s": 2.2,
    "attention_s": 2.5,
    "stream_s": 10.0,
    "route_s": 3.0,
    "exchange_s": 1.0,
    "exchanges": 10e-6,
    "layers": 20e-6,
    "mixture_layers": 20e-6,
    "indexed_layers": 30e-6,
    "sequences": 10e-6,
    "step_s": 0.5e-3,
    "prompt_layer_s": 100e-6,
    "prompt_s": 15e-3,
    "wait_steps": 2.0,
    "rank_steps": 1.0,
    "burst": 0.1,
}
"""What such kernels usually reach; the weak prior of the common constants."""

OF_ENGINE = (
    "exchanges",
    "layers",
    "mixture_layers",
    "sequences",
    "step_s",
    "prompt_layer_s",
    "prompt_s",
    "wait_steps",
    "rank_steps",
    "burst",
)
OF_GENERATION = ("exchanges", "layers")
OF_UNIT = ("weights_s", "experts_s", "gemm_s", "expert_gemm_s", "stream_s", "route_s", "mixture_layers")
ENGINES, GENERATIONS, UNITS = ("vllm", "sglang", "trtllm"), ("hopper", "blackwell"), ("bf16", "fp8", "fp4", "unpacked")

_PRIOR, _SHRINK = 0.5, 4.0
"""Weights of the priors: of the common constants, and of the factors."""
_NOISE = 0.08
"""Residuals beyond this (of a logarithm) count linearly, not squared."""
_TTFT_WEIGHT = 0.5
_HEADLINE_WEIGHT = 1.7
"""vLLM's rows weigh more: it is the engine that is deployed."""
BELOW_CLIFF = 0.9
"""A row belongs to the fit where this share of the predicted room is not taken."""


def usable(rows: Sequence[Measured]) -> list[Measured]:
    """Rows below the KV cliff: past it a time says how long the run was."""
    return [row for row in rows if row.concurrency <= BELOW_CLIFF * replica(row.case, row.lengths).most]


class Fit:
    """The factors as columns: which constant they multiply, in which rows."""

    def __init__(self, rows: Sequence[Measured]) -> None:
        self.matrix = Matrix(rows)
        keys = [_keys(row) for row in rows]
        self.names: list[tuple[str, str]] = [(name, "") for name in NAMES]
        for values, constants in ((ENGINES, OF_ENGINE), (GENERATIONS, OF_GENERATION), (UNITS, OF_UNIT)):
            self.names += [(constant, value) for value in values for constant in constants]
        self.applies = np.array([[not value or value in key for _, value in self.names] for key in keys], dtype=float)
        self.columns = np.array([COLUMN[name] for name, _ in self.names])
        self.gather = np.eye(len(NAMES))[self.columns]
        self.start = np.array([0.0 if value else np.log(START[name]) for name, value in self.names])
        self.ridge = np.array([_ridge(*name) for name in self.names])
        self.weights = _weights(rows)

    def constants(self, parameters: Array, lines: NDArray[np.int64]) -> Array:
        """The constants of some rows."""
        values: Array = np.exp((self.applies[lines] * parameters) @ self.gather)
        return values

    def predict(self, parameters: Array, lines: NDArray[np.int64]) -> tuple[Array, Array]:
        """TTFT and TPOT of some rows."""
        ttft, tpot, _, _ = self.matrix.times(self.constants(parameters, lines), lines)
        return ttft, tpot

    def _linearized(self, parameters: Array, lines: NDArray[np.int64]) -> tuple[Array, Array]:
        ttft, tpot, by_first, by_step = self.matrix.times(self.constants(parameters, lines), lines)
        weight = self.weights[lines] / _NOISE
        residual = np.concatenate(
            [
                np.log(tpot / self.matrix.tpot[lines]) * weight,
                np.log(ttft / self.matrix.ttft[lines]) * weight * _TTFT_WEIGHT,
            ]
        )
        mask = self.applies[lines] * weight[:, None]
        slope = np.concatenate([by_step[:, self.columns] * mask, by_first[:, self.columns] * mask * _TTFT_WEIGHT])
        return residual, slope

    def _cost(self, parameters: Array, residual: Array) -> float:
        prior = float((((parameters - self.start) * self.ridge) ** 2).sum())
        return float((2 * (np.sqrt(1 + residual * residual) - 1)).sum()) + prior

    def solve(self, lines: NDArray[np.int64]) -> Array:
        """The parameters that fit some rows best: damped Gauss-Newton with weights of the pseudo-Huber loss."""
        parameters, damping = self.start.copy(), 1e-2
        residual, slope = self._linearized(parameters, lines)
        cost = self._cost(parameters, residual)
        for _ in range(60):
            robust = 1 / np.sqrt(1 + residual * residual)
            curvature = slope.T @ (slope * robust[:, None]) + np.diag(self.ridge**2)
            gradient = slope.T @ (robust * residual) + self.ridge**2 * (parameters - self.start)
            step = np.clip(np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), -gradient), -1, 1)
            tried, new_slope = self._linearized(parameters + step, lines)
            new_cost = self._cost(parameters + step, tried)
            if new_cost >= cost:
                damping *= 4
                if damping > 1e6:
                    break
                continue
            done = cost - new_cost < 1e-5 * cost
            parameters, residual, slope, cost = parameters + step, tried, new_slope, new_cost
            damping = max(damping / 4, 1e-6)
            if done:
                break
        return parameters


def _ridge(constant: str, value: str) -> float:
    """Weight of the prior.

    How ranks are balanced is each engine's own: one engine's says nothing of another's. Links are not told apart from
    norms by these rows (both grow with tokens), so their efficiency stays near what is usual.
    """
    if constant == "rank_steps":
        return 0.3 if value else 30.0
    if constant == "exchange_s":
        return 10.0
    return _SHRINK if value else _PRIOR


def _keys(row: Measured) -> tuple[str, str, str]:
    hardware = row.case.hardware
    return row.engine, generation(hardware), unit(hardware, row.case.setup.weights)


def _weights(rows: Sequence[Measured]) -> Array:
    sizes = Counter(row.group for row in rows)
    balanced = np.array([(60 / max(sizes[row.group], 8)) ** 0.5 for row in rows])
    return np.clip(balanced, 0.4, 2) * np.array([_HEADLINE_WEIGHT if row.engine == "vllm" else 1.0 for row in rows])


def leave_one_out(fit: Fit) -> tuple[Array, Array]:
    """TTFT and TPOT of every row, with the constants fitted on all other architectures."""
    architectures = np.array([row.architecture for row in fit.matrix.rows])
    ttft, tpot = np.zeros(len(architectures)), np.zeros(len(architectures))
    for name in sorted(set(architectures)):
        left = np.flatnonzero(architectures == name)
        ttft[left], tpot[left] = fit.predict(fit.solve(np.flatnonzero(architectures != name)), left)
    return ttft, tpot


def widths(fit: Fit) -> dict[str, tuple[float, float]]:
    """By engine, the relative half-widths that hold 90 % of rows of an architecture that was left out."""
    ttft, tpot = leave_one_out(fit)
    found = {}
    for engine in ENGINES:
        lines = np.array([row.engine == engine for row in fit.matrix.rows])
        errors = [np.abs(np.log(p[lines] / m[lines])) for p, m in ((ttft, fit.matrix.ttft), (tpot, fit.matrix.tpot))]
        found[engine] = (float(np.quantile(errors[0], 0.9)), float(np.quantile(errors[1], 0.9)))
    return found


def _table(name: str, factors: Mapping[str, Mapping[str, float]], docstring: str) -> list[str]:
    lines = [f"{name}: dict[str, dict[str, float]] = {{"]
    for key, values in factors.items():
        lines += [f'    "{key}": {{', *(f'        "{term}": {value:.3g},' for term, value in values.items()), "    },"]
    return [*lines, "}", f'"""{docstring}"""', ""]


def render(fit: Fit, parameters: Array, half_widths: Mapping[str, tuple[float, float]]) -> str:
    """The module with the fitted numbers."""
    value = {key: float(np.exp(found)) for key, found in zip(fit.names, parameters, strict=True)}
    groups = len({row.group for row in fit.matrix.rows})
    lines = [
        '"""The fitted constants of the performance model. Generated by `make fit-planner`; do not edit.',
        "",
        f"Source: {len(fit.matrix.rows)} closed-loop rows of {groups} groups (architecture × accelerator × engine),",
        "below the KV cliff, of public benchmarks; `make bench-planner` prints errors with each architecture left out.",
        '"""',
        "",
        "BASE: dict[str, float] = {",
        *(f'    "{name}": {value[name, ""]:.4g},' for name in NAMES),
        "}",
        '"""Names are of `constants.Constants`."""',
        "",
    ]
    for name, keys, terms, docstring in (
        ("BY_ENGINE", ENGINES, OF_ENGINE, "Factors of an engine's overheads."),
        ("BY_GENERATION", GENERATIONS, OF_GENERATION, "Factors of a chip's latencies."),
        ("BY_UNIT", UNITS, OF_UNIT, "Factors of kernels by what they multiply, see `numbers.unit`."),
    ):
        lines += _table(name, {key: {term: value[term, key] for term in terms} for key in keys}, docstring)
    lines.append("HALF_WIDTHS: dict[str, tuple[float, float]] = {")
    lines += [f'    "{engine}": ({pair[0]:.2f}, {pair[1]:.2f}),' for engine, pair in half_widths.items()]
    lines += ["}", '"""Relative half-widths of the 90 % intervals of TTFT and TPOT, architecture left out."""', ""]
    ranked = sorted({row.engine for row in fit.matrix.rows if row.case.layout.data > 1})
    lines += [f"DATA_PARALLEL = frozenset({{{', '.join(map(repr, ranked))}}})".replace("'", '"')]
    lines += ['"""Engines that were measured with data parallelism."""', ""]
    return "\n".join(lines)


def main() -> None:
    """Fits on everything and writes the module."""
    why = missing()
    if why:
        raise SystemExit(why)
    fit = Fit(usable(silicon()))
    everything = np.arange(len(fit.matrix.rows))
    parameters = fit.solve(everything)
    TARGET.write_text(render(fit, parameters, widths(fit)))
    print(f"{TARGET.name}: fitted on {len(everything)} rows")


if __name__ == "__main__":
    main()
