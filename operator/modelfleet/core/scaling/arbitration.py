"""Who gives accelerators to whom when they do not suffice for all. Pure.

Each model says what it holds and what it lacks (a bid). A model that lacks replicas, because no node has room for them
or a quota leaves none, takes from one that runs more than its minimum on the same accelerators, where

1. the other's priority is lower, and the one that takes is below its minimum or its load; or
2. priorities are equal, and what makes room for a replica brings more good requests a second here than it costs there.

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
from functools import partial
from itertools import takewhile
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

    def room_for(self, accelerators: int) -> int:
        """Its replicas that make room for one of so many accelerators."""
        return ceil(accelerators / self.accelerators)

    def loss_rps(self, accelerators: int) -> float:
        """Good requests a second that they cost, for each accelerator of theirs."""
        count = self.room_for(accelerators)
        spare = max(0.0, self.standing * self.knee_rps - self.load_rps)
        return max(0.0, count * self.knee_rps - spare) / (count * self.accelerators)

    def gain_in_rps(self, free: int) -> float:
        """Good requests a second that replicas more bring in so many free accelerators, for each of these."""
        count = min(max(1, self.lacks), free // self.accelerators)
        return min(count * self.knee_rps, max(0.0, self.load_rps - self.standing * self.knee_rps)) / free


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
    givers = [bid for bid in bids if bid.standing > bid.low]
    ranked = {each: _ranked(givers, each) for each in {bid.accelerators for bid in takers}}
    for taker in takers:
        others = (bid for bid in ranked[taker.accelerators] if bid.key != taker.key)
        others = (bid for bid in others if (bid.key, taker.key) not in barred and not _has_left(bid, taker))
        least = next((bid for bid in takewhile(partial(_may_give, taker), others) if _gives(bid, taker)), None)
        if least is not None:
            yield least, taker


def _ranked(givers: list[Bid], accelerators: int) -> list[Bid]:
    """By priority; of one priority first who can make room for so many accelerators alone, and of these by the loss.
    Sorted once for all takers of one size: a thousand models may lack replicas at the same time."""

    def rank(bid: Bid) -> tuple[int, bool, float, str]:
        return bid.priority, not _makes_room(bid, accelerators), bid.loss_rps(accelerators), bid.key

    return sorted(givers, key=rank)


def _makes_room(giver: Bid, accelerators: int) -> bool:
    return giver.standing - giver.room_for(accelerators) >= giver.low


def _may_give(taker: Bid, giver: Bid) -> bool:
    """Whether this one or one that is ranked behind it may give: none does of a higher priority, nor of the same where
    this one makes no room alone, so that it would lose and nobody gain, or loses more than any replica of the taker
    brings."""
    if _comes_first(taker, giver):
        return True
    most = taker.knee_rps / taker.accelerators
    size = taker.accelerators
    return giver.priority == taker.priority and _makes_room(giver, size) and giver.loss_rps(size) * GAIN < most


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
    left = max(giver.low, giver.standing - giver.room_for(taker.accelerators))
    return Grant(giver=giver.key, taker=taker.key, replicas=left, at_s=now_s, sentence=_sentence(giver, taker, left))


def _urgency(bid: Bid) -> float:
    """Below its minimum before all else."""
    return float("inf") if bid.standing < bid.low else bid.gain_rps


def _gives(giver: Bid, taker: Bid) -> bool:
    """Of those that may."""
    gain, loss = _moved_rps(giver, taker)
    return _comes_first(taker, giver) or gain > loss * GAIN


def _comes_first(taker: Bid, giver: Bid) -> bool:
    """Whether the taker gets it whatever the giver loses."""
    if giver.priority == taker.priority:
        return taker.standing < taker.low
    return giver.priority < taker.priority


def _moved_rps(giver: Bid, taker: Bid) -> tuple[float, float]:
    """What an accelerator that moves brings the taker and costs the giver, good requests a second."""
    free = giver.room_for(taker.accelerators) * giver.accelerators
    return taker.gain_in_rps(free), giver.loss_rps(taker.accelerators)


def _sentence(giver: Bid, taker: Bid, left: int) -> str:
    if giver.priority < taker.priority:
        why = f"priority {taker.priority} is above {giver.priority}"
    elif taker.standing < taker.low:
        why = f"it stands at {taker.standing}, below its minimum of {taker.low}"
    else:
        gain, loss = _moved_rps(giver, taker)
        why = f"an accelerator brings {gain:.3g} good requests a second there and {loss:.3g} here"
    return f"{giver.key} leaves {giver.standing - left} of {giver.standing} replicas to {taker.key}: {why}"
