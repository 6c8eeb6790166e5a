"""Which bound cannot hold when nothing keeps the promise: of all that failed, what came closest. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelfleet.core.layout.answer import Change, Check, Infeasible, Offer
from modelfleet.core.layout.ask import Failure
from modelfleet.core.layout.plans import Plans
from modelfleet.core.layout.question import Question

_NEARNESS: Mapping[Check, int] = {
    Check.CAPACITY: 0,
    Check.KV: 1,
    Check.THROUGHPUT: 1,
    Check.TTFT: 2,
    Check.TPOT: 2,
    Check.TOKEN_BUDGET: 2,
    Check.MEMORY: 3,
    Check.QUANTIZATION: 4,
    Check.VARIANT: 5,
    Check.ENGINE: 6,
}
"""The order of the checks, last first: a layout that fails a late one passed those before it."""


def closest(plans: Plans) -> Failure | None:
    """The failure that is nearest to keeping the promise: the latest check, then the smallest gap."""
    failures = [failure for one in plans.looked for failure in one.failures]
    return min(failures, key=_distance, default=None)


def infeasible_of(question: Question, plans: Plans, offers: Sequence[Offer] = ()) -> Infeasible | None:
    """The bound that cannot hold, by how much, with the pin that makes it so where one does."""
    failure = closest(plans)
    if failure is None:
        return None
    pin = next((offer for offer in offers if offer.change is Change.PIN), None)
    return Infeasible(
        check=failure.check,
        field=pin.field if pin else failure.field,
        class_name=failure.class_name,
        layout=failure.layout,
        wanted=failure.wanted,
        reached=failure.reached,
        unit=failure.unit,
        sentence=_sentence(question, failure, offers),
        revalidate=next(
            (one.refusal.revalidate for one in plans.looked if failure in one.failures and one.refusal), ()
        ),
    )


def _distance(failure: Failure) -> tuple[int, float]:
    low, high = sorted((max(failure.wanted, 1e-12), max(failure.reached, 1e-12)))
    return _NEARNESS.get(failure.check, len(_NEARNESS)), high / low


def _sentence(question: Question, failure: Failure, offers: Sequence[Offer]) -> str:
    classes = "class" if len(question.candidates) == 1 else "the nearest of all classes,"
    alone = [offer for offer in offers if offer.change is Change.DEPLOYMENT]
    each = len(question.objectives) > 1 and len(alone) == len(question.objectives)
    pin = next((offer.field for offer in offers if offer.change is Change.PIN), "")
    blamed = f"; it is {pin} that makes it so" if pin else ""
    apart = "; each objective can be kept alone, but not all of them in one pool" if each else ""
    return f"on {classes} {failure.class_name}: {failure.sentence}{blamed}{apart}"
