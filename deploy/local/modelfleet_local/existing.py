"""A cluster that is not ours, known by its kubeconfig: looked at before anything is done, and left as it was."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet_local import fleet
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.images import Image, build_images
from modelfleet_local.paths import REPOSITORY
from modelfleet_local.progress import Say, silent
from modelfleet_local.target import Target

OLDEST = (1, 34)  # as in the chart's kubeVersion
NODE_LABEL, NODE_RESOURCE = "modelfleet.dev/accelerator=cpu", "modelfleet.dev/cpu-slot"
_CLIENT = "client"
_READY = "120s"
_NEEDED = (("create", "namespaces"), ("create", "clusterroles"), ("create", "customresourcedefinitions"))


@dataclass(frozen=True)
class ImageSource:
    """Where the nodes have the two images from: references that they can pull, or archives that somebody loaded."""

    operator: str = ""
    worker: str = ""
    loaded: bool = False

    def images(self, say: Say = silent) -> Mapping[str, Image]:
        """The images `operator` and `worker`. Raises LocalClusterError that says what can be given."""
        if self.operator and self.worker and not self.loaded:
            return {name: Image(getattr(self, name), Path()) for name in ("operator", "worker")}
        built = build_images(say=say)
        if self.loaded and not (self.operator or self.worker):
            return built
        archives = " and ".join(f"{image.archive} (as {image.reference})" for image in built.values())
        raise LocalClusterError(
            "the cluster's nodes need the images of the operator and the worker: give --operator-image and"
            f" --worker-image, or load {archives} into every node and give --images-loaded"
        )


class ExistingCluster(Target):
    """A cluster that somebody else started and goes on using. `close` removes what was made here."""

    def __init__(self, kubeconfig: Path, images: Mapping[str, Image], say: Say = silent) -> None:
        """Raises LocalClusterError if there is no such file."""
        if not kubeconfig.is_file():
            raise LocalClusterError(f"there is no kubeconfig {kubeconfig}")
        super().__init__(say)
        self._kubeconfig = kubeconfig.absolute()
        self.images = images
        self._client_namespace = ""

    @property
    def kubeconfig(self) -> Path:
        """As it was given, absolute."""
        return self._kubeconfig

    def require_up(self) -> Path:
        """The kubeconfig."""
        return self.kubeconfig

    def client_argv(self, script: Path, *args: str) -> list[str]:
        """The command line that runs a Python script of ours in a pod of the cluster."""
        if not self._client_namespace:
            self._start_client()
        place = [f"--kubeconfig={self.kubeconfig}", f"--namespace={self._client_namespace}"]
        inside = ["/usr/bin/python3", "-c", script.read_text(), *args]
        return [str(self.binary("kubectl")), *place, "exec", "--stdin", _CLIENT, "--", *inside]

    def check(self, *namespaces: str) -> None:
        """Looks whether modelfleet and the small model can be put there, each into namespaces of its own.

        Raises LocalClusterError: what is in the way, and what would help.
        """
        self._check_version()
        for verb, resource in _NEEDED:
            if self.kubectl("auth", "can-i", verb, resource).returncode:
                raise LocalClusterError(
                    f"the user of {self.kubeconfig} may not {verb} {resource}; use a cluster administrator's"
                )
        self._check_nodes()
        for namespace in namespaces:
            if self.kubectl("get", "namespace", namespace).returncode == 0:
                raise LocalClusterError(
                    f"the cluster has a namespace {namespace} already, and what is in it is not touched: remove it, or"
                    " use another cluster"
                )

    def has_crds(self) -> bool:
        """Whether CRDs of ours are there already; then they are not removed at the end."""
        return self.kubectl("get", "crd", "modeldeployments.modelfleet.dev").returncode == 0

    def remove(self, *namespaces: str, crds: bool) -> None:
        """Removes the release, the namespaces with all in them, their volumes, and the CRDs if asked."""
        for namespace in namespaces:
            self.kubectl("delete", "modeldeployments.modelfleet.dev", "--all", f"--namespace={namespace}")
        try:
            fleet.helm(self, "uninstall", fleet.RELEASE, f"--namespace={fleet.SYSTEM_NAMESPACE}", "--ignore-not-found")
        finally:
            self.close()
            self.kubectl("delete", "namespace", "--ignore-not-found", fleet.SYSTEM_NAMESPACE, *namespaces)
            for namespace in namespaces:
                self.kubectl("delete", "pv", "--ignore-not-found", f"--selector=modelfleet.dev/claimed-in={namespace}")
            if crds:
                self.kubectl("delete", "--ignore-not-found", f"--filename={REPOSITORY / 'crds'}")

    def close(self) -> None:
        """Removes the pod that asks, if there is one."""
        if self._client_namespace:
            self.kubectl("delete", "namespace", self._client_namespace, "--ignore-not-found")
            self._client_namespace = ""

    def _check_version(self) -> None:
        done = self.kubectl("version", "-o", "json")
        if done.returncode:
            raise LocalClusterError(f"the cluster of {self.kubeconfig} cannot be used: {done.stderr.strip()}")
        version: dict[str, Any] = json.loads(done.stdout)["serverVersion"]
        found = (int(version["major"]), int(version["minor"].rstrip("+")))
        if found < OLDEST:
            raise LocalClusterError(
                f"the cluster is Kubernetes {found[0]}.{found[1]}; modelfleet needs {OLDEST[0]}.{OLDEST[1]} or newer"
            )

    def _check_nodes(self) -> None:
        done = self.kubectl("get", "nodes", f"--selector={NODE_LABEL}", "-o", "json")
        if done.returncode:
            raise LocalClusterError(done.stderr.strip())
        nodes = json.loads(done.stdout)["items"]
        if not any(int(node["status"].get("allocatable", {}).get(NODE_RESOURCE, 0)) for node in nodes):
            patch = json.dumps({"status": {"capacity": {NODE_RESOURCE: "2"}}})
            raise LocalClusterError(
                f"no node has the label {NODE_LABEL} and offers {NODE_RESOURCE}, for the small model on the CPU: choose"
                f" a node with this machine's folders, `kubectl label node NODE {NODE_LABEL}` and `kubectl patch node"
                f" NODE --subresource=status --type=merge --patch '{patch}'`"
            )

    def _start_client(self) -> None:
        namespace = f"modelfleet-client-{uuid.uuid4().hex[:8]}"
        fleet.apply(self, fleet.model_namespace(namespace), _client_pod(namespace, self.images["worker"].reference))
        self._client_namespace = namespace
        ready = ("wait", "--for=condition=Ready", f"pod/{_CLIENT}", f"--namespace={namespace}", f"--timeout={_READY}")
        if self.kubectl(*ready).returncode:
            events = self.kubectl("get", "events", f"--namespace={namespace}", "-o", "custom-columns=M:.message")
            self.close()
            raise LocalClusterError(f"a pod of the worker's image does not start there: {events.stdout.strip()}")


def _client_pod(namespace: str, image: str) -> dict[str, Any]:
    """A pod that waits to be asked to run something."""
    container = {
        "name": _CLIENT,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/python3", "-c", "import signal; signal.sigwait({signal.SIGTERM})"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _CLIENT, "namespace": namespace},
        "spec": {
            "containers": [container],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
        },
    }
