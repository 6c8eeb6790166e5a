"""How many replicas a deployment in mode Active has: from what is sampled, what is remembered, what bounds. Pure.

| what is there | decided |
| --- | --- |
| fewer than TICK_S since the last decision | that decision |
| no replica serves | the number stays, inside the bounds |
| replicas serve, and none says anything | the number stays; after SAFE_AFTER_S the declared load is taken to be there |
| else | what weighing.py decides |

It is called by each reconcile, and between reconciles by the fleet's tick; both give the same answer for the same
samples, and only a changed number makes the tick ask for a reconcile.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from modelfleet.api.modeldeployment import Objective, Scaling
from modelfleet.api.reasons import ScalingReason
from modelfleet.core.mix import Mix
from modelfleet.core.plan import Plan
from modelfleet.core.promise import TOLERANCE
from modelfleet.core.scaling import faults
from modelfleet.core.scaling import memory as remembered
from modelfleet.core.scaling.arbitration import Grant, allowance
from modelfleet.core.scaling.faults import aside
from modelfleet.core.scaling.forecast import Forecaster
from modelfleet.core.scaling.ledger import Ledger, cut
from modelfleet.core.scaling.memory import LEARN_S, Change, Fault, Finding, Kept
from modelfleet.core.scaling.observed import Look, Seen, Tally, see
from modelfleet.core.scaling.phase import phase
from modelfleet.core.scaling.policy import Memory, Sample
from modelfleet.core.scaling.samples import Samples
from modelfleet.core.scaling.schedule import in_force, next_change_s
from modelfleet.core.scaling.seats import Seats
from modelfleet.core.scaling.staying import spare_while_moving, stays
from modelfleet.core.scaling.terms import cold_start_s, terms_of
from modelfleet.core.scaling.weighing import Inputs, Limit, Weighed, clipped

TICK_S = 4.0
"""Decisions are made at most so often: a little less than the interval of looking at workers."""

SILENT_S = 30.0
"""So long nothing is said about it that nobody says anything: a process that starts has not looked yet."""

SAFE_AFTER_S = 600.0
"""Without any data for so long, the declared load is taken to be there."""

_SHOWN_AGAIN_S = 60.0
"""A bound that clips another way while the number stays is told at most so often."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One deployment. `promise` is the digest that its workers count under; `stored` what NAME-state keeps; `limits`
    are upper bounds on growing besides those of the spec (quotas): what was decided before stays. `grants` are
    replicas that this model (`key`) leaves to others or gets from them. `priority` is that of its pods. `later`
    are the replicas that stand on later classes than that of `plan`, by their plans. `knee_of`: see core/knee.py."""

    scaling: Scaling
    objectives: tuple[Objective, ...]
    promise: str
    plan: Plan
    seats: Seats
    samples: Samples
    stored: Mapping[str, Any] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    key: str = ""
    priority: int = 0
    grants: tuple[Grant, ...] = ()
    now: datetime
    later: tuple[tuple[Plan, int], ...] = ()
    knee_of: str = ""

    @property
    def stands(self) -> Mix:
        """What stands of which class."""
        on_later = sum(count for _, count in self.later)
        return Mix(first=self.plan, on_first=max(0, self.seats.standing - on_later), later=self.later)


def decide_scaled(case: Case, kept: Kept | None) -> Kept:
    """What is remembered after the decision; `kept.shown` is the decision."""
    kept = kept or _begun(case)
    started = tuple(case.seats.starts_s[uid] for uid in sorted(kept.starting & case.seats.starts_s.keys()))
    if started or kept.starting != case.seats.starting:
        kept = replace(kept, starting=case.seats.starting, starts_s=remembered.with_starts(kept.starts_s, started))
    kept = _with_grants(case, kept)
    at_s = case.samples.at_s
    if kept.looked_s is not None and at_s - kept.looked_s < TICK_S:
        return _in_bounds(case, kept)
    seen, first = see(case.samples, kept.cursors, _look(case, kept)), not kept.cursors
    heard_s = at_s if seen.at_s is not None else kept.heard_s
    tallies = _added(kept.tallies, seen.tallies)
    kept = replace(kept, looked_s=at_s, heard_s=heard_s, cursors=seen.cursors, tallies=tallies)
    if seen.at_s is None:
        return _without_data(case, kept)
    if first or kept.offset_s is None:
        # What comes from here on is counted. The clock goes on where it stood, and after a time at zero, at its end.
        rested_s = kept.at_zero_s(case.now)
        return _in_bounds(case, replace(kept, rested_s=rested_s, offset_s=kept.clock_s + rested_s - seen.at_s))
    clock_s = seen.at_s + kept.offset_s
    if clock_s - kept.clock_s - kept.rested_s < TICK_S:
        return _in_bounds(case, kept)
    return _decided(case, kept, seen, clock_s)


def wake_after_s(case: Case, kept: Kept) -> float | None:
    """When what bounds the number changes by itself."""
    return next_change_s(case.scaling.schedules, case.now, cold_start_s(kept.starts_s))


def _decided(case: Case, kept: Kept, seen: Seen, clock_s: float) -> Kept:
    kept = _with_faults(case, kept, clock_s)
    total = sum(kept.tallies.values(), Tally())
    binding = _binding(case.objectives, kept.tallies)
    of_binding = kept.tallies.get(str(binding.name), Tally())
    input_mean = _input_mean(kept, total)
    terms = replace(terms_of(case.plan, binding, kept.starts_s), knee_rps=case.stands.knee_rps)
    arrivals = round(total.arrivals)
    lows, highs = bounds(case, kept)
    sample = Sample(
        now_s=clock_s,
        arrivals=arrivals,
        input_tokens=round(arrivals * (input_mean or terms.mean_input_tokens)),
        ended=of_binding.ended,
        good=of_binding.good,
        finished=total.finished,
        output_tokens=round(total.output_tokens),
        serving=seen.serving,
        pending_s=case.seats.pending_s,
        waiting=seen.waiting,
        rested_s=kept.rested_s,
    )
    keep, spare = _keep(case, kept, seen, clock_s)
    inputs = Inputs(
        sample=sample,
        terms=replace(terms, knee_of=case.knee_of),
        current=kept.replicas,
        lows=lows,
        highs=highs,
        keep=keep,
        spare=spare,
    )
    weighed, ledger = kept.ledger.decide(cut(inputs), case.now)
    weighed = _with_what_leaves(case, kept, weighed)
    weighed = replace(weighed, detail=weighed.detail + _above_declared(case, weighed.peak_rps))
    kept = replace(
        kept,
        ledger=ledger,
        tallies={},
        at_zero_since=None,
        rested_s=0.0,
        input_mean=input_mean,
        waiting=seen.waiting,
        binding=str(binding.name),
        evidence=kept.evidence + of_binding.ended,
        need=weighed.need,
        load_rps=weighed.load_rps,
        peak_rps=weighed.peak_rps,
        margin=weighed.margin,
        now=weighed.detail,
    )
    return _shown(case, kept, weighed, clock_s)


def _with_what_leaves(case: Case, kept: Kept, weighed: Weighed) -> Weighed:
    """Fewer replicas only as far as those that stay carry what was decided: the mean of those that stand says nothing
    about the ones that would leave first, and what leaves for nothing comes again."""
    mix = case.stands
    if not mix.on_later or weighed.replicas >= mix.standing:
        return weighed
    # Between what one replica fewer would carry and what these carry lies the load that they were counted for.
    load_rps = max((weighed.replicas - 1) * mix.knee_rps, weighed.peak_rps * weighed.margin)
    need = min(load_rps, weighed.replicas * mix.knee_rps) / (case.plan.knee_rps or 1.0)
    carrying = min(mix.carrying(need), mix.standing)
    if carrying <= weighed.replicas:
        return weighed
    replicas, bound = clipped(carrying, *bounds(case, kept))
    detail = f"{weighed.detail}; of replicas of several classes {replicas} carry it, once the first to leave have left"
    reason = weighed.reason if replicas < kept.replicas else ScalingReason.STEADY
    return replace(weighed, replicas=replicas, bound=bound or weighed.bound, detail=detail, reason=reason)


def _above_declared(case: Case, peak_rps: float) -> str:
    """The end of a sentence where the load is above the one that the plan was made for; empty where it is not."""
    declared_rps = case.plan.planned.hosted.load_rps if case.plan.planned else 0.0
    if peak_rps <= declared_rps * TOLERANCE:
        return ""
    return f"; the declared load is {declared_rps:.3g} requests a second"


def bounds(case: Case, kept: Kept) -> tuple[tuple[Limit, ...], tuple[Limit, ...]]:
    """The lower and the upper bounds."""
    scaling = case.scaling
    lows = [Limit("minReplicas", scaling.min_replicas)]
    schedule = in_force(scaling.schedules, case.now, cold_start_s(kept.starts_s))
    if schedule is not None and schedule.min_replicas > scaling.min_replicas:
        lows.append(Limit(f"schedules[{schedule.index}]", schedule.min_replicas))
    highs = [Limit("maxReplicas", scaling.max_replicas)]
    if scaling.max_accelerators is not None:
        highs.append(Limit("maxAccelerators", case.stands.within(scaling.max_accelerators)))
    highs += [Limit(each.name, max(each.replicas, kept.replicas)) for each in case.limits]
    given = allowance(case.key, case.grants)
    if given is not None:
        highs.append(Limit(f"left to {given.taker}"[:64], max(given.replicas, *(each.replicas for each in lows))))
    return tuple(lows), tuple(highs)


def _begun(case: Case) -> Kept:
    """What is stored; without it the number that stands, so that nothing changes because somebody else decides now."""
    planned = case.plan.planned.replicas if case.plan.planned else 1
    first = case.seats.standing or planned
    stored = remembered.loaded(case.stored, first)
    if stored is not None and stored.shown is not None:
        return stored
    first, bound = clipped(first, *bounds(case, Kept(replicas=first)))
    how = f"{first} stand{'s' if first == 1 else ''}" if case.seats.standing else f"the declared load needs {planned}"
    change = Change(
        at=case.now, before=first, to=first, reason=ScalingReason.STEADY, detail=f"the beginning: {how}", bound=bound
    )
    memory = Memory(forecaster=Forecaster.of(case.key))
    new = Kept(replicas=first, learns_until_s=LEARN_S, ledger=Ledger(base=memory, memory=memory))
    return replace(stored or new, replicas=first, begun=first, shown=change)


def _look(case: Case, kept: Kept) -> Look:
    names = tuple(str(one.name) for one in case.objectives)
    return Look(promise=case.promise, objectives=names, serving=case.seats.serving, aside=aside(kept))


def _with_grants(case: Case, kept: Kept) -> Kept:
    """What goes to other models and what comes from them, so that it is told on both."""
    given = allowance(case.key, case.grants)
    got = next((each for each in case.grants if each.taker == case.key), None)
    if given is None and got is None and kept.given is None and kept.got is None:
        return kept
    clock_s = kept.clock_s
    return replace(
        kept,
        given=Finding(fault=Fault.YIELDED, about=given.taker, sentence=given.sentence, at_s=clock_s) if given else None,
        got=Finding(fault=Fault.GRANTED, about=got.giver, sentence=got.sentence, at_s=clock_s) if got else None,
    )


def _with_faults(case: Case, kept: Kept, clock_s: float) -> Kept:
    if clock_s - kept.searched_s < faults.EVERY_S:
        return kept
    first = kept.searched_s == float("-inf")
    kept = replace(kept, searched_s=clock_s - (phase(case.key, round(faults.EVERY_S)) if first else 0))
    knees = max(1, len(case.seats.serving)) * (case.stands.knee_rps or 1.0)
    look = faults.Look(
        promise=case.promise,
        targets={str(one.name): float(one.share.fraction) for one in case.objectives},
        serving=case.seats.serving,
        present=case.seats.present,
        busy=kept.load_rps / knees,
        clock_s=clock_s,
    )
    return faults.find_faults(case.samples, look, kept)


def _added(before: Mapping[str, Tally], after: Mapping[str, Tally]) -> dict[str, Tally]:
    return {name: before.get(name, Tally()) + tally for name, tally in after.items()}


def _binding(objectives: tuple[Objective, ...], tallies: Mapping[str, Tally]) -> Objective:
    """The objective that is furthest from its promise: late requests against those that it allows."""

    def excess(one: Objective) -> float:
        tally = tallies.get(str(one.name), Tally())
        late = 1 - tally.good / tally.ended if tally.ended else 0.0
        return late / (1 - float(one.share.fraction))

    return max(objectives, key=lambda one: (excess(one), tallies.get(str(one.name), Tally()).ended))


def _input_mean(kept: Kept, total: Tally) -> float:
    """The mean prompt, as the policy takes the mean answer: over about the last 500 requests."""
    if not total.finished or not total.input_tokens:
        return kept.input_mean
    mean = total.input_tokens / total.finished
    weight = min(1.0, total.finished / 500) if kept.input_mean else 1.0
    return kept.input_mean + weight * (mean - kept.input_mean)


def _keep(case: Case, kept: Kept, seen: Seen, clock_s: float) -> tuple[str, int]:
    """Why no replica may leave now: one cause at a time; empty where one may. And how many may nonetheless."""
    if seen.silent:
        return f"{len(seen.silent)} of {seen.serving} serving replicas say nothing", 0
    seats, learns = case.seats, clock_s < kept.learns_until_s
    least = kept.replicas if kept.got is not None else kept.begun if learns else 0  # others left them their room
    ages_s = ((case.now - at).total_seconds() for at in seats.made_at)
    return stays(
        waiting=seen.waiting,
        before=kept.waiting,
        serving=seen.serving,
        moving=seats.moving,
        learns=learns,
        spare=spare_while_moving(kept.replicas, seats.served, least, ages_s, cold_start_s(kept.starts_s)),
    )


def _without_data(case: Case, kept: Kept) -> Kept:
    """Held, and after a while as many as the declared load needs at least."""
    if not case.seats.serving:
        # Nobody is there to say anything, and the conditions tell why; who comes has not been silent meanwhile.
        return _in_bounds(case, replace(kept, heard_s=None))
    heard_s = kept.heard_s if kept.heard_s is not None else kept.looked_s
    kept = replace(kept, heard_s=heard_s)
    silent_s = case.samples.at_s - heard_s if heard_s is not None else 0.0
    if silent_s < SILENT_S:
        return _in_bounds(case, kept)
    planned = case.stands.carrying(case.plan.planned.replicas) if case.plan.planned else 1
    safe = silent_s >= SAFE_AFTER_S
    wish = max(kept.replicas, planned) if safe else kept.replicas
    replicas, bound = clipped(wish, *bounds(case, kept))
    why = _why_silent(case.samples, case.seats.serving)
    if safe:
        minutes = f"{SAFE_AFTER_S / 60:.0f} minutes"
        detail = f"no serving replica has said anything for {minutes} ({why}); the declared load needs {planned}"
        return _told(case, kept, replicas, ScalingReason.SAFE_STATE, detail, bound)
    detail = f"no serving replica says anything ({why}); {replicas} {'is' if replicas == 1 else 'are'} held"
    return _told(case, kept, replicas, ScalingReason.NO_DATA, detail, bound)


def _why_silent(samples: Samples, serving: tuple[str, ...]) -> str:
    said = [samples.pods[uid].failure for uid in serving if uid in samples.pods]
    return next((why for why in said if why), "they were not read yet")


def at_zero(case: Case, kept: Kept, wanted: int, reason: ScalingReason, why: str) -> Kept:
    """What is remembered while nobody serves because nobody asks, or asks again: `wanted` replicas are decided, and
    what the load before needed is let go. The policy is told of the time once a replica serves."""
    rows = kept.ledger.rows
    stood = min(rows[-1].at, case.now) if rows else case.now
    replicas, bound = clipped(wanted, *bounds(case, kept))
    if bound is not None:
        reason, why = ScalingReason.OUT_OF_BOUNDS, _outside(wanted, bound)
    kept = replace(
        kept,
        at_zero_since=kept.at_zero_since or stood,
        rested_s=0.0,
        offset_s=None,
        cursors={},
        tallies={},
        waiting=0,
        need=replicas,
        load_rps=0.0,
        peak_rps=0.0,
    )
    return _told(case, kept, replicas, reason, why, bound)


def _in_bounds(case: Case, kept: Kept) -> Kept:
    """The last decision; bounds may have changed since."""
    replicas, bound = clipped(kept.replicas, *bounds(case, kept))
    if replicas == kept.replicas:
        return kept
    return _told(case, kept, replicas, ScalingReason.OUT_OF_BOUNDS, _outside(kept.replicas, bound), bound)


def _outside(wish: int, bound: str | None) -> str:
    return f"{wish} is outside what {bound} allows"


def _shown(case: Case, kept: Kept, weighed: Weighed, clock_s: float) -> Kept:
    """A new number is shown with its reason; the same number keeps what was said, unless another bound clips it."""
    shown = kept.shown
    silent = shown is not None and shown.reason in (ScalingReason.NO_DATA, ScalingReason.SAFE_STATE)
    same = shown is not None and not silent and (shown.to, shown.bound) == (weighed.replicas, weighed.bound)
    if same:
        return kept if kept.replicas == weighed.replicas else replace(kept, replicas=weighed.replicas)
    # Below zero the clock was set back, and what was told may have been told at any time.
    recent = shown is not None and 0 <= (case.now - shown.at).total_seconds() < _SHOWN_AGAIN_S
    if shown is not None and shown.to == weighed.replicas and recent and not silent:
        return replace(kept, replicas=weighed.replicas)
    return _told(case, kept, weighed.replicas, weighed.reason, weighed.detail, weighed.bound)


def _told(case: Case, kept: Kept, replicas: int, reason: ScalingReason, detail: str, bound: str | None) -> Kept:
    shown = kept.shown
    if shown is not None and (shown.to, shown.reason, shown.bound) == (replicas, reason, bound):
        return replace(kept, replicas=replicas)
    change = Change(at=case.now, before=kept.replicas, to=replicas, reason=reason, detail=detail, bound=bound)
    return replace(kept, replicas=replicas, shown=change, changes=remembered.with_change(kept.changes, change))
