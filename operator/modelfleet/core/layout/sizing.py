"""One layout on one class: does it keep every objective, with which settings, and how many replicas does the load need.

The order of the checks: memory, one request alone, the token budget, the knee, the bounds. All times are taken at the
pessimistic end of the prediction's uncertainty. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from modelfleet.core.layout.ask import Ask, Failure, Sized
from modelfleet.core.layout.demand import Wanted
from modelfleet.core.layout.failed import (
    beaten,
    no_budget,
    out_of_memory,
    over_bounds,
    prompt_too_long,
    share_not_kept,
    too_slow,
)
from modelfleet.core.layout.inventory import room_for
from modelfleet.core.layout.knees import (
    Break,
    Goal,
    Margin,
    break_of,
    figures_at,
    goals_of,
    in_flight_of,
    named,
    replica_of,
    with_cache,
)
from modelfleet.core.layout.settings import settings_of
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.token_budget import BUDGETS, Budget, budget_of, largest_budget
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import memory_use
from modelfleet.core.perf.prediction import Knee, Prediction
from modelfleet.core.perf.serving import Replica, loaded, predict
from modelfleet.core.perf.workload import Load

_FIRST_BUDGET = 512
_ROUNDS = 4
"""A smaller budget prefills more slowly, so that more sequences run: after so many rounds it does not settle."""

_MOST_TIMES = 64
"""Times the replicas that the knee asks for, beyond which a step that is still too long never fits."""


@dataclass(frozen=True)
class _Frame:
    """What stays the same while replicas and budgets of one layout are tried."""

    ask: Ask
    it: Replica
    """With the largest budget."""
    goals: tuple[Goal, ...]
    margin: Margin

    def late_prompt(self, budget: Budget) -> Wanted | None:
        """The objective whose longest prompt that must be in time is not, beside what decodes."""
        return _late_prompt(self.ask, budget, self.margin)


@dataclass(frozen=True)
class _Fit:
    """Replicas of a budget that keep everything."""

    replicas: int
    budget: Budget
    it: Replica
    broken: Break
    at: Prediction
    lacking: str = ""
    """What breaks with one replica less although the knee allows it; empty where the knee's count is enough."""

    @property
    def reach(self) -> Break:
        """The knee; where the steps' budget ends a replica's reach before it, the load at which it is known to hold."""
        if not self.lacking:
            return self.broken
        at = self.at
        knee = replace(
            self.broken.knee, requests_per_s=at.requests_per_s, concurrency=at.concurrency, bound=self.lacking
        )
        return replace(self.broken, knee=knee)


def size(ask: Ask, layout: Layout, most: int | None = None) -> Sized | Failure:
    """The layout sized for the whole load, or the first check that it fails; `most` accelerators are enough already."""
    measured = ask.measured(layout)
    profile = measured.profile if measured else None
    case = ask.case(layout, budget=_FIRST_BUDGET)
    memory = memory_use(case)
    if not memory.fits:
        return out_of_memory(ask, layout, memory)
    light = predict(case, ask.demand.lengths, Load(concurrency=1), profile)
    margin, goals = Margin.of(light), goals_of(ask, case, light, profile)
    budget = _budget(ask, case, 1.0, margin)
    failure = _alone(ask, layout, light, goals) or _first_step(ask, case, budget, margin, most)
    if failure or budget is None:
        return failure or no_budget(ask, case, margin)
    it = replica_of(ask, layout, budget.tokens, profile)
    it, broken = with_cache(ask, it, goals, _smaller(ask, case, budget, margin))
    if isinstance(broken, Wanted):
        return share_not_kept(ask, broken, it, margin) if it.memory.fits else out_of_memory(ask, layout, it.memory)
    fit = _enough(_Frame(ask, it, goals, margin), broken)
    if fit is None:
        return no_budget(ask, case, margin)
    return over_bounds(ask, layout, fit.replicas, fit.reach) or _finish(ask, fit, goals)


def _alone(ask: Ask, layout: Layout, light: Prediction, goals: Sequence[Goal]) -> Failure | None:
    """One request alone is already too slow."""
    margin = Margin.of(light)
    for goal in goals:
        wanted = goal.wanted
        tpot, ttft = light.tpot_s * margin.tpot, (light.ttft_s - goal.moved_s) * margin.ttft
        if tpot > wanted.limits.tpot_s:
            return too_slow(ask, layout, wanted, (tpot, margin.said("tpot")), "tpot")
        if ttft > wanted.limits.ttft_s:
            return too_slow(ask, layout, wanted, (ttft, margin.said("ttft")), "ttft")
    return None


def _first_step(ask: Ask, case: Case, budget: Budget | None, margin: Margin, most: int | None) -> Failure | None:
    """The largest budget beside a single sequence: there is one, long prompts are in time, and prefill alone does not
    take more than another layout."""
    if budget is None:
        return no_budget(ask, case, margin)
    late = _late_prompt(ask, budget, margin)
    if late:
        return prompt_too_long(ask, case.layout, late, budget, margin)
    return beaten(ask, case.layout, budget, most)


def _late_prompt(ask: Ask, budget: Budget, margin: Margin) -> Wanted | None:
    for wanted in ask.demand.wanted:
        if budget.prompt_s(wanted.long_prompt_tokens) * margin.tpot > wanted.limits.ttft_s:
            return wanted
    return None


def _smaller(ask: Ask, case: Case, budget: Budget, margin: Margin) -> list[int]:
    """Smaller budgets that still prefill long prompts in time, the larger first; none where the user pinned one."""
    if ask.question.pins.token_budget is not None:
        return []
    sizes = [tokens for tokens in reversed(BUDGETS) if tokens < budget.tokens]
    return [one for one in sizes if not _late_prompt(ask, budget_of(case, ask.demand, one, 1.0), margin)]


def _enough(frame: _Frame, broken: Break) -> _Fit | None:
    """The fewest replicas, from the knee's count on, at whose part of the load a token budget keeps everything. Fewer
    requests a replica never make that harder."""
    tried: dict[int, tuple[Replica, Break | Wanted]] = {frame.it.case.setup.token_budget or 0: (frame.it, broken)}
    low = _replicas(frame.ask, broken.knee)
    high, lacking = low, ""
    found = _keeps(frame, low, tried)
    while isinstance(found, str) and high < low * _MOST_TIMES:
        low, high, lacking = high, high * 2, found
        found = _keeps(frame, high, tried)
    while isinstance(found, _Fit) and high - low > 1:
        middle = (low + high) // 2
        fewer = _keeps(frame, middle, tried)
        if isinstance(fewer, _Fit):
            found, high = fewer, middle
        else:
            low, lacking = middle, fewer
    return replace(found, lacking=lacking) if isinstance(found, _Fit) else None


def _keeps(frame: _Frame, replicas: int, tried: dict[int, tuple[Replica, Break | Wanted]]) -> _Fit | str:
    """The largest budget whose full step is inside tpot at this part of the load, if with it prompts are prefilled as
    fast as they arrive, long ones are in time, and the load is below the knee; else what breaks, as in Knee.bound."""
    ask, part = frame.ask, _part(frame.ask, replicas)
    it, budget = frame.it, None
    for _ in range(_ROUNDS):
        at = loaded(it, part)
        budget = _budget(ask, it.case, at.running, frame.margin, it.case.setup.token_budget)
        if budget is None or budget.tokens == it.case.setup.token_budget:
            break
        if budget.tokens not in tried:
            smaller = replica_of(ask, it.case.layout, budget.tokens, it.profile)
            tried[budget.tokens] = smaller, break_of(ask, smaller, frame.goals)
        it = tried[budget.tokens][0]
    if budget is None or budget.tokens != it.case.setup.token_budget:
        return "tpot"
    broken = tried[budget.tokens][1]
    arrivals = ask.demand.total_rps / replicas if ask.demand.rps else at.requests_per_s
    if budget.prefill_tokens_per_s < arrivals * ask.demand.uncached_tokens or frame.late_prompt(budget):
        return "ttft"
    if isinstance(broken, Wanted):
        return "ttft"
    if _replicas(ask, broken.knee) > replicas or at.saturated:
        return broken.knee.bound
    inside = all(goal.inside(at) for goal in frame.goals)
    return _Fit(replicas, budget, it, broken, at) if inside else "ttft"


def _replicas(ask: Ask, knee: Knee) -> int:
    needed = ask.demand.replicas(max(knee.requests_per_s, 1e-9), max(knee.concurrency, 1e-9))
    return max(1, ask.question.bounds.min_replicas, ceil(min(needed, 1e9) - 1e-9))


def _finish(ask: Ask, fit: _Fit, goals: Sequence[Goal]) -> Sized:
    case, at = fit.it.case, fit.at
    reach = fit.reach if fit.lacking else named(ask, fit.it, goals, fit.broken)
    predicted = figures_at(reach.wanted, reach.knee, at, fit.budget.step_s)
    room = room_for(ask.candidate, case.layout)
    in_flight = in_flight_of(fit.it, fit.broken.knee, goals)
    settings = settings_of(ask, case, fit.budget, predicted, in_flight)
    return Sized(
        case=case,
        budget=fit.budget,
        replicas=fit.replicas,
        predicted=predicted,
        binding=fit.broken.wanted,
        running=at.running,
        shortfall=0 if room.replicas is None else max(0, fit.replicas - room.replicas),
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


def _budget(ask: Ask, case: Case, running: float, margin: Margin, most: int | None = None) -> Budget | None:
    """The user's budget, or the largest inside tpot, at most `most`."""
    pinned = ask.question.pins.token_budget
    if pinned is not None:
        return budget_of(case, ask.demand, pinned, running)
    budget = largest_budget(case, ask.demand, running, ask.demand.tpot_s / margin.tpot)
    if budget is not None and most is not None and budget.tokens > most:
        return budget_of(case, ask.demand, most, running)
    return budget
