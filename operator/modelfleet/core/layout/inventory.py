"""Whether the nodes there are hold the replicas, and what they cost. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from modelfleet.core.layout.question import Candidate, Supply
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.wording import count


@dataclass(frozen=True)
class Room:
    """Replicas that can be placed now or bought; None is "not known"."""

    replicas: int | None
    sentence: str


def room_for(candidate: Candidate, layout: Layout) -> Room:
    """How many replicas of a layout the class's nodes have room for, with what a supply may still buy."""
    if candidate.nodes is None:
        return Room(None, f"the nodes of class {candidate.name} are not known")
    per_node = candidate.hardware.accelerators_per_node
    here = _on_nodes(candidate, layout)
    held = sum(node.total for node in candidate.nodes)
    for supply in candidate.supplies:
        if supply.autoscaled and supply.limit is None:
            return Room(None, f"class {candidate.name} buys nodes when pods ask for them")
    buyable = sum((supply.limit or 0) for supply in candidate.supplies if supply.autoscaled)
    step = layout.accelerators if layout.accelerators <= per_node else ceil(layout.accelerators / per_node) * per_node
    here += max(0, buyable - held) // step
    if not candidate.nodes and not buyable:
        return Room(0, f"class {candidate.name} has no nodes")
    free = sum(node.free for node in candidate.nodes)
    sentence = f"class {candidate.name} has {count(free, 'free accelerator')} in {count(len(candidate.nodes), 'node')}"
    return Room(here, sentence + (f" and may buy {buyable - held} more" if buyable > held else ""))


def _on_nodes(candidate: Candidate, layout: Layout) -> int:
    """A replica that is larger than a node takes whole free nodes; smaller ones share a node."""
    nodes = candidate.nodes or ()
    size = layout.accelerators
    per_node = candidate.hardware.accelerators_per_node
    if size <= per_node:
        return sum(node.free // size for node in nodes)
    share = ceil(size / ceil(size / per_node))
    return sum(node.free // share for node in nodes) // ceil(size / share)


def cost_per_hour(candidate: Candidate, accelerators: int) -> tuple[Decimal, str] | None:
    """What so many accelerators cost in an hour, the cheapest supplies first up to their limits; None where a supply
    that is needed has no price. The last supply takes what is left, since a limit is checked elsewhere."""
    supplies = sorted(_supplies(candidate), key=lambda one: (one.price_per_hour is None, one.price_per_hour or 0))
    total, left = Decimal(0), accelerators
    for index, supply in enumerate(supplies):
        if supply.price_per_hour is None:
            return None
        last = index == len(supplies) - 1
        taken = left if supply.limit is None or last else min(left, supply.limit)
        total += taken * supply.price_per_hour
        left -= taken
        if left == 0:
            break
    return total, supplies[0].currency


def one_currency(candidates: Sequence[Candidate]) -> str | None:
    """The currency, if every supply of every class has a price in the same one."""
    seen = {
        supply.currency if supply.price_per_hour is not None else None
        for candidate in candidates
        for supply in _supplies(candidate)
    }
    return seen.pop() if len(seen) == 1 else None


def _supplies(candidate: Candidate) -> tuple[Supply, ...]:
    hardware = candidate.hardware
    own = Supply(name="", price_per_hour=hardware.price_per_hour, currency=hardware.currency)
    return candidate.supplies or (own,)
