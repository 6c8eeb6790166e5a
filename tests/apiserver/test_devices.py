"""Devices of Dynamic Resource Allocation on a real API server and scheduler: counted, claimed and given back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fleet import Fleet
from operator_process import Operator

from modelfleet.api.conditions import ConditionType
from modelfleet_local import Cluster
from modelfleet_local.kwok import Shape, node

DRIVER, LABEL = "gpu.example.com", "example.com/devices"
DEVICES = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
FOREIGN = "foreign"


def device_objects(name: str) -> list[dict[str, Any]]:
    """A node with four large devices and a small one, as a driver publishes them, and the class of the large ones."""
    devices = [{"name": each, "attributes": {"size": {"string": "large"}}} for each in DEVICES]
    small = {"name": "gpu-4", "attributes": {"size": {"string": "small"}}}
    selector = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].size == "large"'
    spec = {"driver": DRIVER, "nodeName": name, "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}
    group = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": name}}
    return [
        node(name, Shape(labels={LABEL: name}, allocatable={"cpu": "64", "memory": "256Gi", "pods": "20"})),
        {**group, "kind": "ResourceSlice", "spec": {**spec, "devices": [*devices, small]}},
        {**group, "kind": "DeviceClass", "spec": {"selectors": [{"cel": {"expression": selector}}]}},
    ]


def foreign_objects(device_class: str) -> list[dict[str, Any]]:
    """A pod of somebody else with a claim of its own on one device."""
    request = {"name": "one", "exactly": {"deviceClassName": device_class}}
    worker = {"name": "main", "image": "image", "resources": {"claims": [{"name": "gpu"}]}}
    pod = {"containers": [worker], "resourceClaims": [{"name": "gpu", "resourceClaimName": FOREIGN}]}
    claim = {"devices": {"requests": [request]}}
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": FOREIGN}, "spec": claim},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": FOREIGN}, "spec": pod},
    ]


@pytest.fixture
def devices(api_server: Cluster, fleet: Fleet) -> Iterator[str]:
    """The name of the node, of its slice and of the DeviceClass."""
    name = f"devices-{fleet.namespace}"
    made = {"kind": "List", "apiVersion": "v1", "items": device_objects(name)}
    assert api_server.kubectl("apply", "-f-", stdin=json.dumps(made)).returncode == 0
    yield name
    api_server.kubectl("delete", f"node/{name}", f"resourceslice/{name}", f"deviceclass/{name}", "--wait=false")


def claimed(fleet: Fleet) -> list[str]:
    """The devices that claims of the namespace hold."""
    found = json.loads(fleet.kubectl("get", "resourceclaims", "--output=json"))["items"]
    held = [claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []) for claim in found]
    return sorted(result["device"] for results in held for result in results)


def running(fleet: Fleet) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in fleet.children("pods"))


def test_replicas_get_the_devices_that_nobody_holds_and_wait_for_those_that_somebody_does(
    fleet: Fleet, devices: str, own_operator: Operator
) -> None:
    for manifest in foreign_objects(devices):
        fleet.apply(manifest)
    fleet.wait("somebody else holds a device", lambda: len(claimed(fleet)) == 1)
    fleet.create_class(nodeSelector={LABEL: devices}, resourceName=None, deviceClassName=devices, acceleratorsPerNode=4)
    own_operator.start()
    fleet.apply(
        fleet.deployment(parallelism={"strategy": "Sharded", "tensor": 2}, scaling={"minReplicas": 2, "maxReplicas": 2})
    )
    fleet.wait("one replica runs", lambda: running(fleet) == 1)
    fleet.wait("what is free is said", lambda: "has 1 free" in fleet.condition(ConditionType.PLACED)[2])
    assert len(claimed(fleet)) == 3
    fleet.kubectl("delete", "pod", FOREIGN, "--now")
    fleet.kubectl("delete", "resourceclaim", FOREIGN)
    fleet.wait("both replicas run", lambda: running(fleet) == 2)
    fleet.wait("each has two devices", lambda: claimed(fleet) == list(DEVICES))
    assert own_operator.stop() == 0
