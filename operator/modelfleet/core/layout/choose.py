"""From a question to its answer: which class, which layout, which settings, how many, and why. Pure."""

from __future__ import annotations

from modelfleet.core.layout.answer import Answer, Problem
from modelfleet.core.layout.question import Question


def answer(question: Question) -> Answer:
    """The cheapest layouts that keep every objective, or the bound that cannot hold with the nearest offers.

    Never raises for anything a user can write: what is wrong with the question is in `problems`.
    """
    problem = Problem(field="", sentence="the planner is not complete yet")
    return Answer(problems=(problem,))
