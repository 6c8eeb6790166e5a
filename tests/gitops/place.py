"""A cluster with what the samples need, and what the audit log says that somebody wrote into it."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from modelfleet.api import names
from modelfleet_local import Cluster, fleet, kwok
from modelfleet_local.paths import REPOSITORY
from modelfleet_local.waiting import wait_until

SAMPLES = REPOSITORY / "deploy" / "samples"
CLAIMS = ("weights", "vllm-cpu")
CPU_NODE = kwok.Shape(
    labels={"modelfleet.dev/accelerator": "cpu", "example.com/pool": "models"},
    allocatable={"cpu": "96", "memory": "1Ti", "pods": "110", "modelfleet.dev/cpu-slot": "16"},
)


def samples(*, classes: Sequence[str]) -> dict[str, str]:
    """The samples by file name: all ModelDeployments, and the AcceleratorClasses named."""
    files = {path.name: path.read_text() for path in sorted(SAMPLES.glob("*.yaml"))}
    wanted = {f"acceleratorclass-{name}.yaml" for name in classes}
    return {name: text for name, text in files.items() if name.startswith("modeldeployment-") or name in wanted}


def deployments(files: Mapping[str, str]) -> list[str]:
    """The names of the ModelDeployments in the files."""
    objects = [yaml.safe_load(text) for text in files.values()]
    return sorted(item["metadata"]["name"] for item in objects if item["kind"] == names.DEPLOYMENT_KIND)


def furnish(cluster: Cluster, namespace: str) -> None:
    """The namespace, with the claims and what else the samples name."""
    fleet.apply(cluster, fleet.plain_namespace(namespace))
    serving = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "serving"},
        "value": 1,
    }
    fleet.apply(cluster, serving)
    for claim in CLAIMS:
        volume, shared = f"{namespace}-{claim}", {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
        size = {"storage": "1Gi"}
        bound = {"claimRef": {"namespace": namespace, "name": claim}, "hostPath": {"path": os.devnull}}
        fleet.apply(
            cluster,
            _object("PersistentVolume", {"name": volume}, {**shared, **bound, "capacity": size}),
            _object(
                "PersistentVolumeClaim",
                {"name": claim, "namespace": namespace},
                {**shared, "volumeName": volume, "resources": {"requests": size}},
            ),
        )


def _object(kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}


def wait_for_crds(cluster: Cluster) -> None:
    """Until all CRDs are served. One without any conditions yet makes kubectl's wait fail at once."""
    wait = ("wait", "--for=condition=Established", "crd", "--all", "--timeout=10s")
    wait_until("the CRDs", lambda: cluster.kubectl(*wait).returncode == 0, timeout_s=60)


def read(cluster: Cluster, *args: str) -> dict[str, Any]:
    """What `kubectl get ... -o json` gives."""
    done = cluster.kubectl("get", *args, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def writes_to_ours(audit_log: Path, agent: str, since: int) -> list[str]:
    """What a program, known by how its user agent begins, wrote to objects of our kinds since that byte of the log;
    what it only tried (dry run) is left out."""
    found = []
    for line in audit_log.read_bytes()[since:].splitlines(keepends=True):
        event = json.loads(line) if line.endswith(b"\n") else {}
        at = event.get("objectRef", {})
        if at.get("apiGroup") != names.GROUP or event["verb"] in ("get", "list", "watch"):
            continue
        if event.get("userAgent", "").startswith(agent) and "dryRun" not in parse_qs(
            urlsplit(event["requestURI"]).query
        ):
            found.append(f"{event['verb']} {at['resource']} {at.get('namespace', '')}/{at.get('name', '')}")
    return found
