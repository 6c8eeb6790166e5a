"""What status says about scaling to zero and starts from it. Pure; all of it but `demand` is the operator's."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from modelfleet.api.schema import ApiModel, Instant, Unique, whole

_Count = Annotated[int, whole(0)]
_Sentence = Annotated[str, Field(max_length=1024)]
_Name = Annotated[str, Field(max_length=64)]


class ZeroState(StrEnum):
    """Where a model stands between replicas and none."""

    SERVING = "Serving"
    LEAVING = "Leaving"
    AT_ZERO = "AtZero"
    WAKING = "Waking"


class Demand(ApiModel):
    """Requests that one activator holds. Each activator writes its own entry."""

    activator: Annotated[str, Field(max_length=253)]
    """The activator's pod."""
    waiting: Annotated[int, whole(0, 1_000_000)]
    """Requests that wait for a replica."""
    at: Instant
    """When it was written."""


class Refusal(ApiModel):
    """Why a request that arrives now is not held but answered with 503."""

    reason: _Name
    """The reason, CamelCase; docs/conditions.md has it."""
    message: _Sentence
    """The reason in a sentence."""
    until: Instant | None = None
    """When a request is held again. Absent: nothing tells."""


class ZeroStatus(ApiModel):
    """How scaling to zero stands."""

    state: ZeroState
    """Serving; Leaving: the activator takes over, and the last replicas end; AtZero; Waking: replicas start for
    requests that wait."""
    since: Instant
    """Since when it is so."""
    activator_port: Annotated[int, whole(1, 65_535)] | None = None
    """The port of the activators that stands for this model. Absent: none is assigned yet."""
    replicas: _Count | None = None
    """Replicas that are being woken."""
    refusal: Refusal | None = None
    """Why requests are not held. Absent: they are."""
    advice: _Sentence | None = None
    """What going to zero saves and costs, from what was measured."""


class StartPhase(ApiModel):
    """One phase of a start, over the starts that were measured."""

    name: _Name
    """The phase: scheduled, image, weights, load, compile, ready."""
    p50_seconds: _Count
    """Half of all starts needed at most this long for it."""
    p90_seconds: _Count
    """Nine of ten starts needed at most this long for it."""


class StartProgress(ApiModel):
    """How far the coming replica is."""

    percent: Annotated[int, whole(0, 100)] | None = None
    """The share of the start that is done. Absent: nothing tells."""
    phase: _Name | None = None
    """What it does now."""
    left_seconds: _Count | None = None
    """What is left of it. Absent: nothing tells."""


class WarmNodes(ApiModel):
    """On how many nodes a start finds what it would bring otherwise, as far as pods have told."""

    weights: _Count
    """Nodes whose cache has the weights."""
    compiled_code: _Count
    """Nodes that keep what the engine compiled for this model, class and settings."""


class ColdStart(ApiModel):
    """How long it takes from the wish for a replica to its first token, on the class in use."""

    class_: Annotated[str, Field(alias="class", max_length=253)]
    """The AcceleratorClass that the starts were on."""
    starts: _Count
    """Starts that were measured, of the last ones."""
    p50_seconds: _Count | None = None
    """Half of all starts took at most this long."""
    p90_seconds: _Count | None = None
    """Nine of ten starts took at most this long."""
    phases: Annotated[tuple[StartPhase, ...], Field(max_length=16), Unique(("name",))] = ()
    """Where the seconds went."""
    progress: StartProgress | None = None
    """How far the coming replica is. Absent: none starts."""
    warm_nodes: WarmNodes | None = None
    """Where a start is shorter. Absent: nodes keep nothing of this model."""


Demands = Annotated[tuple[Demand, ...], Field(max_length=64), Unique(("activator",))]
"""Entries of all activators."""
