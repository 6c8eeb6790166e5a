"""What status tells of starts. Pure; a report that nothing is decided from.

Figures of finished starts change with a start; how far the coming one is is told in coarse steps.
"""

from modelfleet.api.zero_status import ColdStart, StartPhase, StartProgress, WarmNodes
from modelfleet.core.cold_start import PHASES, Outlook, Start, outlook, quantiles, reading_of, total_s
from modelfleet.core.groups import Replica
from modelfleet.core.situation import Situation
from modelfleet.core.warmth import warm_for

_PERCENT_STEP, _LEFT_STEP_S = 10, 10


def cold_start(s: Situation) -> ColdStart | None:
    """The block `status.coldStart`, of the class in use; None without a measured start and without one that runs."""
    wish = s.intent.wish
    if s.starts is None or wish is None:
        return None
    starts = s.starts.by_class.get(wish.plan.class_name, ())
    whole = quantiles(tuple(map(total_s, starts)))
    progress = _progress(s, whole.p50_s if whole else None)
    if whole is None and progress is None:
        return None
    return ColdStart(
        class_=wish.plan.class_name,
        starts=len(starts),
        p50_seconds=round(whole.p50_s) if whole else None,
        p90_seconds=round(whole.p90_s) if whole else None,
        phases=tuple(_phase(name, starts) for name in PHASES if any(name in each for each in starts)),
        progress=progress,
        warm_nodes=_warm_nodes(s),
    )


def _warm_nodes(s: Situation) -> WarmNodes | None:
    if s.intent.wish is None or not s.warmth:
        return None
    warm = warm_for(s.intent.wish.plan, s.warmth)
    return WarmNodes(weights=len(warm.weights), compiled_code=len(warm.compiled)) if warm.weights else None


def _phase(name: str, starts: tuple[Start, ...]) -> StartPhase:
    found = quantiles(tuple(each.get(name, 0.0) for each in starts))
    p50_s, p90_s = (found.p50_s, found.p90_s) if found else (0.0, 0.0)
    return StartPhase(name=name, p50_seconds=round(p50_s), p90_seconds=round(p90_s))


def _progress(s: Situation, usual_s: float | None) -> StartProgress | None:
    """Of the replica that is nearest to serving, while none serves or more are wanted."""
    coming = [replica for replica in s.current if not (replica.ready or replica.failure or replica.finished)]
    if not coming:
        return None
    found = max((_outlook(s, replica, usual_s) for replica in coming), key=lambda each: each.share or 0.0)
    percent = int(found.share * 100 / _PERCENT_STEP) * _PERCENT_STEP if found.share is not None else None
    left_s = max(1, round(found.left_s / _LEFT_STEP_S)) * _LEFT_STEP_S if found.left_s is not None else None
    return StartProgress(percent=percent, phase=found.phase, left_seconds=left_s)


def _outlook(s: Situation, replica: Replica, usual_s: float | None) -> Outlook:
    pod = s.children.pods.get(replica.name, {})
    return outlook(replica, pod, reading_of(s.world.samples, replica.uid), usual_s, s.world.now)
