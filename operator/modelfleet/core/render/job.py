"""The Job that reads what a model is made of, where its weights are. Pure.

Restricted pod security, no service-account token, the claim read-only. It ends with its report in the termination
message of its only container, and is deleted when that was read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelfleet.api import names
from modelfleet.core.plan import mounted
from modelfleet.core.render.metadata import Owner, metadata
from modelfleet.core.render.pod import CONTAINER_SECURITY, POD_SECURITY

_DEADLINE_S = 3600  # the worker gives up by itself much earlier; this is for a volume that hangs
_RETRIES = 2


@dataclass(frozen=True, kw_only=True)
class Errand:
    """Which model is read, by which image, and where the pod may run. `beside` are labels of nodes that are preferred:
    those that will serve the model have its volume near and need the image anyway."""

    source: str
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
        """Where the model's folder is in the pod."""
        return mounted(self.claim, self.path)


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
        "securityContext": dict(POD_SECURITY),
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_near(errand.beside)]}},
        "tolerations": [dict(each) for each in errand.tolerations],
        "containers": [_container(errand)],
        "volumes": [
            {"name": "model", "persistentVolumeClaim": {"claimName": errand.claim, "readOnly": True}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}},
        ],
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
        "command": ["modelfleet-worker", "inspect", errand.model_path],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": dict(CONTAINER_SECURITY),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "model", "mountPath": f"{names.MODELS_MOUNT}/{errand.claim}", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
