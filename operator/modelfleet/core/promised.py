"""Whether the promise is kept, and what the status says of it. Pure.

Decided from samples, each time anew. What the status said before is looked at for two things only, both of reporting:
figures stay for a minute, and a window outside the regime is shown beside the last one inside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor
from typing import Any

from modelfleet.api.conditions import ConditionType, read
from modelfleet.api.goodput_status import GoodputStatus, ObjectiveGoodput
from modelfleet.api.reasons import Reason
from modelfleet.core import raw
from modelfleet.core.layout.wording import rounded
from modelfleet.core.measured import hold_left_s, holds
from modelfleet.core.profiling import TOLD, Learning
from modelfleet.core.scaling.goodput import LEAST_SPAN_S, Goodput, Measured, measure
from modelfleet.core.scaling.samples import UNREAD
from modelfleet.core.scaling.seen import observed
from modelfleet.core.situation import Situation
from modelfleet.core.verdict import Verdict, no, unknown, yes


@dataclass(frozen=True)
class Promised:
    """The verdict of ObjectivesMet and the block status.goodput; None where there is no data. `observed` is
    that of the pool. `wake_after_s`: newer figures wait until then."""

    verdict: Verdict
    block: Mapping[str, Any] | None
    observed: Mapping[str, Any] | None = None
    wake_after_s: float | None = None


def decide_promised(s: Situation, learning: Learning) -> Promised:
    """What is said now: the figures of a moment ago, unless what follows from them is another by now."""
    samples, wish = s.world.samples, s.intent.wish
    if samples is None or wish is None:
        why = "nothing is measured in a preview" if samples is None else "its spec is not accepted and planned"
        return Promised(unknown(Reason.NOT_MEASURED, why), None)
    found = measure(wish.deployment, samples, (replica.uid for replica in s.serving))
    inside = raw.text(s.world.deployment, "status", "goodput", "share")
    verdict = decide_objectives_met(found, inside, wanted=s.wanted)
    block = goodput_block(found, inside) if _has_data(found) else None
    return _held(s, Promised(verdict, block, observed(wish.deployment, samples, found) if block else None), learning)


def _held(s: Situation, now: Promised, learning: Learning) -> Promised:
    """Figures that were written less than a minute ago stay, with the sentence about them."""
    status = raw.mapping(s.world.deployment, "status")
    told = next((each for each in read(status) if each.type == ConditionType.OBJECTIVES_MET), None)
    block = raw.mapping(status, "goodput")
    seen = next((raw.mapping(pool, "observed") for pool in raw.items(status, "plan", "pools")), {})
    new = told is None or (told.status, told.reason) != (now.verdict.status, str(now.verdict.reason))
    if told is not None and not new and now.verdict.message.endswith(f"{UNREAD})"):
        return replace(now, verdict=replace(now.verdict, message=told.message))  # what the operator before found out
    if told is None or new or now.block is None or not block or not holds(s.world):
        return replace(now, observed={**now.observed, **learning.told()}) if now.observed is not None else now
    kept = Promised(Verdict(now.verdict.status, now.verdict.reason, told.message), block, seen or None)
    learned = {name: seen[name] for name in TOLD if name in seen}  # it moves slowly, and is not worked out for this
    changes = kept != Promised(now.verdict, now.block, {**now.observed, **learned} if now.observed else None)
    return replace(kept, wake_after_s=hold_left_s(s.world) if changes else None)


def decide_objectives_met(found: Goodput, inside_share: str, *, wanted: int) -> Verdict:
    """
    | no replica is wanted or serves | Unknown, NoTraffic where none is wanted, else NoData |
    | none of the serving pods says anything about now | Unknown, NoData |
    | nothing arrived, ended or is being answered | Unknown, NoTraffic |
    | less than a minute was watched | Unknown, TooFewRequests |
    | an objective inside its regime is broken for certain | False, ShareMissed |
    | an objective is outside its regime | True where each is kept for certain, else Unknown; OutsideRegime |
    | each objective that had requests is kept for certain | True, ShareKept |
    | else | Unknown, TooFewRequests |
    """
    if not _has_data(found):
        return _no_data(found, wanted)
    with_requests = [each for each in found.objectives if each.requests]
    if all(each.idle for each in found.objectives):
        return unknown(Reason.NO_TRAFFIC, f"no request came in the last {window(found.span_s)}")
    if found.span_s < LEAST_SPAN_S:
        return unknown(
            Reason.TOO_FEW_REQUESTS,
            f"requests are watched for less than {LEAST_SPAN_S:.0f} s; wait until there are more",
        )
    broken = [each for each in with_requests if each.broken and each.outside is None]
    if broken:
        worst = min(broken, key=lambda each: each.margin)
        return no(Reason.SHARE_MISSED, _missed(worst, found))
    kept = bool(with_requests) and all(each.kept for each in with_requests)
    if found.outside:
        verdict = yes if kept else unknown
        return verdict(Reason.OUTSIDE_REGIME, _outside(found, inside_share))
    binding = found.binding
    if binding is None:
        return unknown(Reason.TOO_FEW_REQUESTS, "requests are being answered, and none has ended yet")
    if kept:
        return yes(Reason.SHARE_KEPT, _sentence(binding, found))
    return unknown(Reason.TOO_FEW_REQUESTS, f"{_sentence(binding, found)}: too few to tell{_unread(found)}")


def _has_data(found: Goodput) -> bool:
    return found.fresh > 0 and any(each.counted for each in found.objectives)


def _no_data(found: Goodput, wanted: int) -> Verdict:
    if not found.fresh and not found.silent:
        if not wanted:
            return unknown(Reason.NO_TRAFFIC, "no replica is wanted, so none answers")
        return unknown(Reason.NO_DATA, "no replica serves, so no request is measured")
    if found.fresh:
        return unknown(Reason.NO_DATA, "the workers have told only once so far, or nothing of this promise")
    which = "the one that serves" if found.silent == 1 else f"none of the {found.silent} that serve"
    says = "says nothing" if found.silent == 1 else "says anything"
    why = f" ({found.why})" if found.why else ""
    return unknown(Reason.NO_DATA, f"of the workers {which} {says}{why}")


def _missed(worst: Measured, found: Goodput) -> str:
    low, high = (percent(each, worst.target) for each in (worst.interval.low, worst.interval.high))
    late = worst.counted.counts.ended if worst.counted else None
    causes = {
        "late to the first token": late.late_ttft + late.late_both if late else 0,
        "slow afterwards": late.late_tpot + late.late_both if late else 0,
        "refused": late.refused if late else 0,
        "failed": late.failed if late else 0,
    }
    most = max(causes, key=lambda each: causes[each])
    return f"{_sentence(worst, found)} (95 % interval {low} to {high}); most of the others were {most}{_unread(found)}"


def _sentence(of: Measured, found: Goodput) -> str:
    share = percent(of.share if of.share is not None else 0.0, of.target)
    return (
        f"objective {of.name}: {share} of about {rounded(of.requests)} requests in the last {window(found.span_s)} kept"
        f" the promise of {percent(of.target, of.target)}"
    )


def _outside(found: Goodput, inside_share: str) -> str:
    first = found.outside[0]
    said = first.outside.sentence if first.outside else ""
    share = percent(first.share, first.target) if first.share is not None else "none"
    inside = f", {inside_share} in the last window inside it" if inside_share else ""
    return f"objective {first.name}: {said}; {share} of the requests kept the promise{inside}"


def _unread(found: Goodput) -> str:
    if not found.silent:
        return ""
    return f"; {found.silent} of {found.silent + found.fresh} workers could not be read"


def goodput_block(found: Goodput, inside_share: str) -> dict[str, Any]:
    """The block status.goodput."""
    target = min((each.target for each in found.objectives), default=0.99)
    share = percent(found.share, target) if found.share is not None else None
    outside = bool(found.outside)
    block = GoodputStatus(
        window=window(found.span_s),
        share=(inside_share or None) if outside else share,
        requests_per_second=_rate(found.good_rps),
        objectives=tuple(_objective(each, found.span_s) for each in found.objectives),
        outside_regime_share=share if outside else None,
    )
    return block.model_dump(mode="json", by_alias=True, exclude_none=True)


def _objective(each: Measured, span_s: float) -> ObjectiveGoodput:
    return ObjectiveGoodput(
        name=each.name,
        target=percent(each.target, each.target),
        share=percent(each.share, each.target) if each.share is not None else None,
        requests=_about(each.requests),
        requests_per_second=_rate(each.good / span_s if span_s else None),
        outside_regime=each.outside.what if each.outside else None,
    )


def percent(share: float, target: float) -> str:
    """A share with one digit after the point, two where the target is above 99 %, as many as the target has where that
    has more: 98.2%, 99.95%, 99.999%. What is below the target is never rounded up to it."""
    said = f"{target * 100:.6f}".rstrip("0").partition(".")[2]
    digits = max(2 if target > 0.99 else 1, len(said))
    text = f"{share * 100:.{digits}f}"
    if share < target and float(text) >= float(f"{target * 100:.{digits}f}"):
        text = f"{floor(share * 100 * 10**digits) / 10**digits:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.')}%"


def window(span_s: float) -> str:
    """How long a window is, as a duration: 5m, 2m, 40s."""
    return f"{round(span_s / 60)}m" if span_s >= LEAST_SPAN_S else f"{round(span_s, -1):.0f}s"


def _rate(per_second: float | None) -> str | None:
    return rounded(per_second).replace(",", "") if per_second is not None else None


def _about(count: int) -> int:
    """Two digits that mean something: a status does not move with each request."""
    return int(float(f"{count:.2g}"))
