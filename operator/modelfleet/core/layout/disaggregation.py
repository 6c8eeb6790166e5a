"""Prefill and decode in replicas of their own (rule 14). Pure.

Only when no single pool keeps TTFT and TPOT of an objective together while each can be kept alone, and only in a fleet
that is large enough: with few replicas the ratio of the two pools cannot follow the load, and such a plan is an offer.
Beside a single pool a cheaper one is told as a reason. This version can say such a plan and does not carry it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from modelfleet.core.layout.answer import (
    Change,
    Check,
    ClassPlan,
    Offer,
    Pool,
    Reason,
    Rejected,
    Role,
    SpeculationDecision,
)
from modelfleet.core.layout.ask import Ask, Failure
from modelfleet.core.layout.inventory import cost_per_hour, one_currency
from modelfleet.core.layout.knees import figures_at
from modelfleet.core.layout.on_class import Looked
from modelfleet.core.layout.plans import Plans, score_of
from modelfleet.core.layout.question import Prefer, Question, Strategy, place
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.shapes import nodes_of
from modelfleet.core.layout.token_budget import BUDGETS, budget_of
from modelfleet.core.layout.wording import count, rounded
from modelfleet.core.perf.case import Case, Limits
from modelfleet.core.perf.constants import half_widths
from modelfleet.core.perf.knee import find_knee
from modelfleet.core.perf.memory import memory_use
from modelfleet.core.perf.prediction import Knee
from modelfleet.core.perf.workload import Lengths

LEAST_REPLICAS = 8
"""Of both pools together: below it one replica more or less changes the ratio by an eighth or more."""

_CONFLICT = (Check.TOKEN_BUDGET, Check.TTFT, Check.TPOT, Check.THROUGHPUT)
_NO_LIMIT_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Split:
    """A plan with two pools, or why there is none. `offer`: the one that is too small to be taken unasked."""

    plan: ClassPlan | None = None
    offer: Offer | None = None
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True)
class _Half:
    role: Role
    case: Case
    knee: Knee
    replicas: int
    step_s: float


def apart(question: Question, plans: Plans) -> Split:
    """Two pools where they keep what no single pool keeps: the cheapest, or that on the first class of the order."""
    by_cost = question.prefer is Prefer.COST and one_currency(question.candidates) is not None
    large: list[ClassPlan] = []
    small: list[ClassPlan] = []
    rejected: list[Rejected] = []
    for plan, against in _found(question, plans):
        rejected += [against] if against else []
        if plan:
            (small if against else large).append(plan)
        if large and not by_cost:
            break
    if large:
        return Split(plan=min(large, key=_score))
    return Split(offer=_offer(question, min(small, key=_score)) if small else None, rejected=tuple(rejected))


def _score(plan: ClassPlan) -> float:
    return plan.score.value


def cheaper(question: Question, plans: Plans) -> Reason | None:
    """That two pools on the class of the first plan would cost less than it, where one layout at least cannot keep both
    times; None where they would not."""
    chosen = plans.plans[0]
    here = replace(plans, looked=tuple(one for one in plans.looked if one.candidate.name == chosen.class_name))
    for plan, rejected in _found(question, here):
        if plan and plan.score.value < chosen.score.value:
            sentence = (
                f"prefill and decode apart would take {_takes(plan)} in place of {_amount(chosen)}: {_pools(plan)};"
                f" {_not_yet(few=rejected is not None)}"
            )
            return Reason(check=Check.DISAGGREGATION, sentence=sentence)
    return None


def _found(question: Question, plans: Plans) -> Iterator[tuple[ClassPlan | None, Rejected | None]]:
    """For each class where times conflict: the plan, and what speaks against it."""
    if question.pins.strategy not in (Strategy.AUTO, Strategy.DISAGGREGATED) or len(question.objectives) > 1:
        return
    for looked in plans.looked:
        if looked.ask is not None and any(failure.check in _CONFLICT for failure in looked.failures):
            yield _on_class(question, looked, looked.ask)


def _offer(question: Question, plan: ClassPlan) -> Offer:
    field, value = place(question, "pins.strategy"), str(Strategy.DISAGGREGATED)
    sentence = f"with {field} {value}: {_pools(plan)}, {_takes(plan)}; {_not_yet(few=True)}"
    return Offer(change=Change.SPLIT, field=field, value=value, sentence=sentence, plan=plan)


def _pools(plan: ClassPlan) -> str:
    prefill, decode = plan.pools
    return (
        f"{count(prefill.replicas, 'prefill replica')} of {prefill.layout} and"
        f" {count(decode.replicas, 'decode replica')} of {decode.layout} on {plan.class_name}"
    )


def _takes(plan: ClassPlan) -> str:
    return count(plan.accelerators, "accelerator") + (f", {_amount(plan)}" if plan.cost_per_hour is not None else "")


def _amount(plan: ClassPlan) -> str:
    if plan.cost_per_hour is None:
        return count(plan.accelerators, "accelerator")
    return f"{rounded(float(plan.cost_per_hour), 3)} {plan.currency}/h"


def _not_yet(*, few: bool) -> str:
    ratio = f", and with fewer than {LEAST_REPLICAS} replicas their ratio cannot follow the load" if few else ""
    return f"this version does not roll out such a plan{ratio}"


def _on_class(question: Question, looked: Looked, ask: Ask) -> tuple[ClassPlan | None, Rejected | None]:
    layouts = [one.layout for one in looked.failures if one.check in _CONFLICT and one.layout is not None]
    layouts += [one.layout for one in looked.sized]
    prefill = min(_halves(ask, layouts, Role.PREFILL), key=_accelerators, default=None)
    decode = min(_halves(ask, layouts, Role.DECODE), key=_accelerators, default=None)
    if prefill is None or decode is None:
        return None, None
    plan = _plan(question, looked, ask, prefill, decode)
    replicas = prefill.replicas + decode.replicas
    most = question.bounds.max_accelerators
    over = question.bounds.max_replicas is not None and replicas > question.bounds.max_replicas
    if over or (most is not None and plan.accelerators > most):
        sentence = (
            f"prefill and decode apart need {replicas} replicas and {plan.accelerators} accelerators, more than is"
            " allowed"
        )
        return None, _rejected(ask, sentence)
    if replicas < LEAST_REPLICAS and question.pins.strategy is not Strategy.DISAGGREGATED:
        sentence = (
            f"prefill and decode apart would keep the promise ({prefill.replicas} × {prefill.case.layout} and"
            f" {decode.replicas} × {decode.case.layout}), but the fleet is too small for it: fewer than"
            f" {LEAST_REPLICAS} replicas"
        )
        return plan, _rejected(ask, sentence)
    return plan, None


def _rejected(ask: Ask, sentence: str) -> Rejected:
    return Rejected(class_name=ask.candidate.name, layout=None, check=Check.DISAGGREGATION, sentence=sentence)


def _accelerators(half: _Half) -> int:
    return half.replicas * half.case.layout.accelerators


def _halves(ask: Ask, layouts: list[Layout], role: Role) -> Iterator[_Half]:
    for layout in layouts:
        half = _half(ask, layout, role)
        if half is not None:
            yield half


def _half(ask: Ask, layout: Layout, role: Role) -> _Half | None:
    """One pool alone: prompts with one token of answer inside ttft, or answers to prompts that are in the cache already
    inside tpot."""
    lengths, limits = ask.demand.lengths, ask.demand.wanted[0].limits
    if role is Role.PREFILL:
        part = replace(lengths, output_tokens=1.0, output_p95_tokens=1.0)
        case = ask.case(layout, budget=BUDGETS[-3])
        ttft_s, tpot_s = limits.ttft_s / (1 + half_widths(case)[0]), _NO_LIMIT_S
    else:
        part = _arrived(lengths)
        case = ask.case(layout, budget=BUDGETS[4])
        ttft_s, tpot_s = _NO_LIMIT_S, limits.tpot_s / (1 + half_widths(case)[1])
    if not memory_use(case).fits:
        return None
    knee = find_knee(case, part, Limits(ttft_s=ttft_s, tpot_s=tpot_s, share=limits.share), None)
    if knee is None or knee.requests_per_s <= 0:
        return None
    replicas = max(1, ceil(ask.demand.total_rps / knee.requests_per_s - 1e-9))
    step = budget_of(case, ask.demand, 128, 1.0 if role is Role.PREFILL else knee.at.running)
    return _Half(role, case, knee, replicas, step.step_s)


def _arrived(lengths: Lengths) -> Lengths:
    """Requests whose prompt another replica has prefilled: one token of it is left."""
    return replace(lengths, shared_prefix_tokens=max(0.0, lengths.input_tokens - 1.0))


def _pool(ask: Ask, half: _Half) -> Pool:
    layout, setup = half.case.layout, half.case.setup
    predicted = figures_at(ask.demand.wanted[0], half.knee, half.knee.at, half.step_s)
    return Pool(
        role=half.role,
        class_name=ask.candidate.name,
        layout=layout,
        nodes_per_replica=nodes_of(layout, ask.candidate.hardware),
        replicas=half.replicas,
        source=ask.variant.source,
        facts=ask.variant.facts,
        setup=setup,
        flags={"tensor-parallel-size": str(layout.tensor), "max-num-batched-tokens": str(setup.token_budget)},
        predicted=predicted,
    )


def _plan(question: Question, looked: Looked, ask: Ask, prefill: _Half, decode: _Half) -> ClassPlan:
    total = _accelerators(prefill) + _accelerators(decode)
    cost = cost_per_hour(ask.candidate, total)
    conflict = _conflict(looked.failures)
    sentence = (
        f"prefill and decode apart: {conflict.sentence}; {count(prefill.replicas, 'prefill replica')} of"
        f" {prefill.case.layout} take {rounded(prefill.knee.requests_per_s)} prompts/s each inside ttft, and"
        f" {count(decode.replicas, 'decode replica')} of {decode.case.layout} {rounded(decode.knee.requests_per_s)}"
        " answers/s each inside tpot. This version does not roll out such a plan"
    )
    return ClassPlan(
        class_name=ask.candidate.name,
        pools=(_pool(ask, prefill), _pool(ask, decode)),
        score=score_of(ask, total, one_currency(question.candidates)),
        cost_per_hour=cost[0] if cost else None,
        currency=cost[1] if cost else "",
        quantization=ask.decision,
        speculation=SpeculationDecision(on=False, sentence="off: prefill and decode are apart"),
        reasons=(Reason(check=Check.DISAGGREGATION, sentence=sentence),),
        binding_objective=ask.demand.wanted[0].objective.name,
        rolled_out=False,
    )


def _conflict(failures: tuple[Failure, ...]) -> Failure:
    """What to name: a token budget that nothing satisfies, if that was it."""
    telling = [one for one in failures if one.check in _CONFLICT]
    return min(telling, key=lambda one: (_CONFLICT.index(one.check), one.reached / one.wanted))
