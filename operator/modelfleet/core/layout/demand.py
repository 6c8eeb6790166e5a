"""The promise as arithmetic: mean lengths, limits of each objective, and the load of the whole deployment. Pure.

Objectives share the replicas, so every request meets the queue that all of them make: lengths are those of the mixture,
limits are each objective's own, and the objective that allows least is the binding one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log
from statistics import NormalDist

from modelfleet.core.layout.question import LengthRegime, Objective, Question, context_of
from modelfleet.core.perf.case import Limits
from modelfleet.core.perf.workload import Lengths

_Z95 = NormalDist().inv_cdf(0.95)
_WIDEST = 12.0
"""Beyond it exp(σ²/2) and the share that it is multiplied with leave what a float can hold; their product is small."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One objective: its limits, and the rate that its load amounts to (for one that states a concurrency: the rate at
    which its requests would come if each took just what the promise allows)."""

    index: int
    objective: Objective
    limits: Limits
    lengths: Lengths
    """Of this objective's own requests."""
    long_prompt_tokens: float
    """What has to be prefilled of the longest prompt that must be in time: the 95th percentile, or that of the share
    where it is lower."""
    rps: float


@dataclass(frozen=True, kw_only=True)
class Demand:
    """All objectives together. `rps` and `concurrency` add up those that state the one and the other."""

    wanted: tuple[Wanted, ...]
    lengths: Lengths
    rps: float
    concurrency: float
    longest_tokens: int
    """The longest context that the regime allows to be inside the promise: p95 of input and output together."""

    @property
    def tpot_s(self) -> float:
        """The shortest of the objectives' tpot."""
        return min(one.limits.tpot_s for one in self.wanted)

    @property
    def context_tokens(self) -> float:
        """Mean context of a sequence that decodes: its input and half of its output."""
        return self.lengths.input_tokens + self.lengths.output_tokens / 2

    @property
    def uncached_tokens(self) -> float:
        """Input tokens of a mean request that have to be prefilled."""
        return max(1.0, self.lengths.input_tokens - self.lengths.shared_prefix_tokens)

    @property
    def total_rps(self) -> float:
        """The rate of all objectives together, stated concurrencies turned into rates."""
        return sum(one.rps for one in self.wanted)

    def replicas(self, knee_rps: float, knee_concurrency: float) -> float:
        """Replicas for the whole load, as a fraction, with what one of them takes."""
        return self.rps / knee_rps + (self.concurrency / knee_concurrency if self.concurrency else 0.0)


def mean_tokens(p50: float, p95: float, most: float = inf) -> float:
    """The mean of a log-normal length with these percentiles: p50 × exp(σ²/2), σ = ln(p95/p50)/1.645. At most p95,
    since lengths end somewhere.

    Where `most` is below p95, lengths are cut there: the mean of min(length, most), which is
    p50 × exp(σ²/2) Φ(z - σ) + most (1 - Φ(z)) with z = ln(most/p50)/σ.
    """
    sigma = log(max(p95, p50) / p50) / _Z95
    if most < p95 and sigma > 0:
        z, normal = log(most / p50) / sigma, NormalDist()
        within = exp(sigma * sigma / 2) * normal.cdf(z - sigma) if sigma < _WIDEST else 0.0
        return min(p50 * within + most * (1 - normal.cdf(z)), most)
    return min(p50 * exp(sigma * sigma / 2), max(p95, p50), most)


def demand_of(question: Question) -> Demand:
    """The demand of a question whose numbers make sense. The context limit cuts prompts and answers."""
    limit = context_of(question, min(one.facts.max_context_tokens for one in question.variants))
    wanted = tuple(_wanted(index, one, limit) for index, one in enumerate(question.objectives))
    rps = sum(one.rps for one in wanted if one.objective.load_rps is not None)
    concurrency = sum(one.objective.load_concurrency or 0.0 for one in wanted)
    lengths = _mixture([(one.rps, _cut(one.objective.lengths, limit)) for one in wanted])
    longest = max(o.lengths.input_p95_tokens + o.lengths.output_p95_tokens for o in question.objectives)
    return Demand(
        wanted=wanted, lengths=lengths, rps=rps, concurrency=concurrency, longest_tokens=min(longest, max(limit, 1))
    )


@dataclass(frozen=True, kw_only=True)
class _Cut:
    """A regime inside the context limit: a prompt leaves room for one token at least, an answer has what a prompt
    leaves."""

    input_tokens: float
    output_tokens: float
    input_percentiles: tuple[float, float]
    """p50 and p95."""
    output_percentiles: tuple[float, float]
    shared_prefix_tokens: float


def _cut(regime: LengthRegime, limit: int) -> _Cut:
    longest = max(1, min(limit - 1, regime.input_max_tokens or limit))
    p50, p95 = regime.input_p50_tokens, regime.input_p95_tokens
    mean = mean_tokens(p50, p95, longest)
    short, long = regime.output_p50_tokens, regime.output_p95_tokens
    return _Cut(
        input_tokens=mean,
        output_tokens=mean_tokens(short, long, max(1.0, limit - mean)),
        input_percentiles=(p50, max(p50, min(p95, longest))),
        output_percentiles=(short, max(short, min(long, limit - p50))),
        shared_prefix_tokens=regime.shared_prefix_tokens,
    )


def _wanted(index: int, objective: Objective, limit: int) -> Wanted:
    limits = Limits(ttft_s=objective.ttft_s, tpot_s=objective.tpot_s, share=objective.share)
    cut = _cut(objective.lengths, limit)
    if objective.load_rps is not None:
        rps = objective.load_rps
    else:
        rps = (objective.load_concurrency or 1.0) / (objective.ttft_s + cut.output_tokens * objective.tpot_s)
    return Wanted(
        index=index,
        objective=objective,
        limits=limits,
        lengths=_mixture([(rps, cut)]),
        long_prompt_tokens=_long_prompt(objective, limit),
        rps=rps,
    )


def _long_prompt(objective: Objective, limit: int) -> float:
    regime = objective.lengths
    p50, p95 = regime.input_p50_tokens, regime.input_p95_tokens
    deviations = NormalDist().inv_cdf(min(objective.share, 0.95)) / _Z95
    longest = min(p50 * exp(deviations * log(p95 / p50)), max(p50, limit - 1))
    return max(1.0, longest - regime.shared_prefix_tokens)


def _mixture(rates: Sequence[tuple[float, _Cut]]) -> Lengths:
    """Lengths of all requests together, weighted by rate."""
    total = sum(rps for rps, _ in rates)
    parts = [(rps / total, cut) for rps, cut in rates]
    return Lengths(
        input_tokens=sum(weight * cut.input_tokens for weight, cut in parts),
        output_tokens=sum(weight * cut.output_tokens for weight, cut in parts),
        input_p95_tokens=_p95([(weight, *cut.input_percentiles) for weight, cut in parts]),
        output_p95_tokens=_p95([(weight, *cut.output_percentiles) for weight, cut in parts]),
        shared_prefix_tokens=sum(weight * cut.shared_prefix_tokens for weight, cut in parts),
    )


def _p95(parts: Sequence[tuple[float, float, float]]) -> float:
    """The 95th percentile of a mixture of log-normals (weight, p50, p95), by bisection."""
    low, high = min(p50 for _, p50, _ in parts), max(p95 for _, _, p95 in parts)
    if len(parts) == 1 or low >= high:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        below = sum(weight * _below(middle, p50, p95) for weight, p50, p95 in parts)
        low, high = (middle, high) if below < 0.95 else (low, middle)
    return high


def _below(value: float, p50: float, p95: float) -> float:
    if p95 <= p50:
        return 1.0 if value >= p50 else 0.0
    return NormalDist(log(p50), log(p95 / p50) / _Z95).cdf(log(value))
