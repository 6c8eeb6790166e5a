"""What all policies share in a simulation: the engine of one replica, its measured knee, the site, and the trace."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from random import Random

from modelfleet.core.layout.admission import decide_admission
from modelfleet.core.perf.case import Case, Limits
from modelfleet.core.perf.knee import find_knee
from modelfleet.core.perf.memory import memory_use
from modelfleet.core.perf.overload import most_in_flight
from modelfleet.core.perf.pace import sequence_cap, token_budget
from modelfleet.core.perf.serving import replica
from modelfleet.core.perf.workload import Lengths
from modelfleet.core.scaling.policy import Terms
from modelfleet.core.scaling.terms import ANSWER_TOKENS, cold_start_s
from modelfleet.sim.capacity import Promise, measured_knee_rps
from modelfleet.sim.engine import EngineSpec
from modelfleet.sim.fleet import Routing, Site
from modelfleet.sim.pace import Pace
from modelfleet.sim.peers.serving import Known
from modelfleet.sim.requests import Request
from modelfleet.sim.traces import Trace

_PROBE_SEQUENCES = 16
ADMISSION_SINCE = "0.32"
"""The first vLLM with admission flags."""


class WorldError(ValueError):
    """A simulation that makes no sense; the message is a sentence for the user."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a user chooses besides model, class and trace. `capacity_error` is the largest relative error of the
    capacity that policies are told, drawn by the seed, and the uncertainty that the plan's limits stand at the slow end
    of. `warm_start_s` and `supply` are as in Site."""

    promise: Promise
    cold_start_s: float = 180.0
    min_replicas: int = 1
    max_replicas: int = 64
    capacity_error: float = 0.2
    failures_per_hour: float = 0.0
    routing: Routing = Routing.RANDOM
    warm_start_s: float | None = None
    supply: int | None = None
    admission: bool = True
    """Engines answer 503 above a plan's limits; else everything queues."""


@dataclass(frozen=True, kw_only=True)
class World:
    """`knee_rps`, `knee_in_flight` and `prompt_part` are the truth of one replica; `known` is what rules of peers are
    told."""

    trace: Trace
    setting: Setting
    site: Site
    known: Known
    knee_rps: float
    knee_in_flight: float
    prompt_part: float

    def believed_knee_rps(self, seed: int) -> float:
        """The knee as a policy is told it: wrong by up to the setting's error."""
        error = self.setting.capacity_error
        return self.knee_rps * Random(seed).uniform(1 - error, 1 + error)

    def terms(self, seed: int, share: float) -> Terms:
        """What our policy is told, aiming at `share`: what the operator takes from a plan (core/scaling/terms.py), with
        the knee of `believed_knee_rps`. A start is guessed until one was seen."""
        requests = self.trace.requests
        shared = sum(one.prefix_tokens for one in requests) / len(requests)
        prompt = max(1.0, self.known.input_tokens - shared)
        return Terms(
            knee_rps=self.believed_knee_rps(seed),
            share=share,
            mean_input_tokens=self.known.input_tokens,
            mean_output_tokens=self.known.output_tokens,
            prompt_part=prompt / (prompt + ANSWER_TOKENS * self.known.output_tokens),
            cold_start_s=cold_start_s(()),
            min_replicas=self.setting.min_replicas,
            max_replicas=self.setting.max_replicas,
        )

    def work(self, request: Request) -> float:
        """A request in requests of the mean lengths."""
        known, part = self.known, self.prompt_part
        prompt, answer = request.input_tokens / known.input_tokens, request.output_tokens / known.output_tokens
        return part * prompt + (1 - part) * answer


def build(case: Case, trace: Trace, setting: Setting) -> World:
    """The world of a case under a trace. Raises WorldError where no load keeps the promise."""
    memory = memory_use(case)
    if not memory.fits:
        raise WorldError(f"{case.facts.name} does not fit {case.hardware.name} in {case.layout}: {memory.reason}")
    budget = int(token_budget(case) * case.layout.data)
    open_engine = EngineSpec(
        pace=Pace(case),
        kv_tokens=memory.kv_tokens,
        sequence_cap=max(1, int(min(sequence_cap(case), 1024))),
        token_budget=budget,
    )
    knee = measured_knee_rps(open_engine, trace.requests, setting.promise, seed=1)
    if not knee:
        raise WorldError(
            f"{case.facts.name} on {case.hardware.name} in {case.layout} does not keep ttft"
            f" {setting.promise.ttft_s:g} s and tpot {setting.promise.tpot_s * 1000:g} ms for"
            f" {setting.promise.share:.3g} of the trace's requests even one at a time; relax the promise, or give"
            " another --class or --tensor"
        )
    known = _known(open_engine, trace.requests, setting.promise)
    prompt_s = known.input_tokens / known.prompt_tokens_per_s
    answer_s = known.output_tokens * known.decode_step_s / known.decode_batch
    in_flight = max(0.3, knee * (prompt_s + known.output_tokens * known.decode_step_s))
    engine = open_engine
    if setting.admission:
        engine = _limited(case, open_engine, known, setting, in_flight)
        knee = measured_knee_rps(engine, trace.requests, setting.promise, seed=1) or knee
    mean_rps = len(trace.requests) / trace.duration_s
    first = min(max(ceil(mean_rps / knee), setting.min_replicas), setting.max_replicas, setting.supply or 10_000)
    site = Site(
        engine=engine,
        accelerators_per_replica=case.layout.accelerators,
        min_replicas=setting.min_replicas,
        max_replicas=setting.max_replicas,
        first_replicas=first,
        cold_start_s=setting.cold_start_s,
        warm_start_s=setting.warm_start_s,
        supply=setting.supply,
        failures_per_hour=setting.failures_per_hour,
        routing=setting.routing,
    )
    return World(
        trace=trace,
        setting=setting,
        site=site,
        known=known,
        knee_rps=knee,
        knee_in_flight=in_flight,
        prompt_part=prompt_s / (prompt_s + answer_s),
    )


def _limited(case: Case, engine: EngineSpec, known: Known, setting: Setting, in_flight: float) -> EngineSpec:
    """With the admission limits that a plan gives it; a whole step's prompts are always let in. `in_flight` at the
    measured knee is the limit where the planner sees no load that keeps the promise."""
    promise = setting.promise
    flags = decide_admission(
        ADMISSION_SINCE,
        ttft_s=promise.ttft_s,
        prefill_s=known.input_tokens / known.prompt_tokens_per_s,
        prefill_tokens_per_s=known.prompt_tokens_per_s,
        in_flight=_planned_in_flight(case, known, setting) or ceil(in_flight),
    ).flags
    tokens, requests = int(flags["max-num-queued-tokens"]), int(flags["max-num-queued-reqs"])
    return replace(engine, queued_tokens=max(engine.token_budget, tokens), in_flight=requests)


def _planned_in_flight(case: Case, known: Known, setting: Setting) -> int | None:
    """A plan stands at the pessimistic end of what is uncertain, here the error of the capacity that policies are told;
    where that keeps no promise, at what is predicted."""
    lengths = Lengths(input_tokens=known.input_tokens, output_tokens=known.output_tokens)
    promise = setting.promise
    for slow in (1 + setting.capacity_error, 1.0):
        limits = Limits(ttft_s=promise.ttft_s / slow, tpot_s=promise.tpot_s / slow, share=promise.share)
        knee = find_knee(case, lengths, limits)
        if knee:
            return most_in_flight(replica(case, lengths), knee, [limits])
    return None


def _known(engine: EngineSpec, requests: Sequence[Request], promise: Promise) -> Known:
    count = len(requests)
    prompt = sum(one.input_tokens for one in requests) / count
    answer = sum(one.output_tokens for one in requests) / count
    whole = engine.pace.step(engine.token_budget, _PROBE_SEQUENCES)
    context = prompt + answer / 2
    batch = 1
    while batch < engine.sequence_cap and _step_s(engine, batch + 1, context) <= promise.tpot_s:
        batch += 1
    return Known(
        ttft_s=promise.ttft_s,
        tpot_s=promise.tpot_s,
        input_tokens=prompt,
        output_tokens=answer,
        kv_tokens=engine.kv_tokens,
        sequence_cap=engine.sequence_cap,
        token_budget=engine.token_budget,
        prompt_tokens_per_s=engine.token_budget / whole.base_s,
        decode_batch=float(batch),
        decode_step_s=_step_s(engine, batch, context),
    )


def _step_s(engine: EngineSpec, batch: int, context: float) -> float:
    line = engine.pace.step(0, batch)
    return line.base_s + line.per_context_token_s * batch * context
