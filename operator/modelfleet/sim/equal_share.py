"""More points where costs are compared: a cost between two points that are far apart is a guess."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from modelfleet.sim.contest import OURS, Curve, Rule, around, cost_at, played, rules, same_value, scored
from modelfleet.sim.world import World

_NEAR = 1.15
"""Of accelerator-hours: between points so near to each other a cost is read off well enough."""
_ROUNDS = 12


def sharpened(world: World, curves: Sequence[Curve], seeds: Sequence[int]) -> list[Curve]:
    """The curves, with further points of the cheapest causal peer at the share that ours reaches, until those around
    that share are near each other: nobody is the cheapest by a guess."""
    known = {rule.name: rule for rule in rules(world)}
    found = {one.policy: one for one in curves}
    mine = found.get(OURS)
    shares = {one.seed: one.share for one in mine.points if one.parameter == mine.usual} if mine else {}
    for seed in seeds:
        for _ in range(_ROUNDS if seed in shares else 0):
            chosen = _wanted(found, known, shares[seed], seed)
            if chosen is None:
                break
            rule, value = chosen
            point = scored(world, played(world, rule.at(value)(seed), seed), f"{value:g}", seed)
            found[rule.name] = replace(found[rule.name], points=(*found[rule.name].points, point))
    return list(found.values())


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
