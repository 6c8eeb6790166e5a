"""Pods of a group that nobody pins, on a real scheduler: each gets a node of its own, all in one block."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fleet import Fleet

from builders import Fleet as PureFleet
from builders import accelerator_class, manual
from modelfleet.core import raw
from modelfleet.core.effects import Create
from modelfleet.core.reconcile import plan
from modelfleet_local import Cluster
from modelfleet_local.kwok import Shape, node

BLOCK, BOUGHT, RESOURCE = "example.com/block", "example.com/bought", "modelfleet.dev/cpu"
BLOCKS = {"bought-0": "a", "bought-1": "b", "bought-2": "a", "bought-3": "b"}
OFFERED = {"cpu": "8", "memory": "32Gi", "pods": "10", RESOURCE: "4"}
"""Of the class's accelerators: two ranks would have room on one node."""


@pytest.fixture
def nodes(api_server: Cluster) -> Iterator[None]:
    """What an autoscaler might bring: two nodes in each of two blocks."""
    made = [
        node(
            name, Shape(labels={"modelfleet.dev/accelerator": "cpu", BOUGHT: "true", BLOCK: block}, allocatable=OFFERED)
        )
        for name, block in BLOCKS.items()
    ]
    assert (
        api_server.kubectl(
            "apply", "-f-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": made})
        ).returncode
        == 0
    )
    yield
    api_server.kubectl("delete", "node", *BLOCKS, "--wait=false")


def unpinned(namespace: str, slot: int) -> list[dict[str, Any]]:
    """The pods of the group in `slot`, as they are created where nodes are bought."""
    kind = accelerator_class(
        nodeSelector={BOUGHT: "true"},
        acceleratorsPerNode=2,
        hostPerAccelerator=None,
        supplies=[{"name": "cloud", "provisioning": "Autoscaled"}],
        topologyKeys=[BLOCK],
    )
    of = PureFleet(manual(slot + 1, parallelism={"tensor": 2, "pipeline": 2}), {"cpu": kind}, machines=())
    made = [dict(effect.manifest) for effect in plan(of.world()).effects if isinstance(effect, Create)]
    pods = [one for one in made if one["kind"] == "Pod"][2 * slot :]
    kept = ("name", "labels")
    return [{**one, "metadata": {**{k: one["metadata"][k] for k in kept}, "namespace": namespace}} for one in pods]


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize("slot", [0, 1], ids=["one group", "another slot"])
def test_ranks_that_nobody_pins_get_a_node_each_in_one_block(fleet: Fleet, slot: int) -> None:
    pods = unpinned(fleet.namespace, slot)
    for pod in pods:
        fleet.apply(pod)

    def where() -> list[str]:
        found = [fleet.get("pods", raw.name(pod)) for pod in pods]
        return [raw.text(one, "spec", "nodeName") for one in found]

    fleet.wait("both ranks have a node", lambda: all(where()))
    first, second = where()
    assert first != second
    assert BLOCKS[first] == BLOCKS[second]
