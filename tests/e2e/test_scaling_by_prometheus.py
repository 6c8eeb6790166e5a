"""The number of replicas follows a real load as a real Prometheus tells it; `make e2e-scaling-prometheus`.

One story in order: a step up, five minutes in which Prometheus is away while the load goes on, a second step once it is
back, and back to less. Prometheus finds the pods as docs/goodput.md says. Prints the way of the number.
"""

import re
import subprocess
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
from modelfleet_local.controlplane import SERVER_INSIDE
from modelfleet_local.paths import cache_dir
from modelfleet_local.prometheus import require_prometheus

pytestmark = [pytest.mark.thorough]

PORT = 9090
CUT_S = 300.0
_END_S = 30.0
_GUIDE = Path(__file__).parents[2] / "docs" / "goodput.md"


class Prometheus:
    """Debian's server in the cluster's network, at the address of the node's bridge, which pods reach."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.log = folder, folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, cluster: Cluster) -> None:
        """Starts it, or starts it again with what it has stored."""
        kubeconfig = self._folder / "kubeconfig.yaml"
        content = yaml.safe_load(cluster.kubeconfig.read_text())
        content["clusters"][0]["cluster"]["server"] = SERVER_INSIDE
        kubeconfig.write_text(yaml.safe_dump(content))
        (self._folder / "prometheus.yaml").write_text(yaml.safe_dump(_configuration(kubeconfig)))
        argv = [
            *("setpriv", "--pdeathsig", "TERM", str(require_prometheus(cache_dir()))),
            f"--config.file={self._folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={netns.GATEWAY}:{PORT}",
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(cluster.netns_argv(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

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


def _configuration(kubeconfig: Path) -> dict[str, Any]:
    """That of the guide, with the way to this cluster."""
    block = re.search(r"```yaml\n(scrape_configs:.*?)```", _GUIDE.read_text(), re.DOTALL)
    assert block, "docs/goodput.md shows how Prometheus finds the workers"
    content: dict[str, Any] = yaml.safe_load(block[1])
    for job in content["scrape_configs"]:
        for found in job["kubernetes_sd_configs"]:
            found["kubeconfig_file"] = str(kubeconfig)
    return content


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """The server, ended at the end."""
    server = Prometheus(tmp_path_factory.mktemp("prometheus"))
    try:
        yield server
    finally:
        server.stop()


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
