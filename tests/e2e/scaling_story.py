"""What stories of the number of replicas share: a cluster with a slow class, a model on the stand-in, a load."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import stand_in_installation
from site_under_test import Site

from cluster_fixtures import own_cluster
from modelfleet.api import names
from modelfleet_local import Options, fleet
from modelfleet_local.cluster import Cluster
from modelfleet_local.node import NodeShape

NAME = "scaled"
ROOMY = NodeShape(extended_resources={"modelfleet.dev/cpu-slot": 6})
FACTS = {
    "layers": 4,
    "hiddenSize": 256,
    "heads": 8,
    "kvHeads": 8,
    "intermediateSize": 1024,
    "vocabularySize": 8192,
    "maxContextTokens": 4096,
}
LENGTHS = {"inputTokens": {"p50": 16, "p95": 32}, "outputTokens": {"p50": 20, "p95": 24}}
OBJECTIVE = {
    "name": "interactive",
    "ttft": "1s",
    "tpot": "1s",
    "share": "90%",
    "load": {"requestsPerSecond": 1},
    "lengths": LENGTHS,
}
SLOW_CLASS = {"memory": "2Gi", "memoryBandwidth": "400M", "compute": {"bf16": "2G"}}
"""Facts of a machine on which one replica is predicted to bear some 4 requests a second: the stand-in bears more."""
SLOWER_CLASS = {"memory": "2Gi", "memoryBandwidth": "150M", "compute": {"bf16": "150M"}}
"""The same for the tiny model, which is smaller. vLLM bears more on this machine."""
GOOD_S = 3.0


@contextmanager
def scaled_site(
    kind: str, folder: Path, values: Mapping[str, str], started: Callable[[Cluster], None] = lambda _cluster: None
) -> Iterator[Site]:
    """A cluster of its own, with room for six replicas and a model on the stand-in, whose files lie in `folder`.
    `values` are further ones of the chart; `started` is called with the cluster before the operator is there."""
    with own_cluster(kind, Options(nodes=1, node_shape=ROOMY, owned=True)) as cluster:
        started(cluster)
        chosen = {"worker.propagationSeconds": "2", "worker.drainSeconds": "60", **values}
        fleet.install_operator(cluster, fleet.load_images(cluster), chosen)
        made = Site(cluster, "scaling")
        fleet.apply(cluster, fleet.model_namespace(made.namespace))
        (folder / "models" / "good").mkdir(parents=True)
        (folder / "models" / "good" / "config.json").write_text("{}")
        for above in (folder, *folder.parents[:2], folder / "models", folder / "models" / "good"):
            above.chmod(0o755)
        stand_in_installation.install(folder / "engine")
        fleet.apply(cluster, fleet.claimed_folder(made.namespace, "stand-in", folder / "engine"))
        fleet.apply(cluster, fleet.claimed_folder(made.namespace, "shelf", folder / "models"))
        slow_class(made, "slow-cpu", SLOW_CLASS)
        yield made


def slow_class(site: Site, name: str, facts: Mapping[str, Any]) -> None:
    """A class of the same nodes as `cpu` with other facts."""
    stored = site.read("accel", "cpu")["spec"]
    kind = {"apiVersion": names.API_VERSION, "kind": names.CLASS_KIND, "metadata": {"name": name}}
    site.apply({**kind, "spec": {**stored, **facts}})


def deployment(site: Site) -> dict[str, Any]:
    """A model with a knee, between one and five replicas."""
    return site.deployment(
        NAME,
        model={"source": "pvc://shelf/good", "maxContextTokens": 4096, "facts": FACTS},
        objectives=[OBJECTIVE],
        accelerators={"classes": ["slow-cpu"]},
        engine={"installationClaimName": "stand-in"},
        scaling={"minReplicas": 1, "maxReplicas": 5},
    )


class Watched:
    """The story's load and what the object says meanwhile."""

    def __init__(self, site: Site, name: str = NAME) -> None:
        self.site, self.name, self.began_s, self.seen = site, name, time.monotonic(), list[tuple[int, str]]()
        script = Path(__file__).with_name("rate_client.py")
        url = f"http://{site.address(name)}/v1/chat/completions"
        argv = site.cluster.client_argv(script, url, name, str(GOOD_S))
        self.client = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        pool = site.read("mdep", name)["status"]["plan"]["pools"][0]
        self.knee_rps = float(pool["predicted"]["kneeRequestsPerSecond"])

    def load(self, knees: float) -> None:
        """A rate, in knees of one replica."""
        assert self.client.stdin is not None
        self.client.stdin.write(f"{knees * self.knee_rps}\n")
        self.client.stdin.flush()
        print(f"{time.monotonic() - self.began_s:6.0f} s  load {knees * self.knee_rps:.1f} requests a second")

    def look(self) -> dict[str, Any]:
        """status.scaling.lastDecision; each change of it is printed."""
        status = self.site.read("mdep", self.name)["status"]
        decision: dict[str, Any] = status["scaling"]["lastDecision"]
        if not self.seen or self.seen[-1] != (decision["to"], decision["reason"]):
            self.seen.append((decision["to"], decision["reason"]))
            at_s = time.monotonic() - self.began_s
            print(
                f"{at_s:6.0f} s  {decision['to']} ({decision['reason']}; {status['readyReplicas']} serve)", flush=True
            )
            print(f"          {decision['detail']}", flush=True)
        return decision

    def until(self, what: str, least: int, most: int, timeout_s: float) -> None:
        """Until so many are decided and serve."""

        def there() -> bool:
            decided = int(self.look()["to"])
            serving = int(self.site.read("mdep", self.name)["status"].get("readyReplicas", 0))
            return least <= decided <= most and least <= serving <= most

        self.site.wait(what, there, timeout_s)

    def end(self) -> dict[str, Any]:
        """What the client saw."""
        found: dict[str, Any] = json.loads(self.client.communicate()[0])
        return found
