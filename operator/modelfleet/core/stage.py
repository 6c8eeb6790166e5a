"""A cluster in memory around one ModelDeployment, on which the real decision is tried out. Pure: time is a number.

It does what effects say, and then lets one kind of thing happen at a time, the quickest first: pods get their nodes,
the propagation time of a drain passes, pods end, workers start. It knows nothing of what is decided.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.effects import Apply, Create, Delete, Effect, Lift, Outcome
from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.project import node_entry, pinned_node, pod_amounts, pod_entry, pod_key
from modelfleet.core.placement.view import ClusterView
from modelfleet.core.reconcile import plan
from modelfleet.core.snapshot import Inventory, Settings, World

Raw = dict[str, Any]
Key = tuple[str, str]

START = datetime(2026, 1, 1, tzinfo=UTC)
START_S, END_S = 120.0, 20.0  # nothing is decided from these two but the clocks of deadlines

_ENDED = ("Failed", "Succeeded")
_SINCE = "lastTransitionTime"


class Happening(StrEnum):
    """What lets time pass."""

    BOUND = "pods get their nodes"
    SPREAD = "the propagation time passes"
    GONE = "what drains ends"
    STARTED = "workers start"
    WAITED = "time passes"
    NOTHING = "nothing is to happen any more"


@dataclass
class Stage:
    """The cluster. `nodes` are raw; `others` are pods of others that hold room. A worker whose image is in `failing`
    comes to that container status and never serves."""

    deployment: Raw
    classes: dict[str, Raw]
    nodes: dict[str, Raw] = field(default_factory=dict)
    others: list[Raw] = field(default_factory=list)
    profiles: tuple[Raw, ...] = ()
    failing: dict[str, Raw] = field(default_factory=dict)
    settings: Settings = field(default_factory=lambda: Settings(worker_image="worker"))
    now: datetime = START
    objects: dict[Key, Raw] = field(default_factory=dict)
    off_since: dict[str, datetime] = field(default_factory=dict)
    made: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    _seen: dict[str, Raw] = field(default_factory=dict)  # nodes and pods as the ledger has them

    def world(self) -> World:
        """What a gatherer would read now."""
        cluster = self.view()
        return World(
            deployment=self.deployment,
            classes=self.classes,
            cluster=cluster,
            not_serving_s={uid: (self.now - since).total_seconds() for uid, since in self.off_since.items()},
            settings=self.settings,
            now=self.now,
            pods=tuple(self.of("Pod")),
            services=tuple(self.of("Service")),
            config_maps=tuple(self.of("ConfigMap")),
            revisions=tuple(self.of("ControllerRevision")),
            jobs=tuple(self.of("Job")),
            budgets=tuple(self.of("PodDisruptionBudget")),
            policies=tuple(self.of("NetworkPolicy")),
            inventory=Inventory(nodes=cluster.nodes, profiles=self.profiles),
        )

    def view(self) -> ClusterView:
        """The nodes, and what pods leave free of them."""
        for name, node in self.nodes.items():
            if self._seen.get(name) is not node:
                self.ledger.set_node(name, node_entry(node))
                self._seen[name] = node
        for gone in self.ledger.nodes.keys() - self.nodes.keys():
            self.ledger.drop_node(gone)
            del self._seen[gone]
        pods = {pod_key(pod): pod for pod in (*self.pods(), *self.others)}
        for key in (*self.ledger.pods.keys() - pods.keys(),):
            self.ledger.set_pod(key, None)
            self._seen.pop(key, None)
        for key, pod in pods.items():
            if self._seen.get(key) is not pod:
                self.ledger.set_pod(key, pod_entry(pod))
                self._seen[key] = pod
        return self.ledger.view("", {})

    def reconcile(self) -> Outcome:
        """One decision, done: effects, then the status."""
        outcome = plan(self.world())
        self.execute(outcome.effects)
        self.deployment = {**self.deployment, "status": copy.deepcopy(dict(outcome.status))}
        return outcome

    def execute(self, effects: Iterable[Effect]) -> None:
        """Does what effects say, in their order; what is not as it was read is passed over, as a conflict would be."""
        for effect in effects:
            match effect:
                case Create(manifest):
                    self._create(manifest)
                case Apply(manifest, _):
                    self._apply(manifest)
                case Lift(name, patch):
                    self._merge(("Pod", name), patch)
                case Delete(_, kind, name, _):
                    self.delete((kind, name))
        self._look_at_labels()

    def pods(self) -> list[Raw]:
        """Our pods by name."""
        return self.of("Pod")

    def of(self, kind: str) -> list[Raw]:
        """Our objects of a kind, by name."""
        return [item for (each, _), item in sorted(self.objects.items()) if each == kind]

    def delete(self, key: Key) -> None:
        """As a DELETE: a pod on a node is asked to end, everything else is gone."""
        item = self.objects.get(key)
        if item is None:
            return
        ended = raw.text(item, "status", "phase") in _ENDED
        if key[0] == "Pod" and raw.text(item, "spec", "nodeName") and not ended:
            self._merge(key, {"metadata": {"deletionTimestamp": self.now.isoformat()}})
        else:
            del self.objects[key]

    def happen(self, wake_after_s: float | None) -> Happening:
        """Lets the quickest thing happen; `wake_after_s` is when the last decision wants to look again."""
        happening = self.next(wake_after_s)
        match happening:
            case Happening.BOUND:
                for pod in self._waiting():
                    self._bind(pod)
                self.now += timedelta(seconds=1)
            case Happening.GONE:
                for key in [key for key, item in self.objects.items() if _is_ending(item)]:
                    del self.objects[key]
                self.now += timedelta(seconds=END_S)
            case Happening.STARTED:
                for pod in self._starting():
                    self._start(pod)
                self.now += timedelta(seconds=START_S)
            case Happening.SPREAD | Happening.WAITED:
                self.now += timedelta(seconds=wake_after_s or 0.0)
        self._look_at_labels()
        return happening

    def next(self, wake_after_s: float | None) -> Happening:
        """What is the quickest thing to happen."""
        draining = any(raw.uid(pod) in self.off_since and not _is_ending(pod) for pod in self.pods())
        if self._waiting():
            return Happening.BOUND
        if draining and wake_after_s is not None and wake_after_s <= self.settings.propagation_s:
            return Happening.SPREAD
        if any(map(_is_ending, self.objects.values())):
            return Happening.GONE
        if self._starting():
            return Happening.STARTED
        return Happening.NOTHING if wake_after_s is None else Happening.WAITED

    def _waiting(self) -> list[Raw]:
        """Pods that the scheduler has not looked at since they were made."""
        return [
            pod
            for pod in self.pods()
            if not pod["spec"].get("nodeName")
            and not pod["spec"].get("schedulingGates")
            and not raw.at(pod, "status", "conditions")
        ]

    def _starting(self) -> list[Raw]:
        return [pod for pod in self.pods() if raw.text(pod, "status", "phase") == "Pending" and _is_placed(pod)]

    def _bind(self, pod: Raw) -> None:
        node = pinned_node(pod) or self._chosen(pod)
        key = ("Pod", raw.name(pod))
        if node in self.nodes and self.fits(node, pod):
            since = _condition("True") | {_SINCE: self.now.isoformat()}
            bound = {"spec": {"nodeName": node}, "status": {"phase": "Pending", "conditions": [since]}}
            self._merge(key, bound)
            return
        said = _condition("False") | {
            "reason": "Unschedulable",
            "message": f"0/{len(self.nodes)} nodes are available: none of them takes the pod.",
            _SINCE: self.now.isoformat(),
        }
        self._merge(key, {"status": {"phase": "Pending", "conditions": [said]}})

    def _chosen(self, pod: Raw) -> str:
        """Where a pod goes that is pinned to no node: the first that takes it, else one that an autoscaler brings."""
        selector = raw.mapping(pod, "spec", "nodeSelector")
        group = {_replica(other): raw.text(other, "spec", "nodeName") for other in self.pods()}
        apart = {on for replica, on in group.items() if replica[:2] == _replica(pod)[:2]}
        for name in sorted(self.nodes.keys() - apart):
            if selector.items() <= node_entry(self.nodes[name]).labels.items() and self.fits(name, pod):
                return name
        kind = next((kind for kind in self.classes.values() if _brings(kind, selector)), None)
        if kind is None:
            return ""
        self.made += 1
        name = f"bought-{self.made}"
        self.nodes[name] = _bought(name, kind, selector)
        return name

    def fits(self, node: str, pod: Raw) -> bool:
        """As the scheduler counts: what is bound, not what somebody means to bind."""
        entry = node_entry(self.nodes[node])
        free = dict(entry.allocatable)
        bound = (each for each in (*self.pods(), *self.others) if raw.text(each, "spec", "nodeName") == node)
        for taken in filter(None, map(pod_entry, bound)):
            for resource, amount in taken.requests.items():
                free[resource] = free.get(resource, 0) - amount
        wanted = pod_amounts(pod)
        return entry.ready and not entry.cordoned and all(free.get(name, 0) >= wanted[name] for name in wanted)

    def _start(self, pod: Raw) -> None:
        container = next(iter(raw.items(pod, "spec", "containers")), {})
        failing = self.failing.get(raw.text(container, "image"))
        status: Raw = {"phase": "Running", "conditions": [_condition("True"), _condition("True", "Ready")]}
        if failing is not None:
            status = {"phase": "Running", "conditions": [_condition("True"), _condition("False", "Ready")]}
            status["containerStatuses"] = [{"name": names.WORKER_CONTAINER, **failing}]
        self.report(pod, {**raw.mapping(pod, "status"), **status})

    def report(self, pod: Raw, status: Raw) -> None:
        """The kubelet reports this status of a pod. Each condition is given the time since when it is so."""
        conditions, now = raw.items(pod, "status", "conditions"), self.now.isoformat()
        since = {(each.get("type"), each.get("status")): each.get(_SINCE) for each in conditions}
        told = [
            {**each, _SINCE: since.get((each.get("type"), each.get("status"))) or now}
            for each in raw.items(status, "conditions")
        ]
        self.objects["Pod", raw.name(pod)] = {**pod, "status": {**status, **({"conditions": told} if told else {})}}

    def _create(self, manifest: Mapping[str, Any]) -> None:
        key = str(manifest["kind"]), str(manifest["metadata"]["name"])
        if key in self.objects:
            return
        self.made += 1
        born = {
            "uid": f"{key[0]}-{key[1]}-{self.made}",
            "resourceVersion": "1",
            "creationTimestamp": self.now.isoformat(),
        }
        item = copy.deepcopy(dict(manifest)) | {"metadata": {**manifest["metadata"], **born}}
        self.objects[key] = item | ({"status": {"phase": "Pending"}} if key[0] == "Pod" else {})

    def _apply(self, manifest: Mapping[str, Any]) -> None:
        key = str(manifest["kind"]), str(manifest["metadata"]["name"])
        part = {"metadata": {"labels": manifest["metadata"]["labels"]}} if key[0] == "Pod" else manifest
        if raw.at(part, "spec", "selector") is not None:
            self._merge(key, {"spec": {"selector": None}})  # it is put whole, not key by key
        self._merge(key, part)

    def _merge(self, key: Key, part: Mapping[str, Any]) -> None:
        if key in self.objects:
            self.objects[key] = _merged(self.objects[key], part)

    def _look_at_labels(self) -> None:
        off = [raw.uid(p) for p in self.pods() if raw.text(p, "metadata", "labels", names.SERVING_LABEL) != "true"]
        self.off_since = {uid: self.off_since.get(uid, self.now) for uid in off}


def _replica(pod: Raw) -> tuple[str, str, str]:
    """Revision, slot and rank."""
    labels = raw.mapping(pod, "metadata", "labels")
    revision, slot, rank = (
        str(labels.get(key)) for key in (names.REVISION_LABEL, names.REPLICA_LABEL, names.RANK_LABEL)
    )
    return revision, slot, rank


def _brings(kind: Raw, selector: Mapping[str, Any]) -> bool:
    """An autoscaler brings nodes of this class for pods with this selector."""
    bought = any(raw.text(supply, "provisioning") == "Autoscaled" for supply in raw.items(kind, "spec", "supplies"))
    return bought and raw.mapping(kind, "spec", "nodeSelector").items() <= selector.items()


def _bought(name: str, kind: Raw, selector: Mapping[str, Any]) -> Raw:
    """A new node of the class, with host resources in plenty, in one domain with all that are bought."""
    supply = next(each for each in raw.items(kind, "spec", "supplies") if each.get("provisioning") == "Autoscaled")
    listed = raw.at(kind, "spec", "topologyKeys")
    keys = listed if isinstance(listed, list) else ()
    accelerators = {raw.text(kind, "spec", "resourceName"): str(raw.integer(kind, "spec", "acceleratorsPerNode"))}
    labels = {**dict.fromkeys(map(str, keys), "bought"), **selector, **raw.mapping(supply, "nodeSelector")}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "1024", "memory": "16Ti", "pods": "110", **accelerators},
            "conditions": [_condition("True", "Ready")],
        },
    }


def _merged(base: Any, part: Any) -> Any:
    """`base` with `part` laid over it; None takes away."""
    if not (isinstance(base, Mapping) and isinstance(part, Mapping)):
        return copy.deepcopy(part)
    both = {key: _merged(base.get(key), value) for key, value in part.items() if value is not None}
    return {key: value for key, value in base.items() if key not in part} | both


def _condition(status: str, kind: str = "PodScheduled") -> Raw:
    return {"type": kind, "status": status}


def _is_ending(item: Raw) -> bool:
    return raw.at(item, "metadata", "deletionTimestamp") is not None


def _is_placed(pod: Raw) -> bool:
    return bool(raw.text(pod, "spec", "nodeName")) and not _is_ending(pod)
