"""One layout on one class: does it keep every objective, with which settings, and how many replicas does the load need.

The order of the checks: memory, one request alone, the token budget, the knee, the bounds. All times are taken at the
pessimistic end of the prediction's uncertainty. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Self

from modelfleet.core.layout.answer import Check, Predicted
from modelfleet.core.layout.ask import Ask, Failure, Sized
from modelfleet.core.layout.demand import Wanted
from modelfleet.core.layout.inventory import room_for
from modelfleet.core.layout.question import objective_place, place
from modelfleet.core.layout.settings import sequence_cap, settings_of
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.token_budget import BUDGETS, Budget, budget_of, largest_budget
from modelfleet.core.layout.wording import count, exact_seconds, gib, rounded, seconds
from modelfleet.core.perf.case import Case, Limits
from modelfleet.core.perf.knee import find_knee
from modelfleet.core.perf.memory import memory_use
from modelfleet.core.perf.prediction import Knee, MemoryUse, Prediction
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
    margin = _Margin.of(light)
    budget = _budget(ask, case, 1.0, margin)
    if budget is None:
        return _no_budget(ask, case, margin)
    too_many = _beaten(ask, layout, budget, most)
    if too_many:
        return too_many
    it = replica(ask.case(layout, budget=budget.tokens), ask.demand.lengths, profile)
    it, broken = _with_cache(ask, it, light)
    if isinstance(broken, Wanted):
        return _share_not_kept(ask, layout, broken, light)
    return _with_knee(ask, it, light, broken)


def _with_cache(ask: Ask, it: Replica, light: Prediction) -> tuple[Replica, _Break | Wanted]:
    """The replica with the budget whose activation leaves enough KV cache: where requests wait for the cache, a smaller
    budget may carry more load."""
    best, broken = it, _break(ask, it, light)
    for tokens in reversed(BUDGETS):
        if ask.question.pins.token_budget or not _starved(best, broken):
            break
        if tokens < (it.case.setup.token_budget or 0):
            smaller = replica(ask.case(it.case.layout, budget=tokens), it.lengths, it.profile)
            less = _break(ask, smaller, light) if smaller.most > best.most else broken
            if isinstance(less, _Break) and _rate(less) > _rate(broken):
                best, broken = smaller, less
    return best, broken


def _rate(broken: _Break | Wanted) -> float:
    return broken.knee.requests_per_s if isinstance(broken, _Break) else 0.0


def _starved(it: Replica, broken: _Break | Wanted) -> bool:
    """Requests wait for the KV cache, which shows in the first token too; or it leaves room for no load at all."""
    return isinstance(broken, Wanted) or (it.bound == "kv" and broken.knee.bound != "tpot")


def _beaten(ask: Ask, layout: Layout, budget: Budget, most: int | None) -> Failure | None:
    """More accelerators than another layout takes, by prefill alone: it does no more than full steps one after the
    other."""
    if most is None or not ask.demand.rps:
        return None
    rate = ask.demand.total_rps * ask.demand.uncached_tokens
    least = ceil(rate / budget.prefill_tokens_per_s) * layout.accelerators
    if least <= most:
        return None
    return Failure(
        class_name=ask.candidate.name,
        layout=layout,
        check=Check.SCORE,
        field=place(ask.question, "candidates"),
        wanted=float(most),
        reached=float(least),
        unit="accelerators",
        sentence=f"prefill alone would keep {count(least, 'accelerator')} of {layout} busy, where {most} are enough",
    )


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
class _Margin:
    """What times are multiplied by, or limits divided by, to stand at the pessimistic end."""

    ttft: float
    tpot: float

    @classmethod
    def of(cls, at: Prediction) -> Self:
        """From the half-widths of a prediction."""
        return cls(ttft=1 + at.ttft_uncertainty, tpot=1 + at.uncertainty)


@dataclass(frozen=True)
class _Break:
    """The knee of the objective that allows least."""

    knee: Knee
    wanted: Wanted


def _with_knee(ask: Ask, it: Replica, light: Prediction, broken: _Break) -> Sized | Failure:
    margin, case = _Margin.of(light), it.case
    found = _enough(ask, it, broken, margin)
    if found is None:
        return _no_budget(ask, case, margin)
    replicas, budget, at = found
    if replicas > _replicas(ask, broken.knee):
        knee = replace(broken.knee, requests_per_s=at.requests_per_s, concurrency=at.concurrency, bound="tpot")
        broken = replace(broken, knee=knee)
    over = _over_bounds(ask, case.layout, replicas, broken)
    return over or _finish(ask, it, budget, replicas, broken)


def _enough(ask: Ask, it: Replica, broken: _Break, margin: _Margin) -> tuple[int, Budget, Prediction] | None:
    """The fewest replicas, from the knee's count on, at whose part of the load a token budget keeps both: its full step
    is inside tpot, and it prefills as fast as prompts arrive. Fewer requests a replica never make either harder."""

    def keeps(replicas: int) -> tuple[int, Budget, Prediction] | None:
        at = loaded(it, _part(ask, replicas))
        budget = _budget(ask, it.case, at.running, margin)
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


def _finish(ask: Ask, it: Replica, budget: Budget, replicas: int, broken: _Break) -> Sized | Failure:
    case = it.case
    if budget.tokens < (case.setup.token_budget or budget.tokens):
        case = ask.case(case.layout, budget=budget.tokens)
    cap = sequence_cap(ask, case)
    case = ask.case(case.layout, budget=case.setup.token_budget, cap=cap)
    final = replica(case, ask.demand.lengths, it.profile)
    at = loaded(final, _part(ask, replicas))
    if at.saturated:
        return _kv_too_small(ask, case, at)
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


def _break(ask: Ask, it: Replica, light: Prediction) -> _Break | Wanted:
    """The knee of the binding objective; the objective that no load keeps, if there is one.

    An objective's request waits as one of the mixture does and is prefilled as itself: its limit for the mixture's
    first token is its own, moved by what the two differ when alone.
    """
    margin = _Margin.of(light)
    found: list[_Break] = []
    for wanted in ask.demand.wanted:
        limits = wanted.limits
        moved = light.ttft_s - _own_light(ask, it.case, wanted, light, it.profile).ttft_s
        ttft_s = limits.ttft_s / margin.ttft + moved
        if ttft_s <= 0:
            return wanted
        tight = Limits(ttft_s=ttft_s, tpot_s=limits.tpot_s / margin.tpot, share=limits.share)
        knee = find_knee(it.case, ask.demand.lengths, tight, it.profile)
        if knee is None:
            return wanted
        found.append(_Break(knee, wanted))
    return min(found, key=lambda one: one.knee.requests_per_s)


def _budget(ask: Ask, case: Case, running: float, margin: _Margin) -> Budget | None:
    pinned = ask.question.pins.token_budget
    if pinned is not None:
        return budget_of(case, ask.demand, pinned, running)
    return largest_budget(case, ask.demand, running, ask.demand.tpot_s / margin.tpot)


def _late(ask: Ask, case: Case, light: Prediction, profile: Profile | None) -> Failure | None:
    """One request alone is already too slow."""
    layout, margin = case.layout, _Margin.of(light)
    for wanted in ask.demand.wanted:
        own = _own_light(ask, case, wanted, light, profile)
        tpot, ttft = light.tpot_s * margin.tpot, own.ttft_s * margin.ttft
        if tpot > wanted.limits.tpot_s:
            return _too_slow(ask, layout, wanted, "tpot", tpot)
        if ttft > wanted.limits.ttft_s:
            return _too_slow(ask, layout, wanted, "ttft", ttft)
    return None


def _own_light(ask: Ask, case: Case, wanted: Wanted, light: Prediction, profile: Profile | None) -> Prediction:
    """One request of this objective alone; `light` is one of the mixture, which is the same for a single objective."""
    if len(ask.demand.wanted) == 1:
        return light
    return predict(case, wanted.lengths, Load(concurrency=1), profile)


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
    margin = _Margin.of(light)
    ttft, tpot = at_share(light, wanted.limits.share)
    ttft, tpot = ttft * margin.ttft, tpot * margin.tpot
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


def _no_budget(ask: Ask, case: Case, margin: _Margin) -> Failure:
    """Prefill and decode do not fit into one step: what rule 14 is about."""
    least = budget_of(case, ask.demand, 128, 1.0)
    wanted = min(ask.demand.wanted, key=lambda one: one.limits.tpot_s)
    return Failure(
        class_name=ask.candidate.name,
        layout=case.layout,
        check=Check.TOKEN_BUDGET,
        field=objective_place(ask.question, wanted.index, "tpot"),
        wanted=wanted.limits.tpot_s,
        reached=least.step_s * margin.tpot,
        unit="s",
        sentence=f"on {case.layout} no token budget keeps a step that prefills beside the running sequences inside tpot"
        f" {exact_seconds(wanted.limits.tpot_s)} and prefills as fast as prompts arrive; with 128 tokens it takes up to"
        f" {seconds(least.step_s * margin.tpot)}",
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


def _predicted(broken: _Break, at: Prediction, budget: Budget) -> Predicted:
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


def at_share(at: Prediction, share: float) -> tuple[float, float]:
    """The TTFT and TPOT that `share` of the requests stay below; the 95th percentiles where no spread is known."""
    if at.spread is None:
        return at.ttft_p95_s, at.tpot_p95_s
    return at.spread.ttft_at(share), at.spread.tpot_at(share)
