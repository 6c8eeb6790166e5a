"""Fake nodes with accelerators: kwok answers for their kubelets, so that pods on them run and become ready at once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modelfleet_local.api import Api
from modelfleet_local.controlplane import Environment
from modelfleet_local.pki import Identity
from modelfleet_local.processes import Program
from modelfleet_local.progress import Say
from modelfleet_local.waiting import wait_until

_USER = "modelfleet-kwok"
_ANNOTATION = "kwok.x-k8s.io/node"
_STAGES = ("node/fast/node-initialize.yaml", "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml")
_POD_STAGES = ("pod/fast/pod-ready.yaml", "pod/fast/pod-complete.yaml", "pod/fast/pod-delete.yaml")
_POD_CIDR = "10.89.0.0/16"  # addresses that fake pods report; nothing answers there
_READY_TIMEOUT_S = 60.0
_OPTIONS = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    "options": {
        "podPlayStageParallelism": 32,
        "nodePlayStageParallelism": 8,
        "nodeLeaseParallelism": 8,
        "podsOnNodeSyncParallelism": 1,
        "nodeLeaseDurationSeconds": 120,
    },
}
"""A file of options takes the place of kwok's defaults as a whole. With its own four pods at a time ten thousand take
half an hour to become ready, longer than a start may take. A lease is renewed after a quarter of its time, a node
is given up after 50 s."""
_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["patch", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "get", "list", "patch", "update", "watch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["create", "get", "list", "patch", "update", "watch"],
    },
]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a fake node looks like to the scheduler."""

    labels: Mapping[str, str] = field(default_factory=lambda: {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    allocatable: Mapping[str, str] = field(
        default_factory=lambda: {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    )
    tainted: bool = False  # kwok.x-k8s.io/node=fake:NoSchedule, so that only pods that tolerate it come


def node(name: str, shape: Shape) -> dict[str, Any]:
    """The manifest of a fake node."""
    taints = [{"key": _ANNOTATION, "value": "fake", "effect": "NoSchedule"}] if shape.tainted else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {_ANNOTATION: "fake"},
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "type": "kwok",
                **shape.labels,
            },
        },
        "spec": {"taints": taints},
        "status": {"allocatable": dict(shape.allocatable), "capacity": dict(shape.allocatable)},
    }


def start(env: Environment, api: Api, say: Say) -> None:
    """Starts kwok with a credential that may do only what kwok needs."""
    api.grant(_USER, _RULES)
    stages = env.binaries.module_folder("kwok", "sigs.k8s.io/kwok", say) / "kustomize" / "stage"
    config = env.paths.state / "kwok.json"
    config.write_text(json.dumps(_OPTIONS))
    argv = [
        env.program("kwok"),
        f"--kubeconfig={env.kubeconfig('kwok', Identity(_USER))}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={_ANNOTATION}=fake",
        f"--cidr={_POD_CIDR}",
        *(f"--config={path}" for path in (config, *(stages / stage for stage in (*_STAGES, *_POD_STAGES)))),
    ]
    env.processes.start(Program("kwok", argv, env={"HOME": str(env.paths.state)}))


def add_nodes(api: Api, count: int, shape: Shape) -> None:
    """Creates fake nodes `kwok-0` and so on, and waits until they are ready."""
    names = [f"kwok-{index}" for index in range(count)]
    for name in names:
        api.create("/api/v1/nodes", node(name, shape))
    wait_until(f"{count} ready kwok nodes", lambda: all(ready(api, name) for name in names), timeout_s=_READY_TIMEOUT_S)


def ready(api: Api, name: str) -> bool:
    """Whether the node reports Ready and the controller manager has taken its not-ready taint away."""
    found = api.get(f"/api/v1/nodes/{name}")
    conditions = found.get("status", {}).get("conditions", [])
    taints = found["spec"].get("taints", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) and not any(
        taint["key"] == "node.kubernetes.io/not-ready" for taint in taints
    )
