"""The economics block of a chosen plan. Pure."""

from __future__ import annotations

from modelfleet.core.economics import Hosting, decide_economics
from modelfleet.core.layout.answer import ClassPlan, Economics
from modelfleet.core.layout.demand import Demand
from modelfleet.core.layout.question import Question


def economics_of(question: Question, plan: ClassPlan, demand: Demand) -> Economics:
    """Rule 9 for the chosen plan at the declared load."""
    pool = plan.pool
    one = None if plan.cost_per_hour is None or not pool.replicas else plan.cost_per_hour / pool.replicas
    hosting = Hosting(
        replica_cost_per_hour=one,
        currency=plan.currency,
        replicas=pool.replicas,
        min_replicas=max(1, question.bounds.min_replicas),
        load_rps=pool.predicted.requests_per_s * pool.replicas if demand.rps == 0 else demand.total_rps,
        knee_rps=pool.predicted.knee_rps,
        input_tokens=demand.lengths.input_tokens,
        output_tokens=demand.lengths.output_tokens,
        shared_prefix_tokens=demand.lengths.shared_prefix_tokens,
    )
    return decide_economics(question.economics, hosting)
