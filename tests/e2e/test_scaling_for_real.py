"""The number of replicas follows a real load on a real kubelet, over the stand-in engine; `make e2e-scaling`.

One story in order: a step up, a burst in which the operator is restarted, a replica whose engine is stopped in bursts,
and the decay to the minimum. The load is a client's in the cluster's network. Prints the way of the number.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stand_in_installation
from site_under_test import Site

from cluster_fixtures import own_cluster
from modelfleet_local import Options, fleet
from modelfleet_local.node import NodeShape

pytestmark = [pytest.mark.thorough]

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
GOOD_S = 3.0
# Shorter than what the worker takes for a hang and ends itself, long against the objective's ttft.
STOPPED_IN_BURSTS = """
import os, signal, subprocess, sys
# Not this process, whose own command line holds the name: once it ends, a signal to it would end the bursts in a stop.
pids = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
engines = [pid for pid in pids if b"stand_in_engine.py" in open(f"/proc/{pid}/cmdline", "rb").read()]
code = f'''
import os, signal, time
for _ in range(120):
    for sign, seconds in ((signal.SIGSTOP, 3), (signal.SIGCONT, 1.2)):
        for pid in {engines}:
            os.kill(pid, sign)
        time.sleep(seconds)
'''
subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.DEVNULL)
print(engines)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster of this module's own, with room for six replicas and a model on the stand-in."""
    with own_cluster("scaling", Options(nodes=1, node_shape=ROOMY, owned=True)) as cluster:
        values = {"worker.propagationSeconds": "2", "worker.drainSeconds": "60"}
        fleet.install_operator(cluster, fleet.load_images(cluster), values)
        made = Site(cluster, "scaling")
        fleet.apply(cluster, fleet.model_namespace(made.namespace))
        folder = Path(tmp_path_factory.mktemp("stand-in"))
        (folder / "models" / "good").mkdir(parents=True)
        (folder / "models" / "good" / "config.json").write_text("{}")
        for above in (folder, *folder.parents[:2], folder / "models", folder / "models" / "good"):
            above.chmod(0o755)
        stand_in_installation.install(folder / "engine")
        fleet.apply(cluster, fleet.claimed_folder(made.namespace, "stand-in", folder / "engine"))
        fleet.apply(cluster, fleet.claimed_folder(made.namespace, "shelf", folder / "models"))
        stored = made.read("accel", "cpu")["spec"]
        made.apply(
            {
                "apiVersion": "modelfleet.dev/v1alpha1",
                "kind": "AcceleratorClass",
                "metadata": {"name": "slow-cpu"},
                "spec": {**stored, **SLOW_CLASS},
            }
        )
        yield made


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

    def __init__(self, site: Site) -> None:
        self.site, self.began_s, self.seen = site, time.monotonic(), list[tuple[int, str]]()
        script = Path(__file__).with_name("rate_client.py")
        url = f"http://{site.address(NAME)}/v1/chat/completions"
        argv = site.cluster.client_argv(script, url, NAME, str(GOOD_S))
        self.client = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        pool = site.read("mdep", NAME)["status"]["plan"]["pools"][0]
        self.knee_rps = float(pool["predicted"]["kneeRequestsPerSecond"])

    def load(self, knees: float) -> None:
        """A rate, in knees of one replica."""
        assert self.client.stdin is not None
        self.client.stdin.write(f"{knees * self.knee_rps}\n")
        self.client.stdin.flush()
        print(f"{time.monotonic() - self.began_s:6.0f} s  load {knees * self.knee_rps:.1f} requests a second")

    def look(self) -> dict[str, Any]:
        """status.scaling.lastDecision; each change of it is printed."""
        status = self.site.read("mdep", NAME)["status"]
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
            serving = int(self.site.read("mdep", NAME)["status"].get("readyReplicas", 0))
            return least <= decided <= most and least <= serving <= most

        self.site.wait(what, there, timeout_s)

    def end(self) -> dict[str, Any]:
        """What the client saw."""
        found: dict[str, Any] = json.loads(self.client.communicate()[0])
        return found


def uids(site: Site) -> set[str]:
    return {pod["metadata"]["uid"] for pod in site.pods(NAME)}


def test_the_number_follows_the_load_names_a_slow_replica_and_survives_a_restart(site: Site) -> None:
    site.apply(deployment(site))
    site.wait_for(NAME, "Progressing", "False", "Settled", timeout_s=300)
    story = Watched(site)
    story.load(0.5)
    time.sleep(45)
    story.load(2.2)
    story.until("a step up is served", 2, 5, 300)
    before = int(story.look()["to"])

    story.load(4.0)
    of_operator = ("-n", fleet.SYSTEM_NAMESPACE, "delete", "pods", "-l", "app.kubernetes.io/name=modelfleet")
    assert site.cluster.kubectl(*of_operator, "--wait=false").returncode == 0
    after_restart = len(story.seen)
    story.until("a burst is served", before + 1, 5, 300)
    assert min(to for to, _ in story.seen[after_restart - 1 :]) >= before, "a restart takes nothing away"

    slow = site.pods(NAME)[0]["metadata"]
    site.run_in_pod(slow["name"], STOPPED_IN_BURSTS)
    site.wait("the slow replica is replaced", lambda: slow["uid"] not in uids(site), 480)
    notes = site.read("events.events.k8s.io")["items"]
    said = [each["note"] for each in notes if each["reason"] == "SlowReplica"]
    print(said)
    assert any(slow["name"] in note for note in said)

    story.load(0.1)
    story.until("the minimum", 1, 1, 1500)
    seen = story.end()
    print(f"the client: {seen['answered']} answered, {seen['good']} within {GOOD_S} s, {seen['failed'][:3]} failed")
    assert seen["failed"] == []
