"""Which bound cannot hold when nothing keeps the promise: of all that failed, what came closest. Pure."""

from __future__ import annotations

from modelfleet.core.layout.answer import Check, Infeasible
from modelfleet.core.layout.ask import Failure
from modelfleet.core.layout.plans import Plans
from modelfleet.core.layout.question import Question, place

_NEARNESS = (
    Check.CAPACITY,
    Check.KV,
    Check.THROUGHPUT,
    Check.TTFT,
    Check.TPOT,
    Check.TOKEN_BUDGET,
    Check.MEMORY,
    Check.QUANTIZATION,
    Check.VARIANT,
    Check.ENGINE,
)
"""The order of the checks, last first: a layout that fails a late one passed those before it."""


def closest(plans: Plans) -> Failure | None:
    """The failure that is nearest to keeping the promise: the latest check, then the smallest gap."""
    failures = [failure for one in plans.looked for failure in one.failures]
    return min(failures, key=_distance, default=None)


def infeasible_of(question: Question, plans: Plans) -> Infeasible | None:
    """The bound that cannot hold, by how much, with the pin that makes it so where one does."""
    failure = closest(plans)
    if failure is None:
        return None
    return Infeasible(
        check=failure.check,
        field=failure.field,
        class_name=failure.class_name,
        layout=failure.layout,
        wanted=failure.wanted,
        reached=failure.reached,
        unit=failure.unit,
        sentence=_sentence(question, failure),
    )


def _distance(failure: Failure) -> tuple[int, float]:
    check = _NEARNESS.index(failure.check) if failure.check in _NEARNESS else len(_NEARNESS)
    low, high = sorted((max(failure.wanted, 1e-12), max(failure.reached, 1e-12)))
    return check, high / low


def _sentence(question: Question, failure: Failure) -> str:
    classes = "class" if len(question.candidates) == 1 else "the nearest of all classes,"
    return f"on {classes} {failure.class_name}: {failure.sentence}"


def names_a_pin(question: Question, failure: Failure) -> bool:
    """Whether the failure points at a value that the user fixed."""
    return any(failure.field == place(question, f"pins.{name}") for name in vars(question.pins))
