"""Engines of round numbers, sites and observations that the simulator's tests share."""

from collections.abc import Sequence
from dataclasses import replace

from modelfleet.cli.cases import asked
from modelfleet.cli.models import lookup
from modelfleet.sim.capacity import Promise
from modelfleet.sim.engine import Engine, EngineSpec
from modelfleet.sim.fleet import Observation, ReplicaView, Site
from modelfleet.sim.pace import Line, Pace
from modelfleet.sim.requests import Outcome, Request
from modelfleet.sim.shapes import Regime, shaped
from modelfleet.sim.world import Setting, World, build

STEP_S = 0.010
PROMPT_TOKEN_S = 0.0001


class RoundPace(Pace):
    """A step takes 10 ms and 0.1 ms for each prompt token, whatever the contexts."""

    def __init__(self) -> None:
        """There is no case behind it."""

    def step(self, prompt_tokens: int, sequences: int) -> Line:
        """The line of a step."""
        return Line(STEP_S + prompt_tokens * PROMPT_TOKEN_S, 0.0, 0.0)


SPEC = EngineSpec(pace=RoundPace(), kv_tokens=10_000, sequence_cap=8, token_budget=512)
SITE = Site(
    engine=SPEC,
    accelerators_per_replica=2,
    min_replicas=1,
    max_replicas=4,
    first_replicas=1,
    cold_start_s=60.0,
    jitter=0.0,
)


def of_bursts() -> World:
    """A small model on a small card under bursts that outrun its cold start."""
    case = asked({"model": "meta-llama/Llama-3.1-8B-Instruct", "class": "l40s", "tp": "1"}, lookup()).case
    case = replace(case, setup=replace(case.setup, sequence_cap=256))
    trace = shaped("burst:1-14,5m", Regime(input_tokens=1000, output_tokens=100), 0.2, 1)
    promise = Promise(ttft_s=2.0, tpot_s=0.050, share=0.99)
    return build(case, trace, Setting(promise=promise, cold_start_s=180.0, max_replicas=8))


def served(spec: EngineSpec, requests: Sequence[Request]) -> tuple[list[Outcome], Engine, float]:
    """What one engine makes of the requests, the engine, and the largest share of its cache that was seen in use."""
    outcomes: list[Outcome] = []
    engine = Engine(spec, 0, 0.0, outcomes.append)
    most = 0.0
    for request in requests:
        engine.advance(request.arrival_s)
        engine.arrive(request)
    while engine.in_flight:
        engine.advance(engine.now_s + STEP_S / 2)
        most = max(most, engine.kv_use)
    return outcomes, engine, most


class Always:
    """The same wish at each tick."""

    tick_s = 5.0

    def __init__(self, *wishes: int) -> None:
        """The last wish is repeated."""
        self._wishes = list(wishes)
        self.seen: list[Observation] = []

    def wish(self, seen: Observation) -> int:
        """The next wish."""
        self.seen.append(seen)
        return self._wishes.pop(0) if len(self._wishes) > 1 else self._wishes[0]


QUIET = Observation(
    now_s=0.0,
    replicas=(),
    pending_s=(),
    ages_s=(),
    draining=0,
    arrivals=0,
    arrived_input_tokens=0,
    made_tokens=0,
    computed_tokens=0,
    ended=(),
    oldest_wait_s=0.0,
)


def seen(now_s: float, *replicas: ReplicaView, pending: int = 0) -> Observation:
    """A tick with these replicas and so many that start."""
    return replace(QUIET, now_s=now_s, replicas=replicas, pending_s=(30.0,) * pending)


def replicas(count: int, *, running: int = 0, waiting: int = 0, kv_use: float = 0.0) -> tuple[ReplicaView, ...]:
    """So many alike."""
    return tuple(ReplicaView(number, running, waiting, 0, kv_use) for number in range(count))
