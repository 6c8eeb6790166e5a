"""A small cluster in memory with a model that may go to zero, activators in front of it, and callers."""

import copy
import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from builders import START, Fleet, Raw, check_status, deployment, merged
from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.activator import Answer
from modelfleet.core.effects import Effect, Forget, Outcome
from modelfleet.core.handshake import free_port
from modelfleet.core.reconcile import plan
from modelfleet.core.scaling.reading import ObjectiveCounts, Reading
from modelfleet.core.scaling.samples import PodSamples, Samples
from modelfleet.core.snapshot import World

SLICE = ("EndpointSlice", "chat-activator")
LAG_S = 3.0
"""So long proxies take to hear of what came behind a Service; of what left it they hear at once, which is harder."""


def to_zero(name: str = "chat", **scaling: Any) -> Raw:
    """A ModelDeployment that goes to zero after two minutes; one replica carries 20 requests."""
    terms = {"minReplicas": 0, "maxReplicas": 4, "toZero": {"after": "2m", "firstCallerWaits": "5m"}}
    excused = {**deployment()["spec"]["objectives"][0], "firstCaller": "Excused"}
    engine = {"args": {"max-num-seqs": 20}}
    return deployment(name, scaling=merged(terms, scaling), objectives=[excused], engine=engine)


@dataclass
class Site(Fleet):
    """The cluster. `alive` are activators; `held` is what each holds; `arrived` and `busy` are what workers count, by
    pod uid; `mute` pods cannot be read. A killed operator loses what its process remembers."""

    deployment: Raw = field(default_factory=to_zero)
    alive: set[str] = field(default_factory=lambda: {"a1", "a2"})
    held: dict[str, int] = field(default_factory=dict)
    arrived: dict[str, int] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=dict)
    mute: set[str] = field(default_factory=set)
    written_demand: int = 0
    demand_since: dict[tuple[str, str], Any] = field(default_factory=dict)
    silent_since: Any = None
    created: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    behind_since: dict[str, Any] = field(default_factory=dict)
    was_ready: bool = False

    def world(self) -> World:
        """What a gatherer would read now."""
        slices = tuple(copy.deepcopy(item) for (kind, _), item in self.objects.items() if kind == "EndpointSlice")
        entries = {(entry["activator"], entry["at"]) for entry in self._demand()}
        self.demand_since = {each: self.demand_since.get(each, self.now) for each in entries}
        before = super().world()
        return replace(
            before,
            pods=tuple(map(self._with_times, before.pods)),
            slices=slices,
            activator=self._answer(),
            activator_port=free_port("uid-of-chat", frozenset()),
            demand_s={name: (self.now - since).total_seconds() for (name, _), since in self.demand_since.items()},
            samples=self._samples(),
        )

    def _with_times(self, pod: Any) -> Raw:
        """As the kubelet writes it: since when it is ready."""
        since = self.behind_since.get(pod["metadata"]["uid"], self.now).isoformat()
        given = raw.items(pod, "status", "conditions")
        conditions = [{"lastTransitionTime": since, **each} if each["type"] == "Ready" else each for each in given]
        return {**pod, "status": {**pod["status"], "conditions": conditions}}

    def look(self, cut: int | None = None) -> Outcome:
        """One reconcile; with `cut` the operator is killed after so many of its writes."""
        outcome = plan(self.world())
        effects = outcome.effects if cut is None else outcome.effects[:cut]
        self._note(effects)
        dead = {each.activator for each in effects if isinstance(each, Forget)}
        assert self._execute(tuple(each for each in effects if not isinstance(each, Forget)))
        if dead:
            rest = [entry for entry in self._demand() if entry["activator"] not in dead]
            self.deployment["status"] = {**self.deployment["status"], "demand": rest}
        if cut is None:
            check_status(outcome.status)
            demand = self._demand()
            self.deployment["status"] = {**copy.deepcopy(dict(outcome.status)), "demand": demand}
        else:
            self.kill()
        self._look_at_labels()
        self.check()
        return outcome

    def kill(self) -> None:
        """Another operator's process goes on."""
        self.off_since, self.demand_since, self.silent_since = {}, {}, None
        self._look_at_labels()

    def tick(self, seconds: float = 10.0, choose: Any = None) -> None:
        """Time passes: pods get on, activators keep the slice, workers that serve answer what is held."""
        super().tick(seconds, choose)
        self._keep_slice()
        if self.serving() and self.held:
            first = next(pod for pod in self.pods().values() if _is_serving(pod))
            uid = first["metadata"]["uid"]
            self.arrived[uid] = self.arrived.get(uid, 0) + sum(self.held.values())
            for activator in list(self.held):
                self.hold(activator, 0)
        self.check()

    def pass_time(self, seconds: float, each: float = 5.0) -> None:
        """Looks every few seconds."""
        until = self.now + timedelta(seconds=seconds)
        while self.now < until:
            self.look()
            self.tick(each)

    def hold(self, activator: str, requests: int) -> None:
        """An activator holds so many requests, and tells of it."""
        self.held.pop(activator, None)
        rest = [entry for entry in self._demand() if entry["activator"] != activator]
        if requests:
            self.held[activator] = requests
            self.written_demand += 1
            at = (START + timedelta(days=1, seconds=self.written_demand)).isoformat()
            rest.append({"activator": activator, "waiting": requests, "at": at})
        self.deployment.setdefault("status", {})["demand"] = rest

    def kill_activator(self, activator: str) -> None:
        """It is gone with what it held; its entry stays as it is."""
        self.alive.discard(activator)
        self.held.pop(activator, None)
        self._keep_slice()

    def check(self) -> None:
        """From the first replica on something answers at any moment: pods or activators that proxies know by now."""
        serving = {pod["metadata"]["uid"] for pod in self.pods().values() if _is_serving(pod)}
        behind = serving | self._endpoints()
        self.behind_since = {each: self.behind_since.get(each, self.now) for each in behind}
        known = any((self.now - since).total_seconds() >= LAG_S for since in self.behind_since.values())
        self.was_ready = self.was_ready or (bool(serving) and known)
        if self.was_ready and not known:
            self.unanswered.append(self.now.isoformat())

    @property
    def state(self) -> str:
        """How far it is, by NAME-state."""
        stored = self.objects.get(("ConfigMap", names.state("chat")), {})
        return str(json.loads(raw.text(stored, "data", names.ZERO_KEY) or "{}").get("state", "Serving"))

    def _demand(self) -> list[Raw]:
        return list(raw.items(self.deployment, "status", "demand"))  # type: ignore[arg-type]

    def _endpoints(self) -> set[str]:
        listed = raw.items(self.objects.get(SLICE), "endpoints")
        return {str(raw.text(each, "targetRef", "name")) for each in listed} & self.alive

    def _keep_slice(self) -> None:
        if SLICE in self.objects:
            self.objects[SLICE]["endpoints"] = [{"targetRef": {"name": name}} for name in sorted(self.alive)]

    def _answer(self) -> Answer:
        since = [self.behind_since.get(name, self.now) for name in self._endpoints()]
        known = any((self.now - each).total_seconds() >= LAG_S for each in since)
        if known or SLICE not in self.objects:
            self.silent_since = None
            return Answer(proven=known)
        self.silent_since = self.silent_since or self.now
        silent_s = (self.now - self.silent_since).total_seconds()
        return Answer(proven=False, why="no activator is behind the Service", silent_s=silent_s)

    def _samples(self) -> Samples:
        at_s = (self.now - START).total_seconds()
        found = {}
        for name, pod in self.pods().items():
            uid = pod["metadata"]["uid"]
            if not _is_ready(pod) or uid in self.mute:
                continue
            counts = {"interactive": ObjectiveCounts(arrivals=self.arrived.get(uid, 0))}
            reading = Reading(
                pod_uid=uid, at_s=at_s, promise="p", promises={"p": counts}, in_flight=self.busy.get(uid, 0)
            )
            found[uid] = PodSamples(uid=uid, name=name, revision="", readings=(reading,))
        return Samples(at_s=at_s, pods=found)

    def _note(self, effects: tuple[Effect, ...]) -> None:
        made = (getattr(each, "manifest", None) for each in effects if type(each).__name__ == "Create")
        self.created += [raw.name(manifest) for manifest in made if manifest and manifest["kind"] == "Pod"]


def _is_ready(pod: Raw) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _is_serving(pod: Raw) -> bool:
    label = pod["metadata"]["labels"].get(names.SERVING_LABEL)
    return label == "true" and _is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
