"""One layout on one class: does it keep every objective, with which settings, and how many replicas does the load need.

The order of the checks: memory, one request alone, the token budget, the knee, the bounds. All times are taken at the
pessimistic end of the prediction's uncertainty. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from modelfleet.core.layout.answer import Predicted
from modelfleet.core.layout.ask import Ask, Failure, Sized
from modelfleet.core.layout.demand import Wanted
from modelfleet.core.layout.failed import (
    beaten,
    kv_too_small,
    no_budget,
    out_of_memory,
    over_bounds,
    share_not_kept,
    too_slow,
)
from modelfleet.core.layout.inventory import room_for
from modelfleet.core.layout.knees import Break, Margin, at_share, own_light, replica_of, with_cache
from modelfleet.core.layout.settings import settings_of
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.token_budget import Budget, budget_of, largest_budget
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import memory_use
from modelfleet.core.perf.prediction import Knee, Prediction
from modelfleet.core.perf.profile import Profile
from modelfleet.core.perf.serving import Replica, loaded, predict, replica
from modelfleet.core.perf.workload import Load

_FIRST_BUDGET = 512

_MOST_TIMES = 64
"""Times the replicas that the knee asks for, beyond which a step that is still too long never fits."""


def size(ask: Ask, layout: Layout, most: int | None = None) -> Sized | Failure:
    """The layout sized for the whole load, or the first check that it fails; `most` accelerators are enough already."""
    measured = ask.measured(layout)
    profile = measured.profile if measured else None
    case = ask.case(layout, budget=_FIRST_BUDGET)
    memory = memory_use(case)
    if not memory.fits:
        return out_of_memory(ask, layout, memory)
    light = predict(case, ask.demand.lengths, Load(concurrency=1), profile)
    late = _late(ask, case, light, profile)
    if late:
        return late
    margin = Margin.of(light)
    budget = _budget(ask, case, 1.0, margin)
    if budget is None:
        return no_budget(ask, case, margin)
    too_many = beaten(ask, layout, budget, most)
    if too_many:
        return too_many
    it = replica_of(ask, layout, budget.tokens, profile)
    it, broken = with_cache(ask, it, light)
    if isinstance(broken, Wanted):
        return share_not_kept(ask, layout, broken, light)
    return _with_knee(ask, it, light, broken)


def _late(ask: Ask, case: Case, light: Prediction, profile: Profile | None) -> Failure | None:
    """One request alone is already too slow."""
    layout, margin = case.layout, Margin.of(light)
    for wanted in ask.demand.wanted:
        own = own_light(ask, case, wanted, light, profile)
        tpot, ttft = light.tpot_s * margin.tpot, own.ttft_s * margin.ttft
        if tpot > wanted.limits.tpot_s:
            return too_slow(ask, layout, wanted, (tpot, margin.said("tpot")), "tpot")
        if ttft > wanted.limits.ttft_s:
            return too_slow(ask, layout, wanted, (ttft, margin.said("ttft")), "ttft")
    return None


def _with_knee(ask: Ask, it: Replica, light: Prediction, broken: Break) -> Sized | Failure:
    margin, case = Margin.of(light), it.case
    found = _enough(ask, it, broken, margin)
    if found is None:
        return no_budget(ask, case, margin)
    replicas, budget, at = found
    if replicas > _replicas(ask, broken.knee):
        knee = replace(broken.knee, requests_per_s=at.requests_per_s, concurrency=at.concurrency, bound="tpot")
        broken = replace(broken, knee=knee)
    over = over_bounds(ask, case.layout, replicas, broken)
    return over or _finish(ask, it, budget, replicas, broken)


def _enough(ask: Ask, it: Replica, broken: Break, margin: Margin) -> tuple[int, Budget, Prediction] | None:
    """The fewest replicas, from the knee's count on, at whose part of the load a token budget keeps both: its full step
    is inside tpot, and it prefills as fast as prompts arrive. Fewer requests a replica never make either harder."""

    def keeps(replicas: int) -> tuple[int, Budget, Prediction] | None:
        at = loaded(it, _part(ask, replicas))
        budget = _budget(ask, it.case, at.running, margin)
        if budget and budget.tokens > (it.case.setup.token_budget or budget.tokens):
            budget = budget_of(it.case, ask.demand, it.case.setup.token_budget or budget.tokens, at.running)
        arrivals = ask.demand.total_rps / replicas if ask.demand.rps else at.requests_per_s
        rate = arrivals * ask.demand.uncached_tokens
        return (replicas, budget, at) if budget and budget.prefill_tokens_per_s >= rate else None

    low = _replicas(ask, broken.knee)
    found, high = keeps(low), low
    while found is None and high < low * _MOST_TIMES:
        low, high = high, high * 2
        found = keeps(high)
    while found is not None and high - low > 1:
        middle = (low + high) // 2
        fewer = keeps(middle)
        found, low, high = (fewer, low, middle) if fewer else (found, middle, high)
    return found


def _replicas(ask: Ask, knee: Knee) -> int:
    needed = ask.demand.replicas(max(knee.requests_per_s, 1e-9), max(knee.concurrency, 1e-9))
    return max(1, ask.question.bounds.min_replicas, ceil(min(needed, 1e9) - 1e-9))


def _finish(ask: Ask, it: Replica, budget: Budget, replicas: int, broken: Break) -> Sized | Failure:
    setup = it.case.setup
    cap = min(setup.sequence_cap or budget.tokens, budget.tokens)
    case = ask.case(it.case.layout, budget=budget.tokens, cap=cap)
    final = it if case == it.case else replica(case, ask.demand.lengths, it.profile)
    at = loaded(final, _part(ask, replicas))
    if at.saturated:
        return kv_too_small(ask, case, at)
    predicted = _predicted(broken, at, budget)
    room = room_for(ask.candidate, case.layout)
    settings = settings_of(ask, case, budget, predicted)
    return Sized(
        case=case,
        budget=budget,
        replicas=replicas,
        predicted=predicted,
        binding=broken.wanted,
        running=at.running,
        shortfall=0 if room.replicas is None else max(0, replicas - room.replicas),
        room_sentence=room.sentence,
        flags=settings.flags,
        reasons=settings.reasons,
    )


def _part(ask: Ask, replicas: int) -> Load:
    """One replica's part of the load."""
    demand = ask.demand
    if demand.rps == 0:
        return Load(concurrency=max(1.0, demand.concurrency / replicas))
    return Load(requests_per_s=demand.total_rps / replicas)


def _budget(ask: Ask, case: Case, running: float, margin: Margin) -> Budget | None:
    pinned = ask.question.pins.token_budget
    if pinned is not None:
        return budget_of(case, ask.demand, pinned, running)
    return largest_budget(case, ask.demand, running, ask.demand.tpot_s / margin.tpot)


def _predicted(broken: Break, at: Prediction, budget: Budget) -> Predicted:
    share = broken.wanted.limits.share
    ttft_at_share_s, tpot_at_share_s = at_share(at, share)
    return Predicted(
        objective=broken.wanted.objective.name,
        ttft_s=at.ttft_s,
        tpot_s=at.tpot_s,
        ttft_at_share_s=ttft_at_share_s,
        tpot_at_share_s=tpot_at_share_s,
        share=share,
        concurrency=at.concurrency,
        requests_per_s=at.requests_per_s,
        output_tokens_per_s=at.output_tokens_per_s,
        knee_rps=broken.knee.requests_per_s,
        knee_concurrency=broken.knee.concurrency,
        knee_bound=broken.knee.bound,
        kv_tokens=at.memory.kv_tokens,
        memory=at.memory,
        step_s=budget.step_s,
        worst_gap_s=budget.step_s,
        uncertainty=at.uncertainty,
        ttft_uncertainty=at.ttft_uncertainty,
        source=at.source,
        reason=at.reason,
    )
