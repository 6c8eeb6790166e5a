"""Who gives accelerators to whom when they do not suffice for all. Pure.

Each model says what it holds and what it lacks (a bid). A model that lacks replicas, because no node has room for them
or a quota leaves none, takes from one that runs more than its minimum on the same accelerators, where

1. the other's priority is lower, and the one that takes is below its minimum or its load; or
2. priorities are equal, and what makes room for one replica brings more good requests a second here than it costs
   there.

One step takes as few replicas as make room for one, from one model, so that the next look sees what came of it: for
`HELD_S` neither of the two takes part in another step, and a model with a replica that ends is not asked before it has
ended, because that makes room too. What was given is held back from the giver, so that they do not pass an accelerator
to and fro:

| what is observed, `HELD_S` after it was given | the grant |
| --- | --- |
| the taker lacks replicas still | holds |
| the same, and for `VAIN_S` nodes have had room for one more of the giver | is in vain: the taker has no use for it |
| the taker has none, or needs fewer than it has | ends |
| it lacks none, and for `ROOM_S` nodes have had room for one more of the giver | ends |
| it lacks none, and they have no such room | holds: what the taker replaces is to come back to it |

It ends at once where one of the two is gone. One that is in vain binds nobody, and keeps the taker from asking the same
giver again while it lacks replicas, for `RETRY_S` at most.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil

HELD_S = 120.0
"""For so long at least what was given is not taken back: a drain and a start lie in between."""

ROOM_S = 30.0
"""Room for the giver counts once it has been there for so long: the taker leaves it for a moment when it rolls out."""

VAIN_S = 300.0
"""Who waits for room takes it within a minute. What is still free after so long is not what the taker lacks."""

RETRY_S = 3600.0
"""After so long what a taker lacks may be another thing than it was."""

GAIN = 1.1
"""Of equal priority an accelerator moves only where it brings so many times what it brings now."""


@dataclass(frozen=True, kw_only=True)
class Bid:
    """One model. `pool` names the accelerators that it competes for (resource and class); `standing` replicas exist,
    `leaving` finish their requests. `need` is what its load asks for inside its own bounds, without regard to others.
    `lacks`: wanted replicas that have no room. `load_rps` is the load that is to be expected, in requests of the mean
    lengths. `room`: nodes have room for one replica more; only looked at where this model leaves some to others."""

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
    room: bool = False

    @property
    def gain_rps(self) -> float:
        """Good requests a second that one replica more brings, for each of its accelerators."""
        return min(self.knee_rps, max(0.0, self.load_rps - self.standing * self.knee_rps)) / self.accelerators

    def room_for(self, taker: "Bid") -> int:
        """Its replicas that make room for one of `taker`."""
        return ceil(taker.accelerators / self.accelerators)

    def loss_rps(self, taker: "Bid") -> float:
        """Good requests a second that they cost, for each accelerator that `taker` uses of theirs."""
        spare = max(0.0, self.standing * self.knee_rps - self.load_rps)
        return max(0.0, self.room_for(taker) * self.knee_rps - spare) / taker.accelerators


@dataclass(frozen=True, kw_only=True)
class Grant:
    """`giver` leaves `replicas` so that `taker` has room for one; since when, by the clock of this process. `room_s`:
    since when nodes have had room for the giver, and the taker has lacked replicas or not (`lacks`); None: they have
    none. `vain_s`: since when it is in vain."""

    giver: str
    taker: str
    replicas: int
    at_s: float
    sentence: str
    room_s: float | None = None
    lacks: bool = False
    vain_s: float | None = None


def decide_grants(bids: Iterable[Bid], grants: Iterable[Grant], now_s: float) -> tuple[Grant, ...]:
    """The grants that hold now: those that still do, and at most one new one for each pool."""
    known = {bid.key: bid for bid in bids}
    held = [kept for each in grants if (kept := _held(each, known, now_s)) is not None]
    # What a model gave or got a moment ago may be on its way.
    fresh = {key for each in held if now_s - each.at_s < HELD_S for key in (each.giver, each.taker)}
    for pool in sorted({bid.pool for bid in known.values() if bid.lacks}):
        pairs = _pairs([bid for bid in known.values() if bid.pool == pool], held)
        able = ((giver, taker) for giver, taker in pairs if not ({giver.key, taker.key} & fresh or _wait(giver, taker)))
        pair = next(able, None)
        if pair is not None:
            held.append(_granted(*pair, now_s))
    return tuple(held)


def decide_waits(bids: Iterable[Bid], grants: Iterable[Grant]) -> dict[str, str]:
    """Why models that lack replicas take none though others would leave them some, or did, by their keys."""
    bids, grants = tuple(bids), tuple(grants)
    pools = {bid.pool for bid in bids if bid.lacks}
    pairs = (pair for pool in pools for pair in _pairs([bid for bid in bids if bid.pool == pool], grants))
    waits = {taker.key: wait for giver, taker in pairs if (wait := _wait(giver, taker))}
    vain = {
        each.taker: f"what {each.giver} left stayed free, so it was given back"
        for each in grants
        if each.vain_s is not None
    }
    return vain | waits


def allowance(key: str, grants: Iterable[Grant]) -> Grant | None:
    """The grant that leaves a model least; None where it gives nothing."""
    return min((each for each in grants if each.giver == key), key=lambda each: each.replicas, default=None)


def _held(grant: Grant, known: dict[str, Bid], now_s: float) -> Grant | None:
    """The grant as it holds on, by the table above; None where it ends."""
    taker, giver = known.get(grant.taker), known.get(grant.giver)
    if taker is None or giver is None:
        return None
    if grant.vain_s is not None:
        return grant if taker.lacks and now_s - grant.vain_s < RETRY_S else None
    lacks, has_room = taker.lacks > 0, giver.room and not (taker.leaving or giver.leaving)
    since_s = grant.room_s if grant.room_s is not None and grant.lacks is lacks else now_s
    kept = replace(grant, lacks=lacks, room_s=since_s if has_room else None)
    if now_s - grant.at_s < HELD_S:
        return kept
    room_for_s = now_s - since_s if has_room else 0.0
    if lacks:
        return replace(kept, vain_s=now_s) if room_for_s >= VAIN_S else kept
    ends = not taker.standing or taker.need < taker.standing or room_for_s >= ROOM_S
    return None if ends else kept


def _pairs(bids: list[Bid], held: Iterable[Grant]) -> Iterator[tuple[Bid, Bid]]:
    """Who of a pool would give to whom: takers by priority and gain, each with the giver that loses least."""
    barred = {(each.giver, each.taker) if each.vain_s is not None else (each.taker, each.giver) for each in held}
    takers = sorted((bid for bid in bids if bid.lacks), key=lambda bid: (-bid.priority, -_urgency(bid), bid.key))
    able = [bid for bid in bids if bid.standing > bid.low]
    for taker in takers:
        others = (bid for bid in able if bid.key != taker.key and (bid.key, taker.key) not in barred)
        asked = (bid for bid in others if not _has_left(bid, taker) and _gives(bid, taker))
        least = min(asked, key=lambda bid: (bid.priority, bid.loss_rps(taker), bid.key), default=None)
        if least is not None:
            yield least, taker


def _has_left(giver: Bid, taker: Bid) -> bool:
    """There is room for the taker, as far as accelerators make it, and it has not taken it yet."""
    return giver.room and taker.accelerators <= giver.accelerators


def _wait(giver: Bid, taker: Bid) -> str:
    """What ends before the one gives to the other, as a sentence; empty where nothing does."""
    if taker.leaving:
        return "no other model is asked for room before its own replicas that are ending have ended"
    if giver.leaving:
        return f"{giver.key} is asked for room once its replicas that are ending have ended"
    return ""


def _granted(giver: Bid, taker: Bid, now_s: float) -> Grant:
    left = max(giver.low, giver.standing - giver.room_for(taker))
    return Grant(giver=giver.key, taker=taker.key, replicas=left, at_s=now_s, sentence=_sentence(giver, taker, left))


def _urgency(bid: Bid) -> float:
    """Below its minimum before all else."""
    return float("inf") if bid.standing < bid.low else bid.gain_rps


def _gives(giver: Bid, taker: Bid) -> bool:
    if giver.priority > taker.priority:
        return False
    if giver.priority < taker.priority or taker.standing < taker.low:
        return True
    makes_room = giver.standing - giver.room_for(taker) >= giver.low  # else it would lose, and nobody gain
    return makes_room and taker.gain_rps > giver.loss_rps(taker) * GAIN


def _sentence(giver: Bid, taker: Bid, left: int) -> str:
    if giver.priority < taker.priority:
        why = f"priority {taker.priority} is above {giver.priority}"
    elif taker.standing < taker.low:
        why = f"it stands at {taker.standing}, below its minimum of {taker.low}"
    else:
        gain, loss = taker.gain_rps, giver.loss_rps(taker)
        why = f"an accelerator brings {gain:.3g} good requests a second there and {loss:.3g} here"
    return f"{giver.key} leaves {giver.standing - left} of {giver.standing} replicas to {taker.key}: {why}"
