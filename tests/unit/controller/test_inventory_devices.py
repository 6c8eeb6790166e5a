"""The inventory follows devices of Dynamic Resource Allocation beside nodes and pods, where the cluster serves them."""

import asyncio

import pytest

from modelfleet.controller.cluster import ApiError
from modelfleet.controller.inventory import STALE_S
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
    view = placer.view(CHAT, ())
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
        placer.view(CHAT, ())
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
        assert "list resourceslices: HTTP 404" in placer.view(CHAT, ()).devices_fault
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
        assert placer.view(CHAT, ()).devices_fault == "watch resourceslices: HTTP 403, forbidden"
        await asyncio.sleep(400)
        for plural in ("nodes", "pods", "deviceclasses", "resourceclaims"):
            await streams.say(plural, Change("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
        assert (placer.inventory.devices_fault, devices(placer)) == ("", 2)
