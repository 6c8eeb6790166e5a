"""How well the memory model predicts the KV tokens that vLLM logged, and whether it starts at all.

The split is leave one group out: a group is an architecture on an accelerator with an engine; the constants are fitted
on all other groups and the group is predicted with them. The activation measured for its architecture is left out too.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from benchmarks.planner.kv_fit import Activation, fit
from benchmarks.planner.kv_rows import Report, Skipped, read_activations, read_reports
from benchmarks.planner.rows import silicon
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import longest_context_that_fits, memory_use, reported_kv_tokens
from modelfleet.core.perf.memory_constants import CONSTANTS, GIB, MemoryConstants

LOW_FRACTION, HIGH_FRACTION = 0.85, 0.95
"""What people set where they do not say: the interval of a row that states no fraction of memory."""
YARDSTICKS = {"KAITO's constants": 0.052, "llm-d-planner": 0.074}
"""Median errors of others on rows of this kind, as measured before."""


@dataclass(frozen=True)
class Error:
    """Predicted and reported of one row, tokens or bytes of KV."""

    report: Report
    predicted: float
    reported: float

    @property
    def relative(self) -> float:
        """Signed, of what was reported."""
        return self.predicted / self.reported - 1


def report() -> dict[str, Any]:
    """All figures of the KV part: errors fitted and left out, calls, interval, what was skipped and why."""
    reports, skipped = read_reports()
    activations = list(read_activations())
    stated = [one for one in reports if one.states_fraction and (one.tokens or one.kv_bytes)]
    fitted = [_error(one, CONSTANTS) for one in stated]
    left_out = _left_out(reports, activations, stated)
    calls = [(one, _starts(one.case)) for one in reports if one.started is not None]
    wrong = [one for one, starts in calls if starts != one.started]
    ranged = [one for one in reports if not one.states_fraction and one.tokens]
    inside = [one for one in ranged if _inside(one)]
    return {
        "rows": len(stated),
        "groups": len({one.group for one in stated}),
        "median_fitted": _quantile(fitted, 0.5),
        "p90_fitted": _quantile(fitted, 0.9),
        "median_left_out": _quantile(left_out, 0.5),
        "p90_left_out": _quantile(left_out, 0.9),
        "yardsticks": YARDSTICKS,
        "calls_right": len(calls) - len(wrong),
        "calls": len(calls),
        "calls_wrong": [f"{one.row}: {one.label}" for one in wrong],
        "refused": sum(not one.started for one, _ in calls),
        "refusals_seen": sum(not starts for one, starts in calls if not one.started),
        **_ran(),
        "interval_rows": len(ranged),
        "interval_inside": len(inside),
        "interval_width": median(_width(one) for one in ranged) if ranged else 0.0,
        "constants": asdict(CONSTANTS),
        "constants_as_fitted": _rounded(fit(reports, activations)) == _rounded(CONSTANTS),
        "worst": [
            f"{error.report.row}: {error.relative:+.0%} {error.report.label}"
            for error in sorted(left_out, key=lambda error: -abs(error.relative))[:5]
        ],
        "skipped": [f"{one.row}: {one.why}" for one in skipped],
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The figures as lines to print."""
    others = ", ".join(f"{name} {value:.1%}" for name, value in found["yardsticks"].items())
    return [
        f"KV tokens, {found['rows']} rows that state the fraction of memory, {found['groups']} groups:",
        f"  leave one group out: median error {found['median_left_out']:.1%}, p90 {found['p90_left_out']:.1%}",
        f"  fitted on all:       median error {found['median_fitted']:.1%}, p90 {found['p90_fitted']:.1%}",
        f"  yardsticks (median): {others}",
        f"KV tokens, {found['interval_rows']} rows that do not: {found['interval_inside']} inside the interval "
        f"(fraction {LOW_FRACTION} to {HIGH_FRACTION}, any sampler), median width {found['interval_width']:.0%}",
        f"Starts or not: {found['calls_right']} of {found['calls']} calls right; "
        f"{found['refusals_seen']} of {found['refused']} refusals foreseen",
        "Constants: "
        + ("as" if found["constants_as_fitted"] else "NOT as")
        + " benchmarks.planner.kv_fit prints them; "
        + ", ".join(
            f"{name} {value / GIB:.3f} GiB" if "bytes" in name else f"{name} {value:.2f}"
            for name, value in found["constants"].items()
        ),
        *(f"  wrong: row {one}" for one in found["calls_wrong"]),
        f"Configurations that ran in public benchmarks: {found['ran']}, refused {len(found['ran_refused'])}",
        *(f"  refused: {one}" for one in found["ran_refused"]),
        *(f"  worst: row {one}" for one in found["worst"]),
        *(f"  not counted: row {one}" for one in found["skipped"]),
    ]


def _ran() -> dict[str, Any]:
    """Configurations that public benchmarks ran: each is one that must not be refused."""
    cases = {
        (one.case.facts.name, *one.group[1:], one.precision, str(one.case.layout)): (one.case, one.lengths)
        for one in sorted(silicon(), key=lambda one: one.lengths.input_tokens + one.lengths.output_tokens)
    }
    refused = []
    for key, (case, lengths) in cases.items():
        context = int(lengths.input_tokens + lengths.output_tokens)
        use = memory_use(replace(case, setup=replace(case.setup, context_limit_tokens=context)))
        if not use.fits:
            refused.append(f"{' '.join(key)}: {use.reason}")
    return {"ran": len(cases), "ran_refused": refused}


def _rounded(constants: MemoryConstants) -> dict[str, float]:
    """To the digits that are committed."""
    return {
        name: round(value / GIB, 3 if name == "graph_bytes_a_layer" else 2) if "bytes" in name else round(value, 2)
        for name, value in asdict(constants).items()
    }


def _left_out(reports: Sequence[Report], activations: Sequence[Activation], stated: Sequence[Report]) -> list[Error]:
    errors = []
    for group in sorted({one.group for one in stated}):
        others = [one for one in reports if one.group != group]
        constants = fit(others, [item for item in activations if item[0] != group[0]])
        errors += [_error(one, constants) for one in stated if one.group == group]
    return errors


def _error(one: Report, constants: MemoryConstants) -> Error:
    if one.tokens is None:
        assert one.kv_bytes is not None
        return Error(one, memory_use(one.case, constants).kv_bytes, one.kv_bytes)
    return Error(one, _tokens(one.case, constants), one.tokens)


def _tokens(case: Case, constants: MemoryConstants) -> int:
    """As the engine would log it. Without a stated context someone chose one that fits."""
    if case.setup.context_limit_tokens:
        return reported_kv_tokens(case, constants)
    longest = longest_context_that_fits(case, constants)
    limited = replace(case, setup=replace(case.setup, context_limit_tokens=longest or 1))
    return reported_kv_tokens(limited, constants)


def _starts(case: Case) -> bool:
    """Without a stated context someone chose one that fits, of at least 2048 tokens."""
    if case.setup.context_limit_tokens:
        return memory_use(case).fits
    return longest_context_that_fits(case) >= min(2048, case.facts.max_context_tokens)


def _bounds(one: Report) -> tuple[int, int]:
    """Where neither the fraction nor, often, the version is stated: both ends of what people set and of the sampler."""
    spread = {} if one.case.setup.version else {"copies_since": CONSTANTS.copies_before}
    low = replace(one.case, setup=replace(one.case.setup, memory_fraction=LOW_FRACTION))
    lean = {} if one.case.setup.version else {"copies_before": CONSTANTS.copies_since}
    high = replace(one.case, setup=replace(one.case.setup, memory_fraction=HIGH_FRACTION))
    return _tokens(low, replace(CONSTANTS, **spread)), _tokens(high, replace(CONSTANTS, **lean))


def _inside(one: Report) -> bool:
    low, high = _bounds(one)
    assert one.tokens is not None
    return low <= one.tokens <= high


def _width(one: Report) -> float:
    low, high = _bounds(one)
    return 2 * (high - low) / (high + low) if high + low else 0.0


def _quantile(errors: Sequence[Error], share: float) -> float:
    sizes = sorted(abs(error.relative) for error in errors)
    return median(sizes) if share == 0.5 else sizes[min(int(share * len(sizes)), len(sizes) - 1)]


__all__ = ["Skipped", "lines", "report"]

if __name__ == "__main__":
    print("\n".join(lines(report())))
