"""Fits the constants of the memory model: each is the median of what the rows imply, so no single row decides.

`PYTHONPATH=tests .venv/bin/python -m benchmarks.planner.kv_fit` prints them; they are committed in
modelfleet/core/perf/memory_constants.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from statistics import median

from benchmarks.planner.kv_rows import Report, read_activations, read_reports
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import memory_use
from modelfleet.core.perf.memory_activation import activation_bytes, batching, has_tower
from modelfleet.core.perf.memory_constants import CONSTANTS, GIB, MemoryConstants
from modelfleet.core.perf.memory_version import Era

_LEAST_ROWS = 3
"""A constant that fewer rows bear on keeps its committed value."""

_NO_COPIES = replace(CONSTANTS, copies_before=0.0, copies_since=0.0, vision_bytes=0.0)

Activation = tuple[str, Case, float]


def fit(reports: Sequence[Report], activations: Iterable[Activation]) -> MemoryConstants:
    """Copies from stated peaks of activation, then what remains from stated room for KV."""
    stated = [(one.case, one.activation_bytes) for one in reports if one.activation_bytes]
    stated += [(case, peak) for _, case, peak in activations]
    before = [_copies(case, peak) for case, peak in stated if not _era(case).samples_in_place]
    since = [_copies(case, peak) for case, peak in stated if _era(case).samples_in_place]
    graphs = [
        one.graphs_bytes * one.case.layout.pipeline / one.case.facts.layers for one in reports if one.graphs_bytes
    ]
    constants = replace(
        CONSTANTS,
        graph_bytes_a_layer=_median(graphs, 0.0),
        copies_before=_median(before, CONSTANTS.copies_before),
        copies_since=_median(since, CONSTANTS.copies_since),
    )
    constants = _fit_rest([one for one in reports if one.states_fraction and (one.kv_bytes or one.tokens)], constants)
    return constants


def _fit_rest(usable: Sequence[Report], constants: MemoryConstants) -> MemoryConstants:
    bare = replace(
        constants, one_uncut_bytes=0.0, one_bytes=0.0, one_since_bytes=0.0, group_bytes=0.0, vision_bytes=0.0
    )
    plain = [one for one in usable if not has_tower(one.case.facts)]
    alone = [(_era(one.case), _other(one, bare)) for one in plain if one.case.layout.accelerators == 1]
    pooled = _median([rest for _, rest in alone], CONSTANTS.one_bytes)
    constants = replace(
        constants,
        one_uncut_bytes=_median([rest for era, rest in alone if era.before(0, 8)], pooled),
        one_bytes=_median([rest for era, rest in alone if not era.before(0, 8) and not era.reserves_more], pooled),
        one_since_bytes=_median([rest for era, rest in alone if era.reserves_more], pooled),
        group_bytes=_median([_other(one, bare) for one in plain if one.case.layout.tensor > 1], CONSTANTS.group_bytes),
    )
    towers = [_other(one, replace(constants, vision_bytes=0.0)) for one in usable if has_tower(one.case.facts)]
    return replace(constants, vision_bytes=_median(towers, 0.0))


def _era(case: Case) -> Era:
    return Era.of(case.setup.version, case.facts.architecture)


def _copies(case: Case, peak: float) -> float:
    """How many float32 copies of the logits explain a peak of activation, beside what the model says of the rest."""
    rest = activation_bytes(case, _era(case), _NO_COPIES, last=True)
    steps = batching(case, _era(case))
    hidden = 2 * 2 * steps.tokens * case.facts.hidden
    aside = max(rest - _layer(case), 0.0) if _era(case).samples_in_place else 0.0
    return (peak - hidden - aside) / (4 * steps.sequences * case.facts.vocabulary)


def _layer(case: Case) -> float:
    """The widest layer of a mixture's rest: without experts what `activation_bytes` gives for no copies."""
    dense = tuple(replace(part, experts=0, intermediate=part.shared_intermediate) for part in case.facts.feed_forward)
    if not case.facts.is_mixture:
        dense = case.facts.feed_forward
    bare = replace(case, facts=replace(case.facts, feed_forward=dense))
    return activation_bytes(bare, _era(case), _NO_COPIES, last=True)


def _other(report: Report, constants: MemoryConstants) -> float:
    """What the constants leave unexplained of the budget."""
    use = memory_use(report.case, constants)
    room = report.kv_bytes if report.tokens is None else report.tokens * use.kv_bytes_per_token
    assert room is not None
    return use.kv_bytes - room


def _median(values: Sequence[float], otherwise: float) -> float:
    return median(values) if len(values) >= _LEAST_ROWS else otherwise


if __name__ == "__main__":
    for name, value in asdict(fit(read_reports()[0], list(read_activations()))).items():
        print(f"{name} {value / GIB:.3f} GiB" if "bytes" in name else f"{name} {value:.2f}")
