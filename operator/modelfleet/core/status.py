"""The whole status of a ModelDeployment, from one situation. Pure.

The status is a report: losing it changes no pod. An unchanged situation gives the same bytes: nothing in it moves by
itself, and a condition or a scaling decision keeps its time while it stays the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from modelfleet.api.conditions import MESSAGE_LIMIT, Condition, ConditionType, dump, read, upsert
from modelfleet.api.status import Plan, ScalingDecision
from modelfleet.core import raw
from modelfleet.core.promised import Promised
from modelfleet.core.replicas import ReplicasDecision
from modelfleet.core.report import plan_report, told
from modelfleet.core.revisions import Revision
from modelfleet.core.situation import Situation
from modelfleet.core.start_report import cold_start
from modelfleet.core.verdict import Verdict
from modelfleet.core.zero_report import zero_status

_DETAIL_LIMIT = 1024  # of ScalingDecision.detail


def report(s: Situation, said: Mapping[ConditionType, Verdict], promised: Promised) -> dict[str, Any]:
    """The status that says the verdicts `said`, what is measured of the promise, and the numbers of the situation."""
    before = raw.mapping(s.world.deployment, "status")
    generation = max(0, raw.integer(s.world.deployment, "metadata", "generation"))
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "conditions": dump(_conditions(before, said, generation, s.world.now)),
        "replicas": len(s.replicas),
        "readyReplicas": len(s.serving),
        "placedReplicas": sum(replica.placed for replica in s.replicas),
        "drainingReplicas": len(s.draining),
        "selector": s.children.owner.selector,
    }
    plan = _plan(s)
    if plan is not None:
        status["plan"] = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
        # What one replica was seen to do is a mean over all that serve: of several classes it would be none's.
        if promised.observed is not None and not any(s.on_later.values()):
            status["plan"]["pools"][0]["observed"] = dict(promised.observed)
    if promised.block is not None:
        status["goodput"] = dict(promised.block)
    status |= {
        key: part.model_dump(mode="json", by_alias=True, exclude_none=True) for key, part in told(s.intent, plan, s.mix)
    }
    zero = zero_status(s)
    if zero is not None:
        status["toZero"] = zero.model_dump(mode="json", by_alias=True, exclude_none=True)
    start = cold_start(s)
    if start is not None:
        status["coldStart"] = start.model_dump(mode="json", by_alias=True, exclude_none=True)
    decision = last_decision(s)
    if decision is not None:
        status["scaling"] = {"lastDecision": decision.model_dump(mode="json", by_alias=True, exclude_none=True)}
    return status


def stored_decision(s: Situation) -> ScalingDecision | None:
    """The scaling decision that the status says now; None where none can be read."""
    try:
        return ScalingDecision.model_validate(
            raw.mapping(s.world.deployment, "status", "scaling", "lastDecision"), by_alias=True, by_name=False
        )
    except ValidationError:
        return None


def last_decision(s: Situation) -> ScalingDecision | None:
    """The scaling decision to report: the stored one while nothing about it changed, or while none is made."""
    before = stored_decision(s)
    if s.intent.wish is None:
        return before
    made = _within_capacity(s, s.intent.wish.replicas)
    now = (made.replicas, str(made.reason), made.detail[:_DETAIL_LIMIT])
    if before is not None and (before.to, before.reason, before.detail) == now:
        # Only the bound can differ, and one that another manager wrote stays there whatever we apply.
        return before.model_copy(update={"bound": made.bound})
    (to, reason, detail), bound = now, made.bound
    was = before.to if before is not None else len(s.replicas)
    at = s.world.now.replace(microsecond=0)
    return ScalingDecision(from_=was, to=to, reason=reason, detail=detail, bound=bound, at=at)


def _within_capacity(s: Situation, made: ReplicasDecision) -> ReplicasDecision:
    """What was decided from samples, as far as there is room: Placed says what is missing. It goes on being wanted."""
    lacks = s.lacks
    if not lacks:
        return made
    there = max(0, made.replicas - lacks)
    waits = f"; {s.world.waits_for}" if s.world.waits_for else ""
    detail = f"{made.detail}; {made.replicas} are wanted and there is room for {there}{waits}"
    return replace(made, replicas=there, bound="capacity", detail=detail)


def _conditions(
    before: Mapping[str, Any], said: Mapping[ConditionType, Verdict], generation: int, now: datetime
) -> tuple[Condition, ...]:
    known = set(ConditionType)
    conditions = tuple(condition for condition in read(before) if condition.type in known)
    for kind, verdict in said.items():
        conditions = upsert(
            conditions,
            Condition(
                type=kind,
                status=verdict.status,
                reason=verdict.reason,
                message=verdict.message[:MESSAGE_LIMIT],
                observed_generation=generation,
                last_transition_time=now,
            ),
        )
    return conditions


def _plan(s: Situation) -> Plan | None:
    """The pinned plan: the wanted one, without a wish the newest that was pinned, with the replicas that it has. Where
    none was pinned, the one that exists and is not carried out."""
    revision: Revision | None = s.revision
    if revision is not None and s.intent.wish is not None:
        later = [(pool.plan, s.on_later[pool.name]) for pool in revision.later]
        on_first = max(0, s.wanted - sum(count for _, count in later))
        return plan_report(revision.name, s.intent.wish.plan, on_first, later)
    revision = max(s.known.values(), key=lambda known: (known.number, known.name), default=None)
    if revision is not None:
        counts = [(pool.plan, sum(replica.pool == pool.name for replica in s.replicas)) for pool in revision.pools]
        return plan_report(revision.name, *counts[0], counts[1:])
    return plan_report("", s.intent.shown, 0) if s.intent.shown is not None else None
