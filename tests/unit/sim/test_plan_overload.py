"""The plan's own admission flags on a simulated engine: overload keeps goodput, and the knee is hardly refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from random import Random
from statistics import NormalDist

import pytest

from modelfleet.core.layout import choose
from modelfleet.core.layout.answer import Pool
from modelfleet.core.layout.question import LengthRegime, Question
from modelfleet.core.perf.case import Case
from modelfleet.sim.engine import EngineSpec
from modelfleet.sim.pace import Pace
from modelfleet.sim.requests import End, Outcome, Request
from questions import SMALL, objective, on, question, variants
from sim_worlds import served

REQUESTS = 4000
FIXED = {
    "input_p50_tokens": 3000,
    "input_p95_tokens": 3000,
    "output_p50_tokens": 300,
    "output_p95_tokens": 300,
}
QUESTIONS = [
    pytest.param(
        question(objectives=(objective(tpot_s=0.05, load_rps=30.0),)), id="chat, where tokens come too slowly"
    ),
    pytest.param(
        question(objectives=(objective(ttft_s=2.0, tpot_s=0.03, load_rps=30.0, **FIXED),)),
        id="long prompts, all of one length",
    ),
    pytest.param(
        question(
            candidates=(on(SMALL),),
            objectives=(objective(ttft_s=4.0, tpot_s=0.15, input_p50_tokens=300, input_p95_tokens=900),),
        ),
        id="a small accelerator, where first tokens are late",
    ),
    pytest.param(
        question(
            variants=variants("Llama-3.3-70B-Instruct"),
            objectives=(objective(ttft_s=2.0, tpot_s=0.06, load_rps=4.0),),
        ),
        id="a sharded model",
    ),
]


@dataclass(frozen=True)
class Stand:
    """An engine as a plan starts it, and what it is promised."""

    asked: Question
    pool: Pool

    def goodput(self, times_knee: float, slower: float) -> tuple[float, float]:
        """Good requests over those that the knee has, and the share that was refused, when arrivals are so many times
        the plan's knee and every step takes `slower` times what was predicted."""
        rate_rps = times_knee * self.pool.predicted.knee_rps
        ends = self._ends(rate_rps, slower)
        promise = self.asked.objectives[0]
        good = sum(one.inside(promise.ttft_s, promise.tpot_s) for one in ends) / len(ends)
        refused = sum(one.end is End.REFUSED for one in ends) / len(ends)
        return times_knee * good / self.pool.predicted.share, refused

    def _ends(self, rate_rps: float, slower: float) -> Sequence[Outcome]:
        random, now_s, requests = Random(2), 0.0, []
        lengths = self.asked.objectives[0].lengths
        for _ in range(REQUESTS):
            now_s += random.expovariate(rate_rps)
            requests.append(Request(now_s, *_lengths(lengths, random, self.asked.max_context_tokens // 2)))
        return served(self._engine(slower), requests)[0]

    def _engine(self, slower: float) -> EngineSpec:
        pool, flags = self.pool, self.pool.flags
        hardware = next(one.hardware for one in self.asked.candidates if one.name == pool.class_name)
        case = Case(facts=pool.facts, hardware=hardware, layout=pool.layout, setup=pool.setup)
        return EngineSpec(
            pace=Pace(case, slower),
            kv_tokens=pool.predicted.kv_tokens,
            sequence_cap=int(flags["max-num-seqs"]),
            token_budget=int(flags["max-num-batched-tokens"]),
            queued_tokens=int(flags["max-num-queued-tokens"]),
            in_flight=int(flags["max-num-queued-reqs"]),
        )


def _lengths(regime: LengthRegime, random: Random, most: int) -> tuple[int, int]:
    """Log-normal between the stated percentiles, as the planner takes them."""

    def one(p50: int, p95: int) -> int:
        sigma = log(p95 / p50) / NormalDist().inv_cdf(0.95)
        return max(1, min(most, round(exp(log(p50) + sigma * random.gauss(0.0, 1.0)))))

    return one(regime.input_p50_tokens, regime.input_p95_tokens), one(
        regime.output_p50_tokens, regime.output_p95_tokens
    )


def stand(asked: Question) -> Stand:
    best = choose.answer(asked).chosen
    assert best is not None
    return Stand(asked, best.pool)


@pytest.mark.parametrize("asked", QUESTIONS)
def test_twice_the_knee_keeps_nine_tenths_of_its_goodput_and_few_are_refused_at_the_knee(asked: Question) -> None:
    it = stand(asked)
    overload, turned_away = it.goodput(2.0, slower=1.0)
    _, refused = it.goodput(1.0, slower=1.0)

    assert overload >= 0.9
    assert turned_away > 0.3
    assert refused <= 0.05


@pytest.mark.parametrize("asked", QUESTIONS)
def test_an_engine_at_the_slow_end_does_not_collapse_at_twice_the_plans_knee(asked: Question) -> None:
    it = stand(asked)
    slow = 1 + it.pool.predicted.uncertainty

    assert it.goodput(2.0, slower=slow)[0] >= 0.9 * it.goodput(1.0, slower=slow)[0]
