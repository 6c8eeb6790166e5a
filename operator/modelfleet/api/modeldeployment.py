"""ModelDeployment: the one object that most users write. What must hold between fields is in rules.py. Pure."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from modelfleet.api.engine_options import ENV_NAMES, SWITCHES, VALUE_FLAGS
from modelfleet.api.kubernetes_types import LocalObjectReference, Metadata, NodeSelector, Replicas, Tolerations
from modelfleet.api.model import Model
from modelfleet.api.placement import Spread
from modelfleet.api.quantization import Quantization
from modelfleet.api.rollout import Rollout
from modelfleet.api.schedules import Schedule
from modelfleet.api.schema import ApiModel, Needed, Refused, Tokens, Unique, whole
from modelfleet.api.sessions import Sessions
from modelfleet.api.sources import ClaimSource
from modelfleet.api.status import ModelDeploymentStatus
from modelfleet.api.strings import (
    ArgValue,
    Currency,
    DnsLabel,
    EngineVersion,
    EnvName,
    EnvValue,
    ImageName,
    LabelValue,
    ObjectName,
)
from modelfleet.api.to_zero import FirstCaller, ToZero
from modelfleet.api.values import PositiveDuration, Price, Rate, Share

_E2E = "e2eLatency"
_END_TO_END = (
    "an end-to-end latency objective is refused: it mixes waiting, prompt length and answer length, so a longer answer"
    " breaks it and no capacity mends it; write ttft (time to first token) and tpot (time per output token) with the"
    " load and lengths that they hold for"
)

_END_TO_END_SPELLINGS = frozenset(
    {"latency", "e2e", "e2elatency", "endtoend", "endtoendlatency", "p95", "p99", "e2ep95"}
)


class Load(ApiModel):
    """The load of the whole deployment that the promise holds for; exactly one of the two."""

    requests_per_second: Rate | None = None
    """Requests that arrive in a second, such as 12 or "0.5"."""
    concurrency: Annotated[int, whole(1, 1_000_000)] | None = None
    """Requests that are in flight at the same time."""


class InputLengths(ApiModel):
    """How long prompts are, in tokens."""

    p50: Tokens
    """Half of all prompts are at most this long."""
    p95: Tokens
    """95 % of all prompts are at most this long."""
    max: Tokens | None = None
    """Longer prompts are outside the promise. Default: maxContextTokens."""


class OutputLengths(ApiModel):
    """How long answers are, in tokens."""

    p50: Tokens
    """Half of all answers are at most this long."""
    p95: Tokens
    """95 % of all answers are at most this long."""


class Lengths(ApiModel):
    """The length regime that the promise holds for."""

    input_tokens: InputLengths
    """How long prompts are, in tokens."""
    output_tokens: OutputLengths
    """How long answers are, in tokens."""
    shared_prefix_tokens: Annotated[int, whole(0, 100_000_000)] | None = None
    """How many leading tokens most prompts have in common, such as a system prompt. Default: none."""


class Objective(ApiModel):
    """A latency promise, kept by a request whose time to first token is inside ttft and whose mean time per output
    token is inside tpot."""

    name: DnsLabel
    """The objective's name, unique in this object."""
    ttft: Annotated[
        PositiveDuration, Needed("an objective needs ttft, the time to the first token, such as 500ms", _E2E)
    ]
    """Required. Longest time from a request's arrival to its first token, such as 500ms."""
    tpot: Annotated[PositiveDuration, Needed("an objective needs tpot, the time per output token, such as 50ms", _E2E)]
    """Required. Longest mean time per output token after the first, such as 50ms."""
    share: Share = Share("99%")
    """The share of requests that must keep both, above 0% and below 100%. Default: 99%."""
    first_caller: FirstCaller = FirstCaller.COUNTS
    """Whether a request that arrives while no replica runs (scaling.toZero) counts in the promise. Excused: it is
    counted apart, against toZero.firstCallerWaits. Default: Counts."""
    load: Annotated[
        Load,
        Needed(
            "an objective needs the load that it holds for, such as {requestsPerSecond: 12} or {concurrency: 64}", _E2E
        ),
    ]
    """Required. The load of the whole deployment that the promise holds for."""
    lengths: Annotated[
        Lengths,
        Needed(
            "an objective needs the lengths that it holds for, such as"
            " {inputTokens: {p50: 900, p95: 4000}, outputTokens: {p50: 250, p95: 800}}",
            _E2E,
        ),
    ]
    """Required. The prompt and answer lengths that the promise holds for."""
    e2e_latency: Annotated[None, Refused(_END_TO_END, _END_TO_END_SPELLINGS), Field(alias=_E2E)] = None
    """Always refused: an end-to-end latency depends on how long the answer is. Write ttft and tpot instead."""


class Prefer(StrEnum):
    """What decides among classes."""

    COST = "Cost"
    ORDER = "Order"


class Accelerators(ApiModel):
    """Which accelerators the model may run on."""

    classes: Annotated[tuple[ObjectName, ...], Field(min_length=1, max_length=8), Unique()]
    """Names of AcceleratorClasses that the planner chooses among; without their performance facts in this order. A
    replica for which the chosen one has no room is made on the next that carries the model."""
    prefer: Prefer = Prefer.COST
    """What decides among classes that keep the promise: the least Cost (accelerators of the first class, where prices
    are not known) or the Order of the list. Default: Cost."""


class Strategy(StrEnum):
    """How a replica is spread over accelerators."""

    AUTO = "Auto"
    REPLICAS = "Replicas"
    SHARDED = "Sharded"
    DISAGGREGATED = "Disaggregated"


class ExpertParallelism(StrEnum):
    """Whether experts are kept whole. The words are no truth values in YAML, as On and Off are."""

    AUTO = "Auto"
    ALWAYS = "Always"
    NEVER = "Never"


class Parallelism(ApiModel):
    """How one replica is spread over accelerators. What is left out is chosen by the planner, where the class has
    performance facts."""

    strategy: Strategy = Strategy.AUTO
    """Auto; Replicas: one accelerator a replica; Sharded: more than one; Disaggregated: prefill and decode apart, which
    is planned and not rolled out in this version. Default: Auto."""
    tensor: Annotated[int, whole(1, 64)] | None = None
    """Accelerators that one replica spreads each layer over (tensor parallelism), all in one node. Default: chosen; 1
    where nothing is predicted."""
    pipeline: Annotated[int, whole(1, 64)] | None = None
    """Groups of layers, each on accelerators of its own (pipeline parallelism). Default: chosen; else 1."""
    data: Annotated[int, whole(1, 64)] | None = None
    """Copies of the attention in one replica, which share the experts (data parallelism). Default: chosen; else 1."""
    expert: ExpertParallelism = ExpertParallelism.AUTO
    """Whether whole experts are spread over accelerators (expert parallelism): Auto, Always, Never. Default: Auto,
    which is Never where nothing is predicted."""


class ScalingMode(StrEnum):
    """Who decides the number of replicas."""

    ACTIVE = "Active"
    ADVISORY = "Advisory"
    MANUAL = "Manual"


class Scaling(ApiModel):
    """How many replicas there are."""

    min_replicas: Replicas
    """The fewest replicas; 0 with toZero, else at least 1."""
    max_replicas: Replicas
    """The most replicas, at least minReplicas."""
    mode: ScalingMode = ScalingMode.ACTIVE
    """Who decides inside the bounds: the operator, by what it measures (Active), `replicas` (Manual), or nobody
    (Advisory: the declared load is served, and status says what Active would do). Default: Active."""
    replicas: Annotated[Replicas, Field(json_schema_extra={"default": 1})] = 1
    """What `kubectl scale` and other scalers write. Counts only in mode Manual, inside the bounds."""
    max_accelerators: Annotated[int, whole(1, 100_000)] | None = None
    """The most accelerators of all replicas together; fewer replicas run where maxReplicas would need more. Default: no
    such bound."""
    schedules: Annotated[tuple[Schedule, ...], Field(max_length=16)] = ()
    """Times in which at least so many replicas are kept. Not in mode Manual. Default: none."""
    to_zero: ToZero | None = None
    """On which conditions no replica runs; needs minReplicas 0. Default: at least minReplicas always run."""


class SpeculationMode(StrEnum):
    """Whether the planner may speculate. The words are no truth values in YAML, as Off is."""

    AUTO = "Auto"
    NEVER = "Never"


class SpeculationMethod(StrEnum):
    """Where draft tokens come from."""

    NGRAM = "ngram"
    SUFFIX = "suffix"
    EAGLE3 = "eagle3"
    MTP = "mtp"


class Speculation(ApiModel):
    """Speculative decoding: switched on by the planner where latency is the constraint and arithmetic is idle."""

    mode: SpeculationMode = SpeculationMode.AUTO
    """Auto or Never. Default: Auto."""
    method: SpeculationMethod | None = None
    """Where draft tokens come from: ngram and suffix from the text, mtp from the model itself, eagle3 from `model`.
    Default: none is offered, so none is used."""
    model: ClaimSource | None = None
    """Where the draft's weights are, on the claim of the model's source: pvc://CLAIM/PATH."""


class ApiPrice(ApiModel):
    """What a hosted API asks for a million tokens of this model."""

    input_per_million_tokens: Price
    """For input tokens, such as "0.6"."""
    output_per_million_tokens: Price
    """For output tokens, such as "2.4"."""
    cached_input_per_million_tokens: Price | None = None
    """For input tokens that the API has in its cache (sharedPrefixTokens). Default: as other input tokens."""
    currency: Currency = Currency("USD")
    """The prices' currency. Default: USD."""


class OwnReason(StrEnum):
    """A reason to serve a model oneself that is not the price."""

    DATA_CONTROL = "DataControl"
    LATENCY = "Latency"
    AVAILABILITY = "Availability"
    CUSTOM_MODEL = "CustomModel"
    COMPLIANCE = "Compliance"


class Economics(ApiModel):
    """What serving it oneself is compared with. It changes no plan; the result stands in status.cost."""

    api_price: ApiPrice | None = None
    """What a hosted API asks. Default: nothing is compared."""
    reasons: Annotated[tuple[OwnReason, ...], Field(max_length=8), Unique()] = ()
    """Reasons that are not the price."""


class EnvVar(ApiModel):
    """An environment variable of the engine."""

    name: EnvName = Field(description=f"The variable's name, one of {', '.join(sorted(ENV_NAMES))}.")
    value: EnvValue = EnvValue("")
    """The variable's value. Default: empty."""


class Engine(ApiModel):
    """The inference engine (vLLM) and what is passed to it."""

    image: ImageName | None = None
    """The worker's image. Default: the one that the operator was installed with."""
    version: EngineVersion | None = None
    """The engine's version in that image, such as "0.32.1", for what depends on it: evidence, allowed versions, flags.
    Default: not known."""
    installation_claim_name: ObjectName | None = None
    """A PersistentVolumeClaim with the engine's Python environment (bin/python), mounted read-only at /opt/engine.
    Default: the engine is part of the image."""
    args: Annotated[dict[Annotated[str, Field(max_length=64)], ArgValue], Field(max_length=64)] = Field(
        default_factory=dict,
        description='Engine flags without leading dashes, such as {max-num-seqs: 64}; "true" or "" gives a bare flag.'
        f" Flags with a value: {', '.join(sorted(VALUE_FLAGS))}. Bare flags: {', '.join(sorted(SWITCHES))}.",
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64), Unique(("name",))] = ()
    """Environment variables of the engine, from an allow-list."""


class Placement(ApiModel):
    """Where worker pods may run, on top of what the AcceleratorClass says."""

    node_selector: NodeSelector = Field(default_factory=dict)
    """Node labels that must be there besides those of the AcceleratorClass."""
    tolerations: Tolerations = ()
    """Tolerations of the worker pods besides those of the AcceleratorClass."""
    priority_class_name: ObjectName | None = None
    """The PriorityClass of the worker pods. Default: the cluster's default."""
    spread: Spread = Spread.ZONE
    """Over what replicas are spread as evenly as room allows: Zone, Node, None. Inside a zone they are packed, so that
    whole nodes stay free for large replicas. Default: Zone."""


class ModelDeploymentSpec(ApiModel):
    """What is wanted."""

    model: Model
    """What is served."""
    objectives: Annotated[tuple[Objective, ...], Field(min_length=1, max_length=4), Unique(("name",))]
    """One to four latency promises, each for its own load and lengths."""
    accelerators: Accelerators
    """Which accelerators the model may run on."""
    quantization: Quantization = Quantization()
    """How numbers are stored, where it is not the class's standard."""
    parallelism: Parallelism = Parallelism()
    """How one replica is spread over accelerators. Default: the planner chooses; where nothing is predicted, one."""
    scaling: Scaling
    """How many replicas there are."""
    speculation: Speculation = Speculation()
    """Speculative decoding."""
    sessions: Sessions = Sessions()
    """How requests of one session are treated. A change reaches running workers and restarts none."""
    engine: Engine = Engine()
    """The inference engine and what is passed to it."""
    rollout: Rollout = Rollout()
    """How a changed plan replaces running replicas."""
    placement: Placement = Placement()
    """Where worker pods may run."""
    image_pull_secrets: Annotated[tuple[LocalObjectReference, ...], Field(max_length=8), Unique(("name",))] = ()
    """Secrets in this namespace to pull the worker's image with."""
    economics: Economics = Economics()
    """What serving it oneself is compared with."""
    replan: LabelValue = LabelValue("")
    """Any word. Another one has the plan made anew, with the profiles, prices and nodes of then; replicas are replaced
    only where that asks for other pods. Default: empty."""


# Without it, kstatus (Flux, kpt) takes an object that no operator has looked at yet for one that is done.
_UNSEEN = {"observedGeneration": -1}


class ModelDeployment(ApiModel):
    """A model, the latency promise that it must keep, and the accelerators it may use to keep it."""

    metadata: Metadata
    spec: ModelDeploymentSpec
    """What is wanted."""
    status: Annotated[ModelDeploymentStatus | None, Field(json_schema_extra={"default": _UNSEEN})] = None
    """What is; written by the operator."""

    @property
    def served_names(self) -> tuple[str, ...]:
        """The names that clients may send as `model`; the object's own name where the spec gives none."""
        return self.spec.model.served_names or (self.metadata.name,)
