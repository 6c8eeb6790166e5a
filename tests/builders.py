"""Small factories of raw worlds, and a tiny pure cluster that does what effects say. Shared by all tests of core."""

import copy
import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from modelfleet.api import names
from modelfleet.api.conditions import ConditionType
from modelfleet.api.reasons import Reason
from modelfleet.api.status import ModelDeploymentStatus
from modelfleet.core import raw
from modelfleet.core.effects import Apply, Create, Delete, Effect, Lift, Outcome
from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.project import NodeEntry, pinned_node, pod_entry, pod_key
from modelfleet.core.placement.view import ClusterView
from modelfleet.core.reconcile import plan
from modelfleet.core.snapshot import Settings, World

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SETTINGS = Settings(worker_image="registry.example/modelfleet-worker:0.1.0")
Raw = dict[str, Any]


def merged(base: Any, change: Any) -> Any:
    """`base` with `change` laid over it: mappings are merged, None takes away, everything else replaces."""
    if not (isinstance(base, Mapping) and isinstance(change, Mapping)):
        return copy.deepcopy(change)
    both = {key: merged(base.get(key), part) for key, part in change.items() if part is not None}
    return {key: copy.deepcopy(part) for key, part in base.items() if key not in change} | both


def deployment(name: str = "chat", *, metadata: Raw | None = None, **spec: Any) -> Raw:
    """A valid ModelDeployment; keyword arguments are laid over its spec."""
    base = {
        "model": {"source": "pvc://models/tiny"},
        "objectives": [
            {
                "name": "interactive",
                "ttft": "500ms",
                "tpot": "50ms",
                "load": {"requestsPerSecond": 1},
                "lengths": {"inputTokens": {"p50": 100, "p95": 400}, "outputTokens": {"p50": 50, "p95": 200}},
            }
        ],
        "accelerators": {"classes": ["cpu"]},
        "scaling": {"minReplicas": 1, "maxReplicas": 8, "mode": "Active", "replicas": 1},
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.DEPLOYMENT_KIND,
        "metadata": merged(
            {"name": name, "namespace": "team", "uid": f"uid-of-{name}", "generation": 1}, metadata or {}
        ),
        "spec": merged(base, spec),
    }


def manual(replicas: int, **spec: Any) -> Raw:
    """A ModelDeployment that wants this many replicas."""
    return deployment(scaling={"mode": "Manual", "replicas": replicas}, **spec)


def accelerator_class(name: str = "cpu", **spec: Any) -> Raw:
    """A valid AcceleratorClass; keyword arguments are laid over its spec."""
    base = {
        "nodeSelector": {"modelfleet.dev/accelerator": name},
        "resourceName": f"modelfleet.dev/{name}",
        "device": "Cpu",
        "acceleratorsPerNode": 4,
        "hostPerAccelerator": {"cpu": "2", "memory": "4Gi"},
        "tolerations": [{"key": "accelerator", "operator": "Exists", "effect": "NoSchedule"}],
    }
    metadata = {"name": name, "uid": f"uid-of-class-{name}", "generation": 1}
    return {"apiVersion": names.API_VERSION, "kind": names.CLASS_KIND, "metadata": metadata, "spec": merged(base, spec)}


def large_deployment() -> Raw:
    """A ModelDeployment with every field that reaches a pod; its class is `large_class`."""
    return deployment(
        "support-chat",
        model={"source": "pvc://weights/llama/70b", "servedNames": ["support-chat", "chat"], "maxContextTokens": 16384},
        parallelism={"tensor": 8},
        accelerators={"classes": ["h100"]},
        engine={
            "image": "registry.example/worker:1",
            "installationClaimName": "engine",
            "args": {"max-num-seqs": 64, "enforce-eager": "true"},
            "env": [{"name": "OMP_NUM_THREADS", "value": "4"}],
        },
        placement={
            "nodeSelector": {"pool": "serving"},
            "tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}],
            "priorityClassName": "high",
        },
        imagePullSecrets=[{"name": "registry"}],
    )


def large_class() -> Raw:
    """The class that `large_deployment` names."""
    return accelerator_class(
        "h100",
        device="Cuda",
        resourceName="nvidia.com/gpu",
        acceleratorsPerNode=8,
        hostPerAccelerator={"cpu": "12", "memory": "128Gi"},
    )


def world(of: Raw | None = None, **parts: Any) -> World:
    """A world that holds a ModelDeployment and the class `cpu`, and nothing else; `parts` replace fields."""
    empty = World(
        deployment=of if of is not None else deployment(),
        classes={"cpu": accelerator_class()},
        revisions=(),
        pods=(),
        config_maps=(),
        services=(),
        cluster=cluster_view({"node": 100}),
        settings=SETTINGS,
        now=START,
    )
    return replace(empty, **parts)


def cluster_view(room: Mapping[str, int], pods: Mapping[str, Raw] | None = None, of: Iterable[Raw] = ()) -> ClusterView:
    """What a placer would show: nodes that take so many pods each and have plenty of all else, as `pods` fill them.
    `of` are the classes whose nodes they are; without any, those of `accelerator_class` and `large_class`."""
    classes = list(of) or [accelerator_class(), large_class()]
    labels = {key: value for each in classes for key, value in raw.mapping(each, "spec", "nodeSelector").items()}
    devices = {raw.text(each, "spec", "resourceName"): 10**6 for each in classes}
    ledger = Ledger()
    for name, count in room.items():
        offered = {"cpu": 10**9, "memory": 10**18, "pods": count, **devices}
        ledger.set_node(name, NodeEntry({**labels, "pool": "serving"}, offered, ready=True, cordoned=False, taints=()))
    for pod in (pods or {}).values():
        ledger.set_pod(pod_key(pod), pod_entry(pod))
    return ledger.view("", {})


def foreign(kind: str, name: str, owner: Raw | None = None) -> Raw:
    """An object of somebody else: without an owner, or controlled by `owner` (kind, name)."""
    references = [{"apiVersion": "v1", "uid": "uid-of-other", "controller": True, **owner}] if owner else []
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": "team", "uid": "u-foreign", "ownerReferences": references},
    }


def condition(status: Mapping[str, Any], kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    found = next(c for c in status["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


def waiting(reason: str, said: str = "", restarts: int = 0, ended: Raw | None = None, since: datetime = START) -> Raw:
    """The status of a placed pod whose worker waits, and that is not Ready since then."""
    return _container({"waiting": {"reason": reason, "message": said}}, restarts, ended, since)


def running(restarts: int = 0, ended: Raw | None = None, since: datetime = START) -> Raw:
    """The status of a placed pod whose worker runs since then and is not Ready."""
    return _container({"running": {"startedAt": since.isoformat()}}, restarts, ended, since)


def _container(state: Raw, restarts: int, ended: Raw | None, since: datetime) -> Raw:
    last = {"terminated": ended} if ended else {}
    container = {"name": "worker", "state": state, "lastState": last, "restartCount": restarts, "ready": False}
    conditions = [_condition("PodScheduled", START), _condition("Ready", since, "False")]
    return {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}


def _condition(kind: str, since: datetime, status: str = "True") -> Raw:
    return {"type": kind, "status": status, "lastTransitionTime": since.isoformat()}


def ready(since: datetime = START, scheduled: datetime = START) -> Raw:
    """The status of a pod that is Ready since then."""
    return {"phase": "Running", "conditions": [_condition("PodScheduled", scheduled), _condition("Ready", since)]}


READY: Raw = ready()


@dataclass
class Fleet:
    """A pure cluster of one ModelDeployment: `reconcile` runs the real decision, `tick` lets the nodes do their work.

    `room` is how many pods find a node on each of the `machines`; `broken_images` never come up. `full` are machines
    that the scheduler finds full though placement does not.
    """

    deployment: Raw = field(default_factory=deployment)
    classes: dict[str, Raw] = field(default_factory=lambda: {"cpu": accelerator_class()})
    room: int = 100
    machines: tuple[str, ...] = ("node",)
    full: set[str] = field(default_factory=set)
    broken_images: set[str] = field(default_factory=set)
    settings: Settings = SETTINGS
    now: datetime = START
    objects: dict[tuple[str, str], Raw] = field(default_factory=dict)
    taken: set[tuple[str, str]] = field(default_factory=set)
    off_since: dict[str, datetime] = field(default_factory=dict)
    written: list[Effect] = field(default_factory=list)
    uids: Any = field(default_factory=lambda: itertools.count(1))

    def world(self) -> World:
        """What a gatherer would read now."""
        label = {names.DEPLOYMENT_LABEL: self.deployment["metadata"]["name"]}
        seen = {
            key: item
            for key, item in self.objects.items()
            if label.items() <= item["metadata"].get("labels", {}).items()
        }
        of = lambda kind: tuple(copy.deepcopy(item) for (k, _), item in seen.items() if k == kind)  # noqa: E731
        return World(
            deployment=copy.deepcopy(self.deployment),
            classes=copy.deepcopy(self.classes),
            revisions=of("ControllerRevision"),
            pods=of("Pod"),
            config_maps=of("ConfigMap"),
            services=of("Service"),
            jobs=of("Job"),
            budgets=of("PodDisruptionBudget"),
            policies=of("NetworkPolicy"),
            taken={key: copy.deepcopy(self.objects[key]) for key in self.taken if key in self.objects},
            not_serving_s={uid: (self.now - since).total_seconds() for uid, since in self.off_since.items()},
            cluster=self.view(),
            settings=self.settings,
            now=self.now,
        )

    def view(self) -> ClusterView:
        """The nodes as a placer would show them."""
        return cluster_view(dict.fromkeys(self.machines, self.room), self.pods(), self.classes.values())

    def reconcile(self) -> Outcome:
        """One reconcile as the shell does it: decide, write, decide again if a name was taken, write the status."""
        for _ in range(20):
            outcome = plan(self.world())
            if self._execute(outcome.effects):
                break
        check_status(outcome.status)
        self.deployment["status"] = copy.deepcopy(dict(outcome.status))
        self._look_at_labels()
        return outcome

    def settle(self, rounds: int = 200) -> Outcome:
        """Reconciles and ticks until nothing is to do any more."""
        for _ in range(rounds):
            outcome = self.reconcile()
            before = copy.deepcopy(self.objects)
            self.tick()
            if not outcome.effects and self.objects == before and outcome.wake_after_s is None:
                return self.reconcile()
        raise AssertionError(f"not settled after {rounds} rounds: {outcome.effects}")

    def tick(self, seconds: float = 10.0, choose: random.Random | None = None) -> None:
        """Time passes. Every pod (or those that `choose` picks) takes its next step: placed, Ready, gone."""
        self.now += timedelta(seconds=seconds)
        for key in [key for key in self.objects if key[0] == "Pod"]:
            if choose is None or choose.random() < 0.5:
                self._step(key)
        self._look_at_labels()

    def pods(self) -> dict[str, Raw]:
        """The pods by name."""
        return {name: item for (kind, name), item in sorted(self.objects.items()) if kind == "Pod"}

    def serving(self) -> int:
        """How many pods get requests."""
        return sum(
            is_ready(item) and item["metadata"]["labels"].get(names.SERVING_LABEL) == "true"
            for item in self.pods().values()
        )

    def add(self, item: Raw) -> None:
        """Puts an object there that somebody else made."""
        self.objects[item["kind"], item["metadata"]["name"]] = item

    def _execute(self, effects: tuple[Effect, ...]) -> bool:
        for effect in effects:
            match effect:
                case Create(manifest):
                    key = manifest["kind"], manifest["metadata"]["name"]
                    if key in self.objects:
                        assert key not in self.taken, f"{key} is known to be taken"
                        self.taken.add(key)
                        return False
                    self.objects[key] = self._created(manifest)
                case Apply(manifest, uid):
                    key = manifest["kind"], manifest["metadata"]["name"]
                    assert self.objects[key]["metadata"]["uid"] == uid
                    self.objects[key] = self._applied(self.objects[key], manifest)
                case Delete(_, kind, name, uid):
                    assert self.objects[kind, name]["metadata"]["uid"] == uid
                    self._delete((kind, name))
                case Lift(name, patch):
                    self.objects["Pod", name] = self._lifted(self.objects["Pod", name], patch)
            self.written.append(effect)
        return True

    def _created(self, manifest: Mapping[str, Any]) -> Raw:
        made = copy.deepcopy(dict(manifest))
        made["metadata"] |= {"uid": f"u{next(self.uids)}", "creationTimestamp": self.now.isoformat()}
        if made["kind"] == "Pod":
            made["status"] = {"phase": "Pending"}
        return made

    def _applied(self, stored: Raw, manifest: Mapping[str, Any]) -> Raw:
        if stored["kind"] == "Pod":
            changed = merged(stored, {"metadata": {"labels": manifest["metadata"]["labels"]}})
            for part in manifest.get("spec", {}).get("containers", ()):
                changed["spec"]["containers"][0]["image"] = part["image"]
            changed["metadata"].pop("managedFields", None)
            return changed
        changed = merged(stored, manifest)
        if "selector" in manifest.get("spec", {}):
            changed["spec"]["selector"] = copy.deepcopy(manifest["spec"]["selector"])
        return changed

    def _lifted(self, stored: Raw, patch: Mapping[str, Any]) -> Raw:
        assert stored["metadata"]["uid"] == patch["metadata"]["uid"]
        assert not pinned_node(stored), "a pinned pod cannot be pinned again"
        return merged(stored, {"spec": patch["spec"]})

    def _delete(self, key: tuple[str, str]) -> None:
        item = self.objects[key]
        if key[0] == "Pod" and item["status"]["phase"] not in ("Failed", "Succeeded"):
            item["metadata"]["deletionTimestamp"] = self.now.isoformat()
        else:
            del self.objects[key]

    def _step(self, key: tuple[str, str]) -> None:
        item = self.objects[key]
        if "deletionTimestamp" in item["metadata"]:
            del self.objects[key]
        elif item["status"]["phase"] in ("Failed", "Succeeded") or item["spec"].get("schedulingGates"):
            return
        elif not item["spec"].get("nodeName"):
            self._schedule(item)
        elif item["spec"]["containers"][0]["image"] in self.broken_images:
            item["status"] = waiting("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: not found')
        elif not is_ready(item):
            scheduled = raw.instant(_found(item, "PodScheduled"), "lastTransitionTime")
            item["status"] = ready(self.now, scheduled or self.now)

    def _schedule(self, item: Raw) -> None:
        on = [pod["spec"].get("nodeName") for pod in self.pods().values()]
        allowed = [pinned_node(item)] if pinned_node(item) else self.machines
        found = next((name for name in allowed if on.count(name) < self.room and name not in self.full), None)
        if found is not None:
            item["spec"]["nodeName"] = found
            item["status"] = {"phase": "Pending", "conditions": [_condition("PodScheduled", self.now)]}
        elif not item["status"].get("conditions"):
            item["status"] = unschedulable("0/1 nodes are available: 1 Insufficient modelfleet.dev/cpu.", self.now)

    def _look_at_labels(self) -> None:
        off = [
            p["metadata"]["uid"]
            for p in self.pods().values()
            if p["metadata"]["labels"].get(names.SERVING_LABEL) != "true"
        ]
        self.off_since = {uid: self.off_since.get(uid, self.now) for uid in off}


def check_status(status: Mapping[str, Any]) -> None:
    """Asserts that a status is whole: every condition is there, with a reason that is documented to stand there."""
    parsed = ModelDeploymentStatus.model_validate(status, extra="forbid")
    assert {one.type for one in parsed.conditions} == set(ConditionType)
    assert parsed.observed_generation is not None
    allowed = {(kind, state, str(reason)) for reason in Reason for kind, state in reason.standings}
    for one in parsed.conditions:
        parts = (ConditionType.ACCEPTED, ConditionType.PLANNED, ConditionType.AVAILABLE)
        own = one.reason in (Reason.SERVING, Reason.ANNOUNCED)
        places = parts if one.type == ConditionType.READY and not own else (one.type,)
        assert any((place, one.status, one.reason) in allowed for place in places), one
        assert one.message, one


def unschedulable(message: str, since: datetime = START) -> Raw:
    """The status of a pod for which the scheduler found no node."""
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [{**said, "lastTransitionTime": since.isoformat()}]}


def is_ready(pod: Raw) -> bool:
    """The pod is Ready and not being deleted."""
    return "deletionTimestamp" not in pod["metadata"] and raw.text(_found(pod, "Ready"), "status") == "True"


def _found(pod: Raw, kind: str) -> Mapping[str, Any]:
    return next((each for each in raw.items(pod, "status", "conditions") if each.get("type") == kind), {})
