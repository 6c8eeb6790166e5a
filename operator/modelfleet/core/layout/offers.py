"""The nearest that would work when what was asked does not: each offer is planned by the same code. Pure.

An offer changes one thing. Numbers (a looser time, a smaller context, less load) are found by bisection, so that the
offer is near; a step below them fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, floor, log10
from typing import Any

from modelfleet.core.layout.answer import Change, Check, Offer, Problem
from modelfleet.core.layout.ask import Failure
from modelfleet.core.layout.input_checks import problems_of
from modelfleet.core.layout.inventory import cost_per_hour
from modelfleet.core.layout.offer_search import Idea, closer, nearest, planned
from modelfleet.core.layout.plans import Plans, plans_for
from modelfleet.core.layout.question import (
    Candidate,
    Objective,
    Pins,
    Question,
    Strategy,
    objective_place,
    place,
)
from modelfleet.core.layout.unmet import closest
from modelfleet.core.layout.wording import exact_seconds
from modelfleet.core.model.facts import Scheme

MOST_OFFERS = 6

_LOOSER = (1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 25.0, 50.0, 100.0)
_LESS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)


def offers_for(
    question: Question, *, plans: Plans | None = None, problems: Sequence[Problem] = ()
) -> tuple[Offer, ...]:
    """At most six offers, the kinds that touch the failed bound first."""
    offers: list[Offer] = []
    for offer in _found(question, plans, problems):
        offers.append(offer)
        if len(offers) == MOST_OFFERS:
            break
    return tuple(offers)


def _found(question: Question, plans: Plans | None, problems: Sequence[Problem]) -> Iterator[Offer]:
    if plans is None:
        yield from _each(_corrections(question, problems))
        return
    failure = closest(plans)
    if failure is None:
        return
    yield from _each(_apart(question))
    yield from _each(_without_pins(question))
    yield from _each(_accelerators(question, plans))
    yield from _each(_weights(question))
    yield from _contexts(question, plans, failure)
    near = _narrowed(question, plans)
    for index, objective in enumerate(question.objectives):
        yield from _objective_offers(near, index, objective)
    yield from _each(_classes(question))
    yield from closer(_LESS, lambda factor: _less_load(near, factor))


def _each(ideas: Iterator[Idea]) -> Iterator[Offer]:
    for idea in ideas:
        offer = planned(idea)
        if offer:
            yield offer


def _narrowed(question: Question, plans: Plans) -> Question:
    """The question on the class that came closest, so that a search for a number is short."""
    failure = closest(plans)
    kept = tuple(one for one in question.candidates if failure is None or one.name == failure.class_name)
    return replace(question, candidates=kept or question.candidates)


def _objective_offers(question: Question, index: int, objective: Objective) -> Iterator[Offer]:
    """A looser tpot, a looser ttft, and both where neither alone is enough."""
    yield from (single := [*closer(_LOOSER, lambda factor: _looser(question, index, objective, factor, "tpot"))])
    more = [*closer(_LOOSER, lambda factor: _looser(question, index, objective, factor, "ttft"))]
    yield from more
    if not single and not more:
        yield from closer(_LOOSER, lambda factor: _looser(question, index, objective, factor, "ttft and tpot"))


def _looser(question: Question, index: int, objective: Objective, factor: float, keys: str) -> Idea:
    ttft = _neat(objective.ttft_s * factor) if "ttft" in keys else objective.ttft_s
    tpot = _neat(objective.tpot_s * factor) if "tpot" in keys else objective.tpot_s
    changed = replace(objective, ttft_s=ttft, tpot_s=tpot)
    said = {"ttft": exact_seconds(ttft), "tpot": exact_seconds(tpot)}
    first, *rest = keys.split(" and ")
    value = said[first] + "".join(f" and {key} {said[key]}" for key in rest)
    return Idea(
        change=Change.OBJECTIVE,
        field=objective_place(question, index, first),
        value=value,
        question=_with_objective(question, index, changed),
    )


def _with_objective(question: Question, index: int, objective: Objective) -> Question:
    objectives = list(question.objectives)
    objectives[index] = objective
    return replace(question, objectives=tuple(objectives))


def _neat(value_s: float) -> float:
    """Rounded up to two digits, to halves of the second below 2, and to whole milliseconds from ten on."""
    if value_s <= 0:
        return value_s
    unit = 10.0 ** (floor(log10(value_s)) - 1)
    unit = unit / 2 if value_s < 20 * unit else unit
    neat = ceil(value_s / unit - 1e-9) * unit
    return ceil(neat * 1000 - 1e-6) / 1000 if neat >= 0.01 else round(neat, 7)


def _less_load(question: Question, factor: float) -> Idea:
    def less(one: Objective) -> Objective:
        if one.load_rps is not None:
            return replace(one, load_rps=float(f"{one.load_rps * factor:.2g}"))
        return replace(one, load_concurrency=max(1.0, float(f"{(one.load_concurrency or 1.0) * factor:.2g}")))

    objectives = tuple(less(one) for one in question.objectives)
    first = objectives[0]
    stated = f"{first.load_rps:g} requests/s" if first.load_rps is not None else f"{first.load_concurrency:g} in flight"
    return Idea(
        change=Change.LOAD,
        field=objective_place(question, 0, "load"),
        value=stated if len(objectives) == 1 else f"{stated} and the others as much less",
        question=replace(question, objectives=objectives),
    )


def _without_pins(question: Question) -> Iterator[Idea]:
    """Each pin of the layout and the engine left out, one at a time."""
    plain = Pins()
    for name in vars(question.pins):
        value = getattr(question.pins, name)
        if value == getattr(plain, name) or name in ("evidence", "weights", "kv"):
            continue
        yield Idea(
            change=Change.PIN,
            field=place(question, f"pins.{name}"),
            value="",
            question=replace(question, pins=_freed(question.pins, name)),
        )
    degrees = [
        n
        for n in ("strategy", "tensor", "pipeline", "data", "expert")
        if getattr(question.pins, n) != getattr(plain, n)
    ]
    if len(degrees) > 1:
        freed = replace(question.pins, strategy=Strategy.AUTO, tensor=None, pipeline=None, data=None, expert=None)
        fields = " and ".join(place(question, f"pins.{name}") for name in degrees)
        yield Idea(change=Change.PIN, field=fields, value="", question=replace(question, pins=freed))


def _accelerators(question: Question, plans: Plans) -> Iterator[Idea]:
    """Bounds raised to what the load needs."""
    bounds = question.bounds
    if not any(failure.check is Check.CAPACITY for one in plans.looked for failure in one.failures):
        return
    free = replace(bounds, max_replicas=None, max_accelerators=None)
    needed = plans_for(replace(question, bounds=free)).plans
    if not needed:
        return
    pool = needed[0].pool
    changes = []
    raised = bounds
    if bounds.max_replicas is not None and pool.replicas > bounds.max_replicas:
        raised = replace(raised, max_replicas=pool.replicas)
        changes.append((place(question, "bounds.max_replicas"), pool.replicas))
    if bounds.max_accelerators is not None and pool.accelerators > bounds.max_accelerators:
        raised = replace(raised, max_accelerators=pool.accelerators)
        changes.append((place(question, "bounds.max_accelerators"), pool.accelerators))
    if changes:
        value = str(changes[0][1]) + "".join(f" and {name} {number}" for name, number in changes[1:])
        yield Idea(
            change=Change.ACCELERATORS, field=changes[0][0], value=value, question=replace(question, bounds=raised)
        )


def _weights(question: Question) -> Iterator[Idea]:
    """The class's standard instead of what is pinned; other offered weights; quantizing online; the old engine."""
    field, pins = place(question, "pins.weights"), question.pins
    if pins.weights is not None:
        freed = replace(pins, weights=None, evidence=None)
        yield Idea(change=Change.QUANTIZATION, field=field, value="", question=replace(question, pins=freed))
        if pins.evidence and pins.evidence.engine_version and pins.evidence.engine_version != question.engine_version:
            version = pins.evidence.engine_version
            yield Idea(
                change=Change.QUANTIZATION,
                field=place(question, "engine_version"),
                value=version,
                question=replace(question, engine_version=version),
            )
    elif not question.allow_online_quantization:
        yield Idea(
            change=Change.QUANTIZATION,
            field=place(question, "allow_online_quantization"),
            value="Allow",
            question=replace(question, allow_online_quantization=True),
        )
    if pins.kv is None and all(one.standard_kv is None for one in question.candidates):
        yield Idea(
            change=Change.QUANTIZATION,
            field=place(question, "pins.kv"),
            value=str(Scheme.FP8),
            question=replace(question, pins=replace(pins, kv=Scheme.FP8)),
        )


def _contexts(question: Question, plans: Plans, failure: Failure) -> Iterator[Offer]:
    """The longest smaller context limit that works, where memory or the KV cache is what failed."""
    if failure.check not in (Check.MEMORY, Check.KV):
        return
    asks = [one.ask for one in plans.looked if one.ask is not None]
    if not asks:
        return
    now, least = max(one.context_tokens for one in asks), asks[0].demand.longest_tokens
    sizes = [size for size in (1 << power for power in range(24, 8, -1)) if least <= size < now]
    if least < now:
        sizes.append(least)
    if sizes:
        yield from nearest(sizes, lambda size: _smaller(question, int(size)))


def _smaller(question: Question, size: int) -> Idea:
    pins = replace(question.pins, engine_context_tokens=None)
    return Idea(
        change=Change.CONTEXT,
        field=place(question, "max_context_tokens"),
        value=str(size),
        question=replace(question, pins=pins, max_context_tokens=size),
    )


def _classes(question: Question) -> Iterator[Idea]:
    """Classes that exist and are not allowed."""
    listed = {one.name for one in question.candidates}

    def near(one: Candidate) -> tuple[bool, float]:
        cost = cost_per_hour(one, 1)
        return cost is None, float(cost[0]) if cost else 0.0

    for candidate in sorted((one for one in question.alternatives if one.name not in listed), key=near):
        yield Idea(
            change=Change.CLASS,
            field=place(question, "candidates"),
            value=candidate.name,
            question=replace(question, candidates=(candidate,)),
        )


def _apart(question: Question) -> Iterator[Idea]:
    """Each objective in a deployment of its own."""
    if len(question.objectives) < 2:
        return
    for index, objective in enumerate(question.objectives):
        yield Idea(
            change=Change.DEPLOYMENT,
            field=objective_place(question, index),
            value=f"({objective.name}) in a deployment of its own",
            question=replace(question, objectives=(objective,)),
        )


def _corrections(question: Question, problems: Sequence[Problem]) -> Iterator[Idea]:
    """The question with its fatal problem put right, where there is one obvious way."""
    longest = min((one.facts.max_context_tokens for one in question.variants), default=0)
    pins = question.pins
    fatal = [problem.field for problem in problems if problem.fatal]
    for name in ("max_context_tokens", "pins.engine_context_tokens"):
        if place(question, name) in fatal and longest:
            freed = replace(question, max_context_tokens=longest, pins=replace(pins, engine_context_tokens=None))
            yield Idea(change=Change.CONTEXT, field=place(question, name), value=str(longest), question=freed)
            return
    if place(question, "pins.strategy") in fatal:
        yield Idea(
            change=Change.PIN,
            field=place(question, "pins.strategy"),
            value="",
            question=replace(question, pins=replace(pins, strategy=Strategy.AUTO)),
        )
    if place(question, "bounds.max_accelerators") in fatal:
        yield from _enough_accelerators(question)
    for name in ("tensor", "pipeline", "data", "sequence_cap", "token_budget", "memory_fraction", "block_tokens"):
        if place(question, f"pins.{name}") in fatal:
            yield Idea(
                change=Change.PIN,
                field=place(question, f"pins.{name}"),
                value="",
                question=replace(question, pins=_freed(pins, name)),
            )


def _enough_accelerators(question: Question) -> Iterator[Idea]:
    """The accelerators that the fewest replicas take, and the fewest replicas that the accelerators allow."""
    bounds = question.bounds
    free = replace(question, bounds=replace(bounds, max_accelerators=None))
    needed = () if any(one.fatal for one in problems_of(free)) else plans_for(free).plans
    if needed:
        total = min(plan.accelerators for plan in needed)
        yield Idea(
            change=Change.ACCELERATORS,
            field=place(question, "bounds.max_accelerators"),
            value=str(total),
            question=replace(question, bounds=replace(bounds, max_accelerators=total)),
        )
    if bounds.min_replicas > 1:
        yield Idea(
            change=Change.ACCELERATORS,
            field=place(question, "bounds.min_replicas"),
            value="1",
            question=replace(question, bounds=replace(bounds, min_replicas=1)),
        )


def _freed(pins: Pins, name: str) -> Pins:
    """The pins without one of them."""
    changes: dict[str, Any] = {name: getattr(Pins(), name)}
    return replace(pins, **changes)
