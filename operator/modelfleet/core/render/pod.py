"""The worker pods of a replica: restricted pod security, fully specified, no service-account token. Pure."""

from dataclasses import dataclass
from math import ceil
from typing import Any

from modelfleet.api import names
from modelfleet.core.plan import Plan
from modelfleet.core.render.group_service import leader_host
from modelfleet.core.render.member import member_env
from modelfleet.core.render.metadata import Owner, metadata
from modelfleet.core.render.security import CONTAINER_SECURITY, POD_SECURITY, PROCESSES
from modelfleet.core.render.weights import add_weights

_STARTUP_PERIOD_S = 2
_STARTUP_SPARE_S = 60  # the worker reports its own start time-out; the kubelet's kill is only for a worker that hangs
_AFTER_DRAIN_S = 30  # the engine's process tree ends after the last request (vLLM takes up to 13 s)
_EVICTION_TOLERANCES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True)
class _Volume:
    name: str
    source: dict[str, Any]
    path: str
    read_only: bool = False

    def mount(self) -> dict[str, Any]:
        read_only = {"readOnly": True} if self.read_only else {}
        return {"name": self.name, "mountPath": self.path, **read_only}


def pod(owner: Owner, revision: str, slot: int, plan: Plan, rank: int = 0) -> dict[str, Any]:
    """The pod of a rank of replica `slot`. Nothing is left for the server to fill in that would matter to a worker."""
    volumes = _volumes(owner, revision, plan)
    spec: dict[str, Any] = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_period_s(plan),
        **PROCESSES,
        "securityContext": dict(POD_SECURITY),
        "tolerations": _tolerations(plan),
        "containers": [_container(plan, volumes)],
        "volumes": [{"name": volume.name, **volume.source} for volume in volumes],
    }
    add_weights(spec, owner.namespace, plan)
    if plan.node_selector:
        spec["nodeSelector"] = dict(plan.node_selector)
    if plan.priority_class_name:
        spec["priorityClassName"] = plan.priority_class_name
    if plan.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret} for secret in plan.image_pull_secrets]
    name = names.pod(owner.name, revision, slot, rank)
    if plan.nodes > 1:
        spec |= {"hostname": name, "subdomain": names.revision(owner.name, revision)}
        worker = spec["containers"][0]
        worker["env"] = member_env(owner, revision, slot, rank, leader_host(owner, revision, slot))
        worker["ports"].append({"name": "group", "containerPort": names.GROUP_PORT, "protocol": "TCP"})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(owner, name, pod_labels(revision, slot, rank)),
        "spec": spec,
    }


def pod_labels(revision: str, slot: int, rank: int = 0, serving: bool = True) -> dict[str, str]:
    """The labels of a pod besides those that every child carries. Only a leader is ever labelled to serve."""
    return {
        names.REVISION_LABEL: revision,
        names.REPLICA_LABEL: str(slot),
        names.RANK_LABEL: str(rank),
        names.ROLE_LABEL: "serve",
        names.SERVING_LABEL: "true" if serving and rank == 0 else "false",
    }


def grace_period_s(plan: Plan) -> int:
    """Seconds from SIGTERM to SIGKILL: the worker's whole drain, then time for the engine's processes to end."""
    return ceil(plan.limits.propagation_s + plan.limits.drain_s) + _AFTER_DRAIN_S


def _container(plan: Plan, volumes: list[_Volume]) -> dict[str, Any]:
    device = {plan.resource_name: str(plan.member_accelerators)}
    host = {"cpu": plan.host_cpu, "memory": plan.host_memory}
    return {
        "name": names.WORKER_CONTAINER,
        "image": plan.image,
        "imagePullPolicy": plan.image_pull_policy,
        "command": ["modelfleet-worker", "serve", "--plan", f"{names.PLAN_MOUNT}/{names.PLAN_KEY}"],
        "ports": [
            {"name": "http", "containerPort": names.HTTP_PORT, "protocol": "TCP"},
            {"name": "status", "containerPort": names.STATUS_PORT, "protocol": "TCP"},
        ],
        "resources": {"requests": {**{k: v for k, v in host.items() if v}, **device}, "limits": device},
        "startupProbe": _probe(
            "/startupz",
            period_s=_STARTUP_PERIOD_S,
            failures=ceil((plan.limits.start_deadline_s + _STARTUP_SPARE_S) / _STARTUP_PERIOD_S),
        ),
        "livenessProbe": _probe("/livez", period_s=10, failures=6),
        "readinessProbe": _probe("/readyz", period_s=2, failures=3),
        "securityContext": dict(CONTAINER_SECURITY),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [volume.mount() for volume in volumes],
    }


def _probe(path: str, *, period_s: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "status", "scheme": "HTTP"},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


def _volumes(owner: Owner, revision: str, plan: Plan) -> list[_Volume]:
    maps: list[tuple[str, dict[str, Any], str]] = [
        ("plan", {"name": names.revision(owner.name, revision)}, names.PLAN_MOUNT)
    ]
    if plan.promise:
        maps.append(("promise", {"name": names.promise(owner.name), "optional": True}, names.PROMISE_MOUNT))
    claims = [("model", plan.claim, f"{names.MODELS_MOUNT}/{plan.claim}")] if plan.weights is None else []
    if plan.installation_claim:
        claims.append(("engine", plan.installation_claim, names.ENGINE_MOUNT))
    return [
        *(
            _Volume(name, {"configMap": {**source, "defaultMode": 0o444}}, path, read_only=True)
            for name, source, path in maps
        ),
        *(
            _Volume(name, {"persistentVolumeClaim": {"claimName": claim, "readOnly": True}}, path, read_only=True)
            for name, claim, path in claims
        ),
        _Volume("tmp", {"emptyDir": {}}, "/tmp"),
        _Volume("run", {"emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}, "/run/modelfleet"),
        _Volume("shm", {"emptyDir": {"medium": "Memory", "sizeLimit": plan.shared_memory}}, "/dev/shm"),
    ]


def _tolerations(plan: Plan) -> list[dict[str, Any]]:
    """The plan's, and the two that the server would add by itself where no other covers them."""
    given = [dict(toleration) for toleration in plan.tolerations]
    covered = {toleration.get("key", "") for toleration in given}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in _EVICTION_TOLERANCES
        if not covered & {"", key}
    ]
    return given + added
