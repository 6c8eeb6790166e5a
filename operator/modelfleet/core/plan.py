"""The pinned plan: everything that determines a worker pod, as one JSON value. Pure.

A plan is made once for a revision, stored in its ControllerRevision and never computed again while that revision
lives, so that another operator version or other operator settings move no pod.
"""

import json
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from modelfleet.api import names
from modelfleet.api.values import Quantity
from modelfleet.core.layout.shape import Layout


def _amount(text: str) -> str:
    return str(Quantity(text)) if text else ""


Amount = Annotated[str, AfterValidator(_amount)]
"""A canonical quantity; empty where there is none."""


MOST = 2**31 - 1
"""No count in a plan is larger: status could not tell it."""
NODES_LIMIT = 1024
"""No replica has pods on more nodes."""

_Count = Annotated[int, Field(ge=1, le=MOST)]
_Seconds = Annotated[float, Field(ge=0, le=10**9)]


def mounted(claim: str, path: str) -> str:
    """Where a folder of a claim is in a pod that mounts it."""
    return "/".join(part for part in (names.MODELS_MOUNT, claim, path) if part)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class Limits(_Part):
    """Times in seconds. `drain_s`: the longest wait for requests in flight; `propagation_s`: how long arrivals are
    still served after the pod left the endpoints; `start_deadline_s`: from process start to the first token."""

    start_deadline_s: _Seconds = Field(serialization_alias="startDeadline_s", validation_alias="startDeadline_s")
    drain_s: _Seconds = Field(serialization_alias="drain_s", validation_alias="drain_s")
    propagation_s: _Seconds = Field(serialization_alias="propagation_s", validation_alias="propagation_s")


_Text = Annotated[str, Field(max_length=32)]
SENTENCE = 1024
"""Characters that a sentence in a plan has at most."""
_Sentence = Annotated[str, Field(max_length=SENTENCE)]
_Number = Annotated[int, Field(ge=0, le=MOST)]
_Figure = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class Predicted(_Part):
    """What one replica was predicted to do when the plan was made. Texts as status shows them, rounded."""

    ttft: _Text
    tpot: _Text
    concurrency: _Text
    kv_cache_tokens: _Number
    knee_requests_per_second: _Text
    knee_bound: _Text
    uncertainty: _Text
    source: _Text


class Hosted(_Part):
    """The load that the plan was made for, for its cost: of the whole deployment, and mean tokens of a request.
    `knee_measured`: the knee is that of a ModelProfile, at its pessimistic end."""

    load_rps: _Figure = Field(serialization_alias="load_rps", validation_alias="load_rps")
    knee_rps: _Figure = Field(serialization_alias="knee_rps", validation_alias="knee_rps")
    input_tokens: _Figure
    output_tokens: _Figure
    shared_prefix_tokens: _Figure
    knee_measured: bool = False


class Why(_Part):
    """A reason, or a layout that was not taken: the check, the sentence, and what it is about."""

    check: Annotated[str, Field(max_length=64)]
    sentence: _Sentence
    class_name: Annotated[str, Field(max_length=253)] = ""
    layout: Annotated[str, Field(max_length=64)] = ""


class Planned(_Part):
    """What the planner chose, and why. `replicas` are those that the declared load needs; `summary` is one sentence."""

    role: Literal["Serve", "Prefill", "Decode"] = "Serve"
    weights: _Text
    kv_cache: _Text
    token_budget: _Number | None = None
    sequence_cap: _Number | None = None
    block_tokens: _Number | None = None
    replicas: _Number
    predicted: Predicted
    hosted: Hosted
    reasons: Annotated[tuple[Why, ...], Field(max_length=32)] = ()
    rejected: Annotated[tuple[Why, ...], Field(max_length=32)] = ()
    summary: Annotated[str, Field(max_length=4000)] = ""


class Place(StrEnum):
    """Where a pod has weights that are no folder of a claim: fetched for itself, for its node or onto a claim, or in a
    folder of the node."""

    POD = "Pod"
    NODE = "Node"
    CLAIM = "Claim"
    FOLDER = "Folder"


class Weights(_Part):
    """Weights that are fetched, or in a folder of the node. `revision` is what `source` is pinned to.

    `node_path` is the folder of the node that is mounted: a granted cache, or a prefix that the administrator allows,
    and then `path` is the rest. `size_bytes` and `max_age_s` bound a node's cache.
    """

    source: Annotated[str, Field(max_length=1024)]
    revision: Annotated[str, Field(max_length=256)] = ""
    endpoint: str = ""
    secret: str = ""
    code: bool = False
    place: Place
    claim: str = ""
    node_path: str = ""
    path: str = ""
    size_bytes: Annotated[int, Field(ge=0)] = 0
    max_age_s: Annotated[float, Field(ge=0, le=10**9)] = 0.0

    @property
    def is_fetched(self) -> bool:
        """Whether a container fetches them before the worker starts."""
        return self.place is not Place.FOLDER

    @property
    def is_shared(self) -> bool:
        """Whether other pods find what this one fetched."""
        return self.place in (Place.NODE, Place.CLAIM)


class CorrectionStep(_Part):
    """An engine flag without dashes that was lowered, from `before` (empty: the engine's default), after a death whose
    reason is `cause`."""

    flag: Annotated[str, Field(max_length=64)]
    value: _Text
    before: _Text = ""
    cause: Annotated[str, Field(max_length=64)]
    at: AwareDatetime


class Corrections(_Part):
    """The steps that were taken for one scope (core/correction.py), the oldest first."""

    scope: Annotated[str, Field(max_length=64)]
    steps: Annotated[tuple[CorrectionStep, ...], Field(max_length=8)] = ()


class Plan(_Part):
    """One replica, pinned. A field that a later version adds needs a default that reads as "not there": a stored plan
    that cannot be read any more would be planned anew, and an operator's upgrade must not do that.

    `accelerators` is how many of `resource_name` a replica takes, in equal parts on `nodes` nodes with one pod each.
    `host_cpu` and `host_memory` are canonical quantities for one pod, empty where the class states none. `engine_args`
    and `engine_env` go to the engine through the worker's `plan.json`, never into the pod's own command or environment.
    `planned` is None where nothing was predicted; no pod depends on it. `weights` is None where they are at `path` of
    `claim`, and these are empty where it is not; `pickled` allows pickles.
    """

    image: str
    image_pull_policy: str
    class_name: Annotated[str, Field(max_length=253)]
    device: str
    tensor: _Count
    resource_name: str
    accelerators: _Count
    host_cpu: Amount = ""
    host_memory: Amount = ""
    shared_memory: str
    claim: str
    path: str
    served_names: tuple[str, ...]
    installation_claim: str = ""
    engine_args: tuple[str, ...] = ()
    engine_env: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    priority_class_name: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    limits: Limits
    pipeline: Annotated[int, Field(ge=1, le=1024)] = 1
    data: Annotated[int, Field(ge=1, le=1024)] = 1
    expert: bool = False
    planned: Planned | None = None
    weights: Weights | None = None
    pickled: bool = False
    engine_version: Annotated[str, Field(max_length=64)] = ""
    """The version of vLLM that the engine's arguments are for; empty: nobody said."""
    promise: bool = False
    """Whether pods mount NAME-promise. Not those of plans from before it: their workers know none."""
    accelerator_memory: Amount = ""
    """What the class states for one accelerator, which the worker checks; empty in plans from before it did."""
    memory: Corrections | None = None
    """What was lowered after a worker died for lack of memory; `engine_args` has it."""
    nodes: Annotated[int, Field(ge=1, le=NODES_LIMIT)] = 1
    compiled: bool = False
    """Whether code that the engine compiles is kept beside the weights, for later starts."""
    others: Annotated[tuple["Plan", ...], Field(max_length=16)] = ()
    """The plans on the other listed classes that carry the model, in the order in which they are used where the classes
    before have no room. They have no `others` of their own."""
    unused: Annotated[tuple[Why, ...], Field(max_length=16)] = ()
    """Listed classes that have no plan here, and why."""

    @property
    def knee_rps(self) -> float | None:
        """Requests a second of one replica inside the promise; None where nothing was predicted."""
        return self.planned.hosted.knee_rps if self.planned is not None else None

    @property
    def layout(self) -> str:
        """The layout in one word, as status says it: `tp2` is tensor parallel over two accelerators."""
        return str(Layout(self.tensor, self.pipeline, self.data, expert=self.expert))

    @property
    def member_accelerators(self) -> int:
        """How many accelerators each pod of a replica asks for."""
        return max(1, self.accelerators // self.nodes)

    @property
    def model_path(self) -> str:
        """Where the worker finds the model's files."""
        if self.weights is None:
            return mounted(self.claim, self.path)
        return f"{self.store}/models/{self.store_key}" if self.weights.is_fetched else names.NODE_MOUNT

    @property
    def store(self) -> str:
        """Where fetched weights are kept in the pod; on a claim in a folder of ours, because others may be there."""
        on_claim = self.weights is not None and self.weights.place is Place.CLAIM
        return f"{names.WEIGHTS_MOUNT}/{names.WEIGHTS_FOLDER}" if on_claim else names.WEIGHTS_MOUNT

    @property
    def store_key(self) -> str:
        """The name of these weights in a store: equal names are equal files."""
        of = self.weights
        if of is None:
            return ""
        text = json.dumps([of.source, of.revision, of.endpoint, self.pickled, of.code])
        return sha256(text.encode()).hexdigest()[:32]

    @property
    def compiled_key(self) -> str:
        """The name of what the engine compiles for this plan, as far as a plan decides it; empty where it is not kept.
        The worker adds what it finds installed, and its processors."""
        if not self.compiled:
            return ""
        engine = [self.engine_version, sorted(self.engine_args), sorted(self.engine_env.items())]
        text = json.dumps([self.store_key, self.class_name, self.device, self.layout, *engine])
        return sha256(text.encode()).hexdigest()[:32]

    def to_json(self) -> dict[str, Any]:
        """The value that is stored; `read` of it gives an equal plan."""
        value = self.model_dump(mode="json", by_alias=True, exclude=_LATER)
        return value | self.model_dump(
            mode="json", by_alias=True, include=_LATER, exclude_defaults=True, exclude_none=True
        )


_LATER = {
    "pipeline",
    "data",
    "expert",
    "planned",
    "promise",
    "engine_version",
    "weights",
    "pickled",
    "accelerator_memory",
    "memory",
    "nodes",
    "compiled",
    "others",
    "unused",
}
"""Left out of the stored plan at their defaults, as in plans from before there were such fields."""


def read(value: Any) -> Plan | None:
    """The plan in a stored value; None where it is not one (somebody else's or a damaged object)."""
    try:
        return Plan.model_validate(value)
    except ValidationError:
        return None
