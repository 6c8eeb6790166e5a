"""One layout on one class: does it keep every objective, with which settings, and how many replicas does the load need.

The order of the checks: memory, one request alone, the token budget, the knee, the bounds. All times are taken at the
pessimistic end of the prediction's uncertainty. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, exp, isfinite, log, sqrt
from statistics import NormalDist

from modelfleet.core.layout.answer import Check, Predicted
from modelfleet.core.layout.ask import Ask, Failure, Sized
from modelfleet.core.layout.demand import Wanted
from modelfleet.core.layout.inventory import room_for
from modelfleet.core.layout.question import objective_place, place
from modelfleet.core.layout.settings import sequence_cap, settings_of
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.token_budget import Budget, budget_of, largest_budget
from modelfleet.core.layout.wording import count, exact_seconds, gib, rounded, seconds
from modelfleet.core.perf.case import Case, Limits
from modelfleet.core.perf.knee import find_knee
from modelfleet.core.perf.memory import memory_use
from modelfleet.core.perf.prediction import Knee, MemoryUse, Prediction
from modelfleet.core.perf.profile import Profile
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import Load

_FIRST_BUDGET = 512
_MOST_TIMES = 64
"""Times the replicas that the knee asks for, beyond which a step that is still too long never fits."""


def size(ask: Ask, layout: Layout) -> Sized | Failure:
    """The layout sized for the whole load, or the first check that it fails."""
    memory = memory_use(ask.case(layout, budget=_FIRST_BUDGET, cap=64))
    if not memory.fits:
        return out_of_memory(ask, layout, memory)
    measured = ask.measured(layout)
    profile = measured.profile if measured else None
    case = ask.case(layout, budget=_FIRST_BUDGET)
    light = predict(case, ask.demand.lengths, Load(concurrency=1), profile)
    margin = 1 + light.uncertainty
    late = _late(ask, layout, light, margin)
    if late:
        return late
    budget = _budget(ask, case, 1.0, margin)
    if budget is None:
        return _no_budget(ask, case, margin)
    case = ask.case(layout, budget=budget.tokens)
    return _with_budget(ask, case, budget, light, profile)


def out_of_memory(ask: Ask, layout: Layout, memory: MemoryUse) -> Failure:
    """The weights, or one sequence of the longest context, do not fit."""
    needed = memory.budget_bytes - min(memory.kv_bytes, 0.0)
    return Failure(
        class_name=ask.candidate.name,
        layout=layout,
        check=Check.MEMORY,
        field=place(ask.question, "candidates"),
        wanted=needed,
        reached=memory.budget_bytes,
        unit="bytes",
        sentence=f"{layout} {memory.reason}",
    )


@dataclass(frozen=True)
class _Break:
    """The knee of the objective that allows least."""

    knee: Knee
    wanted: Wanted


def _with_budget(ask: Ask, case: Case, budget: Budget, light: Prediction, profile: Profile | None) -> Sized | Failure:
    margin = 1 + light.uncertainty
    broken = _break(ask, case, margin, profile)
    if isinstance(broken, Wanted):
        return _share_not_kept(ask, case.layout, broken, light)
    found = _enough(ask, case, broken, margin, profile)
    if found is None:
        return _no_budget(ask, case, margin)
    replicas, now, at = found
    if replicas > _replicas(ask, broken.knee):
        knee = replace(broken.knee, requests_per_s=at.requests_per_s, concurrency=at.concurrency, bound="tpot")
        broken = replace(broken, knee=knee)
    if now.tokens != case.setup.token_budget:
        case = ask.case(case.layout, budget=now.tokens)
    return _finish(ask, case, now, replicas, broken, profile)


def _enough(
    ask: Ask, case: Case, broken: _Break, margin: float, profile: Profile | None
) -> tuple[int, Budget, Prediction] | None:
    """The fewest replicas, from the knee's count on, at whose part of the load a token budget keeps both: its full step
    is inside tpot, and it prefills as fast as prompts arrive. Fewer requests a replica never make either harder."""

    def keeps(replicas: int) -> tuple[int, Budget, Prediction] | None:
        at = _at(ask, case, replicas, profile)
        budget = _budget(ask, case, at.running, margin)
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


def _finish(
    ask: Ask, case: Case, budget: Budget, replicas: int, broken: _Break, profile: Profile | None
) -> Sized | Failure:
    over = _over_bounds(ask, case.layout, replicas, broken)
    if over:
        return over
    memory = memory_use(case)
    cap = sequence_cap(ask, case, budget)
    case = ask.case(case.layout, budget=budget.tokens, cap=cap)
    at = _at(ask, case, replicas, profile)
    if at.saturated:
        return _kv_too_small(ask, case, at)
    predicted = _predicted(broken, at, budget, memory)
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


def _at(ask: Ask, case: Case, replicas: int, profile: Profile | None) -> Prediction:
    """One replica at its part of the load."""
    demand = ask.demand
    if demand.rps == 0:
        load = Load(concurrency=max(1.0, demand.concurrency / replicas))
    else:
        load = Load(requests_per_s=demand.total_rps / replicas)
    return predict(case, demand.lengths, load, profile)


def _break(ask: Ask, case: Case, margin: float, profile: Profile | None) -> _Break | Wanted:
    """The knee of the binding objective; the objective that no load keeps, if there is one."""
    found: list[_Break] = []
    for wanted in ask.demand.wanted:
        limits = wanted.limits
        tight = Limits(ttft_s=limits.ttft_s / margin, tpot_s=limits.tpot_s / margin, share=limits.share)
        knee = find_knee(case, ask.demand.lengths, tight, profile)
        if knee is None:
            return wanted
        found.append(_Break(knee, wanted))
    return min(found, key=lambda one: one.knee.requests_per_s)


def _budget(ask: Ask, case: Case, running: float, margin: float) -> Budget | None:
    pinned = ask.question.pins.token_budget
    if pinned is not None:
        return budget_of(case, ask.demand, pinned, running)
    return largest_budget(case, ask.demand, running, ask.demand.tpot_s / margin)


def _late(ask: Ask, layout: Layout, light: Prediction, margin: float) -> Failure | None:
    """One request alone is already too slow."""
    for wanted in ask.demand.wanted:
        tpot, ttft = light.tpot_s * margin, light.ttft_s * margin
        if tpot > wanted.limits.tpot_s:
            return _too_slow(ask, layout, wanted, "tpot", tpot)
        if ttft > wanted.limits.ttft_s:
            return _too_slow(ask, layout, wanted, "ttft", ttft)
    return None


def _too_slow(ask: Ask, layout: Layout, wanted: Wanted, key: str, reached: float) -> Failure:
    limit = wanted.limits.tpot_s if key == "tpot" else wanted.limits.ttft_s
    what = "a token takes" if key == "tpot" else "the first token takes"
    return Failure(
        class_name=ask.candidate.name,
        layout=layout,
        check=Check.TPOT if key == "tpot" else Check.TTFT,
        field=objective_place(ask.question, wanted.index, key),
        wanted=limit,
        reached=reached,
        unit="s",
        sentence=f"on {layout} {what} up to {seconds(reached)} even for one request alone, and {key} of objective"
        f" {wanted.objective.name} is {exact_seconds(limit)}",
    )


def _share_not_kept(ask: Ask, layout: Layout, wanted: Wanted, light: Prediction) -> Failure:
    """The mean of a lone request is inside, the wanted share is not."""
    margin = 1 + light.uncertainty
    tpot = at_share(light.tpot_s, light.tpot_p95_s, wanted.limits.share) * margin
    ttft = at_share(light.ttft_s, light.ttft_p95_s, wanted.limits.share) * margin
    by_tpot = tpot / wanted.limits.tpot_s > ttft / wanted.limits.ttft_s
    key, reached, limit = ("tpot", tpot, wanted.limits.tpot_s) if by_tpot else ("ttft", ttft, wanted.limits.ttft_s)
    return Failure(
        class_name=ask.candidate.name,
        layout=layout,
        check=Check.TPOT if by_tpot else Check.TTFT,
        field=objective_place(ask.question, wanted.index, key),
        wanted=limit,
        reached=max(reached, limit),
        unit="s",
        sentence=f"on {layout} {wanted.limits.share:.4g} of the requests are inside {key}"
        f" {seconds(max(reached, limit))} at the least load, and {wanted.objective.name} wants {exact_seconds(limit)}",
    )


def _no_budget(ask: Ask, case: Case, margin: float) -> Failure:
    """Prefill and decode do not fit into one step: what rule 14 is about."""
    least = budget_of(case, ask.demand, 128, 1.0)
    wanted = min(ask.demand.wanted, key=lambda one: one.limits.tpot_s)
    return Failure(
        class_name=ask.candidate.name,
        layout=case.layout,
        check=Check.TOKEN_BUDGET,
        field=objective_place(ask.question, wanted.index, "tpot"),
        wanted=wanted.limits.tpot_s,
        reached=least.step_s * margin,
        unit="s",
        sentence=f"on {case.layout} no token budget keeps a step that prefills beside the running sequences inside tpot"
        f" {exact_seconds(wanted.limits.tpot_s)} and prefills as fast as prompts arrive; with 128 tokens it takes up to"
        f" {seconds(least.step_s * margin)}",
    )


def _kv_too_small(ask: Ask, case: Case, at: Prediction) -> Failure:
    wanted = at.concurrency * ask.demand.context_tokens
    return Failure(
        class_name=ask.candidate.name,
        layout=case.layout,
        check=Check.KV,
        field=place(ask.question, "pins.sequence_cap" if ask.question.pins.sequence_cap else "candidates"),
        wanted=wanted,
        reached=float(at.memory.kv_tokens),
        unit="KV tokens",
        sentence=f"on {case.layout} {rounded(at.running)} of {rounded(at.concurrency)} requests run at the same time:"
        f" {gib(max(at.memory.kv_bytes, 0.0))} of KV cache hold {rounded(at.memory.kv_tokens)} tokens",
    )


def _over_bounds(ask: Ask, layout: Layout, replicas: int, broken: _Break) -> Failure | None:
    """maxReplicas and maxAccelerators."""
    bounds = ask.question.bounds
    total = replicas * layout.accelerators
    load = f"the load needs {count(replicas, 'replica')} of {layout} ({count(total, 'accelerator')})"
    knee = f", since one keeps the promise up to {rounded(broken.knee.requests_per_s)} requests/s"
    limits = (
        ("bounds.max_replicas", bounds.max_replicas, replicas, "replicas"),
        ("bounds.max_accelerators", bounds.max_accelerators, total, "accelerators"),
    )
    for name, most, needed, unit in limits:
        if most is not None and needed > most:
            return Failure(
                class_name=ask.candidate.name,
                layout=layout,
                check=Check.CAPACITY,
                field=place(ask.question, name),
                wanted=float(needed),
                reached=float(most),
                unit=unit,
                sentence=f"{load}{knee}, and {place(ask.question, name)} is {most}",
            )
    return None


def _predicted(broken: _Break, at: Prediction, budget: Budget, memory: MemoryUse) -> Predicted:
    share = broken.wanted.limits.share
    return Predicted(
        objective=broken.wanted.objective.name,
        ttft_s=at.ttft_s,
        tpot_s=at.tpot_s,
        ttft_at_share_s=at_share(at.ttft_s, at.ttft_p95_s, share),
        tpot_at_share_s=at_share(at.tpot_s, at.tpot_p95_s, share),
        share=share,
        concurrency=at.concurrency,
        requests_per_s=at.requests_per_s,
        output_tokens_per_s=at.output_tokens_per_s,
        knee_rps=broken.knee.requests_per_s,
        knee_concurrency=broken.knee.concurrency,
        knee_bound=broken.knee.bound,
        kv_tokens=at.memory.kv_tokens,
        memory=memory,
        step_s=budget.step_s,
        worst_gap_s=budget.step_s,
        uncertainty=at.uncertainty,
        source=at.source,
        reason=at.reason,
    )


def at_share(mean: float, p95: float, wanted: float) -> float:
    """The quantile `wanted` of a log-normal with this mean and 95th percentile; the p95 itself where they are too far
    apart for one."""
    if not 0 < mean < p95 or not isfinite(p95):
        return p95
    z95 = NormalDist().inv_cdf(0.95)
    root = z95 * z95 - 2 * log(p95 / mean)
    sigma = z95 - sqrt(root) if root > 0 else z95
    return p95 * exp((NormalDist().inv_cdf(min(max(wanted, 1e-6), 1 - 1e-9)) - z95) * sigma)
