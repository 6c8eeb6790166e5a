"""Those who wait for one model, and the workers that serve it: who is handed on, when, and to which. No I/O.

First come, first served. Each worker gets no more at a time than it works on at a time, and where the plan predicts
what a replica serves within its promise, those who waited are released at that rate: a burst would be refused by the
engine's admission limits.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from modelfleet.core.activation import holding
from modelfleet.core.activation.holding import Limits, Load, Verdict
from modelfleet.core.activation.known import Known, Outlook
from modelfleet.core.activation.slices import Address

_SHUNNED_S = 1.0
"""A worker that could not be connected to is left alone for so long."""

_ECHO_S = 300.0
"""A request that was refused, although a start would have helped, counts as one that waits for at most so long."""

_ECHO_FAILED_S = 5.0
"""The same where the operator says that a start fails: long enough to be told, so that it may try again."""


_AT_A_TIME = 256
"""Held requests that a worker is given at a time where it is not known how many it works on: vLLM's own default. All of
ten thousand at once would take two files each, and leave the engine to order them."""


@dataclass
class Worker:
    """A worker that serves, as this activator sees it."""

    address: Address
    in_flight: int = 0
    shunned_until_s: float = 0.0


@dataclass
class Totals:
    """What the process holds over all models."""

    requests: int = 0
    total_bytes: int = 0


@dataclass(eq=False)
class Place:
    """One who waits. `outcome`: the worker to go to, counted there already, or why it is refused."""

    arrived_s: float
    outcome: "asyncio.Future[Worker | Verdict]"
    size: int = 0
    timer: asyncio.TimerHandle | None = None


@dataclass
class Surroundings:
    """What lines have in common. `changed` is told of which model another number waits. `activators`: how many share
    the traffic."""

    activator: str
    limits: Limits
    now: Callable[[], datetime]
    changed: Callable[[tuple[str, str]], None] = lambda _: None
    totals: Totals = field(default_factory=Totals)
    activators: int = 1


class Line:
    """The line of one model."""

    def __init__(self, model: Known, around: Surroundings) -> None:
        self.model = model
        self.workers: dict[Address, Worker] = {}
        self.stands_in = True
        """The model's Service leads to activators. Where it does not, a new connection finds a worker."""
        self._around = around
        self._loop = asyncio.get_running_loop()
        self._places: OrderedDict[Place, None] = OrderedDict()
        self._held: set[Place] = set()
        self._next_release_s = 0.0
        self._release_timer: asyncio.TimerHandle | None = None
        self._echo_until_s = 0.0
        self._echo_timer: asyncio.TimerHandle | None = None

    @property
    def held(self) -> int:
        """Requests that wait."""
        return len(self._held)

    @property
    def demand(self) -> int:
        """What is told of it: those who wait, and at least one for a while after a refusal that a start would mend."""
        echo = not self.workers and self._loop.time() < self._echo_until_s
        return max(self.held, 1 if echo else 0)

    @property
    def serving(self) -> bool:
        """Whether there are workers."""
        return bool(self.workers)

    # What changes around it

    def learn(self, model: Known) -> None:
        """The object changed. What cannot be started fails those who wait at once."""
        self.model = model
        now = self._around.now()
        if model.refusal is not None and model.refusal.holds_at(now) and not self.workers:
            self._fail_all(holding.failed(model, model.refusal, 0, now))
        self._release()

    def serve(self, addresses: frozenset[Address], *, stands_in: bool = True) -> None:
        """The workers that serve now. One that left keeps the requests it has."""
        self.stands_in = stands_in or not addresses
        self.workers = {a: self.workers.get(a) or Worker(a) for a in sorted(addresses)}
        self._release()

    def close(self, verdict: Verdict) -> None:
        """Nobody is held any longer."""
        self._fail_all(verdict)

    # A request's way

    def worker(self) -> Worker | None:
        """The worker that a request which just came goes to, counted there; None: it has to wait."""
        return None if self._places else self._take()

    def any_worker(self) -> Worker | None:
        """The worker for a request that asks no work of the engine, however busy it is; counted there."""
        now_s = self._loop.time()
        return self._counted(
            min(self.workers.values(), key=lambda w: (w.shunned_until_s > now_s, w.in_flight), default=None)
        )

    def done(self, worker: Worker) -> None:
        """A request that was counted at `worker` ended."""
        worker.in_flight -= 1
        self._release()

    def shun(self, worker: Worker) -> None:
        """`worker` could not be connected to."""
        worker.shunned_until_s = self._loop.time() + _SHUNNED_S
        self._loop.call_at(worker.shunned_until_s, self._release)

    def decide(self, size: int) -> Verdict:
        """Whether one more request, whose body has `size` bytes as far as is known, is held."""
        totals = self._around.totals
        load = Load(totals.requests, totals.total_bytes, self._ahead())
        verdict = holding.decide_hold(self._as_it_stands(), load, size, self._around.limits, self._around.now())
        if not verdict.held:
            self._echo(verdict)
        return verdict

    def enter(self, arrived_s: float, *, first: bool = False) -> Place:
        """Takes a place, at the end or, for one who waited already, at the front. It must be left."""
        place = Place(arrived_s, self._loop.create_future())
        place.timer = self._loop.call_at(arrived_s + self.model.patience_s, self._expire, place)
        self._held.add(place)
        self._around.totals.requests += 1
        self._changed()
        if first:
            self._places[place] = None
            self._places.move_to_end(place, last=False)
        return place

    def ready(self, place: Place) -> None:
        """Its body is here: it may be handed on."""
        if not place.outcome.done():
            self._places.setdefault(place)
        self._release()

    def grow(self, place: Place, size: int) -> Verdict | None:
        """`size` more bytes of its body are held; why they are not, otherwise."""
        limits, totals = self._around.limits, self._around.totals
        if place.size + size > limits.body_bytes:
            return self._echoed(holding.too_large(self.model, limits))
        if totals.total_bytes + size > limits.total_bytes:
            load = Load(totals.requests, totals.total_bytes, self._ahead())
            return self._echoed(holding.too_many_bytes(self._as_it_stands(), load, limits, self._around.now()))
        place.size += size
        totals.total_bytes += size
        return None

    def leave(self, place: Place) -> None:
        """Gives the place back. A worker that was found for it meanwhile stays counted: the caller has it, or
        `abandon` is called."""
        if place not in self._held:
            return
        self._held.discard(place)
        self._places.pop(place, None)
        if place.timer is not None:
            place.timer.cancel()
        self._around.totals.requests -= 1
        self._around.totals.total_bytes -= place.size
        self._changed()

    def abandon(self, place: Place) -> None:
        """The client is gone: the place is free, and so is a worker that was just found for it."""
        self.leave(place)
        if place.outcome.done() and not place.outcome.cancelled():
            outcome = place.outcome.result()
            if isinstance(outcome, Worker):
                self.done(outcome)

    # Inside

    def _changed(self) -> None:
        self._around.changed(self.model.key)

    def _ahead(self) -> int:
        return self.held + self.model.waiting_elsewhere(self._around.activator)

    def _as_it_stands(self) -> Known:
        """The model as it bounds what is held: where workers serve, no start is waited for, and none fails."""
        return replace(self.model, outlook=Outlook(left_s=0.0), refusal=None) if self.workers else self.model

    def _release(self) -> None:
        """Hands on as many as workers take now."""
        while self._places:
            now_s = self._loop.time()
            if now_s < self._next_release_s:
                self._release_at(self._next_release_s)
                return
            worker = self._take(_AT_A_TIME)
            if worker is None:
                return
            place, _ = self._places.popitem(last=False)
            if place.outcome.done():
                worker.in_flight -= 1
                continue
            place.outcome.set_result(worker)
            if self.model.rate_rps is not None:
                share_rps = self.model.rate_rps * len(self.workers) / max(1, self._around.activators)
                self._next_release_s = now_s + 1 / share_rps

    def _release_at(self, when_s: float) -> None:
        if self._release_timer is not None:
            self._release_timer.cancel()
        self._release_timer = self._loop.call_at(when_s, self._release)

    def _take(self, otherwise: int | None = None) -> Worker | None:
        """The least busy worker that has room, counted; `otherwise`: the room where the plan does not tell it."""
        most = self.model.sequences or otherwise
        share = None if most is None else max(1, most // max(1, self._around.activators))
        now_s = self._loop.time()
        room = [
            w for w in self.workers.values() if w.shunned_until_s <= now_s and (share is None or w.in_flight < share)
        ]
        return self._counted(min(room, key=_business, default=None))

    def _counted(self, worker: Worker | None) -> Worker | None:
        if worker is not None:
            worker.in_flight += 1
        return worker

    def _expire(self, place: Place) -> None:
        if not place.outcome.done():
            verdict = holding.waited_too_long(self._as_it_stands(), self._ahead(), self._around.now())
            place.outcome.set_result(verdict)

    def _fail_all(self, verdict: Verdict) -> None:
        for place in tuple(self._held):
            if not place.outcome.done():
                place.outcome.set_result(verdict)

    def _echoed(self, verdict: Verdict) -> Verdict:
        self._echo(verdict)
        return verdict

    def _echo(self, verdict: Verdict) -> None:
        failed = verdict.reason is holding.Reason.START_FAILED
        longest_s = _ECHO_FAILED_S if failed else _ECHO_S
        until_s = self._loop.time() + min(longest_s, verdict.retry_after_s or longest_s)
        self._echo_until_s = max(self._echo_until_s, until_s)
        if self._echo_timer is not None:
            self._echo_timer.cancel()
        self._echo_timer = self._loop.call_at(self._echo_until_s + 0.01, self._changed)
        self._changed()


def _business(worker: Worker) -> int:
    return worker.in_flight
