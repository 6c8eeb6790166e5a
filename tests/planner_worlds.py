"""Worlds in which the planner chooses: a class with performance facts, models that are stated or inspected by a Job."""

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from builders import Fleet, Raw, accelerator_class, deployment
from modelfleet.core.placement.project import empty_node
from modelfleet.core.snapshot import Inventory, World

PERFORMANCE: Raw = {
    "memory": "79Gi",
    "memoryBandwidth": "3350G",
    "compute": {"bf16": "989T", "fp8": "1979T"},
    "computeCapability": "9.0",
    "fabric": {"bandwidth": "450G"},
    "supplies": [{"name": "on-demand", "pricePerAcceleratorHour": "2.5"}],
}
"""What a class states so that plans can be predicted."""
LLAMA_8B: Raw = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
FACTS_8B: Raw = {
    "layers": 32,
    "hiddenSize": 4096,
    "heads": 32,
    "kvHeads": 8,
    "intermediateSize": 14336,
    "vocabularySize": 128256,
    "maxContextTokens": 131072,
}
FACTS_70B: Raw = FACTS_8B | {"layers": 80, "hiddenSize": 8192, "heads": 64, "intermediateSize": 28672}
FACTS_405B: Raw = FACTS_8B | {"layers": 126, "hiddenSize": 16384, "heads": 128, "intermediateSize": 53248}


def gpu_class(name: str = "h100", **spec: Any) -> Raw:
    """A class of nodes with eight accelerators whose performance is stated, as that of an H100."""
    stated = {
        "resourceName": "nvidia.com/gpu",
        "device": "Cuda",
        "acceleratorsPerNode": 8,
        "hostPerAccelerator": {"cpu": "12", "memory": "128Gi"},
        "memory": "79Gi",
        "memoryBandwidth": "3350G",
        "compute": {"bf16": "989T", "fp8": "1979T"},
        "computeCapability": "9.0",
        "fabric": {"bandwidth": "450G"},
        "network": {"bandwidth": "50G"},
        "supplies": [{"name": "on-demand", "pricePerAcceleratorHour": "2.5"}],
    }
    return accelerator_class(name, **(stated | spec))


def planned(facts: Raw | None = FACTS_8B, **spec: Any) -> Raw:
    """A ModelDeployment without `parallelism` on `h100`; without `facts` its model is inspected."""
    model = {"source": "pvc://weights/llama"} | ({"facts": facts} if facts else {})
    given = {"model": model, "accelerators": {"classes": ["h100"]}}
    return deployment(**{**given, **spec, "model": {**model, **spec.get("model", {})}})


def objective(**changes: Any) -> list[Raw]:
    """The usual objective with changes."""
    return [deployment()["spec"]["objectives"][0] | changes]


def node(name: str, class_name: str = "h100", count: int = 8) -> Raw:
    """A node with so many accelerators."""
    return {
        "metadata": {"name": name, "labels": {"modelfleet.dev/accelerator": class_name}},
        "status": {"allocatable": {"nvidia.com/gpu": str(count), "cpu": "128"}},
    }


@dataclass
class PlannedFleet(Fleet):
    """A pure cluster in which Jobs run: the pod of one ends with `words` in its termination message and `exit_code`.

    `job_pod` is laid over the status of a Job's pod that does not end.
    """

    classes: dict[str, Raw] = field(default_factory=lambda: {"h100": gpu_class()})
    nodes: tuple[Raw, ...] = (node("one"),)
    profiles: tuple[Raw, ...] = ()
    words: str = json.dumps({"model": {"config": LLAMA_8B, "checkpointBytes": 16060522496}})
    exit_code: int = 0
    job_pod: Raw | None = None

    def world(self) -> World:
        """What a gatherer would read now; nodes and profiles are always read here."""
        inventory = Inventory(nodes=tuple(map(empty_node, self.nodes)), profiles=self.profiles)
        return replace(super().world(), inventory=inventory)

    def jobs(self) -> dict[str, Raw]:
        """The Jobs by name."""
        return {name: item for (kind, name), item in sorted(self.objects.items()) if kind == "Job"}

    def run_jobs(self) -> None:
        """The Job controller and the kubelet do their work."""
        for name, job in self.jobs().items():
            pod = self.objects.setdefault(("Pod", f"{name}-x1y2z"), self._pod_of(name, job))
            if self.job_pod is not None:
                pod["status"] = self.job_pod
                continue
            ended = {"exitCode": self.exit_code, "message": self.words, "reason": "Completed"}
            container = {"name": "worker", "state": {"terminated": ended}, "restartCount": 0}
            pod["status"] = {"phase": "Failed" if self.exit_code else "Succeeded", "containerStatuses": [container]}
            kind = "Failed" if self.exit_code else "Complete"
            time = self.now.isoformat()
            job["status"] = {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": time}]}

    def pass_time(self, seconds: float) -> None:
        """Only time passes."""
        self.now += timedelta(seconds=seconds)

    def _pod_of(self, name: str, job: Raw) -> Raw:
        reference = {"kind": "Job", "name": name, "uid": job["metadata"]["uid"], "controller": True}
        labels = job["spec"]["template"]["metadata"]["labels"]
        metadata = {"name": f"{name}-x1y2z", "namespace": "team", "uid": f"pod-of-{job['metadata']['uid']}"}
        return {
            "kind": "Pod",
            "metadata": metadata | {"labels": labels, "ownerReferences": [reference]},
            "spec": job["spec"]["template"]["spec"],
            "status": {"phase": "Pending"},
        }

    def _delete(self, key: tuple[str, str]) -> None:
        super()._delete(key)
        if key[0] == "Job":
            self.objects.pop(("Pod", f"{key[1]}-x1y2z"), None)


def settled(of: Raw, **parts: Any) -> PlannedFleet:
    """A fleet in which nothing is to do any more."""
    fleet = PlannedFleet(of, **parts)
    fleet.settle()
    return fleet


def revision(fleet: Fleet) -> str:
    """The revision that the status tells of."""
    return str(fleet.deployment["status"]["plan"]["revision"])
