"""Planning a changed question, and searching for the smallest change that has a plan. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

from modelfleet.core.layout.answer import Change, ClassPlan, Offer
from modelfleet.core.layout.input_checks import problems_of
from modelfleet.core.layout.plans import plans_for
from modelfleet.core.layout.question import Question
from modelfleet.core.layout.wording import count, rounded

_NEAR = 1.05
"""How far apart what works and what fails may stay."""


@dataclass(frozen=True, kw_only=True)
class Idea:
    """One change of the question, and how to say it."""

    change: Change
    field: str
    value: str
    question: Question


Step = Callable[[float], Idea]


def planned(idea: Idea) -> Offer | None:
    """The offer, if the changed question has a plan."""
    if any(problem.fatal for problem in problems_of(idea.question)):
        return None
    plans = plans_for(idea.question).plans
    if not plans:
        return None
    return Offer(
        change=idea.change,
        field=idea.field,
        value=idea.value,
        sentence=f"{_what(idea)}: {_in_short(plans[0])}",
        plan=plans[0],
    )


def _what(idea: Idea) -> str:
    return f"with {idea.field} {idea.value}" if idea.value else f"without {idea.field}"


def _in_short(plan: ClassPlan) -> str:
    pool = plan.pool
    cost = f", {rounded(float(plan.cost_per_hour), 3)} {plan.currency}/h" if plan.cost_per_hour is not None else ""
    return f"{count(pool.replicas, 'replica')} of {pool.layout} on {plan.class_name}{cost}"


def nearest(factors: Sequence[float], step: Step) -> Iterator[Offer]:
    """The first factor that has a plan, by bisection: if one works, those beyond it do."""
    found = _first(factors, step)
    if found:
        yield found[1]


def _first(factors: Sequence[float], step: Step) -> tuple[int, Offer] | None:
    low, high = 0, len(factors) - 1
    found = planned(step(factors[high]))
    if found is None:
        return None
    while low < high:
        middle = (low + high) // 2
        offer = planned(step(factors[middle]))
        if offer is not None:
            found, high = offer, middle
        else:
            low = middle + 1
    return high, found


def closer(factors: Sequence[float], step: Step) -> Iterator[Offer]:
    """The first factor that has a plan, and from there back towards 1, which has none, to what still works."""
    first = _first(factors, step)
    if first is None:
        return
    index, found = first
    fails, works = factors[index - 1] if index else 1.0, factors[index]
    while max(fails, works) > _NEAR * min(fails, works):
        middle = sqrt(fails * works)
        idea = step(middle)
        if idea.value == found.value:
            works = middle
            continue
        offer = planned(idea)
        if offer is not None:
            found, works = offer, middle
        else:
            fails = middle
    yield found
