"""modelfleet on the local cluster, as a user installs it: images, volumes, the Helm release, a question to a model."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelfleet_local.cluster import Cluster
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.images import Image, build_images
from modelfleet_local.paths import REPOSITORY, cache_dir
from modelfleet_local.progress import Say, silent
from modelfleet_local.target import Target

CHART = REPOSITORY / "charts" / "modelfleet"
SYSTEM_NAMESPACE = "modelfleet-system"
RELEASE = "modelfleet"
MODEL_CLAIM = "models"
ENGINE_CLAIM = "engine"
_WAIT = "180s"


def load_images(cluster: Cluster, say: Say = silent) -> Mapping[str, Image]:
    """Builds what is missing and loads the images `operator` and `worker` into the cluster's node."""
    images = build_images(say=say)
    for image in images.values():
        cluster.import_image(image.archive)
    return images


def install_operator(cluster: Target, images: Mapping[str, Image], values: Mapping[str, str] | None = None) -> None:
    """Installs the chart, or upgrades to it, with the class `cpu` of this machine; waits until the operator is ready.

    `values` are further Helm values by their dotted names. Raises LocalClusterError with Helm's words.
    """
    chosen = {
        "operator.image": images["operator"].reference,
        "worker.image": images["worker"].reference,
        "acceleratorClasses.cpu.enabled": "true",
        **(values or {}),
    }
    pairs = [part for key, value in chosen.items() for part in ("--set", f"{key}={value}")]
    release = ("upgrade", "--install", RELEASE, str(CHART), "--namespace", SYSTEM_NAMESPACE, "--create-namespace")
    try:
        helm(cluster, *release, "--wait", "--timeout", _WAIT, *pairs)
    except LocalClusterError as error:
        raise LocalClusterError("; ".join([str(error), *_waiting(cluster, SYSTEM_NAMESPACE)])) from error


def _waiting(cluster: Target, namespace: str) -> list[str]:
    """What the containers of a namespace's pods wait for, a sentence each: Helm only says that time is over."""
    done = cluster.kubectl("get", "pods", "-n", namespace, "-o", "json")
    if done.returncode:
        return []
    said = set()
    for pod in json.loads(done.stdout)["items"]:
        for container in pod["status"].get("containerStatuses", ()):
            waiting = container["state"].get("waiting")
            if waiting:
                said.add(f"{waiting.get('reason')} of {container['image']}: {waiting.get('message', '')}".rstrip(": "))
    return sorted(said)


def helm(cluster: Target, *args: str) -> str:
    """Runs helm as administrator and gives its output. Raises LocalClusterError with what helm said."""
    home = cache_dir() / "helm"
    folders = {f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    done = subprocess.run(
        [str(cluster.binary("helm")), *args],
        env={**os.environ, **folders, "KUBECONFIG": str(cluster.require_up())},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LocalClusterError(f"helm {args[0]}: {done.stderr.strip()}")
    return done.stdout


def apply(cluster: Target, *objects: Mapping[str, Any] | Path) -> None:
    """`kubectl apply` of objects or files. Raises LocalClusterError with what the API server said."""
    for item in objects:
        text = item.read_text() if isinstance(item, Path) else json.dumps(item)
        done = cluster.kubectl("apply", "-f", "-", stdin=text)
        if done.returncode:
            raise LocalClusterError(done.stderr.strip())


def model_namespace(name: str) -> dict[str, Any]:
    """A namespace in which Kubernetes itself refuses every pod that is not restricted."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def plain_namespace(name: str) -> dict[str, Any]:
    """A namespace without a policy."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def claimed_folder(namespace: str, claim: str, folder: Path) -> dict[str, Any]:
    """A claim of the name `claim` that brings a folder of this machine, read-only, to pods on its real nodes."""
    volume = f"{namespace}-{claim}"
    shared = {"accessModes": ["ReadOnlyMany"], "storageClassName": "", "volumeMode": "Filesystem"}
    on_this_machine = {"key": "modelfleet.dev/accelerator", "operator": "In", "values": ["cpu"]}
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume, "labels": {"modelfleet.dev/claimed-in": namespace}},
                "spec": {
                    **shared,
                    "capacity": {"storage": "10Gi"},
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"namespace": namespace, "name": claim},
                    "local": {"path": str(folder)},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_this_machine]}]}},
                },
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": claim, "namespace": namespace},
                "spec": {**shared, "resources": {"requests": {"storage": "10Gi"}}, "volumeName": volume},
            },
        ],
    }


def service_address(cluster: Target, namespace: str, name: str) -> str:
    """`IP:PORT` of a Service, good inside the cluster's network. Raises LocalClusterError if there is none."""
    found = cluster.kubectl("get", "service", name, "-n", namespace, "-o", "json")
    if found.returncode:
        raise LocalClusterError(found.stderr.strip())
    spec = json.loads(found.stdout)["spec"]
    return f"{spec['clusterIP']}:{spec['ports'][0]['port']}"


def ask_argv(cluster: Target, address: str, model: str, **request: Any) -> list[str]:
    """The command line that sends one chat completion from inside the cluster's network and prints the answer's text;
    `request` are further fields of the OpenAI request. It exits 1 with one line if no answer comes."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 32, **request}
    script = Path(__file__).with_name("ask.py")
    return cluster.client_argv(script, f"http://{address}/v1/chat/completions", json.dumps(body))


def ask(cluster: Target, address: str, model: str, **request: Any) -> str:
    """The text of the model's answer. Raises LocalClusterError if there is none."""
    done = subprocess.run(ask_argv(cluster, address, model, **request), capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalClusterError(f"the model gave no answer: {(done.stderr or done.stdout).strip()}")
    return done.stdout
