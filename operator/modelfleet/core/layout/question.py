"""What the planner is asked: a model, a promise, the accelerators there are, and what the user has fixed. Pure.

Nothing here is of Kubernetes. Whoever asks (the reconciler, a command) says in `fields` where in the user's file a
value stands, so that a sentence about it can name the place; the defaults are the paths of a ModelDeployment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import ModelFacts, Scheme

if TYPE_CHECKING:
    from modelfleet.core.perf.profile import Profile


class Prefer(StrEnum):
    """What decides between classes that all keep the promise."""

    COST = "Cost"
    ORDER = "Order"


class Strategy(StrEnum):
    """How a replica is spread; Auto leaves it to the planner."""

    AUTO = "Auto"
    REPLICAS = "Replicas"
    """One accelerator a replica."""
    SHARDED = "Sharded"
    """More than one accelerator a replica."""
    DISAGGREGATED = "Disaggregated"
    """Prefill and decode in replicas of their own."""


class SpeculationMode(StrEnum):
    """Whether the planner may speculate."""

    AUTO = "Auto"
    OFF = "Off"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One set of weights that the user offers. `online` is one that the engine makes from another while it loads."""

    weights: Scheme
    source: str
    """Where the weights are, as the user wrote it."""
    facts: ModelFacts
    online: bool = False


@dataclass(frozen=True, kw_only=True)
class NodeRoom:
    """One node of a class. `free` of its `total` accelerators are not taken by others (our own pods count as free)."""

    name: str
    total: int
    free: int


@dataclass(frozen=True, kw_only=True)
class Supply:
    """Terms on which accelerators of a class can be had. `limit` is how many at most, None without one."""

    name: str
    price_per_hour: Decimal | None = None
    currency: str = "USD"
    limit: int | None = None
    autoscaled: bool = False
    """Nodes are bought when pods ask for them, up to `limit`; otherwise only the nodes that are there count."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A class that the user allows, in the user's order."""

    name: str
    hardware: Hardware
    nodes: tuple[NodeRoom, ...] | None = None
    """The nodes there are; empty is a class with no nodes, None is "not known", and then any number is assumed."""
    supplies: tuple[Supply, ...] = ()
    """Empty: one supply at the hardware's own price."""
    standard_weights: Scheme | None = None
    """The class's standard; None has no standard, and then the narrowest variant that the chip computes in is taken."""
    standard_kv: Scheme | None = None
    engine_versions: tuple[str, ...] = ()
    """Versions that the class allows; empty allows all."""
    host_memory_bytes_per_accelerator: int | None = None
    host_cpus_per_accelerator: float | None = None


@dataclass(frozen=True, kw_only=True)
class LengthRegime:
    """How long requests are, in tokens."""

    input_p50_tokens: int
    input_p95_tokens: int
    output_p50_tokens: int
    output_p95_tokens: int
    input_max_tokens: int | None = None
    """Longer prompts are outside the promise. None: the context limit."""
    shared_prefix_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Objective:
    """One promise: `share` (0 to 1) of the requests are inside both times, at this load of the whole deployment.

    Exactly one of `load_rps` and `load_concurrency` is set.
    """

    name: str
    ttft_s: float
    tpot_s: float
    share: float = 0.99
    load_rps: float | None = None
    load_concurrency: float | None = None
    lengths: LengthRegime


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the user brings for a scheme that is not the class's standard. Valid for one engine version."""

    artifact: str = ""
    """The weights that were evaluated."""
    evaluation: str = ""
    """Where the result of the evaluation is."""
    engine_version: str = ""


@dataclass(frozen=True, kw_only=True)
class Pins:
    """What the user has fixed; None leaves it to the planner."""

    strategy: Strategy = Strategy.AUTO
    tensor: int | None = None
    pipeline: int | None = None
    data: int | None = None
    expert: bool | None = None
    weights: Scheme | None = None
    kv: Scheme | None = None
    evidence: Evidence | None = None
    sequence_cap: int | None = None
    """engine.args.max-num-seqs."""
    token_budget: int | None = None
    """engine.args.max-num-batched-tokens."""
    memory_fraction: float | None = None
    """engine.args.gpu-memory-utilization."""
    block_tokens: int | None = None
    """engine.args.block-size."""
    engine_context_tokens: int | None = None
    """engine.args.max-model-len."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much there may be of it."""

    min_replicas: int = 1
    max_replicas: int | None = None
    max_accelerators: int | None = None


@dataclass(frozen=True, kw_only=True)
class SpeculationWish:
    """What the user says about speculative decoding."""

    mode: SpeculationMode = SpeculationMode.AUTO
    method: str | None = None
    """The engine's name of it: ngram, eagle3, mtp, draft_model, suffix; None: none is offered, so none is used."""
    source: str = ""
    """Where the draft's weights are; empty for methods without."""
    draft: ModelFacts | None = None
    acceptance: float | None = None
    """The measured share of accepted draft tokens, 0 to 1; None: the method's usual one, and the plan says so."""


@dataclass(frozen=True, kw_only=True)
class ApiPrice:
    """What a hosted API asks for a million tokens."""

    input_per_million: Decimal
    output_per_million: Decimal
    cached_input_per_million: Decimal | None = None
    currency: str = "USD"


@dataclass(frozen=True, kw_only=True)
class EconomicsWish:
    """What self-hosting is compared with, and the reasons for it that are not the price."""

    api_price: ApiPrice | None = None
    reasons: tuple[str, ...] = ()
    measured_rps: float | None = None
    """The load that was seen, averaged over the time that the accelerators were held; None: nothing was measured."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measured correction and what it was measured on."""

    class_name: str
    layout: Layout
    weights: Scheme
    engine_version: str
    profile: Profile
    name: str = ""
    """The ModelProfile's name, for the reasons."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """All that a plan depends on. `objectives`, `candidates` and `variants` are never empty."""

    variants: tuple[Variant, ...]
    candidates: tuple[Candidate, ...]
    objectives: tuple[Objective, ...]
    alternatives: tuple[Candidate, ...] = ()
    """Classes that exist and that the user did not allow: never chosen, looked at for offers."""
    prefer: Prefer = Prefer.COST
    pins: Pins = Pins()
    bounds: Bounds = Bounds()
    max_context_tokens: int | None = None
    """spec.model.maxContextTokens; None: the model's own."""
    allow_online_quantization: bool = False
    engine: str = "vllm"
    engine_version: str = ""
    """Empty: not known, and then flags that only some versions have are left out."""
    speculation: SpeculationWish = SpeculationWish()
    economics: EconomicsWish = EconomicsWish()
    profiles: tuple[Measured, ...] = ()
    fields: dict[str, str] = field(default_factory=dict, hash=False)
    """Where values stand in the user's file, by our name (`pins.tensor`, `objectives`); see `place`."""


_PLACES = {
    "objectives": "spec.objectives",
    "candidates": "spec.accelerators.classes",
    "variants": "spec.model",
    "max_context_tokens": "spec.model.maxContextTokens",
    "pins.strategy": "spec.parallelism.strategy",
    "pins.tensor": "spec.parallelism.tensor",
    "pins.pipeline": "spec.parallelism.pipeline",
    "pins.data": "spec.parallelism.data",
    "pins.expert": "spec.parallelism.expert",
    "pins.weights": "spec.quantization.weights",
    "pins.kv": "spec.quantization.kvCache",
    "pins.evidence": "spec.quantization.evidence",
    "pins.sequence_cap": "spec.engine.args.max-num-seqs",
    "pins.token_budget": "spec.engine.args.max-num-batched-tokens",
    "pins.memory_fraction": "spec.engine.args.gpu-memory-utilization",
    "pins.block_tokens": "spec.engine.args.block-size",
    "pins.engine_context_tokens": "spec.engine.args.max-model-len",
    "bounds.min_replicas": "spec.scaling.minReplicas",
    "bounds.max_replicas": "spec.scaling.maxReplicas",
    "bounds.max_accelerators": "spec.scaling.maxAccelerators",
    "allow_online_quantization": "spec.quantization.online",
    "speculation": "spec.speculation",
    "economics": "spec.economics",
    "engine_version": "spec.engine.version",
}


def place(question: Question, name: str) -> str:
    """Where the value that we call `name` stands in the user's file."""
    return question.fields.get(name) or _PLACES.get(name, name)


def objective_place(question: Question, index: int, key: str = "") -> str:
    """Where a key of the objective number `index` stands: `spec.objectives[0].ttft`, or what `fields` says of it."""
    name = f"objectives[{index}]" + (f".{key}" if key else "")
    return question.fields.get(name) or name.replace("objectives", place(question, "objectives"), 1)


def context_of(question: Question, longest: int) -> int:
    """The context limit: the user's, else the model's own."""
    return question.pins.engine_context_tokens or question.max_context_tokens or longest
