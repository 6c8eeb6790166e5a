"""Clusters of two classes for one ModelDeployment: `small` is listed first, `big` after it."""

from dataclasses import dataclass, field
from typing import Any

from builders import Raw, accelerator_class, deployment, merged
from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.effects import Outcome
from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.project import NodeEntry, pod_entry, pod_key
from modelfleet.core.placement.view import ClusterView
from modelfleet.core.stage import Happening, Stage
from planner_worlds import PlannedFleet

MOST_STEPS = 200


def class_of(name: str, each: int, **spec: Any) -> Raw:
    """A class with so many accelerators a node."""
    return accelerator_class(name, acceleratorsPerNode=each, **spec)


def node_of(name: str, of: str, count: int) -> Raw:
    """A node of a class with so many accelerators."""
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110", f"modelfleet.dev/{of}": str(count)}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"modelfleet.dev/accelerator": of}},
        "spec": {},
        "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def two_classes(replicas: int, rooms: dict[str, int], **spec: Any) -> Stage:
    """A fleet that wants so many replicas; `rooms` are the accelerators of one node of each class."""
    given = {"accelerators": {"classes": ["small", "big"]}, **spec}
    of = deployment(**{**given, "scaling": {"mode": "Manual", "replicas": replicas, **spec.get("scaling", {})}})
    nodes = {f"{name}-0": node_of(f"{name}-0", name, count) for name, count in rooms.items()}
    return Stage(of, {"small": class_of("small", 2), "big": class_of("big", 4)}, nodes)


def write(stage: Stage, **spec: Any) -> None:
    """The user writes these fields of the spec."""
    generation = stage.deployment["metadata"]["generation"] + 1
    stage.deployment = merged(stage.deployment, {"metadata": {"generation": generation}, "spec": spec})


def settle(stage: Stage) -> Outcome:
    """Until nothing is to happen any more, or only time would pass."""
    for _ in range(MOST_STEPS):
        outcome = stage.reconcile()
        if outcome.effects:
            continue
        if stage.next(outcome.wake_after_s) in (Happening.NOTHING, Happening.WAITED):
            return outcome
        stage.happen(outcome.wake_after_s)
    raise AssertionError(f"{MOST_STEPS} steps, and it does not come to rest")


def on_classes(stage: Stage) -> dict[str, int]:
    """How many replicas there are on each class, by the nodes that their pods ask for."""
    counts: dict[str, int] = {}
    for pod in stage.pods():
        if raw.text(pod, "metadata", "labels", names.RANK_LABEL) == "0":
            kind = raw.text(pod, "spec", "nodeSelector", "modelfleet.dev/accelerator")
            counts[kind] = counts.get(kind, 0) + 1
    return counts


@dataclass
class ClassedFleet(PlannedFleet):
    """A fleet whose classes each have `rooms` of accelerators on one node."""

    rooms: dict[str, int] = field(default_factory=dict)

    def view(self) -> ClusterView:
        """The nodes as a placer would show them."""
        ledger = Ledger()
        for name, count in self.rooms.items():
            kind = self.classes[name]["spec"]
            offered = {"cpu": 10**9, "memory": 10**18, "pods": 110, kind["resourceName"]: count}
            labels = {**kind["nodeSelector"]}
            ledger.set_node(f"{name}-0", NodeEntry(labels, offered, ready=True, cordoned=False, taints=()))
        for pod in self.pods().values():
            ledger.set_pod(pod_key(pod), pod_entry(pod))
        return ledger.view("", {})


def pools(outcome: Outcome) -> list[tuple[str, int]]:
    """Class and replicas of each pool of the status."""
    return [(pool["class"], pool["replicas"]) for pool in outcome.status["plan"]["pools"]]
