"""What status tells of scaling to zero. Pure; a report that nothing is decided from."""

from datetime import datetime, timedelta

from modelfleet.api.reasons import Reason
from modelfleet.api.zero_status import Refusal, ZeroState, ZeroStatus
from modelfleet.core import raw
from modelfleet.core.cold_start import quantiles, total_s
from modelfleet.core.scaling.break_even import Record, advice
from modelfleet.core.scaling.zero import back_off_s
from modelfleet.core.situation import Situation

_SENTENCE = 1024  # of a refusal's message
_BY_HAND = "spec.scaling.mode is Manual and replicas is 0, so no request wakes the model; set replicas to at least 1"


def zero_status(s: Situation) -> ZeroStatus | None:
    """The block `status.toZero`; None where the deployment has nothing to do with zero."""
    zero = s.zero
    if zero is None:
        return None
    kept = zero.kept
    since = kept.since or raw.instant(s.world.deployment, "metadata", "creationTimestamp") or s.world.now
    return ZeroStatus(
        state=kept.state,
        since=_told(s, kept.state, since.replace(microsecond=0)),
        activator_port=kept.port,
        replicas=zero.replicas if kept.state is ZeroState.WAKING else None,
        refusal=refusal(s),
        advice=_advice(s) or None,
    )


def _told(s: Situation, state: ZeroState, since: datetime) -> datetime:
    """A time that lies ahead is taken for now at each look: what was told once of the same state stays."""
    now = s.world.now.replace(microsecond=0)
    before = raw.instant(s.world.deployment, "status", "toZero", "since")
    same = raw.text(s.world.deployment, "status", "toZero", "state") == state
    return before if since == now and same and before is not None and before <= now else since


def _advice(s: Situation) -> str:
    """Of the record up to the last change of the state, so that it stands still in between."""
    wish, kept = s.intent.wish, s.zero.kept if s.zero else None
    terms = wish.deployment.spec.scaling.to_zero if wish else None
    if wish is None or terms is None or kept is None or s.starts is None:
        return ""
    took = quantiles(tuple(map(total_s, s.starts.by_class.get(wish.plan.class_name, ()))))
    span = kept.since - kept.counted_since if kept.since and kept.counted_since else timedelta()
    return advice(
        Record(
            span_s=span.total_seconds(),
            at_zero_s=kept.at_zero_s,
            wakes=kept.wakes,
            after_s=terms.after.seconds,
            accelerators=wish.plan.accelerators,
            start_p50_s=took.p50_s if took else None,
            start_p90_s=took.p90_s if took else None,
        )
    )


def refusal(s: Situation) -> Refusal | None:
    """Why a request that arrives now cannot be answered, however long it waits.

    | a replica serves, or the model is not at zero | None |
    | the spec is not accepted, or no plan can be made | that reason |
    | by hand | ZeroByHand |
    | a wake failed, and its back-off is not over | WakeFailed, until it is |
    | waking, no replica has a node, and the API server refuses the pods | PodsRefused |
    | waking, and no node has room | NoRoom |
    | else | None |
    """
    zero = s.zero
    if zero is None or s.serving or zero.state not in (ZeroState.AT_ZERO, ZeroState.WAKING):
        return None
    if s.intent.wish is None:
        said = s.intent.accepted if not s.intent.accepted.holds else s.intent.planned
        return _refusal(said.reason, said.message)
    by_hand = s.intent.deployment is not None and s.intent.deployment.spec.scaling.mode == "Manual"
    if by_hand:
        return _refusal(Reason.ZERO_BY_HAND, _BY_HAND)
    if zero.state is ZeroState.AT_ZERO:
        return _backing_off(s)
    if s.world.refused and s.step.create and not any(replica.placed for replica in s.staying):
        return _refusal(Reason.PODS_REFUSED, f"the API server refuses the replicas: {s.world.refused}")
    short = [name for name in sorted(s.placing.shortfalls) if name not in s.placing.bought]
    if short and not s.placed_any and not any(replica.terminating for replica in s.fleet):
        return _refusal(Reason.NO_ROOM, f"replica {short[0]} {s.placing.shortfalls[short[0]].sentence}")
    return None


def _backing_off(s: Situation) -> Refusal | None:
    failed = s.zero.kept.failed if s.zero else None
    generation = raw.integer(s.world.deployment, "metadata", "generation")
    if failed is None or s.zero is None or back_off_s(s.zero.kept, generation, s.world.now) <= 0:
        return None
    times = "a wake" if failed.times == 1 else f"the last {failed.times} wakes"
    message = f"{times} failed ({failed.reason}): {failed.message}"
    return Refusal(reason=Reason.WAKE_FAILED, message=message[:_SENTENCE], until=failed.until)


def _refusal(reason: Reason, message: str) -> Refusal:
    return Refusal(reason=reason, message=message[:_SENTENCE])
