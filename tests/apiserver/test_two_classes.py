"""Two classes on a real API server and scheduler: what has no room on the first is made on the next; part of
`make e2e-rollout`."""

import json
from collections.abc import Iterator

import pytest
from fleet import Fleet

from modelfleet.api import names
from modelfleet_local import Cluster
from modelfleet_local.kwok import Shape, node

pytestmark = [pytest.mark.thorough]
SCARCE, LABEL = "scarce-0", "example.com/scarce"


@pytest.fixture
def scarce(fleet: Fleet, api_server: Cluster) -> Iterator[str]:
    """A class of one node with one GPU; its name."""
    offered = {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "1"}
    made = node(SCARCE, Shape(labels={LABEL: "true"}, allocatable=offered))
    assert api_server.kubectl("apply", "-f-", stdin=json.dumps(made)).returncode == 0
    name = f"{fleet.class_name}-scarce"
    kind = {"resourceName": "nvidia.com/gpu", "device": "Cuda", "acceleratorsPerNode": 8}
    spec = {"nodeSelector": {LABEL: "true"}, **kind}
    fleet.apply({"apiVersion": names.API_VERSION, "kind": names.CLASS_KIND, "metadata": {"name": name}, "spec": spec})
    yield name
    api_server.kubectl("delete", "node", SCARCE, "--wait=false")
    fleet.kubectl("delete", "accel", name)


def counts(fleet: Fleet) -> list[tuple[str, int]]:
    """Class and replicas of each pool that the status tells of."""
    stored = fleet.get(names.DEPLOYMENT_PLURAL, "chat") or {}
    return [(pool["class"], pool["replicas"]) for pool in stored["status"]["plan"]["pools"]]


@pytest.mark.usefixtures("operator")
def test_a_replica_without_room_is_made_on_the_next_class_and_leaves_first(fleet: Fleet, scarce: str) -> None:
    fleet.create_class()

    def want(replicas: int) -> None:
        scaling = {"mode": "Manual", "minReplicas": 1, "maxReplicas": 4, "replicas": replicas}
        classes = {"classes": [scarce, fleet.class_name]}
        fleet.apply(fleet.deployment(accelerators=classes, scaling=scaling))

    want(3)
    fleet.settled()
    assert counts(fleet) == [(scarce, 1), (fleet.class_name, 2)]
    assert f"2 on class {fleet.class_name}" in fleet.condition("Placed")[2]
    nodes = [pod["spec"]["nodeName"] for pod in fleet.children("pods")]
    assert nodes.count(SCARCE) == 1
    told = json.loads(fleet.kubectl("get", "events", "-o=json"))["items"]
    assert [each["reason"] for each in told].count("NextClassUsed") == 1
    want(1)
    fleet.wait("one replica", lambda: len(fleet.children("pods")) == 1)
    fleet.settled()
    assert counts(fleet) == [(scarce, 1), (fleet.class_name, 0)]
    assert [pod["spec"]["nodeName"] for pod in fleet.children("pods")] == [SCARCE]
