"""Which of some given layouts gives most output an accelerator inside two mean times. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.wording import in_flight, listed, rounded, seconds
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.prediction import Prediction
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import Lengths, Load

_MOST_PER_RANK = 4096
_FINE = 16
"""Of what is known to be inside: how near the search comes to what is not."""
_TIE = 0.1
"""Predictions nearer than this are no evidence, and count as equal: the model's median error of TPOT is about this."""


@dataclass(frozen=True, kw_only=True)
class BestOf:
    """The layout, the requests in flight in the whole replica (closed loop), what that gives, and why it won."""

    layout: Layout
    concurrency: int
    prediction: Prediction
    why: str

    @property
    def output_tokens_per_s_per_accelerator(self) -> float:
        """What the layouts are compared by."""
        return self.prediction.output_tokens_per_s / self.layout.accelerators

    @property
    def pessimistic(self) -> float:
        """The same at the pessimistic end of the prediction's interval, which is wide where nothing was measured."""
        return self.output_tokens_per_s_per_accelerator / (1 + self.prediction.uncertainty)


def best_of(cases: Sequence[Case], lengths: Lengths, ttft_s: float, tpot_s: float) -> BestOf | None:
    """The case and concurrency with most output tokens a second and accelerator while both means hold; None: none does.

    Layouts are compared at powers of two for each data-parallel rank, from 1 to the sequence cap, and at the
    pessimistic end of their predictions; of those within a tenth of the best the simpler wins. The concurrency of the
    one that is taken is then the most inside both times, to a sixteenth. (Measured: comparing the layouts at such finer
    points takes the best one less often.) ValueError for lengths that are not above 0.
    """
    limits = _Means(lengths, ttft_s, tpot_s)
    tops = [(case, _top(case, limits)) for case in cases]
    kept = [(case, top) for case, top in tops if top is not None]
    if not kept:
        return None
    most = max(top.pessimistic for _, top in kept)
    case, best = min(
        ((case, top) for case, top in kept if top.pessimistic >= most * (1 - _TIE)),
        key=lambda pair: (simplicity(pair[1].layout), -pair[1].pessimistic),
    )
    finer = _finer(case, limits, best)
    return replace(finer, why=_why(finer, best, [top for _, top in kept], cases))


def simplicity(layout: Layout) -> tuple[int, int, int, bool]:
    """Sorts simpler layouts first: fewer accelerators, no stages, no data parallelism, no expert parallelism."""
    return layout.accelerators, layout.pipeline, layout.data, layout.expert


@dataclass(frozen=True)
class _Means:
    """What both means are held against."""

    lengths: Lengths
    ttft_s: float
    tpot_s: float

    def inside(self, case: Case, per_rank: int) -> BestOf | None:
        """The case with so many requests in each rank; None where a mean is not inside."""
        concurrency = per_rank * case.layout.data
        at = predict(case, self.lengths, Load(concurrency=concurrency))
        if not at.fits or at.ttft_s > self.ttft_s or at.tpot_s > self.tpot_s:
            return None
        return BestOf(layout=case.layout, concurrency=concurrency, prediction=at, why="")


def _top(case: Case, limits: _Means) -> BestOf | None:
    """The best power of two of one case."""
    best: BestOf | None = None
    per_rank = 1
    while per_rank <= _most(case) and (top := limits.inside(case, per_rank)):
        best = _better(best, top)
        per_rank *= 2
    return best


def _finer(case: Case, limits: _Means, best: BestOf) -> BestOf:
    """The best between that power of two and the next, by bisection on whole requests of a rank."""
    inside = best.concurrency // case.layout.data
    outside = min(2 * inside, _most(case) + 1)
    while outside - inside > max(1, inside // _FINE):
        middle = (inside + outside) // 2
        if top := limits.inside(case, middle):
            best, inside = _better(best, top), middle
        else:
            outside = middle
    return best


def _better(best: BestOf | None, top: BestOf) -> BestOf:
    more = best is None or top.prediction.output_tokens_per_s > best.prediction.output_tokens_per_s
    return top if more or best is None else best


def _most(case: Case) -> int:
    return min(case.setup.sequence_cap or _MOST_PER_RANK, _MOST_PER_RANK)


def _why(finer: BestOf, best: BestOf, kept: Sequence[BestOf], cases: Sequence[Case]) -> str:
    """`best` is what was compared with the others, `finer` what is taken."""

    def speed(top: BestOf) -> str:
        return f"{rounded(top.output_tokens_per_s_per_accelerator, 3)} output tokens/s an accelerator"

    now = finer.prediction
    sentence = (
        f"{finer.layout} with {in_flight(str(finer.concurrency))} gives {speed(finer)} at TTFT"
        f" {seconds(now.ttft_s)} and TPOT {seconds(now.tpot_s)}"
    )
    others = [f"{top.layout} {rounded(top.output_tokens_per_s_per_accelerator, 3)}" for top in kept if top is not best]
    missing = {case.layout for case in cases} - {top.layout for top in kept}
    parts = [sentence]
    if others and finer.concurrency != best.concurrency:
        parts += [
            f"compared at powers of two: {best.concurrency} give {rounded(best.output_tokens_per_s_per_accelerator, 3)}"
        ]
    parts += [f"others give {listed(others)}"] if others else []
    more = any(top.output_tokens_per_s_per_accelerator > best.output_tokens_per_s_per_accelerator for top in kept)
    parts += ["what is predicted more surely, or within a tenth and simpler, comes first"] if more else []
    parts += [f"{listed(str(layout) for layout in sorted(missing))} cannot keep both times"] if missing else []
    return "; ".join(parts)
