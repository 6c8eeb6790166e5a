"""How a changed plan replaces running replicas: spec.rollout. Pure."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from modelfleet.api.schema import ApiModel, whole
from modelfleet.api.values import PositiveDuration


class OnFailure(StrEnum):
    """What happens to a rollout whose new replicas do not serve."""

    ROLLBACK = "Rollback"
    HOLD = "Hold"


class Rollout(ApiModel):
    """How a changed plan replaces running replicas."""

    max_surge: Annotated[int, whole(0, 1000)] = 1
    """Replicas that may exist above the wanted number while old ones are replaced. 0: an old one leaves first, as far
    as a new one may then stand there. Default: 1."""
    max_unavailable: Annotated[int, whole(0, 1000)] | None = None
    """Replicas that may be missing while old ones are replaced in place. 0: none; without room for a new one the
    rollout then waits. Default: the operator decides: as many as the load and minReplicas do not need, and one where
    they need all."""
    progress_deadline: PositiveDuration | None = None
    """How long a rollout may go on without one more new replica that serves. Default: as long as a new replica may take
    to start, at least 30m."""
    on_failure: OnFailure = OnFailure.ROLLBACK
    """What happens when the new replicas do not serve and those of an earlier plan do, or did until they made room.
    Rollback: that plan is kept for this spec, and Progressing says so. Hold: the rollout stops where it is. Default:
    Rollback."""
    paused: Annotated[bool, Field(strict=True)] = False
    """Whether a rollout stands still: what runs stays, and what is lost or scaled up is of the plan that most replicas
    run. Default: false."""
