"""One plan for each class that keeps the promise, the one to take first. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from modelfleet.core.layout.answer import Check, ClassPlan, Pool, Reason, Rejected, Score, SpeculationDecision
from modelfleet.core.layout.ask import Ask, Sized
from modelfleet.core.layout.best_of import simplicity
from modelfleet.core.layout.demand import Demand, demand_of
from modelfleet.core.layout.inventory import cost_per_hour, one_currency
from modelfleet.core.layout.on_class import Looked, look
from modelfleet.core.layout.question import Prefer, Question
from modelfleet.core.layout.shapes import nodes_of
from modelfleet.core.layout.why import reasons_for
from modelfleet.core.layout.wording import count, rounded
from modelfleet.core.speculation import At, decide_speculation

ACCELERATORS = "accelerators"
"""The score's unit without prices: accelerator-hours an hour."""


@dataclass(frozen=True, kw_only=True)
class Plans:
    """The plans, best first; what was looked at; why the first is first; what was rejected."""

    plans: tuple[ClassPlan, ...]
    looked: tuple[Looked, ...]
    reasons: tuple[Reason, ...] = ()
    rejected: tuple[Rejected, ...] = ()


def plans_for(question: Question, demand: Demand | None = None) -> Plans:
    """Plans on all classes of a question whose numbers make sense."""
    demand = demand or demand_of(question)
    looked = tuple(look(question, candidate, demand) for candidate in question.candidates)
    currency = one_currency(question.candidates)
    made = [_plan(one, one.ask, one.best, currency) for one in looked if one.ask is not None and one.best is not None]
    ordered = _ordered(question, made, currency)
    return Plans(
        plans=ordered,
        looked=looked,
        reasons=(_score_reason(question, ordered, currency),) if ordered else (),
        rejected=tuple(rejected for one in looked for rejected in one.rejected),
    )


def pool_of(ask: Ask, sized: Sized) -> Pool:
    """A sized layout as a pool of serving replicas."""
    return Pool(
        class_name=ask.candidate.name,
        layout=sized.layout,
        nodes_per_replica=nodes_of(sized.layout, ask.candidate.hardware),
        replicas=sized.replicas,
        source=ask.variant.source,
        facts=ask.variant.facts,
        setup=sized.case.setup,
        flags=sized.flags,
        predicted=sized.predicted,
    )


def score_of(ask: Ask, accelerators: int, currency: str | None) -> Score:
    """Money an hour where all classes have a price in one currency, else accelerators."""
    cost = cost_per_hour(ask.candidate, accelerators)
    if currency is None or cost is None:
        return Score(value=float(accelerators), unit=ACCELERATORS)
    return Score(value=float(cost[0]), unit=f"{currency}/h")


def _plan(looked: Looked, ask: Ask, best: Sized, currency: str | None) -> ClassPlan:
    speculation = _speculation(ask, best)
    pool = pool_of(ask, best)
    if speculation.on:
        pool = replace(pool, flags=dict(pool.flags) | {"speculative-config": _config(ask, speculation)})
    cost = cost_per_hour(ask.candidate, best.accelerators)
    lacking = best.shortfall * best.layout.accelerators
    return ClassPlan(
        class_name=ask.candidate.name,
        pools=(pool,),
        score=score_of(ask, best.accelerators, currency),
        cost_per_hour=cost[0] if cost else None,
        currency=cost[1] if cost else "",
        quantization=ask.decision,
        speculation=speculation,
        reasons=reasons_for(looked, ask, best),
        binding_objective=best.binding.objective.name,
        shortfall=lacking,
        shortfall_sentence=_lacks(best) if lacking else "",
    )


def _lacks(best: Sized) -> str:
    return (
        f"{best.room_sentence}: room for {count(best.replicas - best.shortfall, 'replica')} of the"
        f" {best.replicas} that the load needs"
    )


def _speculation(ask: Ask, best: Sized) -> SpeculationDecision:
    demand, layout = ask.demand, best.layout
    at = At(
        running=best.running / layout.data,
        context_tokens=demand.context_tokens,
        bound=best.predicted.knee_bound,
        memory=best.predicted.memory,
        kv_tokens_needed=best.running / layout.data * demand.context_tokens,
    )
    return decide_speculation(best.case, ask.question.speculation, at)


def _config(ask: Ask, decision: SpeculationDecision) -> str:
    """vLLM's --speculative-config."""
    wish = ask.question.speculation
    config: dict[str, object] = {"method": decision.method, "num_speculative_tokens": decision.tokens}
    if wish.source:
        config["model"] = wish.source
    config["num_speculative_tokens_per_batch_size"] = [list(entry) for entry in decision.table]
    return json.dumps(config)


def _ordered(question: Question, plans: Sequence[ClassPlan], currency: str | None) -> tuple[ClassPlan, ...]:
    """Plans with room first; then by cost where it can be compared and is preferred, else in the user's order."""
    order = {candidate.name: index for index, candidate in enumerate(question.candidates)}

    def key(plan: ClassPlan) -> tuple[object, ...]:
        place = order[plan.class_name]
        if question.prefer is Prefer.COST and currency is not None:
            return plan.shortfall > 0, plan.score.value, simplicity(plan.pool.layout), place
        return plan.shortfall > 0, place

    return tuple(sorted(plans, key=key))


def _score_reason(question: Question, plans: Sequence[ClassPlan], currency: str | None) -> Reason:
    first, *others = plans
    amount = f"{rounded(first.score.value, 3)} {first.score.unit}"
    takes = f"{first.class_name}: {count(first.accelerators, 'accelerator')}"
    takes += f", {amount}" if first.score.unit != ACCELERATORS else ""
    if first.shortfall_sentence:
        takes += f"; {first.shortfall_sentence}"
    if len(question.candidates) == 1:
        return Reason(check=Check.SCORE, sentence=f"{takes}; no other class is allowed")
    if not others:
        return Reason(check=Check.SCORE, sentence=f"{takes}; no other class keeps the promise")
    if question.prefer is Prefer.COST and currency is not None:
        rest = ", ".join(f"{one.class_name} {rounded(one.score.value, 3)}" for one in others[:3])
        how = f"the cheapest that keeps the promise; then {rest} {first.score.unit}"
    else:
        why = "prefer is Order" if question.prefer is Prefer.ORDER else "not all classes have a price in one currency"
        how = f"the first class of the order that keeps the promise, since {why}; then {others[0].class_name}"
    late = [one.class_name for one in others if one.shortfall and not first.shortfall]
    without = f"; {', '.join(late)} without room comes after it" if late else ""
    return Reason(check=Check.SCORE, sentence=f"{takes}; {how}{without}")
