"""The status of a ModelDeployment: a report, never an input to a decision. Pure."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from modelfleet.api.conditions import Condition
from modelfleet.api.schema import ApiModel, Instant, Unique, whole

Count = Annotated[int, whole(0)]


class Role(StrEnum):
    """What a pool of workers does."""

    SERVE = "Serve"


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
    """Replicas that are wanted."""


class Plan(ApiModel):
    """The pinned plan: it changes only when the spec or the referenced class changes."""

    revision: Annotated[str, Field(max_length=63)]
    """The revision's identity; pods carry it as the label modelfleet.dev/revision."""
    pools: Annotated[tuple[Pool, ...], Field(max_length=16), Unique(("role", "class_"))] = ()
    """What runs where."""


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
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The spec's generation that this status speaks of."""
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
