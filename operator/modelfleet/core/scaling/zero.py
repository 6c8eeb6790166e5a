"""Whether a model goes to zero, is there, or comes back, and how far it is on the way. Pure.

| state | what stands | what ends it |
| --- | --- | --- |
| Serving | replicas; no slice to the activators | idle for `after` (or by hand): Leaving |
| Leaving | the slice; replicas until an activator answers through the Service, then they drain | no replica: AtZero;
  a request, a replica that starts, a schedule: Serving |
| AtZero | the slice, and nothing else | requests wait in an activator, no activator answers for SILENT_S: Waking; a
  schedule, toZero taken out: Serving |
| Waking | the slice, and replicas for what waited | they serve: Serving; they cannot: AtZero, with a back-off |

Nothing here is remembered but what NAME-state holds (`kept`): each look decides from it and from what is observed, so
that a look that was cut short is made again, and two that see the same decide the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from math import ceil, inf
from typing import Any

from modelfleet.api.zero_status import ZeroState
from modelfleet.core.activator import DEAD_S, Answer, Waiting
from modelfleet.core.groups import Replica
from modelfleet.core.scaling.idle import Counts, begun_anew, idle_s
from modelfleet.core.scaling.zero_kept import Failed, Kept
from modelfleet.core.start_deadline import FETCH_S

LOOK_S = 1.0
"""How often an answer of the activators is looked for while it is waited for."""

AT_ZERO_S = 30.0
"""How often it is looked at whether the activators answer again, while none does."""

ANSWERED_S = 300.0
"""The same while they answer. That they stop is heard of in between (controller/activators.py): a look costs ten
requests to the API server, and a thousand models may be at zero."""

COUNTS_S = 15.0
"""How often counts that are not known are looked at again; of those that moved at least so often."""

SILENT_S = 60.0
"""A model that no activator answers for cannot be woken, so after this a replica runs."""

FORGOTTEN_S = 60.0
"""Nothing was placed for a wake, and nobody waits any more: it is called off after this."""

HOLD_S = 300.0
"""So long after a wake at least as many replicas are kept as were woken, while requests come: what waited is still
being answered."""

_GRAIN_S = 60.0
_SAID = 400  # characters of a failure's sentence that are kept


class Slice(Enum):
    """What becomes of the EndpointSlice that puts the activators behind the Service."""

    MAKE = "make"
    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What is decided from.

    `after_s`: spec.scaling.toZero.after, None where nothing goes to zero by itself. `by_hand`: mode Manual and no
    replica is wanted. `wanted`: the replicas that all else asks for; `most`: the bound; `warm`: a schedule keeps
    replicas. `carries`: requests that one replica answers at a time, None where nothing tells. `counts`: by a replica's
    uid, of those that are known. `demand_s`: for how long an activator's entry has been as it is. `deadline_s`: how
    long a wake may take after its weights are there, and `fetch_s` one run of what fetches them. `stands_s`: how long a
    replica serves before the slice goes.
    """

    kept: Kept
    after_s: float | None
    wanted: int
    most: int
    fleet: tuple[Replica, ...]
    now: datetime
    generation: int = 0
    by_hand: bool = False
    warm: bool = False
    carries: float | None = None
    counts: Mapping[str, Counts] = field(default_factory=dict)
    demand: tuple[Waiting, ...] = ()
    demand_s: Mapping[str, float] = field(default_factory=dict)
    answer: Answer | None = None
    deadline_s: float = 2700.0
    fetch_s: float = FETCH_S
    stands_s: float = 5.0

    @property
    def standing(self) -> tuple[Replica, ...]:
        """Replicas that exist and do not end."""
        return tuple(each for each in self.fleet if not (each.terminating or each.finished))

    @property
    def ready(self) -> tuple[Replica, ...]:
        """Those that answer requests."""
        return tuple(each for each in self.standing if each.ready)

    @property
    def requests(self) -> int:
        """Requests that wait: those of activators that live, and that no earlier wake was for."""
        return sum(
            entry.requests
            for entry in self.demand
            if self.kept.answered.get(entry.activator) != entry.at and self.demand_s.get(entry.activator, 0.0) < DEAD_S
        )

    @property
    def automatic(self) -> bool:
        """Going to zero is the operator's to decide, and nothing keeps replicas."""
        return self.after_s is not None and not self.by_hand and not self.warm

    @property
    def idle_s(self) -> float | None:
        """Seconds without a request; 0: one is or was there, None: not known."""
        return 0.0 if self.requests else idle_s(self.kept, self.standing, self.counts, self.now)

    @property
    def grain_s(self) -> float:
        """How exact the clock of idleness is."""
        return min(_GRAIN_S, max(LOOK_S, (self.after_s or 0.0) / 10))

    @property
    def silent(self) -> bool:
        """No activator has answered for so long that none is to be counted on."""
        return self.answer is not None and not self.answer.proven and self.answer.silent_s >= SILENT_S

    @property
    def since_s(self) -> float:
        """How long the state is what it is."""
        return (self.now - self.kept.since).total_seconds() if self.kept.since else 0.0

    @property
    def starts_s(self) -> float:
        """How long what was woken has had to start: since then, or since weights were there; 0 while some come."""
        pods = [pod for replica in self.standing for pod in replica.pods]
        runs = [pod.beginning.fetch_since or self.now for pod in pods if pod.beginning.fetches]
        if any((self.now - since).total_seconds() < self.fetch_s for since in runs):
            return 0.0
        there = [at for pod in pods if (at := pod.beginning.fetched_at) is not None]
        return max(0.0, min([self.since_s, *((self.now - at).total_seconds() for at in there)]))

    def turned(self, state: ZeroState, **change: Any) -> "Moment":
        """The same moment in another state, from now on."""
        return replace(self, kept=replace(self.kept.turned(state, self.now), **change))

    def busy(self) -> "Moment":
        """The clock begins anew."""
        return replace(self, kept=begun_anew(self.kept, self.counts, self.now, self.grain_s))


@dataclass(frozen=True, kw_only=True)
class Zero:
    """What comes of it. `replicas`: how many there are to be; `why`: a sentence where that is not what all else asks
    for. `kept`: what NAME-state is to hold."""

    kept: Kept
    replicas: int
    slice: Slice
    why: str = ""
    wake_after_s: float | None = None

    @property
    def state(self) -> ZeroState:
        """Where the model stands."""
        return self.kept.state


def decide_zero(m: Moment) -> Zero:
    """The next step. The rows of the module's table, read from what is kept."""
    steps: dict[ZeroState, Callable[[Moment], Zero]] = {
        ZeroState.SERVING: _serving,
        ZeroState.LEAVING: _leaving,
        ZeroState.AT_ZERO: _at_zero,
        ZeroState.WAKING: _waking,
    }
    return steps[m.kept.state](m)


def _serving(m: Moment) -> Zero:
    """
    | by hand | Leaving |
    | a schedule, another mode, no toZero | replicas; there is no clock |
    | none is ready | replicas; the clock does not begin before the first is |
    | the counts of one are not known | replicas; the clock is left as it is |
    | nothing came for `after` | Leaving |
    | nothing came for less | replicas |
    | one starts, something waits or is answered, counts moved | replicas; the clock begins anew |
    """
    if m.by_hand:
        return _leaving(_left(m))
    if not m.automatic or m.after_s is None:
        return _serve(replace(m, kept=m.kept.without_clock()))
    if not m.ready:
        return _serve(m)
    idle = m.idle_s
    if idle is None:
        return _serve(m, COUNTS_S)
    if idle <= 0:
        return _serve(m.busy(), min(m.after_s, max(COUNTS_S, m.grain_s)))
    if idle >= m.after_s:
        return _leaving(_left(m))
    return _serve(m, max(LOOK_S, m.after_s - idle))


def _leaving(m: Moment) -> Zero:
    """
    | no replica stands, and requests wait | Waking |
    | nothing may go to zero any more, a request came, a replica starts | Serving |
    | no replica is left | AtZero |
    | it is not known whether a request came | the replicas stay, or are put back; it is looked at again |
    | an activator answers through the Service (by hand: or none does for SILENT_S) | the replicas drain |
    | else | the replicas stay; it is looked at again |
    """
    if not m.standing and m.automatic and m.requests:
        return _waking(_woken(m))
    if not m.by_hand and (not m.automatic or (m.standing and m.idle_s == 0.0)):
        return _serve(m.turned(ZeroState.SERVING).busy(), COUNTS_S)
    if not m.fleet:
        return _at_zero(m.turned(ZeroState.AT_ZERO))
    why = _BY_HAND if m.by_hand else f"no request came for {m.after_s or 0:.0f} s"
    proven = m.answer is not None and (m.answer.proven or (m.by_hand and m.silent))
    known = m.by_hand or m.idle_s is not None
    stay = 0 if proven and known else len(m.standing)
    return Zero(kept=m.kept, replicas=stay, slice=Slice.MAKE, why=why, wake_after_s=LOOK_S)


def _at_zero(m: Moment) -> Zero:
    """
    | a schedule, another mode, no toZero | Serving |
    | by hand | stays |
    | a wake failed, and its back-off is not over, for this generation of the spec | stays |
    | requests wait | Waking |
    | no activator answers for SILENT_S | Waking, one |
    | else | stays |
    """
    if not m.by_hand and not m.automatic:
        return _serve(m.turned(ZeroState.SERVING))
    left_s = back_off_s(m.kept, m.generation, m.now)
    if m.automatic and left_s <= 0 and (m.requests or m.silent):
        return _waking(_woken(m))
    why = _BY_HAND if m.by_hand else "no request waits"
    if m.automatic and left_s > 0:
        why = "a wake failed, and its back-off is not over"
    answered = m.answer is not None and m.answer.proven
    usual_s = ANSWERED_S if answered else AT_ZERO_S
    waits_s = min(usual_s, max(LOOK_S, left_s)) if left_s > 0 else usual_s
    return Zero(kept=m.kept, replicas=0, slice=Slice.MAKE, why=why, wake_after_s=waits_s)


def _waking(m: Moment) -> Zero:
    """
    | by hand | Leaving |
    | a schedule, another mode, no toZero | Serving |
    | all that were woken are ready, or one is and nothing waits | Serving |
    | none is ready, and those that stand cannot become so, or the deadline is over | AtZero, with a back-off |
    | nothing stands, and nobody waits any more | AtZero |
    | else | as many as what waits needs; never fewer than before |
    """
    if m.by_hand:
        return _leaving(_left(m))
    if not m.automatic:
        return _serve(m.turned(ZeroState.SERVING))
    need = max(m.kept.woken, needed(m.requests, m.carries, m.most))
    if m.ready and (len(m.ready) >= min(need, m.most) or not m.requests):
        return _serve(m.turned(ZeroState.SERVING, answered=_seen(m), failed=None).busy(), COUNTS_S)
    failed = _failure(m)
    forgotten = not m.fleet and not m.requests and m.since_s >= FORGOTTEN_S
    if failed is not None or forgotten:
        return _at_zero(
            m.turned(ZeroState.AT_ZERO, failed=failed or m.kept.failed, woken=0, waited=0, answered=_seen(m))
        )
    kept = m.kept if need == m.kept.woken else replace(m.kept, woken=need, waited=max(m.kept.waited, m.requests))
    words = _woken_words(kept, m.carries)
    return Zero(kept=kept, replicas=min(need, m.most), slice=Slice.MAKE, why=words, wake_after_s=COUNTS_S)


def _serve(m: Moment, wake_after_s: float | None = None) -> Zero:
    """Replicas run. The slice stays until one of them has been behind the Service for a while: overlap, never a gap.
    Where no activator answers it goes at once: what it lists takes requests to nobody."""
    known = m.kept.since is None or m.since_s >= m.stands_s
    serving = [replica for replica in m.ready if replica.serving]
    stands = any(m.silent or (known and _ready_s(replica, m.now) >= m.stands_s) for replica in serving)
    if serving and not stands:
        wake_after_s = min(wake_after_s or COUNTS_S, max(LOOK_S, m.stands_s))
    waited_for = m.kept.since is not None and m.since_s < HOLD_S
    woken = m.kept.woken if waited_for else 0
    if waited_for:
        wake_after_s = min(wake_after_s or COUNTS_S, COUNTS_S)
    least = max(1, woken)
    why = _woken_words(m.kept, m.carries) if woken > m.wanted else ""
    return Zero(
        kept=m.kept,
        replicas=min(m.most, max(least, m.wanted)),
        slice=Slice.DROP if stands else Slice.KEEP,
        why=why,
        wake_after_s=wake_after_s,
    )


def _ready_s(replica: Replica, now: datetime) -> float:
    """For how long it is ready; any time where nothing tells."""
    since = replica.leader.ready_since if replica.leader is not None else None
    return inf if since is None else (now - since).total_seconds()


def needed(requests: int, carries: float | None, most: int) -> int:
    """How many replicas so many waiting requests wake: at least 1, at most `most`."""
    wish = ceil(requests / carries) if carries else 1
    return max(1, min(most, wish))


def back_off_s(kept: Kept, generation: int, now: datetime) -> float:
    """Seconds until a wake may be tried again after one that failed; 0 or less: now. A changed spec waits for none."""
    if kept.failed is None or kept.failed.generation != generation:
        return 0.0
    return (kept.failed.until - now).total_seconds()


def _left(m: Moment) -> Moment:
    return m.turned(ZeroState.LEAVING, woken=0, waited=0)


def _woken(m: Moment) -> Moment:
    failed = m.kept.failed if m.kept.failed is not None and m.kept.failed.generation == m.generation else None
    need = needed(m.requests, m.carries, m.most)
    kept = replace(m.kept.without_clock(), woken=need, waited=m.requests, failed=failed)
    return replace(m, kept=kept).turned(ZeroState.WAKING)


def _failure(m: Moment) -> Failed | None:
    """Why the replicas that were woken do not come to serve; None while they may."""
    if m.ready or not m.standing:
        return None
    lasting = [replica.failure for replica in m.standing if replica.hopeless and replica.failure is not None]
    if len(lasting) == len(m.standing):
        reason, message = str(lasting[0].reason), lasting[0].message
    elif m.starts_s >= m.deadline_s:
        reason, message = "EngineStartTimeout", f"no replica came to serve within {m.deadline_s:.0f} s"
    else:
        return None
    return Failed(
        times=m.kept.failed.times + 1 if m.kept.failed is not None else 1,
        at=m.now.replace(microsecond=0),
        generation=m.generation,
        reason=reason,
        message=message[:_SAID],
    )


def _seen(m: Moment) -> Mapping[str, str]:
    """What was served, or cannot be, wakes nothing any more."""
    return {entry.activator: entry.at for entry in m.demand}


_BY_HAND = "mode is Manual and replicas is 0"


def _woken_words(kept: Kept, carries: float | None) -> str:
    if not kept.waited:
        return "no activator answers for the model, so a replica runs"
    waited = f"{kept.waited} request{'' if kept.waited == 1 else 's'} waited at zero"
    if carries is None:
        return f"{waited}; what one replica carries is not known"
    return f"{waited}, and one replica carries {carries:.0f} at a time"
