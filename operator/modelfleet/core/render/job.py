"""The Job that reads what a model is made of, where its weights are. Pure.

Restricted pod security, no service-account token, the claim read-only. It ends with its report in the termination
message of its only container, and is deleted when that was read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelfleet.api import names
from modelfleet.core.plan import Weights, mounted
from modelfleet.core.render.metadata import Owner, metadata
from modelfleet.core.render.security import CONTAINER_SECURITY, POD_SECURITY, PROCESSES
from modelfleet.core.render.weights import node_folder, secret_source, weights_volume

_DEADLINE_S = 3600  # the worker gives up by itself much earlier; this is for a volume that hangs
_RETRIES = 2


@dataclass(frozen=True, kw_only=True)
class Errand:
    """Which model is read, by which image, and where the pod may run. `beside` are labels of nodes that are preferred:
    those that will serve the model have its volume near and need the image anyway.

    `source` names what the report is about; `sources` are addresses that the pod asks itself, the model's first, each
    for its revision. `claim` and `path`, or `folder` of the node, are where the model is otherwise."""

    source: str
    sources: tuple[str, ...] = ()
    endpoint: str = ""
    secret: str = ""
    options: tuple[str, ...] = ()
    folder: Weights | None = None
    claim: str
    path: str
    image: str
    image_pull_policy: str
    beside: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]
    priority_class_name: str
    image_pull_secrets: tuple[str, ...]

    @property
    def model_path(self) -> str:
        """Where the model's folder is in the pod; empty where it is at an address."""
        if self.folder is not None:
            return names.NODE_MOUNT
        return mounted(self.claim, self.path) if self.claim else ""


def inspect_job(owner: Owner, errand: Errand) -> dict[str, Any]:
    """The Job. An evicted pod is replaced; one that ended with an error is not, because its words say what to mend."""
    name = names.inspect_job(owner.name, errand.source, errand.image)
    labels = {names.ROLE_LABEL: "inspect"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(owner, name, labels),
        "spec": {
            "backoffLimit": _RETRIES,
            "activeDeadlineSeconds": _DEADLINE_S,
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": names.WORKER_CONTAINER, "operator": "NotIn", "values": [0]},
                    },
                ]
            },
            "template": {
                "metadata": {"labels": metadata(owner, name, labels)["labels"]},
                "spec": _pod_spec(errand),
            },
        },
    }


def _pod_spec(errand: Errand) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        **PROCESSES,
        "securityContext": dict(POD_SECURITY),
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_near(errand.beside)]}},
        "tolerations": [dict(each) for each in errand.tolerations],
        "containers": [_container(errand)],
        "volumes": [*_model_volume(errand), {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}],
    }
    if errand.node_selector:
        spec["nodeSelector"] = dict(errand.node_selector)
    if errand.priority_class_name:
        spec["priorityClassName"] = errand.priority_class_name
    if errand.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret} for secret in errand.image_pull_secrets]
    return spec


def _near(labels: Mapping[str, str]) -> dict[str, Any]:
    wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(labels.items())]
    return {"weight": 100, "preference": {"matchExpressions": wanted}}


def _container(errand: Errand) -> dict[str, Any]:
    return {
        "name": names.WORKER_CONTAINER,
        "image": errand.image,
        "imagePullPolicy": errand.image_pull_policy,
        "command": _command(errand),
        **secret_source(errand.secret if errand.sources else ""),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": dict(CONTAINER_SECURITY),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [*_model_mount(errand), {"name": "tmp", "mountPath": "/tmp"}],
    }


def _command(errand: Errand) -> list[str]:
    """The model's folder, or the addresses; folders among variants have no revision."""
    where = [errand.model_path] if errand.model_path else []
    endpoint = [f"--endpoint={errand.endpoint}"] if errand.endpoint else []
    return ["modelfleet-worker", "inspect", *where, *endpoint, *errand.options, *errand.sources]


def _model_volume(errand: Errand) -> list[dict[str, Any]]:
    if errand.folder is not None:
        return [weights_volume(errand.folder)]
    claim = {"claimName": errand.claim, "readOnly": True}
    return [{"name": "model", "persistentVolumeClaim": claim}] if errand.claim else []


def _model_mount(errand: Errand) -> list[dict[str, Any]]:
    if errand.folder is not None:
        return [node_folder(errand.folder)]
    path = f"{names.MODELS_MOUNT}/{errand.claim}"
    return [{"name": "model", "mountPath": path, "readOnly": True}] if errand.claim else []
