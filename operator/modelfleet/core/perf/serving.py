"""TTFT and TPOT of one replica under load. Pure.

The pace of the requests that run is in `pace`. What does not fit into the KV cache, under the sequence cap or into the
steps' token budget waits for a whole request to end (the cliff): in a closed loop by Little's law, in an open loop as
in a queue with as many servers as requests can run (`tails`).
"""

from dataclasses import dataclass, replace

from modelfleet.core.perf.case import Case
from modelfleet.core.perf.constants import half_widths
from modelfleet.core.perf.memory import max_concurrent_sequences, memory_use
from modelfleet.core.perf.pace import (
    PLAIN,
    Course,
    Factors,
    Pace,
    course,
    held_tokens,
    prompts_at_once,
    sequence_cap,
    token_budget,
)
from modelfleet.core.perf.prediction import MemoryUse, Prediction, Source
from modelfleet.core.perf.profile import Profile
from modelfleet.core.perf.spread import Spread
from modelfleet.core.perf.tails import closed_spread, open_spread, overloaded_spread, waiting
from modelfleet.core.perf.workload import Lengths, Load

_MOST = 65536.0
"""Running requests where nothing bounds them."""
OVERLOAD_S = 300.0
"""How long an overload is taken to last where a mean wait is asked for: the window that a promise is kept in."""


@dataclass(frozen=True, kw_only=True)
class Replica:
    """A case with its room, worked out once for many loads."""

    case: Case
    lengths: Lengths
    profile: Profile | None
    course: Course
    memory: MemoryUse
    most: float
    """Requests that can run at the same time."""
    bound: str
    """What bounds them: `kv`, `cap` or `budget`."""

    @property
    def factors(self) -> Factors:
        """The profile's corrections."""
        return self.profile.factors if self.profile else PLAIN

    def pace(self, running: float) -> Pace:
        """The pace of `running` requests."""
        return self.course.at(max(running, 1e-9))


def predict(case: Case, lengths: Lengths, load: Load, profile: Profile | None = None) -> Prediction:
    """The times of `lengths` under `load`.

    A closed loop is as benchmarks run it: all users start at once and each sends about ten requests. Where the engine
    would not start, the times are of one request at a time. ValueError when not exactly one of the load's two kinds is
    set, or a length or load is not above 0.
    """
    check(lengths, load)
    return loaded(replica(case, lengths, profile), load)


def loaded(it: Replica, load: Load) -> Prediction:
    """The times of a replica under a load that was checked."""
    if load.concurrency is not None:
        return _closed(it, load.concurrency)
    return _open(it, load.requests_per_s or 0.0)


def check(lengths: Lengths, load: Load) -> None:
    """ValueError when the question makes no sense; the sentence says what would."""
    if (load.concurrency is None) == (load.requests_per_s is None):
        raise ValueError("a load has either a concurrency or a rate of requests, exactly one of the two")
    value = load.concurrency if load.concurrency is not None else load.requests_per_s
    if not value or not 0 < value < float("inf"):
        raise ValueError(f"the load is {value}: write a number above 0")
    for name, tokens in (("input", lengths.input_tokens), ("output", lengths.output_tokens)):
        if not 0 < tokens < float("inf"):
            raise ValueError(f"{tokens:g} {name} tokens: write a number above 0")


def replica(case: Case, lengths: Lengths, profile: Profile | None = None) -> Replica:
    """The case with its memory and the most requests that it runs at the same time."""
    memory = memory_use(case)
    held = _held(case, lengths)
    room = float(max_concurrent_sequences(case, held))
    if profile and profile.kv_tokens is not None:
        memory = replace(memory, kv_tokens=profile.kv_tokens, reason=f"{profile.kv_tokens} KV tokens, as measured")
        room = profile.kv_tokens / held_tokens(held)
    prompt = max(lengths.input_tokens - lengths.shared_prefix_tokens, 1.0)
    budget = (
        token_budget(case) * case.layout.data / (1 + prompt / lengths.output_tokens)
    )  # a step: N tokens, N / O prompts
    bounds = (("kv", room), ("cap", sequence_cap(case)), ("budget", max(budget, 1.0)))
    bound, most = min(bounds, key=lambda pair: pair[1])
    return Replica(
        case=case,
        lengths=lengths,
        profile=profile,
        course=course(case, lengths),
        memory=memory,
        most=max(most, 1.0),
        bound=bound,
    )


def _held(case: Case, lengths: Lengths) -> Lengths:
    """Lengths whose mean holding is what the engine sets aside.

    TensorRT-LLM keeps room for whole outputs from the start (its default policy GUARANTEED_NO_EVICT), the others give
    room as tokens come.
    """
    return replace(lengths, output_tokens=2 * lengths.output_tokens) if case.setup.engine == "trtllm" else lengths


def _generation_s(it: Replica, now: Pace) -> float:
    return now.step_s(it.factors) * max(it.lengths.output_tokens - 1, 0.0)


def _closed(it: Replica, concurrency: float) -> Prediction:
    """Little's law: those that do not run wait until all before them are through."""
    running = min(concurrency, it.most)
    now = it.pace(running)
    first = now.first_token_s(it.factors)
    whole = first + _generation_s(it, now)
    waits = (concurrency / running - 1) * whole
    spread = closed_spread(now, it.factors, waits)
    return _prediction(it, now, spread, concurrency / (whole + waits), concurrency)


def _open(it: Replica, rate: float) -> Prediction:
    """The least number of running requests whose pace keeps up with the arrivals."""
    high = most_running(it)
    if served_rps(it, high) <= rate:
        return _overloaded(it, high, rate)
    low = 0.0
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if served_rps(it, middle) < rate else (low, middle)
    return running_open(it, high)


def running_open(it: Replica, running: float) -> Prediction:
    """An open loop whose arrivals keep `running` requests running on average."""
    now = it.pace(running)
    rate = served_rps(it, running)
    wait = waiting(running, it.most)
    queue_s = wait.probability * wait.mean_share * _generation_s(it, now) / it.most
    spread = open_spread(now, it.factors, rate / prompts_at_once(it.case.layout), queue_s, wait.probability)
    return _prediction(it, now, spread, rate, running + rate * queue_s)


def _overloaded(it: Replica, running: float, rate: float) -> Prediction:
    """The queue grows as long as it lasts: half of the surplus of a run waits on average."""
    now = it.pace(running)
    capacity = served_rps(it, running)
    waits = OVERLOAD_S / 2 * max(rate / capacity - 1, 0.0) + _generation_s(it, now)
    spread = overloaded_spread(now, it.factors, waits)
    return _prediction(it, now, spread, capacity, running + rate * waits)


def most_running(it: Replica) -> float:
    """The most requests that are looked at as running at the same time."""
    return min(it.most, _MOST)


def served_rps(it: Replica, running: float) -> float:
    """Requests a second while `running` are served at the same time."""
    now = it.pace(running)
    return running / (now.first_token_s(it.factors, ahead=0.0) + _generation_s(it, now))


def _prediction(it: Replica, now: Pace, spread: Spread, rate: float, concurrency: float) -> Prediction:
    measured = it.profile is not None and it.profile.samples > 0
    saturated = now.running >= it.most and concurrency > it.most
    uncertainty = it.profile.uncertainty if it.profile and measured else half_widths(it.case)
    return Prediction(
        ttft_s=spread.ttft_s,
        tpot_s=spread.tpot_s,
        ttft_p95_s=spread.ttft_at(0.95),
        tpot_p95_s=spread.tpot_at(0.95),
        concurrency=concurrency,
        running=now.running,
        requests_per_s=rate,
        output_tokens_per_s=rate * it.lengths.output_tokens,
        memory=it.memory,
        saturated=saturated,
        source=Source.MEASURED if measured else Source.PREDICTED,
        reason=_reason(it, concurrency, saturated),
        uncertainty=uncertainty[1],
        ttft_uncertainty=uncertainty[0],
        spread=spread,
    )


_BOUNDS = {
    "kv": "the KV cache has room for {most:.0f}",
    "cap": "the sequence cap is {most:.0f}",
    "budget": "the token budget of a step is full at {most:.0f}",
}


def _reason(it: Replica, concurrency: float, saturated: bool) -> str:
    shown = f"{concurrency:.3g}"
    flight = f"{shown} request{'' if shown == '1' else 's'} in flight"
    if not saturated:
        return f"{flight}, room for {it.most:.0f}"
    return f"{flight}, but {_BOUNDS[it.bound].format(most=it.most)}; the others wait"
