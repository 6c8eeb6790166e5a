"""The number of replicas follows a real load as a real Prometheus tells it; `make e2e-scaling-prometheus`.

One story in order: a step up, five minutes in which Prometheus is away while the load goes on, a second step once it is
back, and back to less. Debian builds its Prometheus without the discovery of Kubernetes pods, so a list of targets
stands in for that alone: it has the labels that discovery gives, and the rules of docs/goodput.md choose from them.
Prints the way of the number.
"""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from scaling_story import GOOD_S, NAME, Watched, deployment, scaled_site
from site_under_test import Site

from modelfleet_local import netns
from modelfleet_local.cluster import Cluster
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.paths import cache_dir
from modelfleet_local.prometheus import require_prometheus
from modelfleet_local.waiting import wait_until

pytestmark = [pytest.mark.thorough]

PORT = 9090
CUT_S = 300.0
_END_S = 30.0
_GUIDE = Path(__file__).parents[2] / "docs" / "goodput.md"


class Targets(threading.Thread):
    """Writes all pods' ports and their labels, as the discovery of role `pod` gives them, each two seconds."""

    def __init__(self, cluster: Cluster, path: Path) -> None:
        super().__init__(daemon=True)
        self._cluster, self._path, self._ends = cluster, path, threading.Event()
        self.write()

    def run(self) -> None:
        """Until `end`."""
        while not self._ends.wait(2.0):
            with suppress(LocalClusterError, OSError):  # the cluster goes before this does
                self.write()

    def end(self) -> None:
        """Returns when nothing is written any more."""
        self._ends.set()
        self.join()

    def write(self) -> None:
        """The pods that there are now."""
        pods = self._cluster.api.get("/api/v1/pods")["items"]
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps([each for pod in pods for each in _targets(pod)]))
        draft.rename(self._path)


def _targets(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    metadata, address = pod["metadata"], pod["status"].get("podIP")
    labels = {"namespace": metadata["namespace"], "pod_name": metadata["name"], "pod_uid": metadata["uid"]}
    for key, value in metadata.get("labels", {}).items():
        sanitized = re.sub(r"[^a-zA-Z0-9_]", "_", key)
        labels |= {f"pod_label_{sanitized}": value, f"pod_labelpresent_{sanitized}": "true"}
    for container in pod["spec"]["containers"] if address else ():
        for port in container.get("ports", ()):
            told = labels | {"pod_container_name": container["name"], "pod_container_port_name": port.get("name", "")}
            meta = {f"__meta_kubernetes_{key}": value for key, value in told.items()}
            yield {"targets": [f"{address}:{port['containerPort']}"], "labels": meta}


class Prometheus:
    """Debian's server in the cluster's network, at the address of the node's bridge, which pods reach."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.log = folder, folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._targets: Targets | None = None

    def start(self, cluster: Cluster) -> None:
        """Starts it, or starts it again with what it has stored; returns when it answers."""
        if self._targets is None:
            self._targets = Targets(cluster, self._folder / "targets.json")
            self._targets.start()
        (self._folder / "prometheus.yaml").write_text(yaml.safe_dump(_configuration(self._folder / "targets.json")))
        argv = [
            *("setpriv", "--pdeathsig", "TERM", str(require_prometheus(cache_dir()))),
            f"--config.file={self._folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={netns.GATEWAY}:{PORT}",
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(cluster.netns_argv(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        process = self._process

        def runs() -> None:
            assert process.poll() is None, f"Prometheus ended:\n{self.log.read_text()}"

        asks = f"from urllib.request import urlopen; urlopen('http://{netns.GATEWAY}:{PORT}/-/ready', timeout=5)"
        ready = (sys.executable, "-c", asks)
        wait_until("Prometheus", lambda: cluster.run_in_netns(ready).returncode == 0, timeout_s=_END_S, check=runs)

    def end(self) -> None:
        """Ends it and the list of its targets."""
        self.stop()
        if self._targets is not None:
            self._targets.end()

    def stop(self) -> None:
        """Ends it; its address answers no more."""
        if self._process is None:
            return
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._process.kill()
        self._process.wait(_END_S)
        self._process = None


def _configuration(targets: Path) -> dict[str, Any]:
    """That of the guide, with a list of targets in place of Kubernetes' discovery."""
    block = re.search(r"```yaml\n(scrape_configs:.*?)```", _GUIDE.read_text(), re.DOTALL)
    assert block, "docs/goodput.md shows how Prometheus finds the workers"
    content: dict[str, Any] = yaml.safe_load(block[1])
    for job in content["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
        job["file_sd_configs"] = [{"files": [str(targets)], "refresh_interval": "1s"}]
    return content


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """The server, ended at the end."""
    server = Prometheus(tmp_path_factory.mktemp("prometheus"))
    try:
        yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def site(prometheus: Prometheus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster whose operator reads Prometheus alone."""
    values = {
        "samples.source": "Prometheus",
        "samples.prometheus.url": f"http://{netns.GATEWAY}:{PORT}",
    }
    folder = Path(tmp_path_factory.mktemp("stand-in"))
    with scaled_site("byprometheus", folder, values, prometheus.start) as made:
        yield made


def told(site: Site, reason: str) -> list[str]:
    """The notes of the events with that reason."""
    return [each["note"] for each in site.read("events.events.k8s.io")["items"] if each["reason"] == reason]


def objectives_met(site: Site) -> tuple[str, str]:
    """Status and reason of the condition."""
    conditions = site.read("mdep", NAME)["status"]["conditions"]
    found = next(each for each in conditions if each["type"] == "ObjectivesMet")
    return found["status"], found["reason"]


def test_the_number_follows_prometheus_is_held_while_it_is_away_and_follows_it_again(
    site: Site, prometheus: Prometheus
) -> None:
    site.apply(deployment(site))
    site.wait_for(NAME, "Progressing", "False", "Settled", timeout_s=300)
    story = Watched(site)
    story.load(0.5)
    time.sleep(45)
    story.load(1.6)
    story.until("a step up is served", 2, 5, 300)
    time.sleep(60)

    held = int(story.look()["to"])
    prometheus.stop()
    cut_s, numbers, met = time.monotonic(), set[int](), set[tuple[str, str]]()
    while time.monotonic() - cut_s < CUT_S:
        numbers.add(int(story.look()["to"]))
        met.add(objectives_met(site))
        time.sleep(5)
    print(f"while it was away: {sorted(numbers)} replicas, ObjectivesMet {sorted(met)}")
    assert numbers == {held}, "nothing is known, so nothing moves"
    assert story.look()["reason"] == "NoData"
    assert objectives_met(site) == ("Unknown", "NoData")
    assert any("Prometheus cannot be asked" in note for note in told(site, "NoData"))

    prometheus.start(site.cluster)
    site.wait("there is data again", lambda: story.look()["reason"] != "NoData", 120)
    assert told(site, "DataBack")
    story.load(3.4)
    story.until("a second step is served", held + 1, 5, 300)
    seen = story.end()
    print(f"the client: {seen['answered']} answered, {seen['good']} within {GOOD_S} s, {seen['failed'][:3]} failed")
    assert seen["failed"] == []
