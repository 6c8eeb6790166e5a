"""spec.scaling.toZero: when no replica runs, and how long the first caller then waits. Pure."""

from enum import StrEnum

from modelfleet.api.schema import ApiModel
from modelfleet.api.values import PositiveDuration


class FirstCaller(StrEnum):
    """Whether a request that arrives while no replica runs counts in the promise."""

    COUNTS = "Counts"
    EXCUSED = "Excused"


class ToZero(ApiModel):
    """The conditions on which all replicas are given back. Requests that arrive then are held by the activator, and
    wake as many replicas as they need."""

    after: PositiveDuration = PositiveDuration("15m")
    """How long no request may have come before the last replicas end; the time runs from the first that is ready.
    Default: 15m."""
    first_caller_waits: PositiveDuration
    """Required. The longest that a request which arrives at zero waits for its first token, such as 5m. The activator
    holds no more requests than can be answered in it."""
