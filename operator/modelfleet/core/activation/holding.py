"""Whether a request is held for replicas that come, and when one that is not should be tried again. Pure.

A request is refused when it could not be answered in time anyway, and when holding it would take more than this process
has. Each refusal says the bound and a time to come back.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import ceil

from modelfleet.core.activation.known import Known, Outlook, Refusal
from modelfleet.core.scaling.zero_kept import LONGEST_S

UNMEASURED_S = 60.0
"""Retry-After where no start of the model was measured yet."""

_SHORTEST_S = 1


class Reason(StrEnum):
    """Why a request is held or refused; a label of the metrics."""

    HELD = "Held"
    TOO_MANY = "TooManyHeld"
    TOO_MANY_BYTES = "TooManyBytesHeld"
    TOO_LARGE = "BodyTooLarge"
    BEYOND_CAPACITY = "BeyondCapacity"
    START_FAILED = "StartFailed"
    WAITED_TOO_LONG = "WaitedTooLong"
    STOPPING = "Stopping"
    DELETED = "Deleted"


@dataclass(frozen=True)
class Limits:
    """What one process holds at most, over all models."""

    requests: int = 10_000
    total_bytes: int = 256 * 2**20
    body_bytes: int = 8 * 2**20
    """Of one request."""


@dataclass(frozen=True)
class Load:
    """What is held now. `ahead`: of the same model, by all activators as far as is known."""

    requests: int
    total_bytes: int
    ahead: int


@dataclass(frozen=True)
class Verdict:
    """Held, or refused with an HTTP status. `retry_after_s`: None where coming back does not help."""

    reason: Reason
    message: str
    status: int = 0
    retry_after_s: int | None = None

    @property
    def held(self) -> bool:
        """Whether the request may wait."""
        return self.reason is Reason.HELD


def start_left_s(outlook: Outlook, now: datetime) -> float | None:
    """Seconds until replicas stand: what the start itself tells, else its usual length less what passed; None: nothing
    was measured yet."""
    if outlook.left_s is not None:
        return outlook.left_s
    if outlook.usual_s is None:
        return None
    return max(0.0, outlook.usual_s - _passed_s(outlook, now))


def _passed_s(outlook: Outlook, now: datetime) -> float:
    """Since the start that runs began. Its begin is by the operator's clock, which may be ahead of ours."""
    return max(0.0, (now - outlook.since).total_seconds()) if outlook.since is not None else 0.0


def _late_s(outlook: Outlook, now: datetime) -> float:
    """By how much a start that does not tell how far it is has passed its usual time."""
    if outlook.left_s is not None or outlook.usual_s is None:
        return 0.0
    return max(0.0, _passed_s(outlook, now) - outlook.usual_s)


def wait_s(model: Known, ahead: int, now: datetime) -> float | None:
    """Seconds until a request behind `ahead` others is handed on: the start, then the queue at the rate that all
    replicas together serve within the promise; None: nothing is known."""
    left_s = start_left_s(model.outlook, now)
    if model.rate_rps is None:
        return left_s
    return (left_s or 0.0) + ahead / (model.rate_rps * model.most_replicas)


def retry_after_s(model: Known, ahead: int, now: datetime) -> int:
    """Whole seconds after which the model should answer at once. A start that is late is asked for in as long as it is
    late already, at most a minute: nothing better is known of it."""
    expected_s = wait_s(model, ahead, now) if start_left_s(model.outlook, now) is not None else None
    late_s = min(UNMEASURED_S, _late_s(model.outlook, now))
    return max(_SHORTEST_S, ceil(UNMEASURED_S if expected_s is None else expected_s + late_s))


def decide_hold(model: Known, load: Load, body_bytes: int, limits: Limits, now: datetime) -> Verdict:
    """Whether a request with a body of `body_bytes` (as far as it is known) is held."""
    again_s = retry_after_s(model, load.ahead, now)
    if model.refusal is not None and model.refusal.holds_at(now):
        return failed(model, model.refusal, load.ahead, now)
    if body_bytes > limits.body_bytes:
        return too_large(model, limits)
    if load.requests >= limits.requests:
        said = f"this activator already holds {load.requests} requests, its most"
        return Verdict(Reason.TOO_MANY, _not_ready(model, said), 503, again_s)
    if load.total_bytes + body_bytes > limits.total_bytes:
        return too_many_bytes(model, load, limits, now)
    expected_s = wait_s(model, load.ahead, now)
    if expected_s is not None and expected_s > model.patience_s:
        said = (
            f"an answer is expected in {ceil(expected_s)} s, with {load.ahead} requests ahead, and scaling.toZero"
            f" accepts {model.patience_s:g} s"
        )
        return Verdict(Reason.BEYOND_CAPACITY, _not_ready(model, said), 503, again_s)
    return Verdict(Reason.HELD, f"held for at most {model.patience_s:g} s")


def failed(model: Known, refusal: Refusal, ahead: int, now: datetime) -> Verdict:
    """The start cannot succeed now, and the operator says why; before its `until` no other is tried."""
    again_s = retry_after_s(model, ahead, now)
    if refusal.until is not None:
        until_s = min(LONGEST_S, (refusal.until - now).total_seconds())  # by the operator's clock, and bounded by it
        again_s = max(_SHORTEST_S, ceil(until_s))
    words = f"{refusal.reason}: {refusal.message}" if refusal.message else refusal.reason
    return Verdict(Reason.START_FAILED, f"{model.served_names[0]} cannot start: {words}", 503, again_s)


def too_many_bytes(model: Known, load: Load, limits: Limits, now: datetime) -> Verdict:
    """The bodies of all who wait are more than is held."""
    said = f"this activator already holds bodies of {load.total_bytes} bytes, and at most {limits.total_bytes}"
    return Verdict(Reason.TOO_MANY_BYTES, _not_ready(model, said), 503, retry_after_s(model, load.ahead, now))


def too_large(model: Known, limits: Limits) -> Verdict:
    """The body is more than is held of one request."""
    said = f"the body has more than {limits.body_bytes} bytes, the most that is held of a request until it is"
    return Verdict(Reason.TOO_LARGE, _not_ready(model, said), 413)


def waited_too_long(model: Known, ahead: int, now: datetime) -> Verdict:
    """The longest accepted wait is over."""
    said = f"no replica stood within the {model.patience_s:g} s that scaling.toZero accepts"
    return Verdict(Reason.WAITED_TOO_LONG, _not_ready(model, said), 503, retry_after_s(model, ahead, now))


def stopping(model: Known) -> Verdict:
    """This activator ends before replicas stand."""
    return Verdict(Reason.STOPPING, _not_ready(model, "this activator ends; another one holds requests"), 503, 1)


def deleted(name: str) -> Verdict:
    """The ModelDeployment is gone, or no longer goes to zero and its replicas do not serve through us."""
    return Verdict(Reason.DELETED, f"{name} is no longer served here", 404)


def _not_ready(model: Known, said: str) -> str:
    return f"{model.served_names[0]} is not ready: {said}"
