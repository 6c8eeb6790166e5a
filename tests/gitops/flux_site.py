"""Flux's kustomize-controller on a cluster, with a source whose artifact is written in source-controller's place."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from background import running, served
from judges import KUSTOMIZATION
from place import read, wait_for_crds

from modelfleet_local import Cluster, fleet
from modelfleet_local.binaries import Binaries
from modelfleet_local.paths import cache_dir
from modelfleet_local.progress import silent

SYSTEM = "flux-system"
AGENT = "kustomize-controller"
_SOURCES = {
    "buckets": "Bucket",
    "externalartifacts": "ExternalArtifact",
    "gitrepositories": "GitRepository",
    "ocirepositories": "OCIRepository",
}


@dataclass
class Flux:
    """A Kustomization `models` and its source."""

    cluster: Cluster
    folder: Path
    address: str
    log: Path
    commits: int = 0

    def commit(self, files: Mapping[str, str]) -> None:
        """A new artifact with these files under models/, as source-controller announces one."""
        self.commits += 1
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            for name, text in files.items():
                entry = tarfile.TarInfo(f"models/{name}")
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))
        (self.folder / f"{self.commits}.tar.gz").write_bytes(content.getvalue())
        artifact = {
            "url": f"{self.address}/{self.commits}.tar.gz",
            "path": f"{self.commits}.tar.gz",
            "revision": f"main@sha1:{self.commits:040x}",
            "digest": f"sha256:{hashlib.sha256(content.getvalue()).hexdigest()}",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
        }
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": "stored",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        patch = {"status": {"artifact": artifact, "conditions": [ready], "observedGeneration": 1}}
        done = self.cluster.kubectl(
            *("patch", "gitrepository", "models", f"--namespace={SYSTEM}", "--subresource=status", "--type=merge"),
            f"--patch={json.dumps(patch)}",
        )
        assert done.returncode == 0, done.stderr

    def ready(self) -> tuple[str, str, str]:
        """Status and message of the Kustomization's Ready, and the revision it speaks of."""
        status = read(self.cluster, "kustomization", "models", f"--namespace={SYSTEM}").get("status", {})
        conditions = {each["type"]: each for each in status.get("conditions", ())}
        found = conditions.get("Ready", {"status": "", "message": ""})
        return found["status"], found["message"], status.get("lastAttemptedRevision", "")

    def is_applied(self) -> bool:
        """The last commit is applied, and all in it is healthy."""
        status, _, revision = self.ready()
        return status == "True" and revision.endswith(f"{self.commits:040x}")

    def looks(self) -> int:
        """How often the controller has applied all that the source holds."""
        return self.log.read_text().count("server-side apply completed")


def kustomization(namespace: str) -> dict[str, Any]:
    """deploy/gitops/flux/kustomization.yaml, for a namespace, and looked at more often."""
    found: dict[str, Any] = yaml.safe_load(KUSTOMIZATION.read_text())
    found["spec"] |= {"targetNamespace": namespace, "interval": "10s", "retryInterval": "10s", "timeout": "3m"}
    return found


def _source_crd(plural: str, kind: str) -> dict[str, Any]:
    """As much of source-controller's CRD as kustomize-controller reads: any spec, any status."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.source.toolkit.fluxcd.io"},
        "spec": {
            "group": "source.toolkit.fluxcd.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


@contextmanager
def flux(cluster: Cluster, namespace: str, folder: Path) -> Iterator[Flux]:
    """Flux that keeps in `namespace` what is committed."""
    binaries = Binaries(cache_dir())
    module = binaries.module_folder("flux", "github.com/fluxcd/kustomize-controller", silent)
    fleet.apply(cluster, *(module / "config/crd/bases").glob("*.yaml"))
    fleet.apply(cluster, *(_source_crd(plural, kind) for plural, kind in _SOURCES.items()))
    wait_for_crds(cluster)
    source = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository"}
    place = {"name": "models", "namespace": SYSTEM}
    fleet.apply(cluster, fleet.plain_namespace(SYSTEM), {**source, "metadata": place, "spec": {"interval": "1m"}})
    fleet.apply(cluster, kustomization(namespace))
    argv = [binaries.path("kustomize-controller"), "--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0"]
    env = {"KUBECONFIG": str(cluster.kubeconfig), "RUNTIME_NAMESPACE": SYSTEM, "TMPDIR": str(folder)}
    artifacts = folder / "artifacts"
    artifacts.mkdir()
    with served(artifacts) as address, running("kustomize-controller", argv, folder, env) as log:
        yield Flux(cluster, artifacts, address, log)
