"""A user's hands in one namespace of a cluster."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from modelfleet.api import names
from modelfleet_local import Cluster
from modelfleet_local.api import Api, ApiError
from modelfleet_local.waiting import wait_until

GROUP = f"/apis/{names.API_VERSION}"
WAIT_S = 60.0


_KWOK_CLASS = {
    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    "resourceName": "nvidia.com/gpu",
    "device": "Cuda",
    "acceleratorsPerNode": 8,
}


@dataclass
class Fleet:
    """A user's hands in one namespace: a class of GPU nodes, a claim with models, ModelDeployments."""

    cluster: Cluster
    namespace: str
    class_name: str
    api: Api = field(init=False)

    def __post_init__(self) -> None:
        self.api = self.cluster.api

    def path(self, plural: str, name: str = "") -> str:
        """The URL path of a kind in the namespace."""
        root = {
            names.DEPLOYMENT_PLURAL: GROUP,
            names.PROFILE_PLURAL: GROUP,
            "controllerrevisions": "/apis/apps/v1",
            "events": "/apis/events.k8s.io/v1",
            "jobs": "/apis/batch/v1",
            "poddisruptionbudgets": "/apis/policy/v1",
            "networkpolicies": "/apis/networking.k8s.io/v1",
            "endpointslices": "/apis/discovery.k8s.io/v1",
        }
        return f"{root.get(plural, '/api/v1')}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def get(self, plural: str, name: str) -> dict[str, Any] | None:
        """An object, or None."""
        try:
            return dict(self.api.get(self.path(plural, name)))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def children(self, plural: str, deployment: str = "chat") -> list[dict[str, Any]]:
        """The children of a deployment, by label."""
        selector = f"?labelSelector={names.DEPLOYMENT_LABEL}%3D{deployment}"
        return sorted(
            self.api.get(self.path(plural) + selector)["items"], key=lambda item: str(item["metadata"]["name"])
        )

    def child_names(self, plural: str, deployment: str = "chat") -> list[str]:
        """The names of `children`."""
        return [item["metadata"]["name"] for item in self.children(plural, deployment)]

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """kubectl in the namespace; it must succeed."""
        done = self.cluster.kubectl(f"--namespace={self.namespace}", *args, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, manifest: dict[str, Any]) -> None:
        """As a user applies."""
        self.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(manifest))

    def create_claim(self) -> None:
        """A bound claim `models`, with nothing on it."""
        volume, shared = f"models-{self.namespace}", {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
        bound = {"claimRef": {"namespace": self.namespace, "name": "models"}, "capacity": {"storage": "1Gi"}}
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume},
                "spec": {**shared, **bound, "hostPath": {"path": os.devnull}},
            }
        )
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "models", "namespace": self.namespace},
                "spec": {**shared, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}},
            }
        )

    def create_class(self, **spec: Any) -> None:
        """The AcceleratorClass of the kwok nodes; `spec` replaces its fields, None takes one away."""
        manifest = {
            "apiVersion": names.API_VERSION,
            "kind": names.CLASS_KIND,
            "metadata": {"name": self.class_name},
            "spec": {name: value for name, value in (_KWOK_CLASS | spec).items() if value is not None},
        }
        self.apply(manifest)

    def deployment(self, name: str = "chat", **spec: Any) -> dict[str, Any]:
        """The manifest of a ModelDeployment with one GPU a replica; `spec` replaces its fields."""
        return {
            "apiVersion": names.API_VERSION,
            "kind": names.DEPLOYMENT_KIND,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "model": {"source": "pvc://models/chat"},
                "objectives": [
                    {
                        "name": "interactive",
                        "ttft": "2s",
                        "tpot": "200ms",
                        "load": {"requestsPerSecond": 1},
                        "lengths": {"inputTokens": {"p50": 50, "p95": 200}, "outputTokens": {"p50": 50, "p95": 200}},
                    }
                ],
                "accelerators": {"classes": [self.class_name]},
                "scaling": {"minReplicas": 1, "maxReplicas": 4},
            }
            | spec,
        }

    def condition(self, kind: str, name: str = "chat") -> tuple[str, str, str]:
        """Status, reason and message of a condition; empty strings while it is not there."""
        stored = self.get(names.DEPLOYMENT_PLURAL, name) or {}
        found = [c for c in stored.get("status", {}).get("conditions", ()) if c["type"] == kind]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else ("", "", "")

    def wait_condition(self, kind: str, status: str, reason: str, name: str = "chat") -> str:
        """Until the condition is so; the message that it had then."""
        message = ""

        def there() -> bool:
            nonlocal message
            *state, message = self.condition(kind, name)
            return state == [status, reason]

        self.wait(f"{kind}={status}/{reason}", there)
        return message

    def wait(self, what: str, done: Callable[[], bool]) -> None:
        """Until `done`, or the test fails and shows the object."""
        try:
            wait_until(what, done, timeout_s=WAIT_S)
        except Exception as error:
            shown = self.get(names.DEPLOYMENT_PLURAL, "chat")
            raise AssertionError(f"{error}; {json.dumps(shown and shown.get('status'), indent=1)}") from error

    def settled(self, name: str = "chat") -> None:
        """Until the operator has seen its spec, it is ready and nothing moves, all in one status."""
        self.wait(f"a settled {name}", lambda: self._is_settled(name))

    def _is_settled(self, name: str) -> bool:
        stored = self.get(names.DEPLOYMENT_PLURAL, name) or {"metadata": {"generation": 0}}
        status = stored.get("status", {})
        said = {each["type"]: each["reason"] for each in status.get("conditions", ())}
        seen = status.get("observedGeneration") == stored["metadata"]["generation"]
        return seen and (said.get("Ready"), said.get("Progressing")) == ("Serving", "Settled")
