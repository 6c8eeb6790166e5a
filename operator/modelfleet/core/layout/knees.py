"""The knee of one replica for all objectives: which binds, and with which token budget it is highest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Self

from modelfleet.core.layout.answer import Predicted
from modelfleet.core.layout.ask import MOST_SEQUENCES, Ask
from modelfleet.core.layout.demand import Wanted
from modelfleet.core.layout.settings import sequence_cap
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.wording import percent
from modelfleet.core.perf.case import Case, Limits
from modelfleet.core.perf.knee import find_knee
from modelfleet.core.perf.overload import most_in_flight
from modelfleet.core.perf.prediction import Knee, Prediction
from modelfleet.core.perf.profile import Profile
from modelfleet.core.perf.serving import Replica, predict, replica
from modelfleet.core.perf.workload import Load

_TELLING = 1.1
"""Times the load that twice the cache has to carry before the cache counts as what ends first."""


@dataclass(frozen=True)
class Margin:
    """What times are multiplied by, or limits divided by, to stand at the pessimistic end."""

    ttft: float
    tpot: float

    @classmethod
    def of(cls, at: Prediction) -> Self:
        """From the half-widths of a prediction."""
        return cls(ttft=1 + at.ttft_uncertainty, tpot=1 + at.uncertainty)

    def said(self, key: str) -> str:
        """How far the slow end is, for sentences about `ttft` or `tpot`."""
        return f"at the slow end of ±{percent((self.ttft if key == 'ttft' else self.tpot) - 1)}"


@dataclass(frozen=True)
class Break:
    """The knee of the objective that allows least."""

    knee: Knee
    wanted: Wanted


def replica_of(ask: Ask, layout: Layout, tokens: int, profile: Profile | None) -> Replica:
    """The layout with a token budget, and the sequence cap that its KV cache then allows."""
    cap = sequence_cap(ask, ask.case(layout, budget=tokens))
    return replica(ask.case(layout, budget=tokens, cap=cap), ask.demand.lengths, profile)


@dataclass(frozen=True)
class Goal:
    """One objective as the mixture has to keep it, at the pessimistic end.

    Its request waits as one of the mixture does and is prefilled as itself: the limit for the mixture's first token is
    its own plus `moved_s`, by which the two differ when alone.
    """

    wanted: Wanted
    limits: Limits
    moved_s: float

    def inside(self, at: Prediction) -> bool:
        """Whether the predicted times at the wanted share are inside the promise, without the margin."""
        promised = self.wanted.limits
        ttft_s, tpot_s = at_share(at, promised.share)
        return ttft_s <= promised.ttft_s + self.moved_s and tpot_s <= promised.tpot_s


def goals_of(ask: Ask, case: Case, light: Prediction, profile: Profile | None) -> tuple[Goal, ...]:
    """The goals of all objectives; `light` is one request of the mixture alone."""
    margin = Margin.of(light)
    goals = []
    for wanted in ask.demand.wanted:
        limits, alone = wanted.limits, light
        if len(ask.demand.wanted) > 1:
            alone = predict(case, wanted.lengths, Load(concurrency=1), profile)
        moved = light.ttft_s - alone.ttft_s
        ttft_s, tpot_s = limits.ttft_s / margin.ttft + moved, limits.tpot_s / margin.tpot
        goals.append(Goal(wanted, Limits(ttft_s=ttft_s, tpot_s=tpot_s, share=limits.share), moved))
    return tuple(goals)


def with_cache(ask: Ask, it: Replica, goals: Sequence[Goal], sizes: Sequence[int]) -> tuple[Replica, Break | Wanted]:
    """The replica with the budget whose activation leaves enough KV cache: where requests wait for the cache, or no
    load keeps the promise at all, a smaller budget, one of `sizes`, may carry more. An objective, where no load keeps
    it with any of them; the replica then is the first that fits, if there is one."""
    best, broken = it, break_of(ask, it, goals)
    for tokens in sizes:
        if not _starved(ask, best, broken):
            break
        smaller = replica_of(ask, it.case.layout, tokens, it.profile)
        # Without a knee `most` tells nothing: memory that does not fit has one too.
        less = break_of(ask, smaller, goals) if isinstance(broken, Wanted) or smaller.most > best.most else broken
        if _rate(less) > _rate(broken) or not best.memory.fits:
            best, broken = smaller, less
    return best, broken


def break_of(ask: Ask, it: Replica, goals: Sequence[Goal]) -> Break | Wanted:
    """The knee of the binding objective; the objective that no load keeps, if there is one."""
    found: list[Break] = []
    for goal in goals:
        knee = find_knee(it.case, ask.demand.lengths, goal.limits, it.profile) if goal.limits.ttft_s > 0 else None
        if knee is None:
            return goal.wanted
        found.append(Break(knee, goal.wanted))
    least = min(found, key=lambda one: one.knee.requests_per_s)
    measured_rps = it.profile.knee_rps if it.profile else None
    return least if measured_rps is None else replace(least, knee=_at_rate(least.knee, measured_rps))


def _at_rate(knee: Knee, rps: float) -> Knee:
    """A knee that was measured: as many in flight as the predicted one has at its rate."""
    return replace(knee, requests_per_s=rps, concurrency=knee.concurrency * rps / knee.requests_per_s, measured=True)


def in_flight_of(it: Replica, knee: Knee, goals: Sequence[Goal]) -> int:
    """How many requests in flight overload may hold. Goodput above the knee is predicted, so it is weighed against the
    predicted knee; one that was measured lower takes its part off."""
    at = knee.at
    predicted = replace(knee, requests_per_s=at.requests_per_s, concurrency=at.concurrency)
    most = most_in_flight(it, predicted, [goal.limits for goal in goals])
    return max(1, ceil(most * min(1.0, knee.requests_per_s / at.requests_per_s)))


def named(ask: Ask, it: Replica, goals: Sequence[Goal], broken: Break) -> Break:
    """Waiting for room in the cache shows as a late first token or as the end of throughput: where twice the cache
    would carry a tenth more, it is the cache that ends first."""
    if not _kv_limited(ask, it) or broken.knee.bound in ("kv", "tpot"):
        return broken
    case = replace(it.case, setup=replace(it.case.setup, sequence_cap=2 * (it.case.setup.sequence_cap or 1)))
    twice = replace(it.profile or Profile(), kv_tokens=2 * it.memory.kv_tokens)
    more = break_of(ask, replace(it, case=case, profile=twice), goals)
    if _rate(more) < _TELLING * broken.knee.requests_per_s:
        return broken
    return replace(broken, knee=replace(broken.knee, bound="kv"))


def _rate(broken: Break | Wanted) -> float:
    return broken.knee.requests_per_s if isinstance(broken, Break) else 0.0


def _starved(ask: Ask, it: Replica, broken: Break | Wanted) -> bool:
    """Requests wait for the KV cache, which shows in the first token too; or it leaves room for no load at all."""
    return isinstance(broken, Wanted) or (_kv_limited(ask, it) and broken.knee.bound != "tpot")


def _kv_limited(ask: Ask, it: Replica) -> bool:
    """Whether the cache decides how many run: itself, or the sequence cap that was made from it."""
    setup = it.case.setup
    ours = ask.question.pins.sequence_cap is None and setup.sequence_cap not in (MOST_SEQUENCES, setup.token_budget)
    return it.bound == "kv" or (it.bound == "cap" and ours)


def at_share(at: Prediction, share: float) -> tuple[float, float]:
    """The TTFT and TPOT that `share` of the requests stay below; the 95th percentiles where no spread is known."""
    if at.spread is None:
        return at.ttft_p95_s, at.tpot_p95_s
    return at.spread.ttft_at(share), at.spread.tpot_at(share)


def figures_at(wanted: Wanted, knee: Knee, at: Prediction, step_s: float) -> Predicted:
    """What a plan tells of a replica under the load of `at`, with the knee of its binding objective. `step_s` is its
    longest step, and so the longest gap between two tokens."""
    share = wanted.limits.share
    ttft_at_share_s, tpot_at_share_s = at_share(at, share)
    return Predicted(
        objective=wanted.objective.name,
        ttft_s=at.ttft_s,
        tpot_s=at.tpot_s,
        ttft_at_share_s=ttft_at_share_s,
        tpot_at_share_s=tpot_at_share_s,
        share=share,
        concurrency=at.concurrency,
        requests_per_s=at.requests_per_s,
        output_tokens_per_s=at.output_tokens_per_s,
        knee_rps=knee.requests_per_s,
        knee_concurrency=knee.concurrency,
        knee_bound=knee.bound,
        knee_measured=knee.measured,
        kv_tokens=at.memory.kv_tokens,
        memory=at.memory,
        step_s=step_s,
        worst_gap_s=step_s,
        uncertainty=at.uncertainty,
        ttft_uncertainty=at.ttft_uncertainty,
        source=at.source,
        reason=at.reason,
    )
