"""A fleet of simulated replicas under a policy: arrivals, cold starts, drains, failures, and what all of it costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Protocol

from modelfleet.sim.engine import Engine, EngineSpec
from modelfleet.sim.requests import End, Outcome, Request


class Routing(StrEnum):
    """How a request finds its replica."""

    RANDOM = "random"
    """As a Service spreads connections."""
    LEAST_OF_TWO = "least-of-two"
    """Of two replicas at random the one with fewer requests, as a load-aware router does."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """What is the same for all policies. Times in seconds; `jitter` is the relative spread of a cold start;
    `failures_per_hour` is of one replica. A start takes `warm_start_s` where a replica left its node within
    `node_kept_s`: the node is there, with the weights. `supply` is the most replicas that nodes can be got for, those
    that start and drain included; what is above is not started."""

    engine: EngineSpec
    accelerators_per_replica: int
    min_replicas: int
    max_replicas: int
    first_replicas: int
    cold_start_s: float
    jitter: float = 0.1
    warm_start_s: float | None = None
    node_kept_s: float = 600.0
    supply: int | None = None
    longest_drain_s: float = 300.0
    failures_per_hour: float = 0.0
    routing: Routing = Routing.RANDOM

    @property
    def most(self) -> int:
        """The most replicas that can stand: inside the bounds, and with nodes."""
        return self.max_replicas if self.supply is None else min(self.max_replicas, self.supply)

    @property
    def fewest(self) -> int:
        """The fewest that may be asked for: the lower bound, or where nodes are short of it, all that there are."""
        return min(self.min_replicas, self.most)


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """What a policy may see of one replica that serves."""

    number: int
    running: int
    waiting: int
    queued_tokens: int
    kv_use: float


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What a policy may see at a tick. Counts are of the time since its last tick. `pending_s` are the times until the
    starting replicas are expected to serve, `ages_s` for how long they start; `ended` are outcomes of requests that
    ended; `starts_s` says how long those took to start that serve since."""

    now_s: float
    replicas: tuple[ReplicaView, ...]
    pending_s: tuple[float, ...]
    ages_s: tuple[float, ...]
    draining: int
    arrivals: int
    arrived_input_tokens: int
    made_tokens: int
    computed_tokens: int
    ended: tuple[Outcome, ...]
    oldest_wait_s: float
    starts_s: tuple[float, ...] = ()

    @property
    def provisioned(self) -> int:
        """Replicas that serve or start."""
        return len(self.replicas) + len(self.pending_s)


class Policy(Protocol):
    """Chooses the number of replicas. One object lives through one run."""

    @property
    def tick_s(self) -> float:
        """How often it is asked."""
        ...

    def wish(self, seen: Observation) -> int:
        """The wanted number of replicas; bounds are put on by the fleet."""
        ...


@dataclass(slots=True)
class _Replica:
    engine: Engine
    number: int
    created_s: float
    ready_s: float
    dies_s: float
    drain_since_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """What came of a run: outcomes in order of their ends, the cost, the number of replicas over time as (second,
    serving, provisioned), how often the wish changed the fleet, and the most replicas that had no node."""

    outcomes: tuple[Outcome, ...]
    accelerator_hours: float
    course: tuple[tuple[float, int, int], ...]
    actions: int
    preemptions: int
    unplaced: int = 0


class Fleet:
    """One run. Deterministic for a seed."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site, self._random = site, Random(seed)
        self._serving: list[_Replica] = []
        self._pending: list[_Replica] = []
        self._draining: list[_Replica] = []
        self._outcomes: list[Outcome] = []
        self._replica_s = 0.0
        self._number = 0
        self._preemptions = 0
        self._actions = 0
        self._gone_made = self._gone_computed = 0
        self._left_s: list[float] = []  # when nodes were left, which are there still
        self._short = 0
        self._starts_s: list[float] = []
        for _ in range(min(site.first_replicas, site.most)):
            self._start(0.0, 0.0)
        self._settle(0.0)

    def run(self, requests: Sequence[Request], policy: Policy, until_s: float) -> Run:
        """Runs the trace to its end and lets what was taken finish; the cost is counted to `until_s`."""
        course: list[tuple[float, int, int]] = []
        next_tick_s, index = policy.tick_s, 0
        before = _Before()
        while next_tick_s <= until_s:
            index = self._arrivals(requests, index, next_tick_s)
            self._advance(next_tick_s)
            seen, before = self._observe(next_tick_s, index, requests, before)
            self._scale(policy.wish(seen), next_tick_s)
            course.append((next_tick_s, len(self._serving), len(self._serving) + len(self._pending)))
            next_tick_s += policy.tick_s
        self._arrivals(requests, index, float("inf"))
        self._finish(until_s)
        outcomes = tuple(sorted(self._outcomes, key=lambda one: (one.ended_s, one.request.arrival_s)))
        return Run(
            outcomes=outcomes,
            accelerator_hours=self._replica_s / 3600 * self._site.accelerators_per_replica,
            course=tuple(course),
            actions=self._actions,
            preemptions=self._preemptions,
            unplaced=self._short,
        )

    def _arrivals(self, requests: Sequence[Request], index: int, until_s: float) -> int:
        while index < len(requests) and requests[index].arrival_s < until_s:
            request = requests[index]
            self._settle(request.arrival_s)
            self._route(request)
            index += 1
        return index

    def _route(self, request: Request) -> None:
        if not self._serving:
            self._outcomes.append(Outcome(request, End.FAILED, request.arrival_s))
            return
        chosen = self._serving[self._random.randrange(len(self._serving))]
        chosen.engine.advance(request.arrival_s)
        if self._site.routing is Routing.LEAST_OF_TWO and len(self._serving) > 1:
            other = self._serving[self._random.randrange(len(self._serving))]
            other.engine.advance(request.arrival_s)
            chosen = min(chosen, other, key=lambda one: one.engine.in_flight)
        chosen.engine.arrive(request)

    def _start(self, now_s: float, cold_start_s: float) -> None:
        ready_s = now_s + cold_start_s
        rate = self._site.failures_per_hour / 3600
        dies_s = ready_s + self._random.expovariate(rate) if rate else float("inf")
        engine = Engine(self._site.engine, self._number, ready_s, self._outcomes.append)
        self._pending.append(_Replica(engine, self._number, now_s, ready_s, dies_s))
        self._number += 1

    def _settle(self, now_s: float) -> None:
        """Lets replicas whose time has come serve, or die; a dead one is replaced by the fleet, not by the policy."""
        if self._pending and min(one.ready_s for one in self._pending) <= now_s:
            ready = [one for one in self._pending if one.ready_s <= now_s]
            self._serving += ready
            self._starts_s += [one.ready_s - one.created_s for one in ready if one.ready_s > one.created_s]
            self._pending = [one for one in self._pending if one.ready_s > now_s]
        for one in [one for one in self._serving if one.dies_s <= now_s]:
            one.engine.advance(one.dies_s)
            one.engine.die(one.dies_s)
            self._serving.remove(one)
            self._gone(one, one.dies_s)
            self._left_s.append(one.dies_s)
            self._start(one.dies_s, self._cold_start_s(one.dies_s))

    def _cold_start_s(self, now_s: float) -> float:
        site, spread = self._site, self._site.jitter
        whole_s = site.cold_start_s
        if site.warm_start_s is not None:
            self._left_s = [at for at in self._left_s if now_s - at <= site.node_kept_s]
            if self._left_s:
                self._left_s.pop()
                whole_s = site.warm_start_s
        return whole_s * self._random.uniform(1 - spread, 1 + spread)

    def _advance(self, now_s: float) -> None:
        self._settle(now_s)
        for one in self._serving:
            one.engine.advance(now_s)
        for one in list(self._draining):
            one.engine.advance(now_s)
            over = now_s - (one.drain_since_s or 0.0) >= self._site.longest_drain_s
            if over or not one.engine.in_flight:
                one.engine.die(now_s)
                self._left_s.append(now_s)
                self._draining.remove(one)
                self._gone(one, now_s)

    def _gone(self, one: _Replica, at_s: float) -> None:
        self._replica_s += max(0.0, at_s - one.created_s)
        self._preemptions += one.engine.preemptions
        self._gone_made += one.engine.made_tokens
        self._gone_computed += one.engine.computed_tokens

    def _scale(self, wish: int, now_s: float) -> None:
        wanted = min(max(wish, self._site.min_replicas), self._site.max_replicas)
        change = self._placed(wanted - len(self._serving) - len(self._pending))
        self._actions += change != 0
        for _ in range(change):
            self._start(now_s, self._cold_start_s(now_s))
        for _ in range(-change):
            self._leave(now_s)

    def _placed(self, change: int) -> int:
        """Of so many new replicas, those that there are nodes for."""
        if self._site.supply is None or change <= 0:
            return change
        used = len(self._serving) + len(self._pending) + len(self._draining)
        placed = min(change, max(0, self._site.supply - used))
        self._short = max(self._short, change - placed)
        return placed

    def _leave(self, now_s: float) -> None:
        """The one that is furthest from serving leaves first, then the one with the least work."""
        if self._pending:
            one = max(self._pending, key=lambda each: each.ready_s)
            self._pending.remove(one)
            self._gone(one, now_s)
            return  # its node is given back at once: it may not be there yet
        one = min(self._serving, key=lambda each: each.engine.in_flight)
        self._serving.remove(one)
        one.drain_since_s = now_s
        self._draining.append(one)

    def _observe(
        self, now_s: float, index: int, requests: Sequence[Request], before: "_Before"
    ) -> "tuple[Observation, _Before]":
        living = [*self._serving, *self._draining]
        made = self._gone_made + sum(one.engine.made_tokens for one in living)
        computed = self._gone_computed + sum(one.engine.computed_tokens for one in living)
        waits = [since for one in living if (since := one.engine.oldest_wait_since_s) is not None]
        seen = Observation(
            now_s=now_s,
            replicas=tuple(_view(one) for one in self._serving),
            pending_s=tuple(sorted(one.ready_s - now_s for one in self._pending)),
            ages_s=tuple(now_s - one.created_s for one in self._pending),
            draining=len(self._draining),
            arrivals=index - before.index,
            arrived_input_tokens=sum(request.input_tokens for request in requests[before.index : index]),
            made_tokens=made - before.made,
            computed_tokens=computed - before.computed,
            ended=tuple(self._outcomes[before.ended :]),
            oldest_wait_s=now_s - min(waits) if waits else 0.0,
            starts_s=tuple(self._starts_s[before.started :]),
        )
        return seen, _Before(index, made, computed, len(self._outcomes), len(self._starts_s))

    def _finish(self, until_s: float) -> None:
        for one in [*self._serving, *self._pending, *self._draining]:
            while one.engine.in_flight:
                one.engine.advance(one.engine.now_s + 60.0)
            self._gone(one, until_s)


@dataclass(frozen=True, slots=True)
class _Before:
    """What the last observation had counted."""

    index: int = 0
    made: int = 0
    computed: int = 0
    ended: int = 0
    started: int = 0


def _view(one: _Replica) -> ReplicaView:
    engine = one.engine
    return ReplicaView(one.number, engine.running, engine.waiting, engine.queued_tokens, engine.kv_use)
