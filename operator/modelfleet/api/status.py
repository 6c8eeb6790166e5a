"""The status of a ModelDeployment: a report, never an input to a decision. Pure."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from modelfleet.api.conditions import Condition
from modelfleet.api.goodput_status import GoodputStatus, Observed
from modelfleet.api.schema import ApiModel, Instant, Unique, whole
from modelfleet.api.zero_status import ColdStart, Demands, ZeroStatus

Count = Annotated[int, whole(0)]


Sentence = Annotated[str, Field(max_length=1024)]
Number = Annotated[str, Field(max_length=32)]
"""A number with a fraction, as text, rounded to what is meant by it."""


class Role(StrEnum):
    """What a pool of workers does."""

    SERVE = "Serve"
    PREFILL = "Prefill"
    DECODE = "Decode"


class PoolQuantization(ApiModel):
    """How a pool's numbers are stored."""

    weights: Annotated[str, Field(max_length=32)]
    """How weights are stored."""
    kv_cache: Annotated[str, Field(max_length=32)]
    """How the KV cache is stored."""


class PoolEngine(ApiModel):
    """What the planner has the engine started with."""

    token_budget: Count | None = None
    """Tokens that one step takes at most."""
    sequence_cap: Count | None = None
    """Sequences that run at the same time at most, in one data-parallel rank."""
    block_tokens: Count | None = None
    """Tokens of a block of the KV cache."""


class Predicted(ApiModel):
    """What one replica is expected to do at its part of the load."""

    ttft: Annotated[str, Field(max_length=32)]
    """What the wanted share of requests stays inside, time to the first token."""
    tpot: Annotated[str, Field(max_length=32)]
    """The same, mean time per output token."""
    concurrency: Number
    """Requests in flight in one replica."""
    kv_cache_tokens: Count
    """Tokens that the KV cache of one replica holds."""
    knee_requests_per_second: Number
    """The highest rate of one replica that keeps the promise, at the pessimistic end of the uncertainty."""
    knee_bound: Annotated[str, Field(max_length=32)]
    """What breaks first above it: ttft, tpot, kv or throughput."""
    uncertainty: Number
    """Half-width of the 90 % interval of the times, in percent of them."""
    source: Annotated[str, Field(max_length=32)]
    """Whether the figures are predicted from the class's facts or measured (a ModelProfile)."""


class Pool(ApiModel):
    """Replicas of one role on one class, all of one layout."""

    role: Role
    """What the pool does: Serve answers whole requests."""
    class_: Annotated[str, Field(alias="class", max_length=253)]
    """The AcceleratorClass."""
    layout: Annotated[str, Field(max_length=64)]
    """How a replica is spread over accelerators, such as tp2: two by tensor parallelism."""
    accelerators_per_replica: Count
    """Accelerators that one replica takes."""
    replicas: Count
    """Replicas that are wanted. In a pool after the first: those that stand there, because the classes before had no
    room for them when they were made."""
    quantization: PoolQuantization | None = None
    """How numbers are stored. Absent where nothing is predicted: as the model was published."""
    engine: PoolEngine | None = None
    """What the planner has the engine started with. Absent where nothing is predicted: the engine's defaults."""
    predicted: Predicted | None = None
    """What one replica is expected to do. Absent where nothing is predicted."""
    observed: Observed | None = None
    """What one replica was seen to do in the last five minutes. Absent where nothing was measured."""


class PlanReason(ApiModel):
    """Why something is as it is."""

    check: Annotated[str, Field(max_length=64)]
    """The check that decided."""
    sentence: Sentence
    """One sentence with the numbers."""


class Rejected(ApiModel):
    """A layout that was looked at and not taken."""

    class_: Annotated[str, Field(alias="class", max_length=253)]
    """The AcceleratorClass."""
    layout: Annotated[str, Field(max_length=64)] | None = None
    """The layout. Absent: the whole class."""
    check: Annotated[str, Field(max_length=64)]
    """The check that it failed."""
    sentence: Sentence
    """Why."""


class Plan(ApiModel):
    """The pinned plan: it changes only when the spec or a referenced class changes."""

    revision: Annotated[str, Field(max_length=63)]
    """The revision's identity; pods carry it as the label modelfleet.dev/revision, those of a pool after the first a
    name of their pool's own."""
    pools: Annotated[tuple[Pool, ...], Field(max_length=16), Unique(("role", "class_"))] = ()
    """What runs where: a pool for each listed class that carries the model, in the order in which they are used where
    the ones before have no room."""
    reasons: Annotated[tuple[PlanReason, ...], Field(max_length=32)] | None = None
    """Why the plan is as it is. Absent where nothing is predicted."""
    rejected: Annotated[tuple[Rejected, ...], Field(max_length=32)] | None = None
    """What was looked at and not taken, of each class what came nearest."""


class Cost(ApiModel):
    """What the plan costs while it serves the declared load, in money."""

    currency: Annotated[str, Field(max_length=8)]
    """The currency of all amounts."""
    per_hour: Number | None = None
    """All replicas of the plan, an hour. Absent: no price is known."""
    per_million_tokens: Number | None = None
    """A million tokens, input and output together, at the declared load."""
    api_per_million_tokens: Number | None = None
    """What the API of spec.economics.apiPrice asks for the same tokens."""
    break_even_requests_per_second: Number | None = None
    """The sustained load above which serving it oneself is cheaper than that API."""
    cheaper: Annotated[str, Field(max_length=16)] | None = None
    """What is cheaper at the declared load: SelfHost or Api."""
    reasons: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=8)] | None = None
    """The reasons of spec.economics that are not the price."""
    sentence: Sentence = ""
    """The comparison in a sentence."""


class ModelReport(ApiModel):
    """What the model is made of, as it was read or stated."""

    source: Annotated[str, Field(max_length=1024)]
    """Where the weights are."""
    facts: Annotated[str, Field(max_length=64)]
    """Where the facts come from: Inspected (the config.json in the model's folder) or Stated (spec.model.facts)."""
    architecture: Annotated[str, Field(max_length=253)]
    """The architecture's name."""
    layers: Count
    """Layers."""
    parameters: Annotated[str, Field(max_length=32)]
    """Parameters, such as 70.6B."""
    weights: Annotated[str, Field(max_length=32)]
    """How the weights in the source are stored."""
    max_context_tokens: Annotated[int, whole(0, 2_147_483_647)]
    """The longest context that the model was made for, in tokens."""
    checkpoint: Annotated[str, Field(max_length=32)] | None = None
    """The weights' size, where the model's folder states it."""


class ScalingDecision(ApiModel):
    """A change of the number of replicas, and why."""

    from_: Annotated[int, whole(0), Field(alias="from")]
    """Replicas before."""
    to: Count
    """Replicas after."""
    reason: Annotated[str, Field(max_length=64)]
    """The reason, CamelCase."""
    detail: Annotated[str, Field(max_length=1024)]
    """The reason in a sentence, with the numbers."""
    bound: Annotated[str, Field(max_length=64)] | None = None
    """The bound that clipped the wish, such as maxReplicas."""
    at: Instant
    """When it was decided."""


class ScalingStatus(ApiModel):
    """The last decision about the number of replicas."""

    last_decision: ScalingDecision | None = None
    """The last change and why."""


class ModelDeploymentStatus(ApiModel):
    """What is."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), Unique(("type",))] = ()
    """Accepted, Planned, Placed, Available, Progressing, Ready and ObjectivesMet; reasons are in docs/conditions.md."""
    observed_generation: Annotated[int, Field(ge=-1)] | None = None
    """The spec's generation that this status speaks of; -1: the operator has not looked at the object yet."""
    plan: Plan | None = None
    """The layout that was pinned."""
    replicas: Count | None = None
    """Replicas that exist."""
    ready_replicas: Count | None = None
    """Replicas that serve."""
    placed_replicas: Count | None = None
    """Replicas whose pods all have a node."""
    draining_replicas: Count | None = None
    """Replicas that finish their requests before they end."""
    selector: Annotated[str, Field(max_length=1024)] | None = None
    """The label selector of the worker pods, for the scale subresource."""
    scaling: ScalingStatus | None = None
    """The last decision about the number of replicas."""
    goodput: GoodputStatus | None = None
    """The share of requests that kept their promise. Absent: there is no data."""
    cost: Cost | None = None
    """What the plan costs. Absent where nothing is predicted."""
    model: ModelReport | None = None
    """What the model is made of. Absent where it was not read."""
    to_zero: ZeroStatus | None = None
    """How scaling to zero stands. Absent without spec.scaling.toZero."""
    cold_start: ColdStart | None = None
    """How long a start takes. Absent until one was measured or runs, and without spec.scaling.toZero."""
    demand: Demands | None = None
    """Requests that wait in activators; written by them, one entry each."""
