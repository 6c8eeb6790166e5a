"""Which of some given layouts gives most output an accelerator inside two mean times. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelfleet.core.layout.shape import Layout
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.prediction import Prediction
from modelfleet.core.perf.workload import Lengths


@dataclass(frozen=True, kw_only=True)
class BestOf:
    """The layout, the requests in flight in the whole replica (closed loop), what that gives, and why it won."""

    layout: Layout
    concurrency: int
    prediction: Prediction
    why: str


def best_of(cases: Sequence[Case], lengths: Lengths, ttft_s: float, tpot_s: float) -> BestOf | None:
    """The case and concurrency with most output tokens a second and accelerator while both means hold; None: none does.

    Concurrencies are powers of two for each data-parallel rank, from 1 to the sequence cap.
    """
    raise NotImplementedError
