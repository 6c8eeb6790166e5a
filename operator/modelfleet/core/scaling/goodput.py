"""The share of requests that kept their promise, how sure it is, and what follows for ObjectivesMet. Pure.

A request is good if it finished without an error inside both limits of its objective; refused and failed ones count as
not good, what its client gave up counts apart (docs/metrics.md). The window is WINDOW_S, or as much of it as this
process has watched: workers go on counting while no operator looks, so after a restart it is judged anew within
LEAST_SPAN_S, and until then it is not known.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from modelfleet.api.modeldeployment import ModelDeployment, Objective
from modelfleet.core.promise import digest
from modelfleet.core.scaling.interval import Interval, wilson, with_silent
from modelfleet.core.scaling.regime import Outside, decide_outside
from modelfleet.core.scaling.samples import WINDOW_S, Counted, PodSamples, Samples, counted

LEAST_SPAN_S = 60.0
"""A shorter stretch is one burst, whatever it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One objective in the window. `counted` None: no data. `interval` allows for pods that could not be read."""

    name: str
    target: float
    counted: Counted | None
    interval: Interval
    outside: Outside | None = None

    @property
    def requests(self) -> int:
        """Requests that ended and are in the share."""
        return self.counted.counts.ended.counted if self.counted else 0

    @property
    def good(self) -> int:
        """Those of them that kept the promise."""
        return self.counted.counts.ended.met if self.counted else 0

    @property
    def share(self) -> float | None:
        """The share; None without a request that ended."""
        return self.good / self.requests if self.requests else None

    @property
    def idle(self) -> bool:
        """Nothing arrived, nothing ended, nothing is being answered."""
        counts = self.counted.counts if self.counted else None
        return counts is not None and not (counts.arrivals or self.requests or counts.in_flight)

    @property
    def broken(self) -> bool:
        """The promise is broken, for certain."""
        return self.requests > 0 and self.interval.high < self.target

    @property
    def kept(self) -> bool:
        """The promise is kept, for certain."""
        return self.requests > 0 and self.interval.low >= self.target

    @property
    def margin(self) -> float:
        """How far the share is above its target, in parts of what may be late; the least binds."""
        return ((self.share if self.share is not None else 1.0) - self.target) / max(1e-6, 1.0 - self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """All objectives in one window. `fresh` of the serving pods could be read, `silent` could not, the first of them
    for `why`."""

    objectives: tuple[Measured, ...]
    span_s: float
    fresh: int
    silent: int
    why: str = ""

    @property
    def requests(self) -> int:
        """Requests of all objectives that ended and are in a share."""
        return sum(each.requests for each in self.objectives)

    @property
    def share(self) -> float | None:
        """The share over all requests, each judged by its own objective; None without one."""
        return sum(each.good for each in self.objectives) / self.requests if self.requests else None

    @property
    def good_rps(self) -> float | None:
        """Good requests a second; None without a window."""
        return sum(each.good for each in self.objectives) / self.span_s if self.span_s else None

    @property
    def binding(self) -> Measured | None:
        """The objective with the least margin of those that had requests; None without any."""
        return min((each for each in self.objectives if each.requests), key=lambda each: each.margin, default=None)

    @property
    def outside(self) -> tuple[Measured, ...]:
        """Objectives whose window is not one that their promise was made for."""
        return tuple(each for each in self.objectives if each.outside is not None)


def measure(deployment: ModelDeployment, samples: Samples, serving: Iterable[str]) -> Goodput:
    """What `samples` say of each objective; `serving` are the uids of the pods that get requests now."""
    serving = tuple(serving)
    silent = samples.silent(serving)
    fresh = len(serving) - len(silent)
    promise = digest(deployment)
    objectives = tuple(_measured(each, samples, promise, fresh, len(silent)) for each in deployment.spec.objectives)
    spans = (each.counted.span_s for each in objectives if each.counted)
    return Goodput(
        objectives=objectives,
        span_s=max(spans, default=0.0),
        fresh=fresh,
        silent=len(silent),
        why=_why(samples, silent),
    )


def _measured(objective: Objective, samples: Samples, promise: str, fresh: int, silent: int) -> Measured:
    name = str(objective.name)
    found = counted(samples, promise, name)
    ended = found.counts.ended if found else None
    interval = wilson(ended.met, ended.counted) if ended else Interval(0.0, 1.0)
    in_flight = mean_in_flight(samples, promise, name)
    return Measured(
        name=name,
        target=float(objective.share.fraction),
        counted=found,
        interval=with_silent(interval, max(fresh, 1), silent),
        outside=decide_outside(objective, found, in_flight) if found else None,
    )


def mean_in_flight(
    samples: Samples, promise: str, objective: str, *, of: Iterable[PodSamples] | None = None
) -> float | None:
    """Requests in flight on average over the window; None is no data.

    Each reading stands for the time before it, because older ones lie further apart."""
    means = [
        mean
        for pod in (samples.pods.values() if of is None else of)
        if (mean := _mean_of(pod, samples.at_s - WINDOW_S, promise, objective)) is not None
    ]
    return sum(means) if means else None


def _mean_of(pod: PodSamples, since_s: float, promise: str, objective: str) -> float | None:
    total, seconds = 0.0, 0.0
    for before, after in pairwise(pod.readings):
        counts = after.of(promise, objective)
        if after.at_s > since_s and counts is not None:
            span_s = after.at_s - max(before.at_s, since_s)
            total, seconds = total + counts.in_flight * span_s, seconds + span_s
    return total / seconds if seconds else None


def _why(samples: Samples, silent: Iterable[str]) -> str:
    for uid in silent:
        pod = samples.pods.get(uid)
        if pod is not None and pod.failure:
            return f"{pod.name}: {pod.failure}"
    return ""
