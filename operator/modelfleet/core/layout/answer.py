"""What the planner answers: a pinned layout a class with its reasons, or what cannot hold and what could. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any

from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import ModelFacts, Scheme
from modelfleet.core.perf.prediction import MemoryUse, Source
from modelfleet.core.perf.workload import EngineSetup


class Check(StrEnum):
    """The named checks and scorers. A reason, a rejection and a failed bound each name one; never renamed."""

    VARIANT = "Variant"
    """Which weights."""
    QUANTIZATION = "Quantization"
    ENGINE = "Engine"
    """The engine version, against those that the class allows."""
    CONTEXT = "Context"
    DIVISIBILITY = "Divisibility"
    """Heads, layers or experts cannot be shared out like that."""
    FABRIC = "Fabric"
    """Tensor parallelism would leave the fabric domain."""
    PINS = "Pins"
    """A value that the user fixed."""
    FITS_ONE = "FitsOneAccelerator"
    MEMORY = "Memory"
    """The weights, or one sequence of the longest context, do not fit."""
    SHARDING = "Sharding"
    """Which of the three causes forces more than one accelerator."""
    PIPELINE = "Pipeline"
    EXPERTS = "Experts"
    DATA = "AttentionData"
    """Attention data parallelism."""
    CONTEXT_PARALLEL = "DecodeContext"
    TOKEN_BUDGET = "TokenBudget"
    SEQUENCE_CAP = "SequenceCap"
    BLOCK_SIZE = "BlockSize"
    ADMISSION = "Admission"
    TTFT = "Ttft"
    TPOT = "Tpot"
    KV = "Kv"
    """The KV cache is too small for the concurrency that the promise needs."""
    THROUGHPUT = "Throughput"
    LOAD = "Load"
    """How many replicas the load needs."""
    CAPACITY = "Capacity"
    """maxReplicas, maxAccelerators, a supply's limit or the nodes."""
    NODES = "Nodes"
    HOST = "Host"
    """What a worker gets of its node's memory and cores."""
    DISAGGREGATION = "Disaggregation"
    PROFILE = "Profile"
    """Whether measured values were used."""
    UNCERTAINTY = "Uncertainty"
    SCORE = "Score"


class Role(StrEnum):
    """What the replicas of a pool do."""

    SERVE = "Serve"
    PREFILL = "Prefill"
    DECODE = "Decode"


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why something is as it is: the check that decided, and one sentence with the numbers."""

    check: Check
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is wrong with the question, and where: one sentence that also says what would work. `fatal` makes a plan
    impossible; others are advice beside the plan."""

    field: str
    sentence: str
    fatal: bool = True


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What one replica does at its part of the load, and where it breaks. For the objective that binds."""

    objective: str
    ttft_s: float
    tpot_s: float
    """Means."""
    ttft_at_share_s: float
    tpot_at_share_s: float
    """What the wanted share of requests stays inside."""
    share: float
    concurrency: float
    """Requests in flight in one replica."""
    requests_per_s: float
    output_tokens_per_s: float
    knee_rps: float
    """The highest rate of one replica that keeps the promise, at the pessimistic end of the uncertainty."""
    knee_concurrency: float
    knee_bound: str
    """What breaks first beyond it: ttft, tpot, kv or throughput."""
    kv_tokens: int
    memory: MemoryUse
    step_s: float
    """A step with the whole token budget, at the decode batch of the load."""
    worst_gap_s: float
    """The longest time between two tokens of one answer: a step in which another prompt takes the whole budget."""
    uncertainty: float
    """Relative half-width of the 90 % interval of tpot_s; `ttft_uncertainty` of ttft_s, which is wider."""
    ttft_uncertainty: float
    source: Source
    reason: str
    knee_measured: bool = False
    """The knee comes from a ModelProfile of the same promise."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Replicas that are alike. One pool of role Serve, or one each of Prefill and Decode."""

    role: Role = Role.SERVE
    class_name: str
    layout: Layout
    nodes_per_replica: int
    replicas: int
    """For the load, at least minReplicas."""
    source: str
    """The variant's source: which weights to load."""
    facts: ModelFacts
    setup: EngineSetup
    flags: Mapping[str, str]
    """Engine flags without dashes and their values, "true" for a bare one; those that the user fixed are included."""
    predicted: Predicted

    @property
    def accelerators_per_replica(self) -> int:
        """Accelerators that one replica takes."""
        return self.layout.accelerators

    @property
    def accelerators(self) -> int:
        """Accelerators of the whole pool."""
        return self.replicas * self.accelerators_per_replica


@dataclass(frozen=True, kw_only=True)
class Score:
    """What the plan costs while it serves the declared load. `unit`: "USD/h", or "accelerators" (accelerator-hours an
    hour) where not all classes have a price in one currency."""

    value: float
    unit: str


@dataclass(frozen=True, kw_only=True)
class SpeculationDecision:
    """`on` or not, and why. `table` is vLLM's num_speculative_tokens_per_batch_size: (from, to, tokens), inclusive."""

    on: bool
    sentence: str
    method: str | None = None
    tokens: int = 0
    gate_sequences: int = 0
    """The largest batch at which speculation pays; above it the table says 0."""
    table: tuple[tuple[int, int, int], ...] = ()
    acceptance: float | None = None
    memory_bytes: float = 0.0
    """Draft weights, draft KV and look-ahead slots in one accelerator."""


class Departure(StrEnum):
    """Where a departure from the class's standard stands."""

    NONE = "None"
    ACCEPTED = "Accepted"
    REFUSED = "Refused"
    EXPIRED = "Expired"


@dataclass(frozen=True, kw_only=True)
class QuantizationDecision:
    """Which weights and which KV scheme, and why."""

    weights: Scheme
    kv: Scheme
    source: str
    standard: Scheme | None
    departure: Departure
    sentence: str
    revalidate: tuple[str, ...] = ()
    """What to evaluate again, for an expired exception."""


@dataclass(frozen=True, kw_only=True)
class Economics:
    """Self-hosting in money (rule 9). Amounts are exact decimals in `currency`; None is "not known"."""

    currency: str
    cost_per_hour: Decimal | None
    cost_per_million_tokens: Decimal | None
    """Input and output together, at the declared load."""
    cost_per_million_tokens_measured: Decimal | None
    """The same at the load that was seen."""
    utilisation: float | None
    """The declared load over what the replicas could take inside the promise."""
    utilisation_measured: float | None
    api_cost_per_million_tokens: Decimal | None
    """What the API would ask for the same mix of tokens."""
    break_even_rps: float | None
    """The sustained load above which self-hosting is cheaper."""
    break_even_tokens_per_day: float | None
    cheaper: str | None
    """`SelfHost` or `Api` at the declared load."""
    reasons: tuple[str, ...]
    """Reasons that the user stated besides the price."""
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A layout that was looked at and not taken. `layout` None: the whole class."""

    class_name: str
    layout: Layout | None
    check: Check
    sentence: str


@dataclass(frozen=True, kw_only=True)
class ClassPlan:
    """What would run on one class. `rolled_out` False: a plan that this version can say and not yet carry out."""

    class_name: str
    pools: tuple[Pool, ...]
    score: Score
    cost_per_hour: Decimal | None
    currency: str
    quantization: QuantizationDecision
    speculation: SpeculationDecision
    reasons: tuple[Reason, ...]
    binding_objective: str
    shortfall: int = 0
    """Accelerators that the plan needs beyond what the class's nodes have free; 0 where that is not known."""
    shortfall_sentence: str = ""
    rolled_out: bool = True

    @property
    def pool(self) -> Pool:
        """The first pool: the only one, unless prefill and decode are apart."""
        return self.pools[0]

    @property
    def accelerators(self) -> int:
        """Accelerators of all pools."""
        return sum(pool.accelerators for pool in self.pools)


class Change(StrEnum):
    """What an offer changes."""

    OBJECTIVE = "LooserObjective"
    CLASS = "OtherClass"
    ACCELERATORS = "MoreAccelerators"
    CONTEXT = "SmallerContext"
    QUANTIZATION = "Quantization"
    PIN = "WithoutPin"
    LOAD = "LessLoad"
    DEPLOYMENT = "OwnDeployment"
    SPLIT = "PrefillDecodeApart"


@dataclass(frozen=True, kw_only=True)
class Offer:
    """Something near what was asked that would work: what to write where, and the plan that it gives."""

    change: Change
    field: str
    value: str
    sentence: str
    plan: ClassPlan


@dataclass(frozen=True, kw_only=True)
class Infeasible:
    """The bound that cannot hold: what was wanted, the best that was found, in the same unit."""

    check: Check
    field: str
    class_name: str
    layout: Layout | None
    wanted: float
    reached: float
    unit: str
    sentence: str
    revalidate: tuple[str, ...] = ()
    """What to evaluate again, where an exception's evidence has expired."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`plans` has one for each class that can keep the promise, the chosen one first, and is empty when `infeasible` or
    a fatal problem says why. `rejected` covers all classes."""

    plans: tuple[ClassPlan, ...] = ()
    reasons: tuple[Reason, ...] = ()
    """Why this class; the reasons for a layout are in its plan."""
    rejected: tuple[Rejected, ...] = ()
    infeasible: Infeasible | None = None
    offers: tuple[Offer, ...] = ()
    problems: tuple[Problem, ...] = ()
    economics: Economics | None = None

    @property
    def chosen(self) -> ClassPlan | None:
        """The plan to carry out; None where there is none."""
        return self.plans[0] if self.plans else None


def to_json(value: Any) -> Any:
    """Any of these values as JSON has it: camelCase keys with a trailing unit `_s` kept, enums as text, decimals and
    layouts as text; a model's facts shrink to their name. None stays, so that absence can be told from zero."""
    if isinstance(value, Layout | Decimal):
        return str(value)
    if isinstance(value, ModelFacts):
        return value.name
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {_key(part.name): to_json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in value]
    return value


def _key(name: str) -> str:
    stem, unit = (name[:-2], "_s") if name.endswith("_s") else (name, "")
    first, *rest = stem.split("_")
    return first + "".join(word.title() for word in rest) + unit
