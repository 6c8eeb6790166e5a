"""Seeded fleets in trouble on a real API server, scheduler and garbage collector, with fake kubelets: `make e2e-sim`.

The pure simulation (tests/sim) plays thousands of these; here the operator's process, its watches and Kubernetes' own
controllers take part, so a run says the same of the whole.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet
from operator_process import Operator

from cluster_fixtures import own_cluster
from modelfleet.api import names
from modelfleet_local import Cluster, Options
from modelfleet_local.kwok import Shape, node

pytestmark = [pytest.mark.thorough]

SEEDS, NODES, GPUS = 20, 6, 8
LAYOUTS: tuple[dict[str, int], ...] = ({}, {"tensor": 8}, {"tensor": 8, "pipeline": 2})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A control plane of this module's own with fake nodes that it may lose."""
    with own_cluster("sim", Options(kwok_nodes=NODES, owned=True)) as made:
        yield made


@dataclass
class Trouble:
    """One seed's fleet, and what has happened to it."""

    seed: int
    cluster: Cluster
    fleet: Fleet
    operator: Operator
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.choose = random.Random(self.seed)
        self.replicas = self.choose.randint(1, 2)
        self.spec: dict[str, Any] = {"parallelism": self.choose.choice(LAYOUTS), "engine": {"image": "image:0"}}

    def apply(self) -> None:
        scaling = {"mode": "Manual", "minReplicas": 1, "maxReplicas": 4, "replicas": self.replicas}
        written = {
            key: part for key, part in self.spec.items() if part
        }  # an emptied map is applied as null, and refused
        self.fleet.apply(self.fleet.deployment("chat", scaling=scaling, **written))

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cluster.api.get("/api/v1/nodes")["items"]
        return found

    def node_name(self) -> str:
        return str(self.choose.choice(sorted(each["metadata"]["name"] for each in self.nodes())))

    def kubectl(self, *args: str) -> None:
        """What may fail, because the world moves meanwhile."""
        self.cluster.kubectl(*args)

    def accident(self) -> None:
        self.told.append(self.choose.choice(ACCIDENTS)(self))

    def look(self) -> None:
        """No node ever holds more accelerators than it has, and none is told an impossible thing."""
        held: dict[str, int] = {}
        for pod in self.cluster.api.get("/api/v1/pods")["items"]:
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            asked = (c.get("resources", {}).get("requests", {}) for c in pod["spec"]["containers"])
            count = sum(int(each.get("nvidia.com/gpu", 0)) for each in asked)
            held[pod["spec"].get("nodeName", "")] = held.get(pod["spec"].get("nodeName", ""), 0) + count
        over = {name: count for name, count in held.items() if name and count > GPUS}
        assert not over, f"seed {self.seed}: {over}; {self.told}"

    def mend(self) -> None:
        """All nodes, no thieves, a plain spec; it must settle."""
        there = {each["metadata"]["name"] for each in self.nodes()}
        for name in (f"kwok-{index}" for index in range(NODES)):
            if name not in there:
                self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(node(name, Shape())))
            self.cluster.kubectl("uncordon", name)
        self.fleet.kubectl("delete", "pods", "-l", "own=thief", "--ignore-not-found", "--wait=false")
        self.spec = {"parallelism": self.spec["parallelism"], "engine": {"image": "image:good"}}
        self.apply()
        self.told.append("everything is mended")

    def settle(self) -> None:
        self.fleet.wait("the mended spec is seen", self._seen)
        self.fleet.settled()
        pods = self.fleet.children("pods")
        size = self.spec["parallelism"].get("pipeline", 1)
        assert len(pods) == self.replicas * size, f"seed {self.seed}: {self.told}"
        for pod in pods:
            assert pod["spec"]["containers"][0]["image"] == "image:good"

    def _seen(self) -> bool:
        stored = self.fleet.get(names.DEPLOYMENT_PLURAL, "chat") or {}
        return bool(stored.get("status", {}).get("observedGeneration") == stored["metadata"]["generation"])


def cordoned(of: Trouble) -> str:
    name = of.node_name()
    of.kubectl("cordon", name)
    return f"{name} is cordoned"


def uncordoned(of: Trouble) -> str:
    name = of.node_name()
    of.kubectl("uncordon", name)
    return f"{name} is uncordoned"


def node_lost(of: Trouble) -> str:
    if len(of.nodes()) <= NODES - 2:
        return "enough nodes are lost already"
    name = of.node_name()
    of.kubectl("delete", "node", name, "--wait=false")
    return f"{name} is lost"


def stolen(of: Trouble) -> str:
    name = of.node_name()
    request = {"nvidia.com/gpu": str(of.choose.randint(1, GPUS))}
    thief = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "thief-", "labels": {"own": "thief"}, "namespace": of.fleet.namespace},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": name},
            "containers": [{"name": "own", "image": "own", "resources": {"requests": request, "limits": request}}],
        },
    }
    of.cluster.kubectl("create", "-f", "-", stdin=json.dumps(thief))
    return f"somebody else wants {request} of {name}"


def pod_deleted(of: Trouble) -> str:
    pods = sorted(pod["metadata"]["name"] for pod in of.fleet.children("pods"))
    if not pods:
        return "no pod to delete"
    name = of.choose.choice(pods)
    of.fleet.cluster.kubectl(f"--namespace={of.fleet.namespace}", "delete", "pod", name, "--wait=false")
    return f"{name} is deleted"


def operator_killed(of: Trouble) -> str:
    of.operator.kill()
    of.operator.start()
    return "the operator is killed and started"


def spec_changed(of: Trouble) -> str:
    match of.choose.randrange(4):
        case 0:
            of.spec["engine"] = {"image": f"image:{of.choose.randint(1, 4)}"}
        case 1:
            of.replicas = of.choose.randint(1, 2)
        case 2:
            of.spec["parallelism"] = of.choose.choice(LAYOUTS)
        case 3:
            of.spec["rollout"] = {"paused": of.choose.random() < 0.5, "maxSurge": of.choose.randint(1, 2)}
    of.apply()
    return f"the spec is {of.spec}, {of.replicas} replicas"


ACCIDENTS: tuple[Callable[[Trouble], str], ...] = (
    cordoned,
    uncordoned,
    node_lost,
    stolen,
    pod_deleted,
    operator_killed,
    spec_changed,
    spec_changed,
)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_fleet_in_trouble_is_never_over_committed_and_settles(seed: int, cluster: Cluster, tmp_path: Path) -> None:
    namespace = f"sim-{seed}"
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    fleet = Fleet(cluster, namespace, f"gpu-{namespace}")
    fleet.create_claim()
    fleet.create_class()
    operator = Operator(cluster.kubeconfig, tmp_path / "log", (f"--namespaces={namespace}",))
    operator.start()
    trouble = Trouble(seed, cluster, fleet, operator)
    begun_s = time.monotonic()
    try:
        trouble.apply()
        for _ in range(trouble.choose.randint(4, 9)):
            time.sleep(trouble.choose.choice((0.2, 1.0, 3.0)))
            trouble.accident()
            trouble.look()
        trouble.mend()
        trouble.settle()
        trouble.look()
        assert [line for line in operator.lines() if "traceback" in line] == []
    finally:
        print(f"\nseed {seed}, {time.monotonic() - begun_s:.0f} s: {'; '.join(trouble.told)}")
        operator.kill()
        cluster.kubectl("delete", "namespace", namespace, "--timeout=60s")
        cluster.kubectl("delete", "accel", fleet.class_name)
