"""The leader's half of a group: waits for every rank, says when to start and to end, and stands or falls with each.

The members hold one connection each to the leader (link.py). All of them meet before any engine starts, so that engines
of two attempts never mix; from then on the end of one connection, or a word of failure on it, ends every member.
"""

import asyncio
import hmac
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from modelfleet_worker import processes
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.interfaces import interface_of
from modelfleet_worker.link import BEAT_S, Link, LinkLostError
from modelfleet_worker.member import Member, engine_args, engine_environment
from modelfleet_worker.parts import Around, Equipment, Part
from modelfleet_worker.start_outlook import Phase
from modelfleet_worker.state import Progress

LAST_WORDS_S = 1.5
"""How long a member whose engine ended waits for another's words before it speaks: the other's end may be the cause."""

TOLD_S = 3.0
"""How long an engine that is given up may take to tell its clients."""

_LOOK_S = 0.1
_HELLO_S = 5.0
_BEFORE_DEADLINE_S = 0.2  # the supervisor ends a start at its deadline, and cannot name the ranks that are missing
_REMEDY = "Look at the log of that member's container (kubectl logs --previous)."
_log = logging.getLogger(__name__)


class EndedError(Exception):
    """The leader says that the group has ended, and why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Lead:
    """Rank 0 among its members. `asked` is called when a member is asked to end, so that the leader drains."""

    def __init__(self, member: Member, port: int, progress: Progress, asked: Callable[[str], None]) -> None:
        self._member, self._port, self._progress, self._asked = member, port, progress, asked
        self._peers: dict[int, tuple[str, Link]] = {}
        self._whole, self._lost = asyncio.Event(), asyncio.Event()
        self._started = self._leaving = False
        self._failure: Failure | None = None
        self._beats: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listens for the other members. Raises OSError."""
        self._server = await asyncio.start_server(self._arrived, None, self._port)
        self._beats = asyncio.ensure_future(self._beat())

    @property
    def args(self) -> tuple[str, ...]:
        """The engine's arguments of this member."""
        return engine_args(self._member, self._member.address)

    @property
    def missing(self) -> str:
        """The ranks that have not joined, in words; empty if none is missing."""
        ranks = [str(rank) for rank in range(1, self._member.group.nodes) if rank not in self._peers]
        return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}" if ranks else ""

    async def assemble(self) -> None:
        """Returns when every member is there; from then on they start their engines, and none may be lost."""
        _log.info("waiting for %s", self.missing)
        while self.missing:
            await self._whole.wait()
        self._started = True
        _log.info("all %d members are there", self._member.group.nodes)
        self._tell("start")

    async def lost(self) -> Failure:
        """Returns once a member is lost, and why."""
        await self._lost.wait()
        assert self._failure is not None
        return self._failure

    @property
    def failure(self) -> Failure | None:
        """Why a member was lost."""
        return self._failure

    def lose(self, failure: Failure) -> None:
        """Ends the group; only the first failure counts, and none that comes of its own end."""
        if self._failure is None and not self._leaving:
            self._failure = failure
            self._lost.set()

    def leave(self) -> None:
        """The leader is done with its requests: the others may end, and their ends are no news any more."""
        self._leaving = True
        self._tell("done")

    async def close(self, failure: Failure | None) -> None:
        """Tells the others how it ended, and closes."""
        if failure is not None and not self._leaving:
            told = failure if failure is self._failure else ended(0, self._member.node, failure)
            self._leaving = True
            self._tell("failed", reason=told.reason, message=told.message, remedy=told.remedy)
        self.leave()
        if self._beats is not None:
            self._beats.cancel()
            self._server.close()
        await asyncio.gather(*(link.close() for _, link in self._peers.values()))

    def _tell(self, kind: str, **fields: str) -> None:
        for _, link in self._peers.values():
            link.say(kind, **fields)

    async def _beat(self) -> None:
        while True:
            self._tell("beat", state=self._progress.state)
            await asyncio.sleep(BEAT_S)

    async def _arrived(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        with suppress(LinkLostError):
            hello = await link.hear(_HELLO_S)
            if why := self._refusal(hello):
                link.say("refused", why=why)
            else:
                await self._attend(int(hello["rank"]), str(hello.get("node", ""))[:253], link)
        await link.close()

    def _refusal(self, hello: Any) -> str:
        token, rank = str(hello.get("token", "")), str(hello.get("rank", ""))
        if hello["say"] != "hello" or not hmac.compare_digest(
            token.encode(errors="replace"), self._member.token.encode()
        ):
            return "it is the leader of another replica"
        if not rank.isdecimal() or not 0 < int(rank) < self._member.group.nodes:
            return f"its group has no rank {rank[:20]} to give"
        if self._started and int(rank) not in self._peers:
            return "its group is about to end"
        return ""

    async def _attend(self, rank: int, node: str, link: Link) -> None:
        """Hears one member until its connection ends."""
        if rank in self._peers and self._started:
            self.lose(lost(rank, node, "started anew"))
            return
        self._peers[rank] = node, link
        link.say("welcome", node=self._member.node, address=self._member.address)
        _log.info("rank %d on node %s joined%s", rank, node, f"; {self.missing} to come" if self.missing else "")
        if not self.missing:
            self._whole.set()
        try:
            while True:
                self._heard(rank, node, await link.hear())
        except LinkLostError as error:
            if self._peers.get(rank) == (node, link):
                del self._peers[rank]
                self._whole.clear()
                if self._started:
                    self.lose(lost(rank, node, str(error)))

    def _heard(self, rank: int, node: str, said: Any) -> None:
        if said["say"] == "failed":
            self.lose(ended(rank, node, failure_in(said)))
        elif said["say"] == "asked":
            self._asked(f"by rank {rank} on node {node}, which is asked to end: SIGTERM")


class Members(Part):
    """The leader's part: its engine starts with those of the other members, and ends with them."""

    def __init__(self, around: Around, member: Member, lead: Lead) -> None:
        self._around, self._member, self._lead = around, member, lead
        self._came_first: Failure | None = None
        self._until_s = time.monotonic() + around.plan.limits.start_deadline_s - _BEFORE_DEADLINE_S

    async def check(self) -> Failure | None:
        self._around.progress.enter(Phase.MEMBERS, time.monotonic())
        await self._lead.open()
        try:
            async with asyncio.timeout(self._until_s - time.monotonic()):
                await self._lead.assemble()
        except TimeoutError:
            return never_assembled(self._around.plan.limits.start_deadline_s, self._lead.missing)
        return None

    def equip(self, code: Path) -> Equipment:
        env = engine_environment(self._member, self._around.plan.env, interface_of)
        return Equipment(args=self._lead.args, env=env)

    async def watch(self) -> Failure:
        """An answer under way ends with an error, or breaks off when the tree is killed after it: it is never whole."""
        failure = await self._lead.lost()
        await _ask_to_end()
        return failure

    async def hear_out(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._lead.lost()
        self._came_first = self._lead.failure  # what comes from now on may only come of our own end

    async def explain(self, failure: Failure) -> Failure:
        return self._came_first or failure

    def released(self) -> None:
        self._lead.leave()

    async def close(self, failure: Failure | None) -> None:
        await self._lead.close(failure)


async def _ask_to_end() -> None:
    """Gives the engine a moment to put an error into its streams."""
    for process in processes.below(os.getpid()):
        if process.parent == os.getpid():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(TOLD_S):
            while any(process.parent == os.getpid() for process in processes.below(os.getpid())):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)


def ended(rank: int, node: str, failure: Failure) -> Failure:
    """A member's failure as the others tell it."""
    message = f"Rank {rank} on node {node} ended: {failure.message}"
    return Failure(reason=failure.reason, message=message, remedy=failure.remedy, phase=failure.phase)


def lost(rank: int, node: str, how: str) -> Failure:
    """The failure of a group that lost a member which did not say why."""
    message = f"Rank {rank} on node {node} {how}."
    return Failure(reason=Reason.GROUP_MEMBER_LOST, message=message, remedy=_REMEDY, phase="serving")


def hung(sentence: str) -> Failure:
    """The failure of an engine that is alive and does nothing."""
    remedy = "Look at the logs of all members; a hung network between the nodes and a hung device are the usual causes."
    return Failure(reason=Reason.ENGINE_HUNG, message=sentence, remedy=remedy, phase="serving")


def failure_in(said: Any) -> Failure:
    """The failure in a message of another member."""
    text = {field: str(said.get(field, ""))[:2000] for field in ("reason", "message", "remedy")}
    reason = Reason(text["reason"]) if text["reason"] in set(Reason) else Reason.GROUP_MEMBER_LOST
    return Failure(reason=reason, message=text["message"], remedy=text["remedy"], phase="serving")


def never_assembled(deadline_s: float, missing: str) -> Failure:
    """The failure of a leader whose members did not all come."""
    message = f"The group did not come together within {deadline_s:g} s: {missing} did not join."
    remedy = "See why the pods of the missing ranks do not run."
    return Failure(reason=Reason.ENGINE_START_TIMEOUT, message=message, remedy=remedy)
