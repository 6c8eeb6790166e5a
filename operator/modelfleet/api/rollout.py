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
    """Replicas that may exist above the wanted number while old ones are replaced. 0: an old one always leaves first.
    Default: 1."""
    max_unavailable: Annotated[int, whole(0, 1000)] | None = None
    """Replicas that may be missing while old ones are replaced in place. 0: none; without room for a new one the
    rollout then waits. Default: the operator decides: as many as the others can stand in for at the declared load, and
    one where they cannot."""
    progress_deadline: PositiveDuration = PositiveDuration("30m")
    """How long a rollout may go on without one more new replica that serves. Default: 30m."""
    on_failure: OnFailure = OnFailure.ROLLBACK
    """What happens when the new replicas do not serve while old ones do. Rollback: the old plan is kept for this spec,
    and Progressing says so. Hold: the rollout stops where it is. Default: Rollback."""
    paused: Annotated[bool, Field(strict=True)] = False
    """Whether a rollout stands still: what runs stays, and what is lost or scaled up is of the plan that most replicas
    run. Default: false."""
