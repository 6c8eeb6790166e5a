"""What a status says when the operator failed to decide. Pure.

Every other condition comes from core; this story is known only to the shell.
"""

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
    """The stored status with every condition Unknown, because nothing was evaluated."""
    generation = int(deployment["metadata"].get("generation", 0))
    status = deployment.get("status") or {}
    message = (
        f"the operator failed to decide about this object ({type(error).__name__}: {error}); what runs goes on running,"
        " and it is tried again; please report it with the operator's log"
    )
    conditions = read(status)
    for kind in ConditionType:
        unknown = Condition(
            type=kind,
            status=ConditionStatus.UNKNOWN,
            reason=Reason.OPERATOR_BUG,
            message=message[:MESSAGE_LIMIT],
            observed_generation=generation,
            last_transition_time=now,
        )
        conditions = upsert(conditions, unknown)
    return {**status, "observedGeneration": generation, "conditions": dump(conditions)}
