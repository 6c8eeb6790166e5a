"""Fetched weights on a real kubelet: the stand-in engine, a hub in the cluster's network; `make e2e-weights`."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stand_in_installation
from site_under_test import Site

from cluster_fixtures import own_cluster
from modelfleet.api import names
from modelfleet_local import Cluster, Options, fleet
from modelfleet_local.netns import GATEWAY
from modelfleet_local.node import NodeShape

pytestmark = pytest.mark.thorough
PODS = 20
SHARD_BYTES = 8_000_000  # four of them, and what they are beside


class Hub:
    """The hub's process."""

    def __init__(self, cluster: Cluster) -> None:
        script = Path(__file__).with_name("weight_server.py")
        argv = cluster.client_argv(script, GATEWAY, str(SHARD_BYTES))
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first = self._line()
        self.endpoint, self.token = f"http://{GATEWAY}:{first['port']}", str(first["token"])

    def seen(self, word: str = "seen") -> dict[str, int]:
        """What it sent so far."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._line()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line: dict[str, Any] = json.loads(self._process.stdout.readline())
        return line


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    shape = NodeShape(extended_resources={"modelfleet.dev/cpu-slot": PODS})
    with own_cluster("weights", Options(nodes=1, node_shape=shape, owned=True)) as made:
        values = {"operator.replicas": "1", "worker.propagationSeconds": "1", "worker.drainSeconds": "5"}
        fleet.install_operator(made, fleet.load_images(made), values)
        yield made


@pytest.fixture(scope="module")
def hub(cluster: Cluster) -> Iterator[Hub]:
    made = Hub(cluster)
    yield made
    made.close()


@pytest.fixture(scope="module")
def site(cluster: Cluster, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A namespace with the hub's token and the stand-in engine, and a class whose nodes grant a cache."""
    made = Site(cluster, "weights")
    fleet.apply(cluster, fleet.plain_namespace(made.namespace))  # host paths are more than the restricted standard
    installation, cache = tmp_path_factory.mktemp("engine"), tmp_path_factory.mktemp("cache")
    stand_in_installation.install(installation)
    for parent in (installation, *installation.parents[:2]):
        parent.chmod(parent.stat().st_mode | 0o555)
    cache.chmod(0o1777)
    fleet.apply(cluster, fleet.claimed_folder(made.namespace, "stand-in", installation))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"token": hub.token}}
    made.apply(secret)
    spec = {
        "nodeSelector": {"modelfleet.dev/accelerator": "cpu"},
        "resourceName": "modelfleet.dev/cpu-slot",
        "device": "Cpu",
        "acceleratorsPerNode": PODS,
        "nodeCache": {"path": str(cache), "size": "1Gi"},
    }
    made.apply(
        {"apiVersion": names.API_VERSION, "kind": "AcceleratorClass", "metadata": {"name": "cached"}, "spec": spec}
    )
    made.apply(
        {
            "apiVersion": names.API_VERSION,
            "kind": "AcceleratorClass",
            "metadata": {"name": "uncached"},
            "spec": {key: value for key, value in spec.items() if key != "nodeCache"},
        }
    )
    return made


def wanted(site: Site, hub: Hub, name: str, replicas: int, secret: str = "hub", kind: str = "cached") -> None:
    model = {"source": "hf://org/model@v1", "endpoint": hub.endpoint, "credentialsSecretRef": {"name": secret}}
    site.apply(
        site.deployment(
            name,
            model=model,
            accelerators={"classes": [kind]},
            scaling={"minReplicas": replicas, "maxReplicas": replicas},
            engine={"installationClaimName": "stand-in"},
        )
    )


def fetched(pod: dict[str, Any]) -> bool:
    statuses = pod["status"].get("initContainerStatuses", [])
    return any(status["state"].get("terminated", {}).get("exitCode") == 0 for status in statuses)


def test_twenty_pods_that_start_at_once_on_one_node_download_once(site: Site, hub: Hub) -> None:
    started = time.monotonic()
    wanted(site, hub, "many", PODS)
    site.wait("20 pods with their weights", lambda: sum(map(fetched, site.pods("many"))) == PODS, timeout_s=600)
    took_s = time.monotonic() - started
    seen = hub.seen()
    print(
        f"\nweights: {PODS} pods on one node had their weights after {took_s:.0f} s; the hub sent {seen['bytes']} bytes"
        f" for a model of {seen['modelBytes']}, with the reading of its headers, in {seen['listings']} listings"
    )
    headers = 4 * 65536 + 4096  # what the Job reads, which says what the model is made of
    assert seen["modelBytes"] <= seen["bytes"] <= seen["modelBytes"] + headers
    assert {pod["spec"]["nodeName"] for pod in site.pods("many")} == {"local-0"}
    wanted(site, hub, "many", 1)  # one is enough for what follows, and twenty engines are much for a small machine
    site.wait("one pod", lambda: len(site.pods("many")) == 1, timeout_s=600)
    site.wait_for("many", "Available", "True", timeout_s=600)
    pods = site.pods("many")
    shown = json.loads(site.run_in_pod(pods[0]["metadata"]["name"], SHOWS))
    assert shown["variables"] == []
    assert shown["marks"] == PODS
    assert shown["writable"] is False
    assert "models" in shown["compiled"], "the worker may write to the folder for compiled code"


SHOWS = """
import json, os
folder = "/models/fetched/models/" + os.listdir("/models/fetched/models")[0]
try:
    open(folder + "/x", "w")
    writable = True
except OSError:
    writable = False
variables = [name for name in os.environ if name.startswith("MODELFLEET_CREDENTIAL_")]
use = "/models/use/" + os.listdir("/models/use")[0]
compiled = os.listdir("/models/compiled")
print(json.dumps({"variables": variables, "marks": len(os.listdir(use)), "writable": writable, "compiled": compiled}))
"""


def test_a_killed_worker_starts_again_without_asking_the_hub(site: Site, hub: Hub) -> None:
    before = hub.seen()["listings"], hub.seen()["bytes"]
    name = site.pods("many")[0]["metadata"]["name"]
    site.signal(name, "modelfleet-worker", signal.SIGTERM)

    def again() -> bool:
        status = site.read("pod", name)["status"]["containerStatuses"][0]
        return bool(status["restartCount"] >= 1 and status["ready"])

    site.wait("the worker again", again)
    assert (hub.seen()["listings"], hub.seen()["bytes"]) == before
    site.kubectl("delete", "mdep", "many")
    site.wait("no pods", lambda: not site.pods("many"), timeout_s=180)


def test_a_secret_that_is_missing_is_named(site: Site, hub: Hub) -> None:
    wanted(site, hub, "unknown", 1, secret="nobody")
    said = site.wait_for("unknown", "Planned", "False", "ContainerConfigError")
    assert 'secret "nobody" not found' in said
    site.kubectl("delete", "mdep", "unknown")


def test_a_hub_that_stalls_is_told_and_the_fetch_goes_on_where_it_was(site: Site, hub: Hub) -> None:
    hub.seen("stall")
    wanted(site, hub, "stalled", 1, kind="uncached")
    hub.seen("go")
    site.wait_for("stalled", "Planned", "True")
    hub.seen("stall")
    message = site.wait_for("stalled", "Available", "False", "FetchFailed", timeout_s=600)
    assert "the server sent nothing for too long" in message
    assert "each pod fetches the weights for itself" in site.condition("stalled", "Planned")["message"]
    hub.seen("go")
    site.wait_for("stalled", "Available", "True", timeout_s=600)
    site.kubectl("delete", "mdep", "stalled")
