"""A pure fleet of one model whose workers are sampled: what Fleet (builders.py) is, with readings that a load makes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from builders import Fleet, Raw, is_ready, running
from modelfleet.api import names
from modelfleet.api.parse import parse_deployment
from modelfleet.core.active import Scaling
from modelfleet.core.effects import Outcome
from modelfleet.core.promise import digest
from modelfleet.core.reconcile import plan
from modelfleet.core.scaling.joining import thinned
from modelfleet.core.scaling.memory import Kept
from modelfleet.core.scaling.reading import Histogram, ObjectiveCounts, Outcomes, Reading
from modelfleet.core.scaling.samples import PodSamples, Samples
from modelfleet.core.snapshot import World
from planner_worlds import PlannedFleet, planned

STEP_S = 5.0
INPUT_TOKENS, OUTPUT_TOKENS = 143, 71


def sampled_deployment(**scaling: Any) -> Raw:
    """A model with a knee; its declared load needs two replicas or so."""
    return planned(scaling={"minReplicas": 1, "maxReplicas": 12, **scaling})


@dataclass
class Worker:
    """What one pod has counted, by objective; `good` of what ends is good."""

    arrivals: dict[str, float] = field(default_factory=dict)
    met: dict[str, float] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=dict)
    waiting: int = 0
    readings: tuple[Reading, ...] = ()


@dataclass
class Sampled:
    """`rps` requests a second come to each objective, spread evenly over the serving pods; above `knee_rps` a pod is
    late with half of them. Pods in `silent` cannot be read, those in `slow` are late with everything, and those in
    `failing` are not Ready, after so many restarts. `numbers` are those decided, one a step. `read` gives what is
    gathered besides."""

    fleet: Fleet
    knee_rps: float
    rps: dict[str, float] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    failing: dict[str, int] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    gone: list[PodSamples] = field(default_factory=list)
    kept: Kept | None = None
    at_s: float = 1000.0
    outcomes: list[Outcome] = field(default_factory=list)
    scaling: Scaling | None = None
    numbers: list[int] = field(default_factory=list)
    woken: bool = True
    turned: dict[str, tuple[bool, str]] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    read: Callable[[], dict[str, Any]] = dict

    def run(self, seconds: float, rps: float | None = None, objective: str = "interactive") -> "Sampled":
        """Time passes in steps, each with load, a look at every worker and a reconcile."""
        if rps is not None:
            self.rps[objective] = rps
        for _ in range(round(seconds / STEP_S)):
            self.fleet.tick(STEP_S)
            self.at_s += STEP_S
            self._fail()
            self._work()
            self._decide()
        return self

    def _decide(self) -> None:
        """As the operator does it: the fleet's tick, and a reconcile where something came of it, pods move, or 60 s
        have passed."""
        if self.scaling is not None and self.at_s % 60 and not self.woken:
            before = self.scaling.kept
            case = replace(self.scaling.case, samples=self.samples(), now=self.fleet.now)
            self.scaling = self.scaling.again(case)
            self.kept = self.scaling.kept
            if (self.kept.replicas, self.kept.shown) == (before.replicas, before.shown):
                self.numbers.append(self.replicas)
                return
        self.reconcile()
        self.woken = self._moving()

    def _moving(self) -> bool:
        pods = self.fleet.pods().values()
        return len(pods) != self.replicas or not all(map(is_ready, pods))

    def reconcile(self) -> Outcome:
        """One reconcile as the shell does it."""
        outcome = plan(self.world())
        assert self.fleet._execute(outcome.effects)
        self.fleet.deployment["status"] = dict(outcome.status)
        self.fleet._look_at_labels()
        self.scaling = outcome.scaling
        self.kept = outcome.scaling.kept if outcome.scaling else None
        self.outcomes.append(outcome)
        self.numbers.append(self.replicas)
        return outcome

    def restart(self, after_s: float = 30.0) -> None:
        """Another process of the operator: it knows what is in the cluster, and its clock is another."""
        self.fleet.now += timedelta(seconds=after_s)
        self.kept, self.scaling, self.at_s = None, None, 17.0
        for worker in self.workers.values():
            worker.readings = ()
        self.gone = []

    def world(self) -> World:
        """What would be gathered now."""
        world = self.fleet.world()
        for pod in world.pods:
            self._with_times(dict(pod))
        return replace(world, samples=self.samples(), scaling=self.kept, **self.read())

    def _fail(self) -> None:
        """Workers that fail are not Ready; those that were restarted run since then."""
        for name, restarts in self.failing.items():
            pod = self.fleet.pods()[name]
            self.restarts[pod["metadata"]["uid"]] = restarts
            pod["status"] = running(restarts)

    def _with_times(self, pod: Raw) -> None:
        """As the kubelet writes it: since when a pod is Ready or not, and since when its worker runs."""
        uid, now, ready = pod["metadata"]["uid"], self.fleet.now.isoformat(), is_ready(pod)
        conditions = pod["status"].get("conditions", [])
        if not ready and not any(each["type"] == "Ready" for each in conditions):
            return
        if self.turned.get(uid, (not ready, ""))[0] is not ready:
            self.turned[uid] = (ready, now if uid in self.turned or ready else pod["metadata"]["creationTimestamp"])
        conditions[-1]["lastTransitionTime"] = self.turned[uid][1]
        restarts = self.restarts.get(uid, 0)
        began = self.turned[uid][1] if restarts else pod["metadata"]["creationTimestamp"]
        container = {"name": "worker", "state": {"running": {"startedAt": began}}, "restartCount": restarts}
        pod["status"]["containerStatuses"] = [container]

    def samples(self) -> Samples:
        """What is known of the workers."""
        pods = {}
        for pod in self.fleet.pods().values():
            uid = pod["metadata"]["uid"]
            worker = self.workers.get(uid, Worker())
            pods[uid] = PodSamples(
                uid=uid, name=pod["metadata"]["name"], revision=revision_of(pod), readings=worker.readings
            )
        return Samples(at_s=self.at_s, pods=pods, gone=tuple(self.gone))

    @property
    def replicas(self) -> int:
        """The number that was decided last."""
        return int(self.decision["to"])

    @property
    def decision(self) -> Raw:
        """status.scaling.lastDecision."""
        return dict(self.fleet.deployment["status"]["scaling"]["lastDecision"])

    def events(self, reason: str) -> list[str]:
        """The notes of the events with that reason."""
        return [event.message for outcome in self.outcomes for event in outcome.events if event.reason == reason]

    def _work(self) -> None:
        serving = list(self._serving())
        for pod in serving:
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
            worker = self.workers.setdefault(uid, Worker())
            load = sum(self.rps.values()) / len(serving)
            worker.waiting = round(max(0.0, load - self.knee_rps) * 10)
            for objective, rps in self.rps.items():
                count = rps / len(serving) * STEP_S
                late = count if name in self.slow else count / 2 if load > self.knee_rps else 0.0
                worker.arrivals[objective] = worker.arrivals.get(objective, 0.0) + count
                worker.late[objective] = worker.late.get(objective, 0.0) + late
                worker.met[objective] = worker.met.get(objective, 0.0) + count - late
        for pod in self.fleet.pods().values():
            if pod["metadata"]["name"] not in self.silent and is_ready(pod):
                worker = self.workers.setdefault(pod["metadata"]["uid"], Worker())
                worker.readings = thinned((*worker.readings, self._reading(pod, worker)), self.at_s)

    def _serving(self) -> Iterator[Raw]:
        for pod in self.fleet.pods().values():
            if is_ready(pod) and pod["metadata"]["labels"].get(names.SERVING_LABEL) == "true":
                yield pod

    def _reading(self, pod: Raw, worker: Worker) -> Reading:
        promise = digest(parse_deployment(self.fleet.deployment))  # type: ignore[arg-type]
        counts = {
            objective: ObjectiveCounts(
                arrivals=int(arrivals),
                ended=Outcomes(met=int(worker.met[objective]), late_ttft=int(worker.late[objective])),
                input_tokens=Histogram((), (int(arrivals),), int(arrivals) * INPUT_TOKENS),
                output_tokens=Histogram((), (int(arrivals),), int(arrivals) * OUTPUT_TOKENS),
            )
            for objective, arrivals in worker.arrivals.items()
        }
        return Reading(
            pod_uid=pod["metadata"]["uid"],
            at_s=self.at_s,
            revision=revision_of(pod),
            state="serving",
            promise=promise,
            promises={promise: counts},
            waiting=worker.waiting,
        )


def revision_of(pod: Raw) -> str:
    """The revision that a pod is of."""
    return str(pod["metadata"]["labels"].get(names.REVISION_LABEL, ""))


def sampled(**scaling: Any) -> Sampled:
    """A fleet that serves, before any load."""
    fleet = PlannedFleet(deployment=sampled_deployment(**scaling))
    found = Sampled(fleet=fleet, knee_rps=0.0)
    found.run(40.0, 0.0)
    found.knee_rps = float(fleet.deployment["status"]["plan"]["pools"][0]["predicted"]["kneeRequestsPerSecond"])
    return found
