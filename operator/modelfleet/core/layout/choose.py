"""From a question to its answer: which class, which layout, which settings, how many, and why. Pure."""

from __future__ import annotations

from modelfleet.core.layout.answer import Answer, Problem
from modelfleet.core.layout.demand import demand_of
from modelfleet.core.layout.disaggregation import apart, cheaper
from modelfleet.core.layout.input_checks import problems_of
from modelfleet.core.layout.money import economics_of
from modelfleet.core.layout.offers import MOST_OFFERS, offers_for
from modelfleet.core.layout.plans import Plans, plans_for
from modelfleet.core.layout.question import Question
from modelfleet.core.layout.unmet import infeasible_of


def answer(question: Question) -> Answer:
    """The cheapest layouts that keep every objective, or the bound that cannot hold with the nearest offers.

    Never raises for anything a user can write: what is wrong with the question is in `problems`.
    """
    problems = problems_of(question)
    if any(one.fatal for one in problems):
        return Answer(problems=problems, offers=offers_for(question, problems=problems))
    plans = plans_for(question)
    return _told(question, plans, problems)


def _told(question: Question, plans: Plans, problems: tuple[Problem, ...]) -> Answer:
    if plans.plans:
        split_costs_less = cheaper(question, plans)
        return Answer(
            plans=plans.plans,
            reasons=(*plans.reasons, *([split_costs_less] if split_costs_less else [])),
            rejected=plans.rejected,
            problems=problems,
            economics=economics_of(question, plans.plans[0], demand_of(question)),
        )
    split = apart(question, plans)
    if split.plan:
        return Answer(plans=(split.plan,), reasons=plans.reasons, rejected=plans.rejected, problems=problems)
    offers = offers_for(question, plans=plans)
    if split.offer:
        offers = (*offers[: MOST_OFFERS - 1], split.offer)
    return Answer(
        rejected=(*plans.rejected, *split.rejected),
        infeasible=infeasible_of(question, plans, offers),
        offers=offers,
        problems=problems,
    )
