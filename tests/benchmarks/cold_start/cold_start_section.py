"""The section of docs/benchmarks.md on cold starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

PHASES = ("weights", "load", "compile", "ready")


@dataclass(frozen=True)
class Variant:
    """What a start finds. `eager`: the engine is told to compile nothing."""

    name: str
    compiled: bool = False
    eager: bool = False


VARIANTS = (
    Variant("nothing"),
    Variant("weights"),
    Variant("weights and compiled code", compiled=True),
    Variant("weights, with enforce-eager", eager=True),
)


def line(run: Mapping[str, Any]) -> str:
    """One start in one line."""
    told = ", ".join(f"{name} {run[name]:.1f} s" for name in PHASES)
    return f"cold start: {run['variant']} cached: {_total_s(run):.1f} s ({told})"


def section(results: Mapping[str, Any]) -> list[str]:
    """The lines between the section's marks."""
    runs: Sequence[Mapping[str, Any]] = results["runs"]
    by_name = {each.name: [run for run in runs if run["variant"] == each.name] for each in VARIANTS}
    cold = [_total_s(run) for run in by_name[VARIANTS[0].name]]
    early = f" of {results['asked']}" if results["repetitions"] < results["asked"] else ""
    phases = " | ".join(f"{name}, s" for name in PHASES)
    return [
        "## Cold start",
        f"`make bench-cold-start`: the real engine on CPU, compiling as it does by default, a model of"
        f" {results['modelBytes'] / 1e6:.0f} MB from a hub on loopback.",
        f"Medians of repetitions, {results['repetitions']}{early}; the ratio is to the"
        f" start of the same repetition that found nothing. Load average at the end:"
        f" {results['loadAverage']:.1f}; run at {results['at']}.",
        "",
        f"| cached | {phases} | whole start, s | of the start without, each time |",
        "| --- " * (len(PHASES) + 3) + "|",
        *(_row(name, found, cold) for name, found in by_name.items()),
        "",
        "Weights is the whole fetch container, its own start included; load includes the engine's imports, which no"
        " cache shortens. On CPU vLLM traces the model at each start",
        "and takes only torch's compiled kernels from what is kept; on accelerators it has a cache of whole graphs too,"
        " which was not measured. A node and an image are not waited for here.",
    ]


def _row(name: str, runs: Sequence[Mapping[str, Any]], cold: Sequence[float]) -> str:
    middles = " | ".join(f"{median(run[phase] for run in runs):.1f}" for phase in PHASES)
    ratios = ", ".join(f"{_total_s(run) / before:.2f}" for run, before in zip(runs, cold, strict=True))
    return f"| {name} | {middles} | {median(map(_total_s, runs)):.1f} | {ratios} |"


def _total_s(run: Mapping[str, Any]) -> float:
    return sum(float(run[phase]) for phase in PHASES)
