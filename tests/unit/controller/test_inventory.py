"""The inventory follows a cluster by lists and watches, and the placer hands out what it shows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from modelfleet.api import names
from modelfleet.controller.cluster import ApiError
from modelfleet.controller.inventory import STALE_S
from modelfleet.controller.placer import WAKE_S, Placer
from modelfleet.controller.resources import NODES
from modelfleet.controller.streams import Change, GoneError, Page
from modelfleet.controller.triggers import Key
from modelfleet.core.placement.view import Reservation

pytestmark = pytest.mark.looptime(start=1000)

GPU = "nvidia.com/gpu"
CHAT = Key("models", "chat")


def node(name: str, gpus: int = 8, **spec: object):
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {GPU: str(gpus), "pods": "110"}}
    return {"metadata": {"name": name, "resourceVersion": "2"}, "spec": spec, "status": status}


def pod(name: str, on: str = "n1", gpus: int = 1, phase: str = "Running"):
    owner = {"apiVersion": names.API_VERSION, "kind": names.DEPLOYMENT_KIND, "name": "chat", "controller": True}
    metadata = {"name": name, "namespace": "models", "resourceVersion": "3", "ownerReferences": [owner]}
    resources = {"requests": {GPU: str(gpus)}}
    return {
        "metadata": metadata,
        "spec": {"nodeName": on, "containers": [{"resources": resources}]},
        "status": {"phase": phase},
    }


class FakeStreams:
    """Lists in pages of one object; a watch gives what is put into its queue. No other kinds are served."""

    def __init__(self, nodes, pods, **others) -> None:
        self.items = {"nodes": list(nodes), "pods": list(pods), **others}
        self.queues: dict[str, asyncio.Queue] = {plural: asyncio.Queue() for plural in self.items}
        self.lists: list[str] = []
        self.pods_held = asyncio.Event()
        self.pods_held.set()
        self.refused: ApiError | None = None
        self.list_s, self.gone, self.denied = 0.0, False, 0
        self.watches: list[str] = []

    async def page(self, resource, token="", fields=""):
        await asyncio.sleep(self.list_s)
        if resource.plural not in self.items:
            self.denied += 1
            raise ApiError(f"list {resource.plural}: HTTP 404", status=404)
        if resource is not NODES:
            await self.pods_held.wait()
        self.lists += [resource.plural] if not token else []
        if self.refused is not None and resource is NODES:
            raise self.refused
        at = int(token or 0)
        items = self.items[resource.plural]
        return Page(tuple(items[at : at + 1]), "1", str(at + 1) if at + 1 < len(items) else "")

    async def watch(self, resource, version, fields="") -> AsyncIterator[Change]:
        self.watches.append(resource.plural)
        while True:
            if self.gone:
                raise GoneError
            said = await self.queues[resource.plural].get()
            if isinstance(said, Exception):
                raise said
            yield said

    async def say(self, plural, *events):
        for event in events:
            self.queues[plural].put_nowait(event)
        await settle()


class Woken:
    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.behind: list[Key] = []

    def add(self, key, *, behind=False):
        self.keys.append(key)
        self.behind += [key] if behind else []


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def placer_on(streams):
    woken = Woken()
    placer = Placer(streams, woken)
    following = asyncio.create_task(placer.inventory.run())
    await settle()
    try:
        yield placer, woken
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def free(placer, key=CHAT, pods=()):
    view = placer.view(key, pods, (GPU,))
    return None if view is None else {node.name: node.free[GPU] for node in view.nodes}


async def test_nothing_is_handed_out_before_all_pages_are_read():
    streams = FakeStreams([node("n1"), node("n2")], [pod("a"), pod("b")])
    streams.pods_held.clear()
    async with placer_on(streams) as (placer, woken):
        assert free(placer) is None
        assert "pods" in placer.inventory.fault()
        streams.pods_held.set()
        await settle()
        assert free(placer) == {"n1": 6, "n2": 8}
        await asyncio.sleep(WAKE_S * 1.1)
        assert woken.keys == [CHAT]


async def test_those_that_found_no_books_are_woken_before_others_in_their_order():
    """At a new leader what changed meanwhile asks first: it does not wait for a round of the fleet once more."""
    streams = FakeStreams([node("n1")], [pod("a")])
    streams.pods_held.clear()
    keys = [Key("models", name) for name in ("z", "a", "m")]
    async with placer_on(streams) as (placer, woken):
        assert [free(placer, key) for key in keys] == [None] * 3
        streams.pods_held.set()
        await asyncio.sleep(WAKE_S * 1.1)
        assert (woken.keys, woken.behind) == (keys, [])


async def test_a_watch_changes_the_books():
    streams = FakeStreams([node("n1")], [pod("a")])
    async with placer_on(streams) as (placer, _):
        await streams.say("pods", Change("ADDED", pod("b", gpus=4)), Change("DELETED", pod("a")))
        assert free(placer) == {"n1": 4}
        await streams.say("pods", Change("MODIFIED", pod("b", gpus=4, phase="Succeeded")))
        await streams.say("nodes", Change("ADDED", node("n2", gpus=4)))
        assert free(placer) == {"n1": 8, "n2": 4}


async def test_after_410_what_the_new_list_lacks_is_gone():
    streams = FakeStreams([node("n1")], [pod("a"), pod("b")])
    async with placer_on(streams) as (placer, _):
        streams.items["pods"] = [pod("b")]
        await streams.say("pods", GoneError())
        await asyncio.sleep(1)
        assert (free(placer), streams.lists.count("pods")) == ({"n1": 7}, 2)


async def test_what_keeps_the_lists_from_being_read_is_told_and_those_who_wait_are_woken_for_it():
    streams = FakeStreams([node("n1")], [pod("a")])
    streams.refused = ApiError("list nodes: HTTP 403, nodes is forbidden", status=403)
    async with placer_on(streams) as (placer, woken):
        assert free(placer) is None
        sentence = "the nodes of the cluster are not all read yet (list nodes: HTTP 403, nodes is forbidden)"
        assert placer.fault() == sentence
        await asyncio.sleep(60)
        assert len(woken.keys) <= 1  # the same refusal again is nothing new
        assert streams.lists.count("nodes") <= 10
        streams.refused = None
        await asyncio.sleep(20)
        assert (placer.fault(), free(placer)) == ("", {"n1": 7})
        assert woken.keys[-1:] == [CHAT]


async def test_a_new_list_after_a_long_silence_wakes_those_who_wait():
    streams = FakeStreams([node("n1")], [pod("a")])
    async with placer_on(streams) as (placer, woken):
        await asyncio.sleep(STALE_S + 1)
        assert free(placer) is None
        await streams.say("nodes", GoneError())
        await streams.say("pods", GoneError())
        await asyncio.sleep(5)
        assert (free(placer), woken.keys) == ({"n1": 7}, [CHAT])


async def test_a_retry_after_is_kept_also_after_a_watch_that_held():
    streams = FakeStreams([node("n1")], [pod("a")])
    async with placer_on(streams):
        await asyncio.sleep(60)
        await streams.say("pods", ApiError("watch pods: HTTP 429", status=429, retry_after_s=30))
        began = streams.watches.count("pods")
        await asyncio.sleep(29)
        assert streams.watches.count("pods") == began
        await asyncio.sleep(2)
        assert streams.watches.count("pods") == began + 1


async def test_long_lists_whose_watch_is_refused_at_once_are_not_read_without_a_pause():
    streams = FakeStreams([node("n1")], [pod("a")])
    streams.list_s = 20.0
    streams.gone = True
    async with placer_on(streams):
        await asyncio.sleep(350)
        assert streams.lists.count("nodes") <= 12  # 20 s each, and up to 15 s between them


async def test_a_broken_watch_goes_on_from_its_last_version_without_a_list():
    streams = FakeStreams([node("n1")], [pod("a")])
    async with placer_on(streams) as (placer, _):
        await streams.say("pods", ApiError("watch pods: it broke off"))
        await asyncio.sleep(1)
        await streams.say("pods", Change("ADDED", pod("b")))
        assert (free(placer), streams.lists.count("pods")) == ({"n1": 6}, 1)


async def test_only_keys_that_wait_for_room_are_woken_by_room():
    streams = FakeStreams([node("n1")], [pod("a")])
    waiting, calm = Key("models", "waiting"), Key("models", "calm")
    async with placer_on(streams) as (placer, woken):
        placer.record(waiting, (), (), waits=True)
        placer.record(calm, (), (), waits=False)
        await streams.say("pods", Change("ADDED", pod("b")))
        await asyncio.sleep(WAKE_S * 1.1)
        assert woken.keys == []
        await streams.say("pods", Change("DELETED", pod("a")), Change("DELETED", pod("b")))
        await asyncio.sleep(WAKE_S * 1.1)
        assert woken.keys == [waiting]
        assert woken.behind == [waiting], "most look in vain: what users change does not wait for them"


async def test_where_many_wait_for_room_they_are_woken_more_seldom():
    streams = FakeStreams([node("n1")], [pod("a")])
    async with placer_on(streams) as (placer, woken):
        for number in range(200):
            placer.record(Key("models", f"m{number:03}"), (), (), waits=True)
        await streams.say("pods", Change("DELETED", pod("a")))
        await asyncio.sleep(9)
        assert woken.keys == []
        await asyncio.sleep(2)
        assert len(woken.keys) == 200


async def test_a_cordon_wakes_those_who_stand_on_the_node():
    streams = FakeStreams([node("n1"), node("n2")], [pod("a")])
    async with placer_on(streams) as (_, woken):
        await streams.say("nodes", Change("MODIFIED", node("n2", unschedulable=True)))
        assert woken.keys == []
        await streams.say("nodes", Change("MODIFIED", node("n1", unschedulable=True)))
        assert (woken.keys, woken.behind) == ([CHAT], [])


async def test_what_one_key_reserves_another_does_not_get():
    streams = FakeStreams([node("n1")], [])
    other = Key("models", "other")
    async with placer_on(streams) as (placer, _):
        placer.record(CHAT, (), (Reservation(pod="models/chat-0", node="n1", requests={GPU: 8}),), waits=False)
        assert (free(placer, CHAT), free(placer, other)) == ({"n1": 8}, {"n1": 0})
        placer.forget(CHAT)
        assert free(placer, other) == {"n1": 8}


async def test_room_of_a_pod_pinned_a_moment_ago_is_kept_until_the_watch_shows_it():
    streams = FakeStreams([node("n1")], [])
    other = Key("models", "other")
    async with placer_on(streams) as (placer, _):
        placer.record(CHAT, [pod("chat-0", gpus=8)], (), waits=False)
        assert free(placer, other) == {"n1": 0}
        await streams.say("pods", Change("ADDED", pod("chat-0", gpus=8)))
        placer.record(CHAT, [pod("chat-0", gpus=8)], (), waits=False)
        assert free(placer, other) == {"n1": 0}
        await streams.say("pods", Change("DELETED", pod("chat-0", gpus=8)))
        assert free(placer, other) == {"n1": 8}


async def test_old_books_are_not_decided_on():
    streams = FakeStreams([node("n1")], [])
    async with placer_on(streams) as (placer, _):
        await asyncio.sleep(STALE_S + 1)
        assert free(placer) is None
        assert "told nothing" in placer.inventory.fault()
