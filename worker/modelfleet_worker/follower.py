"""The life of a member that is not the leader: joins, runs its share of the engine, and ends when its leader does."""

import asyncio
import json
import logging
import os
import time
from contextlib import AbstractAsyncContextManager
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from modelfleet_worker import command, group, processes, starting
from modelfleet_worker.assembly import check_files, engine_python
from modelfleet_worker.engine import Engine
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.frozen import frozen
from modelfleet_worker.interfaces import interface_of
from modelfleet_worker.link import BEAT_S, Link, LinkLostError, connect
from modelfleet_worker.member import Member, engine_args, engine_environment
from modelfleet_worker.memory import Memory
from modelfleet_worker.plan import Plan
from modelfleet_worker.start_outlook import Phase
from modelfleet_worker.state import Progress, State
from modelfleet_worker.status import PartsPage, StatePage, served
from modelfleet_worker.supervisor import KILL_TIMEOUT_S, STOP_TIMEOUT_S, Places
from modelfleet_worker.waiting import first, in_thread
from modelfleet_worker.watching import explained, watchers

_RETRY_S = 0.5
_log = logging.getLogger(__name__)


class Follower:
    """One member, from start to end. Its leader says when to start and when all is done.

    Of the leader's parts it has the one that looks after memory, since that is each node's own.
    """

    def __init__(self, plan: Plan, member: Member, places: Places) -> None:
        self._plan, self._member, self._places = plan, member, places
        now_s = time.monotonic()
        self._deadline_s = now_s + plan.limits.start_deadline_s
        self._progress = Progress(now_s)
        self._memory = Memory(plan, self._progress, places.termination_log, places.runtime)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(StatePage(self._progress))
        self._registry.register(PartsPage((self._memory,)))
        self._engine: Engine | None = None
        self._stop = asyncio.Event()
        self._waits_for = f"{member.leader} was not asked yet"
        self._leader = ("", "")  # its node and its address

    async def run(self) -> Failure | None:
        """Lives until the leader is done, and gives None; or gives why the group ended.

        All processes below this one are gone when it returns. Raises OSError if the status port cannot be opened.
        """
        processes.hear_stop(self._asked_to_stop)
        processes.adopt_orphans()
        async with self._status_port():
            if failure := await self._check():
                return failure
            return None if self._stop.is_set() else await self._live(engine_python(self._plan))

    def _asked_to_stop(self, name: str) -> None:
        _log.info("%s received%s", name, " again, which changes nothing" if self._stop.is_set() else "")
        self._stop.set()

    async def _check(self) -> Failure | None:
        """Why no engine should be started; None also when a stop is asked for."""
        found: list[Failure | None] = []

        async def look() -> None:
            found.append(await in_thread(check_files, self._plan) or await self._memory.check())

        limits = self._plan.limits
        if await first(limits.start_deadline_s, self._stop.wait(), look()) is None:
            return starting.start_timeout(limits.start_deadline_s, starting.LOOKS_AT_FILES, "")
        return found[0] if found else None

    async def _live(self, python: str) -> Failure | None:
        self._progress.enter(Phase.MEMBERS, time.monotonic())
        joining = asyncio.ensure_future(self._join())
        left_s = self._deadline_s - time.monotonic()
        try:
            came = await first(left_s, _wait(joining), self._stop.wait())
        except group.EndedError as error:
            return error.failure
        finally:
            joining.cancel()
        if came is None:
            return _never_joined(self._plan.limits.start_deadline_s, self._waits_for)
        if came == 1:
            return None
        link = joining.result()
        try:
            failure = await self._take_part(python, link)
        finally:
            self._progress.state = State.GONE
            if left := processes.kill_descendants(KILL_TIMEOUT_S):
                _log.error("processes %s do not end", left)
            await link.close()
        return failure

    async def _join(self) -> Link:
        """Returns the connection once the leader says that all are there. Raises EndedError."""
        _log.info("joining %s as rank %d", self._member.leader, self._member.rank)
        while True:
            try:
                link = await connect(self._member.leader, self._places.group_port)
            except OSError as error:
                self._waits_for = f"{self._member.leader} cannot be reached: {error.strerror or error}"
                await asyncio.sleep(_RETRY_S)
                continue
            try:
                await self._meet(link)
            except LinkLostError as error:
                self._waits_for = f"the leader {error}"
                await link.close()
                await asyncio.sleep(_RETRY_S)
            except BaseException:
                await link.close()
                raise
            else:
                return link

    async def _meet(self, link: Link) -> None:
        """Returns when the leader says to start. Raises LinkLostError, also where the leader refuses us."""
        member = self._member
        link.say("hello", token=member.token, rank=str(member.rank), node=member.node)
        while True:
            link.say("beat")
            said = await link.hear()
            if said["say"] == "refused":
                raise LinkLostError(f"refused: {str(said.get('why', ''))[:300]}")
            if said["say"] == "welcome":
                self._leader = str(said.get("node", "")), str(said.get("address", ""))
                self._waits_for = "the leader waits for other members"
            elif said["say"] == "failed":
                raise group.EndedError(group.failure_in(said))
            elif said["say"] == "done":
                raise LinkLostError("left before it started")
            elif said["say"] == "start":
                return

    async def _take_part(self, python: str, link: Link) -> Failure | None:
        engine = self._launch(python)
        beats = asyncio.ensure_future(_beat(link))
        try:
            return await self._until_the_end(engine, link)
        finally:
            beats.cancel()

    async def _until_the_end(self, engine: Engine, link: Link) -> Failure | None:
        hearing = asyncio.ensure_future(self._hear(link))
        still = asyncio.ensure_future(frozen())
        try:
            async with watchers((self._memory,)):
                came = await first(None, _wait(hearing), engine.ended(), _wait(still), self._outstays(link))
                if came == 1:  # the leader's word counts more: its end may be why our engine ended
                    await first(group.LAST_WORDS_S, _wait(hearing))
            if hearing.done():
                return hearing.result()
            if came == 3:
                _log.warning("the leader is not done; this member may not wait for it any longer")
                return None
            failure = await self._account(engine, still.result() if came == 2 else "")
            if hearing.done():  # so does what it said meanwhile
                return hearing.result()
            link.say("failed", reason=failure.reason, message=failure.message, remedy=failure.remedy)
            return failure
        finally:
            hearing.cancel()
            still.cancel()

    async def _account(self, engine: Engine, hangs: str) -> Failure:
        """Our own failure."""
        state = self._progress.state
        self._progress.state = State.GONE
        if hangs:
            return group.hung(hangs)
        processes.kill_descendants(KILL_TIMEOUT_S)
        return await explained(engine.failure(state), (self._memory,))

    async def _hear(self, link: Link) -> Failure | None:
        """Follows the leader's state. Returns None when it is done, or why the group ended."""
        while True:
            try:
                said = await link.hear()
            except LinkLostError as error:
                return group.lost(0, self._leader[0], str(error))
            if said["say"] == "failed":
                return group.failure_in(said)
            if said["say"] == "done":
                return None
            if said["say"] == "beat" and str(said.get("state")) in set(State):
                self._follow(State(said["state"]))

    def _follow(self, state: State) -> None:
        if State.GONE in (state, self._progress.state) or state is self._progress.state:
            return  # how it ended, the leader tells apart
        if self._progress.phase is not None and state is State.SERVING:
            self._progress.enter(None, time.monotonic())
            if self._engine is not None:
                self._engine.serves()
            _log.info("the leader serves: rank %d takes part", self._member.rank)
        self._progress.state = state

    async def _outstays(self, link: Link) -> None:
        """After SIGTERM the leader is asked to drain, and waited for; returns when that took too long."""
        await self._stop.wait()
        link.say("asked")
        limits = self._plan.limits
        await asyncio.sleep(limits.propagation_s + limits.drain_s + STOP_TIMEOUT_S + KILL_TIMEOUT_S)

    def _launch(self, python: str) -> Engine:
        self._places.scratch.mkdir(parents=True, exist_ok=True)
        argv = command.follower_argv(self._plan, python, engine_args(self._member, self._leader[1]))
        base = command.base_environment(self._plan, str(self._places.scratch), os.environ)
        env = base | engine_environment(self._member, self._plan.env, interface_of)
        _log.info("starting %s", " ".join(argv))
        self._engine = Engine(argv, env, str(self._places.scratch), [self._memory.heard])
        self._progress.enter(Phase.BOOT, time.monotonic())
        return self._engine

    def _status_port(self) -> AbstractAsyncContextManager[None]:
        app = web.Application()
        app.router.add_get("/startupz", self._startup)
        app.router.add_get("/livez", self._alive)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        return served(app, self._places.status_port)

    async def _startup(self, _: web.Request) -> web.Response:
        return self._answer(self._progress.phase is None)

    async def _alive(self, _: web.Request) -> web.Response:
        """A lost leader or a dead engine ends the process within seconds; the state is `gone` from then on."""
        return self._answer(self._progress.state is not State.GONE)

    async def _ready(self, _: web.Request) -> web.Response:
        return self._answer(self._progress.state is State.SERVING)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _answer(self, good: bool) -> web.Response:
        phase = self._progress.phase
        message = f"rank {self._member.rank}: " + (
            f"phase {phase}" if phase else f"the leader is {self._progress.state}"
        )
        body = json.dumps({"ok": good, "reason": "Joined" if phase is None else "Joining", "message": message})
        return web.Response(text=body, content_type="application/json", status=200 if good else 503)


async def _beat(link: Link) -> None:
    while True:
        link.say("beat")
        await asyncio.sleep(BEAT_S)


async def _wait(task: "asyncio.Future[Any]") -> None:
    """Waits for a task that goes on when the waiting is cancelled. Raises what it raised."""
    await asyncio.wait([task])
    task.result()


def _never_joined(deadline_s: float, waits_for: str) -> Failure:
    message = f"This member's group did not come together within {deadline_s:g} s: {waits_for}."
    remedy = "See why the pods of the other ranks do not run; the log of the leader says which it waits for."
    return Failure(reason=Reason.ENGINE_START_TIMEOUT, message=message, remedy=remedy)
