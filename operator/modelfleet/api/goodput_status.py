"""What status tells of the promise as it is measured. Pure; a report, never an input to a decision.

Every number is rounded and written once a minute at most. What is not known is absent; zero is a number.
"""

from typing import Annotated

from pydantic import Field

from modelfleet.api.schema import ApiModel, Unique, whole

_Number = Annotated[str, Field(max_length=32)]
_Count = Annotated[int, whole(0)]


class ObjectiveGoodput(ApiModel):
    """One objective in the window."""

    name: Annotated[str, Field(max_length=63)]
    """The objective."""
    target: Annotated[str, Field(max_length=16)]
    """The share that is promised."""
    share: Annotated[str, Field(max_length=16)] | None = None
    """The share of requests that kept the promise. Absent: none ended in the window."""
    requests: _Count = 0
    """About how many requests ended in the window and are in the share."""
    requests_per_second: _Number | None = None
    """Good requests a second."""
    outside_regime: Annotated[str, Field(max_length=256)] | None = None
    """How the window passes the load or the lengths that the promise is for. Absent: it does not."""


class GoodputStatus(ApiModel):
    """What was measured of requests in the last minutes. Absent: there is no data."""

    window: _Number
    """How much time the figures are of: five minutes, less after a start of the operator."""
    share: Annotated[str, Field(max_length=16)] | None = None
    """The share of requests that kept their promise, all objectives together. While the window is outside the regime
    this is that of the last window inside it. Absent: not known."""
    requests_per_second: _Number | None = None
    """Good requests a second, all objectives together."""
    objectives: Annotated[tuple[ObjectiveGoodput, ...], Field(max_length=4), Unique(("name",))] = ()
    """Each objective by itself."""
    outside_regime_share: Annotated[str, Field(max_length=16)] | None = None
    """The same share in a window outside the regime. Absent: the window is inside it."""


class Observed(ApiModel):
    """What one replica was seen to do, beside what was predicted."""

    ttft: _Number | None = None
    """What the wanted share of requests stayed inside, time to the first token."""
    tpot: _Number | None = None
    """The same, mean time per output token."""
    requests_per_second: _Number | None = None
    """Requests that arrived at one replica in a second."""
    concurrency: _Number | None = None
    """Requests in flight in one replica."""
    kv_cache_tokens: _Count | None = None
    """Tokens that the KV cache of one replica holds."""
    knee_requests_per_second: _Number | None = None
    """The highest rate of one replica that keeps the promise, as requests taught it. Absent: no better known than
    planned."""
    knee_uncertainty: _Number | None = None
    """Half-width of its 90 % interval, in percent of it."""
    step_time: _Number | None = None
    """Measured time of the engine's steps over the predicted one: 1.1 is a tenth slower."""
    step_time_uncertainty: _Number | None = None
    """Half-width of the 90 % interval of times once corrected by it, in percent of them."""
    steps: _Count | None = None
    """About how many steps it is from."""
    profile: Annotated[str, Field(max_length=253)] | None = None
    """The ModelProfile that it is written to, for later plans."""
