"""Policies on the same trace, each as a curve of share against accelerator-hours: ours, the peers', static, the oracle.

One figure alone says little: a rule that breaks the promise is cheap. So each rule is run with several values of its
own parameter, and costs are compared at equal share, between the points of its curve.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from math import exp, log
from statistics import mean

from modelfleet.sim.fleet import Fleet, Observation, Policy, Run
from modelfleet.sim.oracle import WINDOW_S, Oracle, needed, work_by_window
from modelfleet.sim.ours import Ours
from modelfleet.sim.peers import kubernetes
from modelfleet.sim.peers.concurrency import AibrixKpa, Kpa, KubeAi, RayServe
from modelfleet.sim.peers.kubernetes import Apa, Hpa, Keda, Kthena
from modelfleet.sim.peers.serving import Dynamo, SloRatio, WvaOne, WvaTwo
from modelfleet.sim.requests import Outcome
from modelfleet.sim.world import World

OURS, STATIC, ORACLE = "modelfleet", "static", "oracle"
_SCALES = (0.25, 0.4, 0.6, 0.8, 1.0, 1.4, 2.0)
_KV_TARGETS = (0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
_WORST_S = 300.0
_SMOOTH = (1, 3, 7, 13, 31)
_KNEE_ROUNDS = 7
MANY_REQUESTS = 60_000
"""Above, every second value of a parameter is tried and the oracle's search is coarser: minutes, not an hour."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One policy with one value of its parameter on one seed. `worst_share` is that of the worst 5 minutes."""

    parameter: str
    seed: int
    share: float
    accelerator_hours: float
    good_requests: int
    worst_share: float
    actions: int
    refused: int
    failed: int

    @property
    def good_per_accelerator_hour(self) -> float:
        """Requests inside the promise for each accelerator-hour."""
        return self.good_requests / self.accelerator_hours if self.accelerator_hours else 0.0


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A policy: its points over parameters and seeds; `usual` is the parameter that it ships with, of what knows the
    trace the one that keeps the share: None where none does."""

    policy: str
    usual: str | None
    points: tuple[Point, ...]
    causal: bool = True
    """It knows nothing of the future; static and the oracle do."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How to make a policy for each value of its parameter, and for any other."""

    name: str
    usual: str
    make: Mapping[str, Callable[[int], Policy]]
    at: Callable[[float], Callable[[int], Policy]]


class Static:
    """Always the same number."""

    tick_s = 15.0

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def wish(self, seen: Observation) -> int:
        """The number."""
        return self._replicas


def played(world: World, policy: Policy, seed: int, *, first: int | None = None) -> Run:
    """One run; `first` replicas stand throughout in place of the site's bounds, as far as there are nodes."""
    site = world.site
    if first is not None:
        site = replace(site, first_replicas=first, min_replicas=first, max_replicas=first)
    return Fleet(site, seed).run(world.trace.requests, policy, world.trace.duration_s)


def scored(world: World, run: Run, parameter: str, seed: int) -> Point:
    """What is reported of a run."""
    promise = world.setting.promise
    inside = [one.inside(promise.ttft_s, promise.tpot_s) for one in run.outcomes]
    return Point(
        parameter=parameter,
        seed=seed,
        share=sum(inside) / len(inside),
        accelerator_hours=run.accelerator_hours,
        good_requests=sum(inside),
        worst_share=_worst(run.outcomes, inside),
        actions=run.actions,
        refused=sum(one.end == "refused" for one in run.outcomes),
        failed=sum(one.end == "failed" for one in run.outcomes),
    )


def _worst(outcomes: Sequence[Outcome], inside: Sequence[bool]) -> float:
    """The lowest share of requests that arrived in any five minutes that begin with a minute."""
    windows: dict[int, list[int]] = {}
    for one, good in zip(outcomes, inside, strict=True):
        minute = windows.setdefault(int(one.request.arrival_s // 60), [0, 0])
        minute[0] += 1
        minute[1] += good
    shares = []
    for start in windows:
        near = [windows[minute] for minute in range(start, start + round(_WORST_S / 60)) if minute in windows]
        total = sum(count for count, _ in near)
        shares.append(sum(good for _, good in near) / total)
    return min(shares, default=1.0)


def notes(world: World) -> tuple[str, ...]:
    """What a reader has to know of this contest."""
    found = []
    if coarse(world):
        found.append(f"more than {MANY_REQUESTS} requests: every second value of a parameter, a coarser oracle")
    mean_rps = len(world.trace.requests) / world.trace.duration_s
    if mean_rps < world.knee_rps:
        found.append(
            f"one replica carries the mean load ({mean_rps:.3g} of {world.knee_rps:.3g} requests a second), so that"
            " policies hardly differ; a higher load (--scale of a trace, the rates of a shape) says more"
        )
    return tuple(found)


def coarse(world: World) -> bool:
    """Whether there are so many requests that fewer values are tried."""
    return len(world.trace.requests) > MANY_REQUESTS


def rules(world: World) -> Iterator[Rule]:
    """Ours and the peers', as shipped where a shipped form differs from the corrected one."""
    for rule in _rules(world):
        yield _thinned(rule) if coarse(world) else rule


def _thinned(rule: Rule) -> Rule:
    """With every second value, in such a way that the usual one stays."""
    values = list(rule.make)
    kept = values[values.index(rule.usual) % 2 :: 2]
    return replace(rule, make={value: rule.make[value] for value in kept})


def _rules(world: World) -> Iterator[Rule]:
    """`usual` is the target that a rule is published with; Kthena is published with none, so that it is what a replica
    holds. In each a smaller parameter is the stricter one: it asks for more replicas."""
    yield _ours(world)
    flight = world.knee_in_flight
    known = world.known
    running, queue, kv = kubernetes.RUNNING, kubernetes.QUEUE, kubernetes.KV
    yield _swept("hpa-running", lambda scale: Hpa(running, flight * scale), usual=16 / flight)
    yield _swept("hpa-queue", lambda scale: Hpa(queue, scale), usual=1.0)
    yield _swept("hpa-kv", lambda target: Hpa(kv, target), usual=0.5, over=_KV_TARGETS)
    yield _swept("kpa", lambda scale: Kpa(flight * scale), usual=0.7)
    yield _swept("keda", Keda, usual=1.0, over=(1.0, 2.0, 4.0, 8.0, 16.0, 32.0))
    yield _swept("kubeai", lambda scale: KubeAi(flight * scale), usual=100 / flight)
    yield _swept("ray-serve", lambda scale: RayServe(flight * scale), usual=2 / flight)
    yield _swept("apa", lambda target: Apa(target, corrected=True), usual=0.5, over=_KV_TARGETS)
    yield _swept("apa-as-shipped", lambda target: Apa(target, corrected=False), usual=0.5, over=_KV_TARGETS)
    yield _swept("aibrix-kpa", lambda scale: AibrixKpa(flight * scale, corrected=True), usual=0.7)
    yield _swept("aibrix-kpa-as-shipped", lambda scale: AibrixKpa(flight * scale, corrected=False), usual=0.7)
    yield _swept("wva-v1", WvaOne, usual=1.0, over=(0.25, 0.5, 0.75, 1.0, 1.15))
    yield _swept("wva-v2", lambda scale: WvaTwo(known, scale), usual=1.0, over=(0.1, 0.2, 0.4, 0.7, 1.0, 1.4))
    yield _swept("slo-ratio", lambda scale: SloRatio(known, scale), usual=1.0, over=(0.4, 0.6, 0.8, 1.0, 1.3, 1.7))
    yield _swept("dynamo", lambda scale: Dynamo(known, scale), usual=1.0, over=(0.3, 0.45, 0.6, 0.8, 1.0, 1.3))
    yield _swept("kthena", lambda scale: Kthena(flight * scale), usual=1.0)


def _ours(world: World) -> Rule:
    """Swept by the share that it aims at: late requests as multiples of those that the promise allows."""
    promise = world.setting.promise

    def made(times: float, seed: int) -> Policy:
        share = 1 - min(0.5, (1 - promise.share) * times)
        return Ours(world.terms(seed, share), promise.ttft_s, promise.tpot_s)

    return _rule(OURS, made, usual="1", over=(0.1, 0.3, 1.0, 2.0, 4.0))


def _swept(name: str, make: Callable[[float], Policy], *, usual: float, over: Sequence[float] = _SCALES) -> Rule:
    def made(value: float, _seed: int) -> Policy:
        return make(value)

    return _rule(name, made, usual=f"{usual:g}", over=sorted({*over, usual}))


def _rule(name: str, made: Callable[[float, int], Policy], *, usual: str, over: Sequence[float]) -> Rule:
    make = {f"{value:g}": partial(made, value) for value in over}
    return Rule(name=name, usual=usual, make=make, at=lambda value: partial(made, value))


def curve(world: World, rule: Rule, seeds: Sequence[int]) -> Curve:
    """All values of the rule's parameter on all seeds."""
    points = tuple(
        scored(world, played(world, make(seed), seed), parameter, seed)
        for parameter, make in rule.make.items()
        for seed in seeds
    )
    return Curve(policy=rule.name, usual=rule.usual, points=points)


def best_static(world: World, seeds: Sequence[int]) -> Curve:
    """The fewest replicas inside the bounds and the supply that keep the share in the mean of the seeds, found by
    search with hindsight."""
    fewest, most = world.site.fewest, world.site.most
    low, high = fewest - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _keeps(_constant(world, middle, seeds), world) else (middle, high)
    counts = sorted({max(fewest, high - 2), max(fewest, high - 1), high, min(high + 2, most)})
    points = {count: _constant(world, count, seeds) for count in counts}
    usual = str(high) if _keeps(points[high], world) else None  # the search has not run `most` itself
    return Curve(policy=STATIC, usual=usual, points=tuple(chain.from_iterable(points.values())), causal=False)


def _keeps(points: Sequence[Point], world: World) -> bool:
    return mean(point.share for point in points) >= _promised(world)


def _constant(world: World, count: int, seeds: Sequence[int]) -> list[Point]:
    static = Static(count)
    return [scored(world, played(world, static, seed, first=count), str(count), seed) for seed in seeds]


def _promised(world: World) -> float:
    return world.setting.promise.share


def oracle(world: World, seeds: Sequence[int]) -> Curve:
    """The cheapest schedules found that keep the share, for a few shares around the promise."""
    requests = world.trace.requests
    windows = work_by_window(requests, [world.work(one) for one in requests], world.trace.duration_s)
    points = []
    promise = world.setting.promise
    for times in (1.0,) if coarse(world) else (0.3, 1.0, 3.0):
        share = 1 - min(0.5, (1 - promise.share) * times)
        for seed in seeds:
            best = _cheapest(world, windows, share, seed)
            if best is not None:
                points.append(replace(best, parameter=f"{times:g}"))
    return Curve(policy=ORACLE, usual="1", points=tuple(points), causal=False)


def _cheapest(world: World, windows: Sequence[float], share: float, seed: int) -> Point | None:
    best: Point | None = None
    for smooth in _SMOOTH[:: 2 if coarse(world) else 1]:
        low, high = 0.3, 4.0  # of the knee that a replica is taken to have
        for _ in range(_KNEE_ROUNDS):
            middle = (low * high) ** 0.5
            plan = needed(windows, world.knee_rps / middle, smooth)
            if best is not None and _least_hours(world, plan) >= best.accelerator_hours:
                high = middle  # too dear already: not worth a run
                continue
            point = scored(world, played(world, Oracle(plan, world.setting.cold_start_s), seed), "", seed)
            if point.share < share:
                low = middle
                continue
            high = middle
            if best is None or point.accelerator_hours < best.accelerator_hours:
                best = point
    return best


def _least_hours(world: World, plan: Sequence[int]) -> float:
    """What a plan costs at least: its replicas, started a cold start ahead, without their drains."""
    site = world.site
    ahead = int(site.cold_start_s / WINDOW_S) + 1
    wished = (max(plan[at : at + ahead]) for at in range(len(plan) - 1))
    replicas = sum(min(max(each, site.fewest), site.most) for each in wished)
    return replicas * WINDOW_S / 3600 * site.accelerators_per_replica


def around(curve: Curve, share: float, seed: int) -> tuple[Point, Point] | None:
    """The cheapest points of a curve below and above a share; the same twice where the cheapest of all is above. None
    where no point reaches the share."""
    frontier: list[Point] = []
    points = [point for point in curve.points if point.seed == seed]
    for point in sorted(points, key=lambda p: (p.accelerator_hours, -p.share)):
        if not frontier or point.share > frontier[-1].share:
            frontier.append(point)
    above = next((index for index, point in enumerate(frontier) if point.share >= share), None)
    if above is None:
        return None
    below, upper = frontier[max(0, above - 1)], frontier[above]
    pairs = product(_alike(points, below), _alike(points, upper))  # several values may do the same: neighbours count
    return min(pairs, key=lambda pair: abs(float(pair[0].parameter) - float(pair[1].parameter)))


def _alike(points: Sequence[Point], end: Point) -> list[Point]:
    return [one for one in points if (one.share, one.accelerator_hours) == (end.share, end.accelerator_hours)]


def same_value(one: Point, other: Point) -> bool:
    """Whether there is no value of the parameter worth trying between those of two points."""
    first, second = float(one.parameter), float(other.parameter)
    return abs(first - second) <= 0.03 * max(abs(first), abs(second))


def cost_at(curve: Curve, share: float, seed: int) -> float | None:
    """Accelerator-hours of a policy at a share: between the cheapest points of its curve that are below and above, in
    the logarithm of what is late; where its parameter jumps there, those of the point above. None where no point
    reaches the share."""
    ends = around(curve, share, seed)
    if ends is None:
        return None
    below, upper = ends
    if below.share >= share or same_value(below, upper):
        return upper.accelerator_hours
    fraction = (_late(share) - _late(below.share)) / (_late(upper.share) - _late(below.share))
    return exp(log(below.accelerator_hours) * (1 - fraction) + log(upper.accelerator_hours) * fraction)


def _late(share: float) -> float:
    return log(max(1 - share, 1e-5))
