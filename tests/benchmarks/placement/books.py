"""What the inventory costs at 10,000 pods on 1,250 nodes that have devices of a DRA driver besides.

`python -m benchmarks.placement.books [NODES]`: a process of its own, for its memory. There are eight pods a node, JSON
of 10 kB each, in pages as the API server sends them; each page is parsed here, as the stream does it. No two devices
are alike, as drivers publish a uuid of each: one class asks for their kind, one for their uuid. Prints one line of
JSON; `kind_cpu_s` has the import of CEL in it, and `longest_step_cpu_ms` is the most that looking at the devices by
their uuid takes in one piece, in which the Lease is not renewed.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from modelfleet.api import names
from modelfleet.controller.placer import Placer
from modelfleet.controller.resources import DEVICE_CLASSES, DEVICE_SLICES, NODES, PODS, Resource
from modelfleet.controller.streams import PAGE, Change, Page
from modelfleet.controller.triggers import Key

NODE_COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1_250
POD_COUNT, EVENTS, VIEWS = 8 * NODE_COUNT, 10_000, 100
GPU, NIC, SOME_NICS = "nvidia.com/gpu", "example.com/nic", "example.com/some-nic"
POD_BYTES = 10_000


class Synthetic:
    """Streams that make each page when it is asked for, and then say EVENTS changes of pods."""

    def __init__(self) -> None:
        self.made_s = 0.0
        self.listed, self.begin, self.done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def page(self, resource: Resource, token: str = "", fields: str = "") -> Page:
        first, (make, count) = int(token or 0), _KINDS.get(resource, (_nothing, 0))
        began_s = time.thread_time()
        text = json.dumps({"items": [make(number) for number in range(first, min(first + PAGE, count))]})
        self.made_s += time.thread_time() - began_s
        return Page(tuple(json.loads(text)["items"]), "1", str(first + PAGE) if first + PAGE < count else "")

    async def watch(self, resource: Resource, version: str, fields: str = "") -> AsyncIterator[Change]:
        if resource is PODS:
            texts = [json.dumps(_pod(number, gone=number % 2 == 1)) for number in range(100)]
            self.listed.set()
            await self.begin.wait()
            for number in range(EVENTS):
                yield Change("MODIFIED", json.loads(texts[number % 100]))
            self.done.set()
        await asyncio.Event().wait()
        yield Change("BOOKMARK", {})


class Nobody:
    """Nobody is woken."""

    def add(self, key: Key, *, behind: bool = False) -> None:
        """Not noted."""


def _node(number: int) -> dict[str, Any]:
    labels = {f"feature.node.kubernetes.io/cpu-{index}": "true" for index in range(30)}
    labels |= {"gpu": "h100", "topology.kubernetes.io/zone": f"z{number % 3}"}
    offers = {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: "8"}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": offers, "images": ["x" * 4000]}
    return {"metadata": {"name": f"n{number:05}", "labels": labels}, "spec": {}, "status": status}


def _pod(number: int, *, gone: bool = False) -> dict[str, Any]:
    owner = {"apiVersion": names.API_VERSION, "kind": names.DEPLOYMENT_KIND, "name": "chat", "controller": True}
    metadata = {"name": f"chat-{number}", "namespace": f"team-{number % 50}", "ownerReferences": [owner]}
    resources = {"requests": {"cpu": "10", "memory": "100Gi", GPU: "1"}}
    spec = {"nodeName": f"n{number // 8:05}", "containers": [{"resources": resources}]}
    body = {"metadata": metadata, "spec": spec, "status": {"phase": "Succeeded" if gone else "Running"}}
    entry = {"f:name": {}, "f:value": {".": {}, "f:valueFrom": {'k:{"mountPath":"/tmp"}': {"f:readOnly": {}}}}}
    repeats = (POD_BYTES - len(json.dumps(body))) // len(json.dumps(entry))
    return body | {"managedFields": [entry] * repeats}  # nested and small, as most of a pod's body is


def _slice(number: int) -> dict[str, Any]:
    """A node's network cards, as a driver beside the accelerators' device plugin tells of them."""
    attributes = {"speed": {"string": "400G"}, "kind": {"string": "rdma"}}
    devices = [
        {"name": f"nic{index}", "attributes": {**attributes, "uuid": {"string": f"NIC-{number}-{index}"}}}
        for index in range(8)
    ]
    pool = {"name": f"n{number:05}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "net.example.com", "nodeName": f"n{number:05}", "pool": pool, "devices": devices}
    return {"metadata": {"name": f"slice-{number}"}, "spec": spec}


def _class(number: int) -> dict[str, Any]:
    name, last = [(NIC, 'kind == "rdma"'), (SOME_NICS, 'uuid.startsWith("NIC-1")')][number]
    expression = f'device.driver == "net.example.com" && device.attributes["net.example.com"].{last}'
    spec = {"extendedResourceName": name, "selectors": [{"cel": {"expression": expression}}]}
    return {"metadata": {"name": name.rpartition("/")[2]}, "spec": spec}


def _nothing(number: int) -> dict[str, Any]:
    return {}


_KINDS: dict[Resource, tuple[Callable[[int], dict[str, Any]], int]] = {
    NODES: (_node, NODE_COUNT),
    PODS: (_pod, POD_COUNT),
    DEVICE_SLICES: (_slice, NODE_COUNT),
    DEVICE_CLASSES: (_class, 2),
}


async def measure() -> dict[str, float]:
    """Reads all, follows the changes, hands out views."""
    streams = Synthetic()
    before_kib = _resident_kib()
    placer = Placer(streams, Nobody())
    cpu_s = time.thread_time()
    following = asyncio.create_task(placer.inventory.run())
    await streams.listed.wait()
    listed_s = time.thread_time() - cpu_s - streams.made_s
    grown_kib = _resident_kib() - before_kib
    cpu_s = time.thread_time()
    streams.begin.set()
    await streams.done.wait()
    event_s = (time.thread_time() - cpu_s) / EVENTS
    alike_s, _ = await _look_at_devices(placer, NIC)
    unlike_s, longest_s = await _look_at_devices(placer, SOME_NICS)
    took_s = []
    for number in range(VIEWS):
        began_s = time.thread_time()
        placer.view(Key("team-1", f"chat-{number}"), (), (NIC, SOME_NICS))
        took_s.append(time.thread_time() - began_s)
    following.cancel()
    return {
        "pods": POD_COUNT,
        "nodes": NODE_COUNT,
        "resource_slices": NODE_COUNT,
        "list_cpu_s": round(listed_s, 2),
        "grown_mib": round(grown_kib / 1024, 1),
        "event_cpu_us": round(event_s * 1e6, 1),
        "devices": 8 * NODE_COUNT,
        "kind_cpu_s": round(alike_s, 2),
        "uuid_cpu_s": round(unlike_s, 2),
        "longest_step_cpu_ms": round(1000 * longest_s, 1),
        "view_cpu_ms": round(1000 * sorted(took_s)[VIEWS // 2], 2),
        "highest_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


async def _look_at_devices(placer: Placer, asked: str) -> tuple[float, float]:
    """CPU seconds until there is a view for the first who asks for these devices: all, and the longest step."""
    began_s, longest_s = time.thread_time(), 0.0
    while True:
        step_s = time.thread_time()
        view = placer.view(Key("team-1", "chat-0"), (), (asked,))
        await asyncio.sleep(0)
        longest_s = max(longest_s, time.thread_time() - step_s)
        if view is not None:
            return time.thread_time() - began_s, longest_s


def _resident_kib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1024


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure())))
