"""A Helm release of modelfleet in a namespace of its own, and the version before this one."""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet_local import Cluster, fleet
from modelfleet_local.images import Image, build_images
from modelfleet_local.paths import REPOSITORY
from modelfleet_local.waiting import wait_until

_PREVIOUS = Path(__file__).parent / "previous" / "sources.tar.xz"
_TODAYS = ("pyproject.toml", "uv.lock", "README.md", "LICENSE")
READY_S = 120.0


@dataclass(frozen=True)
class Version:
    """A chart and the images that belong to it."""

    chart: Path
    images: Mapping[str, Image]

    @property
    def settings(self) -> list[str]:
        """What `make demo` sets, with short drains."""
        values = {
            "operator.image": self.images["operator"].reference,
            "worker.image": self.images["worker"].reference,
            "acceleratorClasses.cpu.enabled": "true",
            "worker.propagationSeconds": "1",
            "worker.drainSeconds": "30",
        }
        return [f"--set={key}={value}" for key, value in values.items()]


def previous_version(folder: Path) -> Version:
    """The version before this one, built from its sources unpacked in `folder`."""
    with tarfile.open(_PREVIOUS) as archive:
        archive.extractall(folder, filter="data")
    for name in _TODAYS:
        shutil.copy(REPOSITORY / name, folder)
    return Version(folder / "charts" / "modelfleet", build_images(repository=folder))


@dataclass(frozen=True)
class Release:
    """A release `name` in `namespace`, there or not."""

    cluster: Cluster
    name: str
    namespace: str

    def helm(self, *args: str) -> str:
        """Helm for this release; it must succeed."""
        return fleet.helm(self.cluster, *args, f"--namespace={self.namespace}")

    def install(self, version: Version, *settings: str) -> str:
        """`helm install --wait`; what Helm prints."""
        chart = ("install", self.name, str(version.chart), "--create-namespace", "--wait", "--timeout=180s")
        return self.helm(*chart, *version.settings, *settings)

    def upgrade(self, version: Version, *settings: str) -> str:
        """`helm upgrade --wait`; what Helm prints."""
        chart = ("upgrade", self.name, str(version.chart), "--wait", "--timeout=240s")
        return self.helm(*chart, *version.settings, *settings)

    def kubectl(self, *args: str) -> subprocess.CompletedProcess[str]:
        """kubectl in the release's namespace."""
        return self.cluster.kubectl(f"--namespace={self.namespace}", *args)

    def pods(self) -> list[dict[str, Any]]:
        """The operator's pods."""
        labels = f"-l=app.kubernetes.io/name=modelfleet,app.kubernetes.io/instance={self.name}"
        done = self.kubectl("get", "pods", labels, "-o", "json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["items"]
        return found

    def leader(self) -> str:
        """The name of the pod that leads; "" if none does."""
        done = self.kubectl("get", "lease", self.name, "-o", "jsonpath={.spec.holderIdentity}", "--ignore-not-found")
        assert done.returncode == 0, done.stderr
        return done.stdout.rpartition("_")[0]

    def image_of_leader(self) -> str:
        """The image of the pod that leads; "" if none does or it is gone."""
        images = {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in self.pods()}
        return images.get(self.leader(), "")

    def wait_leads(self, version: Version) -> None:
        """Until an operator of this version leads."""
        reference = version.images["operator"].reference
        wait_until(f"a leader of {reference}", lambda: self.image_of_leader() == reference, timeout_s=READY_S)

    def logs(self) -> list[str]:
        """The operator's log lines, of all pods."""
        lines = []
        for pod in self.pods():
            lines += self.kubectl("logs", pod["metadata"]["name"], "--tail=-1").stdout.splitlines()
        return lines
