"""A fleet in trouble: one ModelDeployment on a cluster in memory, and the accidents that happen to it, by a seed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from builders import accelerator_class, manual, merged
from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.effects import Outcome
from modelfleet.core.reconcile import plan
from modelfleet.core.stage import Stage

PER_NODE = 2
LAYOUTS: tuple[dict[str, int], ...] = ({}, {"tensor": 2}, {"tensor": 2, "pipeline": 2})
"""One accelerator, a whole node, two whole nodes."""

REFUSED = {
    "restartCount": 3,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 1, "message": '{"reason": "ModelRefused", "message": "it is refused"}'}},
}
DIED = {
    "restartCount": 1,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 1, "message": '{"reason": "EngineDied", "message": "it died"}'}},
}
GOOD_IMAGE = "image:good"
LATER, FEW = "other", 3
"""The class that is listed after the first, and of how many nodes the first has at most then."""
SPARE_NODES = tuple(f"spare-{index}" for index in range(8))
"""Added in the end, so that whatever is wanted then has room."""


def node(name: str) -> dict[str, Any]:
    """A node of PER_NODE accelerators, of the class that its name says."""
    kind = class_of(name)
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110", f"modelfleet.dev/{kind}": str(PER_NODE)}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"modelfleet.dev/accelerator": kind}},
        "spec": {},
        "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def class_of(name: str) -> str:
    """The class of the node of this name."""
    return LATER if name.startswith(LATER) else "cpu"


@dataclass
class Fleet:
    """The stage, its nodes by name as they are in good times, and what has happened, in words. `beside`: how many nodes
    there are of a class that is listed after the first, which has few then; 0: there is one class. `surge`: maxSurge
    until somebody writes another."""

    choose: random.Random
    beside: int = 0
    surge: int = 1
    stage: Stage = field(init=False)
    healthy: dict[str, dict[str, Any]] = field(init=False)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = self.choose.randint(5, 8)
        self.healthy = {f"node-{index}": node(f"node-{index}") for index in range(count)}
        of = manual(self.choose.randint(1, 3), engine={"image": "image:0"}, parallelism=self.choose.choice(LAYOUTS))
        if self.beside:
            few = 1 + self.beside % FEW
            own = {name: each for name, each in self.healthy.items() if name in [f"node-{n}" for n in range(few)]}
            self.healthy = own | {f"{LATER}-{n}": node(f"{LATER}-{n}") for n in range(self.beside)}
            of = merged(of, {"spec": {"accelerators": {"classes": ["cpu", LATER]}}})
        of = merged(of, {"spec": {"rollout": {"maxSurge": self.surge}}})
        classes = {name: accelerator_class(name, acceleratorsPerNode=PER_NODE) for name in ("cpu", LATER)}
        self.stage = Stage(of, classes, dict(self.healthy))
        self.stage.failing = {"image:1": REFUSED, "image:2": DIED}

    def trouble(self, more: Sequence["Accident"] = ()) -> None:
        """One accident, or something that a user does; `more` may happen besides."""
        accident = self.choose.choice((*ACCIDENTS, *more))
        self.told.append(accident(self) or "nothing could happen")

    def operator(self, outcome: Outcome) -> None:
        """Does what was decided, or a part of it: then the process was killed, and the next one knows nothing."""
        done = len(outcome.effects)
        if outcome.effects and self.choose.random() < 0.15:
            done = self.choose.randrange(len(outcome.effects))
            self.stage.execute(outcome.effects[:done])
            self.stage.off_since = dict.fromkeys(self.stage.off_since, self.stage.now)
            self.told.append(f"the operator is killed after {done} of {len(outcome.effects)} writes")
            return
        self.stage.execute(outcome.effects)
        self.stage.deployment = {**self.stage.deployment, "status": dict(outcome.status)}

    def pass_time(self, wake_after_s: float | None) -> None:
        """The quickest thing happens, or some time passes in which nothing does."""
        if self.choose.random() < 0.2:
            self.stage.now += timedelta(seconds=self.choose.choice((1.0, 10.0, 60.0, 400.0)))
        else:
            self.stage.happen(wake_after_s)

    def decide(self) -> Outcome:
        """The real decision on what there is now."""
        return plan(self.stage.world())

    def mend(self) -> None:
        """Good times again: nodes in plenty, nothing stolen, a revision that serves, no pause."""
        self.stage.nodes = {**self.healthy, **{name: node(name) for name in SPARE_NODES}}
        self.stage.others, self.stage.failing = [], {}
        for pod in self.stage.pods():
            if raw.text(pod, "status", "phase") == "Running":
                self.status(pod, {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]})
        self.write({"engine": {"image": GOOD_IMAGE}, "rollout": None, "scaling": {"maxAccelerators": None}})
        self.told.append("everything is mended")

    def write(self, spec: dict[str, Any]) -> None:
        """The user writes these fields of the spec."""
        generation = self.stage.deployment["metadata"]["generation"] + 1
        change = {"metadata": {"generation": generation}, "spec": spec}
        self.stage.deployment = merged(self.stage.deployment, change)

    def status(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        """The kubelet reports this of a pod."""
        self.stage.report(pod, status)

    def pod(self, which: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        """One of our pods of which this holds."""
        found = [pod for pod in self.stage.pods() if which(pod)]
        return self.choose.choice(found) if found else None

    def node(self) -> str | None:
        """The name of a node."""
        return self.choose.choice(sorted(self.stage.nodes)) if self.stage.nodes else None


def on_a_node(pod: dict[str, Any]) -> bool:
    """It is bound and not asked to end."""
    return bool(raw.text(pod, "spec", "nodeName")) and "deletionTimestamp" not in pod["metadata"]


def runs(pod: dict[str, Any]) -> bool:
    """Its worker runs."""
    return raw.text(pod, "status", "phase") == "Running" and on_a_node(pod)


def node_lost(fleet: Fleet) -> str:
    name = fleet.node()
    if name is None:
        return ""
    del fleet.stage.nodes[name]
    for pod in fleet.stage.pods():
        if raw.text(pod, "spec", "nodeName") == name:
            del fleet.stage.objects["Pod", raw.name(pod)]
    return f"{name} is lost with its pods"


def node_back(fleet: Fleet) -> str:
    name = fleet.choose.choice(sorted(fleet.healthy))
    fleet.stage.nodes[name] = fleet.healthy[name]
    return f"{name} is there, Ready and not cordoned"


def cordoned(fleet: Fleet) -> str:
    name = fleet.node()
    if name is None:
        return ""
    fleet.stage.nodes[name] = merged(fleet.stage.nodes[name], {"spec": {"unschedulable": True}})
    return f"{name} is cordoned"


def not_ready(fleet: Fleet) -> str:
    name = fleet.node()
    if name is None:
        return ""
    silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    fleet.stage.nodes[name] = merged(fleet.stage.nodes[name], silent)
    for pod in fleet.stage.pods():
        if raw.text(pod, "spec", "nodeName") == name and runs(pod):
            conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
            fleet.status(pod, {"phase": "Running", "conditions": conditions})
    return f"{name} is silent"


def stolen(fleet: Fleet) -> str:
    name = fleet.node()
    if name is None:
        return ""
    taken = {f"modelfleet.dev/{class_of(name)}": str(fleet.choose.randint(1, PER_NODE))}
    thief = {
        "kind": "Pod",
        "metadata": {"name": f"thief-{len(fleet.told)}", "namespace": "other"},
        "spec": {
            "nodeName": name,
            "containers": [{"resources": {"requests": taken}}],
        },
    }
    if fleet.stage.fits(name, thief):
        fleet.stage.others.append(thief)
        return f"somebody else's pod takes room of {name}"
    return ""


def given_back(fleet: Fleet) -> str:
    if not fleet.stage.others:
        return ""
    thief = fleet.stage.others.pop(fleet.choose.randrange(len(fleet.stage.others)))
    return f"{raw.name(thief)} ends"


def deleted(fleet: Fleet) -> str:
    pod = fleet.pod(lambda one: "deletionTimestamp" not in one["metadata"])
    if pod is None:
        return ""
    fleet.stage.delete(("Pod", raw.name(pod)))
    return f"somebody deletes {raw.name(pod)}"


def refused(fleet: Fleet) -> str:
    pod = fleet.pod(lambda one: raw.text(one, "status", "phase") == "Pending" and on_a_node(one))
    if pod is None:
        return ""
    said = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "the device is not healthy"}
    fleet.status(pod, said)
    return f"the kubelet refuses {raw.name(pod)}"


def died(fleet: Fleet) -> str:
    pod = fleet.pod(runs)
    if pod is None:
        return ""
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
    container = {"name": names.WORKER_CONTAINER, **fleet.choose.choice((DIED, REFUSED))}
    fleet.status(pod, {"phase": "Running", "conditions": conditions, "containerStatuses": [container]})
    return f"the engine of {raw.name(pod)} dies"


def recovered(fleet: Fleet) -> str:
    pod = fleet.pod(runs)
    if pod is None:
        return ""
    fleet.status(pod, {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]})
    return f"{raw.name(pod)} is started again"


def label_edited(fleet: Fleet) -> str:
    pod = fleet.pod(lambda one: True)
    if pod is None:
        return ""
    edited = merged(pod, {"metadata": {"labels": {names.SERVING_LABEL: fleet.choose.choice(("false", "no"))}}})
    fleet.stage.objects["Pod", raw.name(pod)] = edited
    return f"somebody edits the label of {raw.name(pod)}"


def child_lost(fleet: Fleet) -> str:
    others = sorted(key for key in fleet.stage.objects if key[0] != "Pod")
    if not others:
        return ""
    kind, name = fleet.choose.choice(others)
    del fleet.stage.objects[kind, name]
    return f"somebody deletes {kind} {name}"


def spec_changed(fleet: Fleet) -> str:
    spec = fleet.choose.choice(
        (
            {"engine": {"image": f"image:{fleet.choose.randint(0, 4)}"}},
            {"scaling": {"replicas": fleet.choose.randint(1, 3)}},
            {"parallelism": fleet.choose.choice(LAYOUTS)},
            {"rollout": {"paused": fleet.choose.random() < 0.5}},
            {"rollout": {"maxSurge": fleet.choose.choice((1, 2)), "maxUnavailable": fleet.choose.choice((None, 0, 2))}},
            {"rollout": {"maxSurge": 0, "maxUnavailable": None}},
            {"rollout": {"onFailure": fleet.choose.choice(("Hold", "Rollback")), "progressDeadline": "5m"}},
        )
    )
    if "parallelism" in spec:
        fleet.write({"parallelism": None})
    fleet.write(spec)
    return f"the user writes {spec}"


Accident = Callable[[Fleet], str]
ACCIDENTS: tuple[Accident, ...] = (
    node_lost,
    node_back,
    node_back,
    cordoned,
    not_ready,
    stolen,
    stolen,
    given_back,
    deleted,
    refused,
    died,
    recovered,
    label_edited,
    child_lost,
    *(spec_changed,) * 5,
)
