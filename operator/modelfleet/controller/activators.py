"""What is to be seen of the activators of one ModelDeployment: the slice, an answer through the Service, the age of
what they tell, a port that is free. I/O: reads only.

Only models that may go to zero are looked at; for all others nothing is read or asked.
"""

import asyncio
import ipaddress
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import aiohttp

from modelfleet.api import names
from modelfleet.api.zero_status import ZeroState
from modelfleet.controller.cluster import Cluster
from modelfleet.controller.resources import DEPLOYMENTS, SLICES
from modelfleet.controller.triggers import Key, Triggers
from modelfleet.core import raw
from modelfleet.core.activator import Answer, waiting_in
from modelfleet.core.handshake import free_port
from modelfleet.core.kept import entry
from modelfleet.core.snapshot import Raw, World

ASKED_AT_ONCE = 5
"""Pods may be behind the Service besides activators, and Kubernetes chooses: with the one before, so many questions
find one of two activators among three pods in 95 of 100 looks, and the next look is a second later."""

ASKED_EVERY_S = 30.0
"""How often models at zero are asked whether their activators still answer, without a look at anything else."""

_ASKED_TOGETHER = 16
_TIMEOUT_S = 2.0
_LONGEST_ANSWER_BYTES = 4096
_ANSWER_S = 1.0  # an answer is not asked for more often
_ASKED_IN = {ZeroState.LEAVING, ZeroState.AT_ZERO, ZeroState.WAKING}

Ask = Callable[[str], Awaitable[tuple[int, bytes]]]
"""GET of an address on a connection of its own: status and at most the first bytes. Raises OSError, aiohttp.ClientError
or TimeoutError."""


@dataclass
class _Memory:
    """What is remembered of a model: when an answer was last had or asked for, and since when entries are there.
    `followed`: the address and the uid to ask for between looks, while it is at zero and activators answer."""

    silent_since_s: float | None = None
    asked_at_s: float | None = None
    answer: Answer | None = None
    entries: dict[tuple[str, str], float] = field(default_factory=dict)
    followed: tuple[str, str] | None = None


async def ask(url: str) -> tuple[int, bytes]:
    """`Ask` on the network. No redirect is followed, no proxy of the environment is used."""
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
        session.get(url, allow_redirects=False) as answer,
    ):
        return answer.status, await answer.content.read(_LONGEST_ANSWER_BYTES)


class Activators:
    """Looks, and remembers between looks what no read shows. Losing it costs time, never correctness."""

    def __init__(self, cluster: Cluster, namespaces: Sequence[str] = (), ask_one: Ask = ask) -> None:
        """`namespaces` are those that this installation serves; empty: all."""
        self._cluster, self._ask = cluster, ask_one
        self._memory: dict[Key, _Memory] = {}
        self._ports = _Ports(cluster, namespaces)

    async def seen_in(self, key: Key, world: World) -> World:
        """The world with what is to be seen. Raises ApiError."""
        kept = self._kept(key, world)
        if raw.at(world.deployment, "spec", "scaling", "toZero") is None and not kept:
            self.forget(key)
            return world
        memory = self._memory.setdefault(key, _Memory())
        found = await self._cluster.get(SLICES, names.activator_slice(key.name), key.namespace)
        asked = any(raw.text(kept, "state") == state for state in _ASKED_IN)
        if not asked:
            memory.silent_since_s = memory.asked_at_s = memory.answer = None
        answer = await self._answer(key, world, memory) if asked else None
        follows = answer is not None and answer.proven and raw.text(kept, "state") == ZeroState.AT_ZERO
        memory.followed = (_probe(key, world), raw.uid(world.deployment)) if follows else None
        return replace(
            world,
            slices=(found,) if found is not None else (),
            activator=answer,
            activator_port=await self._port(key, world, kept),
            demand_s=self._ages_s(world.deployment, memory),
        )

    async def run(self, triggers: Triggers) -> None:
        """Asks for models at zero whether their activators still answer, and has those looked at for which none does.
        Until cancelled."""
        while True:
            await asyncio.sleep(ASKED_EVERY_S)
            due = [(key, *memory.followed) for key, memory in self._memory.items() if memory.followed is not None]
            for begin in range(0, len(due), _ASKED_TOGETHER):
                some = due[begin : begin + _ASKED_TOGETHER]
                said = await asyncio.gather(*(self._asked(url, uid) for _, url, uid in some))
                for (key, *_), why in zip(some, said, strict=True):
                    if why:
                        triggers.add(key)

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a key."""
        self._memory.pop(key, None)
        self._ports.free(key)

    def _kept(self, key: Key, world: World) -> Raw:
        state = next((item for item in world.config_maps if raw.name(item) == names.state(key.name)), None)
        return entry(state, names.ZERO_KEY)

    async def _answer(self, key: Key, world: World, memory: _Memory) -> Answer:
        now_s = asyncio.get_running_loop().time()
        young = memory.asked_at_s is not None and now_s - memory.asked_at_s < _ANSWER_S
        if memory.answer is not None and memory.answer.proven and young:
            return memory.answer
        why = await self._why_silent(key, world)
        now_s = asyncio.get_running_loop().time()
        memory.asked_at_s = now_s
        if not why:
            memory.silent_since_s, memory.answer = None, Answer(proven=True)
        else:
            memory.silent_since_s = now_s if memory.silent_since_s is None else memory.silent_since_s
            memory.answer = Answer(proven=False, why=why, silent_s=now_s - memory.silent_since_s)
        return memory.answer

    async def _why_silent(self, key: Key, world: World) -> str:
        """Empty: one answered for this model."""
        uid, service = raw.uid(world.deployment), _service(key, world)
        if service is None or raw.controller(service).get("uid") != uid:
            return "the model has no Service yet"
        url = _probe(key, world)
        if not url:
            return "its Service has no address"
        first = await self._asked(url, uid)
        if not first:
            return ""  # at zero, where nothing else is behind the Service, one question is enough
        said = await asyncio.gather(*(self._asked(url, uid) for _ in range(ASKED_AT_ONCE)))
        return "" if "" in said else min(said)

    async def _asked(self, url: str, uid: str) -> str:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                status, body = await self._ask(url)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            return f"{url} does not answer ({type(error).__name__})"
        try:
            named = raw.text(json.loads(body), "uid") if status == 200 else ""
        except (ValueError, RecursionError):  # anything may be behind the Service
            named = ""
        return "" if named == uid else f"{url} is answered by no activator of this model (HTTP {status})"

    async def _port(self, key: Key, world: World, kept: Raw) -> int | None:
        """For a model that keeps none yet; None where it does, or where all are taken."""
        uid, port = raw.uid(world.deployment), raw.integer(kept, "port")
        if not port:
            return await self._ports.choose(key, uid)
        self._ports.hold(key, uid, port)
        return None

    def _ages_s(self, deployment: Raw, memory: _Memory) -> dict[str, float]:
        now_s = asyncio.get_running_loop().time()
        entries = {(each.activator, each.at) for each in waiting_in(deployment)}
        memory.entries = {each: memory.entries.get(each, now_s) for each in entries}
        return {activator: now_s - since_s for (activator, _), since_s in memory.entries.items()}


class _Ports:
    """Which model has which port. Only the leader gives ports, and a process that no longer leads ends: so what others
    had given is listed once."""

    def __init__(self, cluster: Cluster, namespaces: Sequence[str]) -> None:
        self._cluster, self._namespaces = cluster, namespaces
        self._held: dict[Key, int] = {}
        self._uids: dict[Key, str] = {}  # of models whose port is known by themselves, not only by what is told of them
        self._listing, self._listed = asyncio.Lock(), False

    def hold(self, key: Key, uid: str, port: int) -> None:
        """A model has this port."""
        self._held[key], self._uids[key] = port, uid

    def free(self, key: Key) -> None:
        """A model has a port no more."""
        self._held.pop(key, None)
        self._uids.pop(key, None)

    async def choose(self, key: Key, uid: str) -> int | None:
        """A port that no other model has; the same until the model is gone. None: all are taken. Raises ApiError."""
        async with self._listing:
            if not self._listed:
                await self._list()
        if self._uids.get(key) != uid:
            port = free_port(uid, frozenset(held for other, held in self._held.items() if other != key))
            if port is None:
                return None
            self.hold(key, uid, port)
        return self._held[key]

    async def _list(self) -> None:
        for each in self._namespaces or (None,):
            for item in await self._cluster.list(DEPLOYMENTS, each):
                key = Key(item["metadata"]["namespace"], item["metadata"]["name"])
                if port := raw.integer(item, "status", "toZero", "activatorPort"):
                    self._held.setdefault(key, port)
        self._listed = True


def _service(key: Key, world: World) -> Raw | None:
    return next((item for item in world.services if raw.name(item) == names.child(key.name)), None)


def _probe(key: Key, world: World) -> str:
    """Where activators are asked through the model's Service; empty where it has no address."""
    try:
        address = ipaddress.ip_address(raw.text(_service(key, world), "spec", "clusterIP"))
    except ValueError:
        return ""
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"http://{host}:{names.SERVICE_PORT}{names.ACTIVATOR_PROBE_PATH}"
