"""TTFT and TPOT of one replica under load. Pure.

Continuous batching in its steady state: every request brings its prompt and then one token a step. With N requests
running and O output tokens each, a step sees N / O new prompts on average, so

    TPOT = decode step(N) + N / O × prompt's extra time.

A request waits for the step under way, for the prompts before it, and for its own prompt's steps. What does not fit
into the KV cache or under the sequence cap waits for a whole request to end (the cliff).
"""

from dataclasses import dataclass, replace

from modelfleet.core.perf.case import Case
from modelfleet.core.perf.constants import constants_for
from modelfleet.core.perf.prediction import MemoryUse, Prediction, Source
from modelfleet.core.perf.profile import Profile
from modelfleet.core.perf.steps import weigh
from modelfleet.core.perf.terms import Batch, step_terms
from modelfleet.core.perf.workload import Lengths, Load

_UNMEASURED = 0.4
"""Relative half-width of the 90 % interval until the fit states one."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The state of a replica in which `running` requests are served at the same time."""

    decode_s: float
    prompt_s: float
    """Extra time that one prompt costs the steps that it is prefilled in."""
    tpot_s: float
    prefill_share: float
    """Of the time, that goes to prompts."""


def predict(case: Case, lengths: Lengths, load: Load, profile: Profile | None = None) -> Prediction:
    """The times of `lengths` under `load`.

    ValueError when not exactly one of the load's two kinds is set, or a length or load is not above 0.
    """
    _check(lengths, load)
    memory = room(case, profile)
    if load.concurrency is not None:
        return _closed(case, lengths, load.concurrency, memory, profile)
    return _open(case, lengths, load.requests_per_s or 0.0, memory, profile)


def _check(lengths: Lengths, load: Load) -> None:
    if (load.concurrency is None) == (load.requests_per_s is None):
        raise ValueError("a load has either a concurrency or a rate of requests, exactly one of the two")
    value = load.concurrency if load.concurrency is not None else load.requests_per_s
    if not value or not 0 < value < float("inf"):
        raise ValueError(f"the load is {value}: write a number above 0")
    if not lengths.input_tokens > 0 or not lengths.output_tokens > 0:
        raise ValueError("input and output tokens have to be above 0")


def room(case: Case, profile: Profile | None) -> MemoryUse:
    """The memory of `case`, with the measured KV room where the profile has one."""
    memory = _unbounded()
    if profile and profile.kv_tokens is not None:
        memory = replace(memory, kv_tokens=profile.kv_tokens, reason=f"{profile.kv_tokens} KV tokens, as measured")
    return memory


def _unbounded() -> MemoryUse:
    return MemoryUse(
        budget_bytes=0,
        weights_bytes=0,
        activation_bytes=0,
        graphs_bytes=0,
        other_bytes=0,
        kv_bytes=0,
        kv_bytes_per_token=0,
        kv_bytes_per_sequence=0,
        kv_tokens=1 << 40,
        reason="memory is not accounted for yet",
    )


def most_running(case: Case, lengths: Lengths, memory: MemoryUse) -> float:
    """Requests that run at the same time at most: a running one holds its input and, on average, half its output."""
    held = lengths.input_tokens + lengths.output_tokens / 2
    most = max(memory.kv_tokens / held, 0.0)
    cap = case.setup.sequence_cap
    return min(most, float(cap * case.layout.data)) if cap else most


def pace(case: Case, lengths: Lengths, running: float, profile: Profile | None) -> Pace:
    """Step times with `running` requests served at the same time."""
    constants = constants_for(case.setup.engine)
    stages = case.layout.pipeline
    batch = running / stages
    context = lengths.input_tokens + lengths.output_tokens / 2
    decoding = Batch(decode_sequences=batch, decode_context_tokens=context)
    prompt = max(lengths.input_tokens - lengths.shared_prefix_tokens, 1.0)
    mixed = replace(decoding, prefill_tokens=prompt, prefill_context_tokens=lengths.shared_prefix_tokens)
    decode = weigh(step_terms(case, decoding), constants).total_s
    both = weigh(step_terms(case, mixed), constants, prompts=1.0).total_s
    factor = profile or Profile()
    prompt_s = (both - decode) * factor.prefill
    decode_s = decode * factor.decode
    extra = running / lengths.output_tokens * prompt_s / (stages * case.layout.data)
    tpot = decode_s + extra
    return Pace(decode_s=decode_s, prompt_s=prompt_s, tpot_s=tpot, prefill_share=extra / tpot)


def _ttft(case: Case, now: Pace, running: float) -> float:
    k = constants_for(case.setup.engine)
    busy = min(now.prefill_share, 0.95)
    waiting = k.queue * busy * now.prompt_s / (2 * (1 - busy))
    burst = k.burst * max(running - 1, 0.0) / 2 * now.prompt_s / case.layout.data
    return (
        k.prompt_s + (1 + k.residual) * now.decode_s + now.prompt_s + min(waiting, running / 2 * now.prompt_s) + burst
    )


def _closed(case: Case, lengths: Lengths, concurrency: float, memory: MemoryUse, profile: Profile | None) -> Prediction:
    most = most_running(case, lengths, memory)
    running = max(min(concurrency, most), 1e-9)
    now = pace(case, lengths, running, profile)
    served = _ttft(case, now, running)
    generation = now.tpot_s * max(lengths.output_tokens - 1, 1.0)
    waits = max(concurrency / running - 1, 0.0) * (generation + served)
    rate = concurrency / (served + generation + waits)
    reason = f"{running:.0f} of {concurrency:.0f} requests run at the same time"
    return _prediction(now, served + waits, rate, concurrency, running, lengths, memory, profile, reason)


def _open(case: Case, lengths: Lengths, rate: float, memory: MemoryUse, profile: Profile | None) -> Prediction:
    """Concurrency by Little's law: the least N at which N / time(N) is the rate."""
    most = most_running(case, lengths, memory)
    low, high = 0.0, max(min(most, 65536.0), 1.0)
    if _rate(case, lengths, high, profile) <= rate:
        full = _closed(case, lengths, high, memory, profile)
        return replace(full, saturated=True, ttft_s=max(full.ttft_s, 60.0), ttft_p95_s=max(full.ttft_p95_s, 60.0))
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _rate(case, lengths, middle, profile) < rate else (low, middle)
    return _closed(case, lengths, high, memory, profile)


def _rate(case: Case, lengths: Lengths, running: float, profile: Profile | None) -> float:
    now = pace(case, lengths, running, profile)
    return running / (_ttft(case, now, running) + now.tpot_s * max(lengths.output_tokens - 1, 1.0))


def _prediction(  # noqa: PLR0913
    now: Pace,
    ttft: float,
    rate: float,
    concurrency: float,
    running: float,
    lengths: Lengths,
    memory: MemoryUse,
    profile: Profile | None,
    reason: str,
) -> Prediction:
    measured = profile is not None and profile.samples > 0
    return Prediction(
        ttft_s=ttft,
        tpot_s=now.tpot_s,
        ttft_p95_s=ttft * 2,
        tpot_p95_s=now.tpot_s * 1.3,
        concurrency=concurrency,
        running=running,
        requests_per_s=rate,
        output_tokens_per_s=rate * lengths.output_tokens,
        memory=memory,
        saturated=running < concurrency,
        source=Source.MEASURED if measured else Source.PREDICTED,
        reason=reason,
        uncertainty=_UNMEASURED,
    )
