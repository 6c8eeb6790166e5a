"""Which of some given layouts gives most output an accelerator inside two mean times. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.wording import in_flight, listed, rounded, seconds
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.prediction import Prediction
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import Lengths, Load

_MOST_PER_RANK = 4096
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

    Concurrencies are powers of two for each data-parallel rank, from 1 to the sequence cap. Layouts are compared at the
    pessimistic end of their predictions; of those within a tenth of the best the simpler wins. ValueError for lengths
    that are not above 0.
    """
    tops = [_top(case, lengths, ttft_s, tpot_s) for case in cases]
    kept = [top for top in tops if top is not None]
    if not kept:
        return None
    most = max(top.pessimistic for top in kept)
    best = min(
        (top for top in kept if top.pessimistic >= most * (1 - _TIE)),
        key=lambda top: (simplicity(top.layout), -top.pessimistic),
    )
    return BestOf(
        layout=best.layout, concurrency=best.concurrency, prediction=best.prediction, why=_why(best, kept, cases)
    )


def simplicity(layout: Layout) -> tuple[int, int, int, bool]:
    """Sorts simpler layouts first: fewer accelerators, no stages, no data parallelism, no expert parallelism."""
    return layout.accelerators, layout.pipeline, layout.data, layout.expert


def _top(case: Case, lengths: Lengths, ttft_s: float, tpot_s: float) -> BestOf | None:
    """The best concurrency of one case."""
    best: BestOf | None = None
    for concurrency in _concurrencies(case):
        at = predict(case, lengths, Load(concurrency=concurrency))
        if not at.fits or at.ttft_s > ttft_s or at.tpot_s > tpot_s:
            break
        if best is None or at.output_tokens_per_s > best.prediction.output_tokens_per_s:
            best = BestOf(layout=case.layout, concurrency=concurrency, prediction=at, why="")
    return best


def _concurrencies(case: Case) -> Iterator[int]:
    per_rank = 1
    while per_rank <= min(case.setup.sequence_cap or _MOST_PER_RANK, _MOST_PER_RANK):
        yield per_rank * case.layout.data
        per_rank *= 2


def _why(best: BestOf, kept: Sequence[BestOf], cases: Sequence[Case]) -> str:
    def speed(top: BestOf) -> str:
        return f"{rounded(top.output_tokens_per_s_per_accelerator, 3)} output tokens/s an accelerator"

    now = best.prediction
    sentence = (
        f"{best.layout} with {in_flight(str(best.concurrency))} gives {speed(best)} at TTFT"
        f" {seconds(now.ttft_s)} and TPOT {seconds(now.tpot_s)}"
    )
    others = [f"{top.layout} {rounded(top.output_tokens_per_s_per_accelerator, 3)}" for top in kept if top is not best]
    missing = {case.layout for case in cases} - {top.layout for top in kept}
    parts = [sentence]
    parts += [f"others give {listed(others)}"] if others else []
    more = any(top.output_tokens_per_s_per_accelerator > best.output_tokens_per_s_per_accelerator for top in kept)
    parts += ["what is predicted more surely, or within a tenth and simpler, comes first"] if more else []
    parts += [f"{listed(str(layout) for layout in sorted(missing))} cannot keep both times"] if missing else []
    return "; ".join(parts)
