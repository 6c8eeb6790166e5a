"""Who gives accelerators to whom when they do not suffice for all. Pure.

Each model says what it holds and what it lacks (a bid). A model that lacks replicas, because no node has room for them
or a quota leaves none, takes from one that runs more than its minimum on the same accelerators, where

1. the other's priority is lower, and the one that takes is below its minimum or its load; or
2. priorities are equal, and an accelerator more brings more good requests a second here than one less costs there.

One step takes as few replicas as make room for one, from one model, so that the next look sees what came of it. What
was given is held back from the giver until the taker lacks nothing any more (`HELD_S` at least), so that they do not
pass an accelerator to and fro.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

HELD_S = 120.0
"""For so long at least what was given is not taken back: a drain and a start lie in between."""

GAIN = 1.1
"""Of equal priority an accelerator moves only where it brings so many times what it brings now."""


@dataclass(frozen=True, kw_only=True)
class Bid:
    """One model. `pool` names the accelerators that it competes for (resource and class); `standing` replicas exist,
    `leaving` finish their requests. `need` is what its load asks for inside its own bounds, without regard to others.
    `lacks`: wanted replicas that have no room. `load_rps` is the load that is to be expected, in requests of the mean
    lengths."""

    key: str
    pool: str
    accelerators: int
    priority: int
    low: int
    standing: int
    need: int
    lacks: int
    load_rps: float
    knee_rps: float
    leaving: int = 0

    @property
    def gain_rps(self) -> float:
        """Good requests a second that one replica more brings, for each of its accelerators."""
        return min(self.knee_rps, max(0.0, self.load_rps - self.standing * self.knee_rps)) / self.accelerators

    @property
    def loss_rps(self) -> float:
        """Good requests a second that one replica less costs, for each of its accelerators."""
        spare = max(0.0, self.standing * self.knee_rps - self.load_rps)
        return max(0.0, self.knee_rps - spare) / self.accelerators


@dataclass(frozen=True, kw_only=True)
class Grant:
    """`giver` leaves `replicas` so that `taker` has room for one; since when, by the clock of this process."""

    giver: str
    taker: str
    replicas: int
    at_s: float
    sentence: str


def decide_grants(bids: Iterable[Bid], grants: Iterable[Grant], now_s: float) -> tuple[Grant, ...]:
    """The grants that hold now: those that still do, and at most one new one for each pool."""
    known = {bid.key: bid for bid in bids}
    held = [each for each in grants if _holds(each, known, now_s)]
    pools = sorted({bid.pool for bid in known.values() if bid.lacks})
    for pool in pools:
        inside = [bid for bid in known.values() if bid.pool == pool]
        fresh = any(now_s - each.at_s < HELD_S for each in held if known[each.taker].pool == pool)
        fresh = fresh or any(bid.leaving for bid in inside)
        grant = None if fresh else _next(inside, held, now_s)
        if grant is not None:
            held.append(grant)
    return tuple(held)


def allowance(key: str, grants: Iterable[Grant]) -> Grant | None:
    """The grant that leaves a model least; None where it gives nothing."""
    return min((each for each in grants if each.giver == key), key=lambda each: each.replicas, default=None)


def _holds(grant: Grant, known: dict[str, Bid], now_s: float) -> bool:
    """Until the taker needs no more than it had without it, or one of the two is gone."""
    taker, giver = known.get(grant.taker), known.get(grant.giver)
    if taker is None or giver is None:
        return False
    if now_s - grant.at_s < HELD_S:
        return True
    return taker.lacks > 0 or taker.need >= taker.standing


def _next(bids: list[Bid], held: list[Grant], now_s: float) -> Grant | None:
    """The next grant of a pool: the taker with the highest priority and gain, from the giver that loses least."""
    takers = sorted((bid for bid in bids if bid.lacks), key=lambda bid: (-bid.priority, -_urgency(bid), bid.key))
    for taker in takers:
        givers = [bid for bid in bids if bid.key != taker.key and bid.standing > bid.low and _gives(bid, taker)]
        givers = [bid for bid in givers if not any(each.giver == taker.key and each.taker == bid.key for each in held)]
        if givers:
            giver = min(givers, key=lambda bid: (bid.priority, bid.loss_rps, bid.key))
            count = min(giver.standing - giver.low, ceil(taker.accelerators / giver.accelerators))
            left = giver.standing - count
            return Grant(
                giver=giver.key,
                taker=taker.key,
                replicas=left,
                at_s=now_s,
                sentence=_sentence(giver, taker, left),
            )
    return None


def _urgency(bid: Bid) -> float:
    """Below its minimum before all else."""
    return float("inf") if bid.standing < bid.low else bid.gain_rps


def _gives(giver: Bid, taker: Bid) -> bool:
    if giver.priority > taker.priority:
        return False
    if giver.priority < taker.priority or taker.standing < taker.low:
        return True
    return taker.gain_rps > giver.loss_rps * GAIN


def _sentence(giver: Bid, taker: Bid, left: int) -> str:
    if giver.priority < taker.priority:
        why = f"priority {taker.priority} is above {giver.priority}"
    elif taker.standing < taker.low:
        why = f"it stands at {taker.standing}, below its minimum of {taker.low}"
    else:
        why = f"an accelerator brings {taker.gain_rps:.3g} good requests a second there and {giver.loss_rps:.3g} here"
    return f"{giver.key} leaves {giver.standing - left} of {giver.standing} replicas to {taker.key}: {why}"
