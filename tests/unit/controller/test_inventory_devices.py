"""The inventory follows devices of Dynamic Resource Allocation beside nodes and pods, where the cluster serves them."""

import asyncio
from itertools import pairwise

import celpy
import pytest

from modelfleet.controller.cluster import ApiError
from modelfleet.controller.inventory import FEW_SLICES, STALE_S
from modelfleet.controller.streams import Change
from unit.controller.test_inventory import CHAT, FakeStreams, free, node, placer_on, settle

pytestmark = pytest.mark.looptime(start=1000)

RESOURCE = "deviceclass.resource.kubernetes.io/large"
CLASS = {
    "metadata": {"name": "large"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}


def device_slice(*devices: str):
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": name} for name in devices],
    }
    return {"metadata": {"name": "n1-gpus", "resourceVersion": "4"}, "spec": spec}


def claim(*devices: str):
    results = [{"driver": "gpu.example.com", "pool": "n1", "device": name} for name in devices]
    status = {"allocation": {"devices": {"results": results}}}
    return {"metadata": {"name": "c", "namespace": "other", "resourceVersion": "5"}, "status": status}


def cluster(**kinds):
    served = {"deviceclasses": [CLASS], "resourceslices": [device_slice("a", "b")], "resourceclaims": []} | kinds
    return FakeStreams([node("n1")], [], **served)


def devices(placer):
    view = placer.view(CHAT, (), (RESOURCE,))
    return None if view is None else view.nodes[0].free.get(RESOURCE, 0)


async def test_devices_and_claims_count_as_they_come_and_go():
    streams = cluster()
    async with placer_on(streams) as (placer, _):
        assert devices(placer) == 2
        await streams.say("resourceclaims", Change("ADDED", claim("a")))
        assert devices(placer) == 1
        await streams.say("resourceclaims", Change("DELETED", claim("a")))
        await streams.say("resourceslices", Change("MODIFIED", device_slice("a", "b", "c")))
        assert devices(placer) == 3
        await streams.say("deviceclasses", Change("DELETED", CLASS))
        assert devices(placer) == 0


async def test_nothing_is_handed_out_before_claims_are_read():
    streams = cluster()
    streams.pods_held.clear()
    async with placer_on(streams) as (placer, _):
        assert devices(placer) is None
        assert "resourceclaims" in placer.fault()
        streams.pods_held.set()
        await settle()
        assert devices(placer) == 2


async def test_a_freed_device_wakes_those_who_wait():
    streams = cluster(resourceclaims=[claim("a", "b")])
    async with placer_on(streams) as (placer, woken):
        placer.view(CHAT, (), (RESOURCE,))
        placer.record(CHAT, (), (), waits=True)
        await asyncio.sleep(5)
        woken.keys.clear()
        await streams.say("resourceclaims", Change("DELETED", claim("a", "b")))
        await asyncio.sleep(5)
        assert woken.keys == [CHAT]


async def test_a_cluster_that_serves_no_devices_is_placed_on_and_asked_seldom():
    streams = FakeStreams([node("n1")], [])
    async with placer_on(streams) as (placer, _):
        assert free(placer) == {"n1": 8}
        assert "list resourceslices: HTTP 404" in placer.view(CHAT, (), (RESOURCE,)).devices_fault
        for _ in range(20):
            await asyncio.sleep(STALE_S / 2)
            await streams.say("nodes", Change("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
            await streams.say("pods", Change("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
        assert free(placer) == {"n1": 8}
        assert streams.denied <= 3 * (1 + 20 * STALE_S / 2 / 300)


async def test_devices_that_may_no_longer_be_read_count_no_more_and_it_is_said():
    streams = cluster()
    async with placer_on(streams) as (placer, _):
        assert devices(placer) == 2
        await streams.say("resourceslices", ApiError("watch resourceslices: HTTP 403, forbidden", status=403))
        assert devices(placer) == 0
        assert placer.view(CHAT, (), (RESOURCE,)).devices_fault == "watch resourceslices: HTTP 403, forbidden"
        await asyncio.sleep(400)
        for plural in ("nodes", "pods", "deviceclasses", "resourceclaims"):
            await streams.say(plural, Change("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
        assert (placer.inventory.devices_fault, devices(placer)) == ("", 2)


UNIQUE = {
    "metadata": {"name": "large"},
    "spec": {"selectors": [{"cel": {"expression": 'device.attributes["gpu.example.com"].uuid.startsWith("GPU-")'}}]},
}


def unique_slices(count: int):
    """One slice of one device for each node; no two devices are alike."""
    for number in range(count):
        one = device_slice("a")
        one["metadata"]["name"] = f"n{number}-gpus"
        one["spec"] |= {"nodeName": f"n{number}", "pool": one["spec"]["pool"] | {"name": f"n{number}"}}
        one["spec"]["devices"][0]["attributes"] = {"uuid": {"string": f"GPU-of-pieces-{number}"}}
        yield one


async def test_many_devices_that_all_differ_are_looked_at_piece_by_piece_while_nothing_is_decided(monkeypatch):
    evaluated, real = [], celpy.InterpretedRunner.evaluate
    monkeypatch.setattr(celpy.InterpretedRunner, "evaluate", lambda *of: evaluated.append(of) or real(*of))
    count = 5 * FEW_SLICES
    streams = cluster(deviceclasses=[UNIQUE], resourceslices=list(unique_slices(count)))
    streams.items["nodes"] = [node(f"n{number}") for number in range(count)]
    async with placer_on(streams) as (placer, woken):
        await asyncio.sleep(1)
        assert (placer.inventory.usable, evaluated) == (True, [])  # nobody asked yet
        assert devices(placer) is None
        assert placer.fault() == "the devices of the cluster are not all looked at yet"
        seen = [len(evaluated)]
        while len(evaluated) < count:
            await asyncio.sleep(0)
            seen.append(len(evaluated))
        assert max(after - before for before, after in pairwise(seen)) <= 1
        await asyncio.sleep(5)
        assert (devices(placer), len(evaluated), woken.keys) == (1, count, [CHAT])
        few = list(unique_slices(FEW_SLICES))
        for one in few:
            one["spec"]["devices"][0]["attributes"]["uuid"]["string"] += "-again"
        await streams.say("resourceslices", *(Change("MODIFIED", one) for one in few))
        assert devices(placer) == 1  # a few are looked at by the view itself
