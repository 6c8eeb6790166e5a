"""Argo CD's application controller and repository server on a cluster, with a Git repository on this machine."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from background import free_port, running
from judges import GITOPS, SCRIPTS
from place import read, wait_for_crds

from modelfleet_local import Cluster, fleet
from modelfleet_local.binaries import Binaries
from modelfleet_local.paths import cache_dir
from modelfleet_local.progress import silent

SYSTEM = "argocd"
AGENT = "argocd-application-controller"
_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "test" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "test@example.com" for who in ("AUTHOR", "COMMITTER")},
}


@dataclass
class Argo:
    """An Application `models` and its Git repository."""

    cluster: Cluster
    repository: Path
    log: Path

    def commit(self, files: Mapping[str, str]) -> None:
        """A commit with exactly these files under models/, which the controller is told of."""
        folder = self.repository / "models"
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for name, text in files.items():
            (folder / name).write_text(text)
        git(self.repository, "add", "--all")
        git(self.repository, "commit", "--quiet", "--message=samples")
        refresh = "argocd.argoproj.io/refresh=hard"
        self.cluster.kubectl("annotate", "application", "models", f"--namespace={SYSTEM}", refresh, "--overwrite")

    def state(self) -> tuple[str, str]:
        """Synced or OutOfSync, and Healthy, Progressing or Degraded."""
        status = self._status()
        return status.get("sync", {}).get("status", ""), status.get("health", {}).get("status", "")

    def is_applied(self) -> bool:
        """The last commit is applied, and all in it is healthy."""
        head = git(self.repository, "rev-parse", "HEAD").strip()
        return self.state() == ("Synced", "Healthy") and self._status()["sync"]["revision"] == head

    def health(self, kind: str, name: str) -> tuple[str, str]:
        """The health and its message that Argo CD shows for one object."""
        for item in self._status().get("resources", ()):
            if (item["kind"], item["name"]) == (kind, name):
                found = item.get("health", {})
                return found.get("status", ""), found.get("message", "")
        return "", ""

    def syncs(self) -> int:
        """How often it has applied the repository."""
        return len(self._status().get("history", ()))

    def looks(self) -> int:
        """How often the controller has compared the cluster with the repository."""
        return self.log.read_text().count("Reconciliation completed")

    def _status(self) -> dict[str, Any]:
        found: dict[str, Any] = read(self.cluster, "application", "models", f"--namespace={SYSTEM}").get("status", {})
        return found


def git(repository: Path, *args: str) -> str:
    """Git in the repository; it must succeed."""
    env = {**os.environ, **_GIT}
    done = subprocess.run(["git", "-C", repository, *args], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def application(namespace: str, repository: Path) -> dict[str, Any]:
    """deploy/gitops/argocd/application.yaml for a namespace and a repository."""
    found: dict[str, Any] = yaml.safe_load((GITOPS / "argocd" / "application.yaml").read_text())
    found["spec"]["source"]["repoURL"] = f"file://{repository}"
    found["spec"]["destination"]["namespace"] = namespace
    return found


def _settings() -> list[dict[str, Any]]:
    """What an installation of Argo CD has: its ConfigMaps and secret, with our health checks, and a project."""
    checks = {
        f"resource.customizations.health.modelfleet.dev_{folder.name}": (folder / "health.lua").read_text()
        for folder in SCRIPTS.iterdir()
    }
    anything = [{"group": "*", "kind": "*"}]
    project = {
        "sourceRepos": ["*"],
        "destinations": [{"server": "*", "namespace": "*"}],
        "clusterResourceWhitelist": anything,
    }
    return [
        _part("v1", "ConfigMap", "argocd-cm", data=checks),
        _part("v1", "ConfigMap", "argocd-rbac-cm", data={}),
        _part("v1", "ConfigMap", "argocd-tls-certs-cm", data={}),
        _part("v1", "ConfigMap", "argocd-ssh-known-hosts-cm", data={}),
        _part("v1", "ConfigMap", "argocd-gpg-keys-cm", data={}),
        _part("v1", "Secret", "argocd-secret", stringData={"server.secretkey": "only-for-this-test"}),
        _part("argoproj.io/v1alpha1", "AppProject", "default", spec=project),
    ]


def _part(version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "argocd"}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": SYSTEM, "labels": labels},
        **content,
    }


@contextmanager
def argo(cluster: Cluster, namespace: str, folder: Path) -> Iterator[Argo]:
    """Argo CD that keeps in `namespace` what is committed."""
    binaries = Binaries(cache_dir())
    module = binaries.module_folder("argocd", "github.com/argoproj/argo-cd/v3", silent)
    for path in sorted((module / "manifests" / "crds").glob("*-crd.yaml")):
        done = cluster.kubectl("create", "--filename", str(path))
        assert done.returncode == 0, done.stderr
    wait_for_crds(cluster)
    fleet.apply(cluster, fleet.plain_namespace(SYSTEM), *_settings())
    repository = folder / "repository"
    repository.mkdir()
    git(repository, "init", "--quiet", "--initial-branch=main")
    git(repository, "commit", "--quiet", "--allow-empty", "--message=empty")
    _lend_scripts(module / "hack", folder / "bin")
    with ExitStack() as stack:
        log = _start(stack, binaries.path("argocd"), binaries.path("miniredis"), cluster.kubeconfig, folder)
        fleet.apply(cluster, application(namespace, repository))
        yield Argo(cluster, repository, log)


def _lend_scripts(source: Path, folder: Path) -> None:
    """What Argo CD's image has on its PATH beside the program: it calls them for every commit."""
    folder.mkdir()
    for name in ("git-verify-wrapper.sh", "gpg-wrapper.sh"):
        (folder / name).write_bytes((source / name).read_bytes())
        (folder / name).chmod(0o755)


def _start(stack: ExitStack, program: Path, redis: Path, kubeconfig: Path, folder: Path) -> Path:
    """Starts the three programs; the application controller's log."""
    cache, manifests, metrics = (free_port() for _ in range(3))
    env = {"ARGOCD_FAKE_IN_CLUSTER": "true", "ARGOCD_GPG_ENABLED": "false", "TMPDIR": str(folder), "HOME": str(folder)}
    env["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
    env["KUBECONFIG"] = str(kubeconfig)  # what it takes for the cluster that it runs in
    for kind in ("TLS", "SSH", "GPG"):
        (folder / kind).mkdir()
        env[f"ARGOCD_{kind}_DATA_PATH"] = str(folder / kind)
    common = [f"--kubeconfig={kubeconfig}", f"--namespace={SYSTEM}", f"--redis=127.0.0.1:{cache}"]
    stack.enter_context(running("redis", [redis, f"127.0.0.1:{cache}"], folder))
    server = ["--disable-tls", "--client-ca-path=", "--address=127.0.0.1", f"--port={manifests}"]
    stack.enter_context(
        running(
            "argocd-repo-server",
            [program, common[-1], *server, "--metrics-address=127.0.0.1", f"--metrics-port={free_port()}"],
            folder,
            env | {"ARGOCD_BINARY_NAME": "argocd-repo-server"},
        )
    )
    controller = [f"--repo-server=127.0.0.1:{manifests}", "--repo-server-plaintext", f"--metrics-port={metrics}"]
    return stack.enter_context(
        running(
            "argocd-application-controller",
            [program, *common, *controller, "--app-resync=10", "--app-resync-jitter=0", "--persist-resource-health"],
            folder,
            env | {"ARGOCD_BINARY_NAME": "argocd-application-controller"},
        )
    )


def told(argo_cd: Argo) -> str:
    """What a person would look at."""
    return json.dumps(argo_cd._status(), indent=1)[:6000]
