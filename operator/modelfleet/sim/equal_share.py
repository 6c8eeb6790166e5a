"""More points where costs are compared: a sweep that ends below our share says nothing about what the share costs, and
a cost between two points that are far apart is a guess."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from modelfleet.sim.contest import (
    OURS,
    Curve,
    Point,
    Rule,
    around,
    coarse,
    cost_at,
    played,
    rules,
    same_value,
    scored,
)
from modelfleet.sim.world import World

_NEAR = 1.15
"""Of accelerator-hours: between points so near to each other a cost is read off well enough."""
_ROUNDS = 12
_STRICTER_ROUNDS = 10
_FRUITLESS = 2
_ALL = 0.99
"""Of the hours of as many replicas as can stand: above, they stand throughout, and nothing stricter can buy more."""
_SCALED = 1.1
"""Of the hours of a rule's cheapest point: below, it has not begun to ask for more."""


def sharpened(world: World, curves: Sequence[Curve], seeds: Sequence[int]) -> list[Curve]:
    """The curves, with stricter points of each causal peer that is below the share that ours reaches: nobody drops out
    because its sweep ended. Then with further points of the cheapest at that share, until those around it are near each
    other: nobody is the cheapest by a guess."""
    known = {rule.name: rule for rule in rules(world)}
    found = {one.policy: one for one in curves}
    shares = _ours(curves)
    for seed in seeds:
        for name in (each.policy for each in curves if each.policy in known and each.policy != OURS and seed in shares):
            found[name] = extended(world, found[name], known[name], shares[seed], seed)
        for _ in range(_ROUNDS if seed in shares else 0):
            chosen = _wanted(found, known, shares[seed], seed)
            if chosen is None:
                break
            rule, value = chosen
            point = scored(world, played(world, rule.at(value)(seed), seed), f"{value:g}", seed)
            found[rule.name] = replace(found[rule.name], points=(*found[rule.name].points, point))
    return list(found.values())


def _ours(curves: Sequence[Curve]) -> dict[int, float]:
    """The share that ours reaches as shipped, by seed; empty without ours."""
    return {
        one.seed: one.share
        for each in curves
        if each.policy == OURS
        for one in each.points
        if one.parameter == each.usual
    }


def extended(world: World, curve: Curve, rule: Rule, share: float, seed: int) -> Curve:
    """The curve with stricter values of its parameter, each half of the last (a quarter where there are many requests),
    until one reaches the share. It ends before where all replicas stand throughout, where two steps buy more and bring
    nothing, and after ten halvings."""
    points = [point for point in curve.points if point.seed == seed]
    last = min(points, key=lambda point: float(point.parameter))
    best, least = max(point.share for point in points), min(point.accelerator_hours for point in points)
    step = 4.0 if coarse(world) else 2.0
    rounds, fruitless, value = _STRICTER_ROUNDS // (2 if coarse(world) else 1), 0, float(last.parameter)
    while rounds and best < share and fruitless < _FRUITLESS and not _all_stand(world, last):
        rounds, value = rounds - 1, value / step
        last = scored(world, played(world, rule.at(value)(seed), seed), f"{value:g}", seed)
        curve = replace(curve, points=(*curve.points, last))
        if last.share > best:
            best, fruitless = last.share, 0
        elif last.accelerator_hours > _SCALED * least:
            fruitless += 1
    return curve


def _all_stand(world: World, point: Point) -> bool:
    """Whether as many replicas as can stand do throughout."""
    site = world.site
    return point.accelerator_hours >= _ALL * site.most * site.accelerators_per_replica * world.trace.duration_s / 3600


def out_of_reach(world: World, curves: Sequence[Curve], seeds: Sequence[int]) -> tuple[str, ...]:
    """Who does not reach the share of ours with any value of its parameter: a sentence for each seed."""
    known, shares = {rule.name for rule in rules(world)}, _ours(curves)
    found = []
    for seed in seeds:
        best = {
            each.policy: max(point.share for point in each.points if point.seed == seed)
            for each in curves
            if each.policy in known and seed in shares
        }
        named = [f"{name} ({most:.4f} at most)" for name, most in best.items() if most < shares[seed]]
        if named:
            does = "does" if len(named) == 1 else "do"
            ours = f"the share of ours on seed {seed} ({shares[seed]:.4f})"
            found.append(f"however strict, {', '.join(named)} {does} not reach {ours}")
    return tuple(found)


def _wanted(
    curves: Mapping[str, Curve], known: Mapping[str, Rule], share: float, seed: int
) -> tuple[Rule, float] | None:
    """The cheapest peer, and the value of its parameter that says most about its cost; None where it is known."""
    costs = {
        name: cost
        for name, curve in curves.items()
        if name != OURS and name in known and (cost := cost_at(curve, share, seed)) is not None
    }
    if not costs:
        return None
    name = min(costs, key=lambda each: costs[each])
    ends = around(curves[name], share, seed)
    if ends is None or ends[0].accelerator_hours * _NEAR >= ends[1].accelerator_hours:
        return None
    first, last = (float(end.parameter) for end in ends)
    inside = sorted(
        (one for one in curves[name].points if one.seed == seed and _between(float(one.parameter), first, last)),
        key=lambda one: abs(float(one.parameter) - first),
    )
    for below, above in pairwise(inside):
        if below.share < share <= above.share and not same_value(below, above):
            return known[name], (float(below.parameter) * float(above.parameter)) ** 0.5
    return None


def _between(value: float, one: float, other: float) -> bool:
    return min(one, other) <= value <= max(one, other)
