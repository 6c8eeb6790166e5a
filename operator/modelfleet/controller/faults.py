"""What a status says when deciding or doing failed. Pure.

The decision's own conditions come from core; these two stories are known only to the shell, after core has spoken.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from modelfleet.api.conditions import (
    MESSAGE_LIMIT,
    Condition,
    ConditionStatus,
    ConditionType,
    dump,
    read,
    upsert,
)
from modelfleet.api.reasons import Reason
from modelfleet.core.snapshot import Raw


def bug_status(deployment: Raw, error: BaseException, now: datetime) -> dict[str, Any]:
    """The stored status, with every condition Unknown: nothing was evaluated."""
    message = (
        f"the operator failed to decide about this object ({type(error).__name__}: {error}); what runs goes on running,"
        " and it is tried again; please report it with the operator's log"
    )
    unknown = [(kind, ConditionStatus.UNKNOWN, Reason.OPERATOR_BUG, message) for kind in ConditionType]
    return _overlaid(deployment, deployment.get("status") or {}, unknown, now)


def refused_status(deployment: Raw, status: Mapping[str, Any], message: str, now: datetime) -> dict[str, Any]:
    """The decided status, corrected by what the API server refused: nothing moves, and that is why."""
    reason = Reason.PODS_REFUSED
    told = f"the API server refuses a child object: {message}"
    stuck = (ConditionType.PLACED, ConditionType.PROGRESSING)
    standing = {condition.type: condition.status for condition in read(status)}
    waiting = [
        kind for kind in (ConditionType.AVAILABLE, ConditionType.READY) if standing.get(kind) is ConditionStatus.FALSE
    ]
    rows = [(kind, ConditionStatus.FALSE, reason, told) for kind in (*stuck, *waiting)]
    return _overlaid(deployment, status, rows, now)


def _overlaid(
    deployment: Raw,
    status: Mapping[str, Any],
    rows: Iterable[tuple[ConditionType, ConditionStatus, Reason, str]],
    now: datetime,
) -> dict[str, Any]:
    generation = int(deployment["metadata"].get("generation", 0))
    conditions = read(status)
    before = {condition.type: condition for condition in read(deployment.get("status") or {})}
    for kind, state, reason, message in rows:
        old = before.get(kind)
        since = old.last_transition_time if old is not None and old.status is state else now
        new = Condition(
            type=kind,
            status=state,
            reason=reason,
            message=message[:MESSAGE_LIMIT],
            observed_generation=generation,
            last_transition_time=since,
        )
        conditions = upsert(tuple(c for c in conditions if c.type != kind), new)
    return {**status, "observedGeneration": generation, "conditions": dump(conditions)}
