"""Leads by a Lease: takes it, renews it, gives it up. I/O; what to do is decided in election.py."""

import asyncio
import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from modelfleet.controller import election
from modelfleet.controller.cluster import ApiError, Cluster, Conflict, Missing, Refused, Written
from modelfleet.controller.election import Held, Record, Sight, Step, Timing
from modelfleet.controller.resources import LEASES
from modelfleet.controller.rivals import Rivals

_log = logging.getLogger(__name__)

_RELEASE_S = 3.0


@dataclass(frozen=True)
class Candidate:
    """Which Lease, and under which identity; an identity belongs to one process, never to two."""

    namespace: str
    name: str
    identity: str


class Leadership(Protocol):
    """Whether this process is the one that acts."""

    @property
    def leads(self) -> bool:
        """It leads, as far as it knows; `write_left_s` is what holds before a write."""

    def write_left_s(self) -> float:
        """For how many seconds from now this process may write; 0 or less: not any more."""

    def fault(self) -> str | None:
        """Why a standby could not take over, if so."""

    async def acquire(self) -> None:
        """Waits until this process leads."""

    async def keep(self) -> str:
        """Goes on leading; ends with the reason when that is lost."""

    async def release(self) -> None:
        """Lets another lead at once; nothing may be written afterwards. Also for a process that stops to stand by."""


class Alone:
    """Leadership of a process that knows it has no other beside it."""

    leads = True

    def write_left_s(self) -> float:
        return math.inf

    def fault(self) -> str | None:
        return None

    async def acquire(self) -> None:
        return None

    async def keep(self) -> str:
        for_ever: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await for_ever

    async def release(self) -> None:
        return None


class _RivalLeadsError(Exception):
    """Another installation serves a namespace of ours; one sentence."""


class Elected:
    """Leadership by a Lease. `cluster` must not be the one that asks `write_left_s` before it writes.

    With `rivals`, it leads only while no other installation serves one of its namespaces. They are looked for before
    the Lease is taken, so that a refused one writes nothing, and after: of two that take theirs at once, each of whom
    writes before it looks, at least one sees the other's and gives up. A leader looks again only when its Lease was
    taken away and it makes it anew.
    """

    def __init__(
        self,
        cluster: Cluster,
        candidate: Candidate,
        now: Callable[[], datetime],
        timing: Timing | None = None,
        rivals: Rivals | None = None,
    ) -> None:
        self._cluster, self._me, self._now, self._timing = cluster, candidate, now, timing or Timing()
        self._rivals = rivals
        self._rivalled = False
        self._held: Held | None = None
        self._sight: Sight | None = None
        self._version: str | None = None  # of the Lease that `_sight` shows; None: it must be read first
        self._fault: str | None = f"the Lease {candidate.namespace}/{candidate.name} has not been read yet"
        self._told = ""

    @property
    def leads(self) -> bool:
        return self._held is not None

    def write_left_s(self) -> float:
        return election.write_left_s(self._held, self._clock_s(), self._timing)

    def fault(self) -> str | None:
        return self._fault

    async def acquire(self) -> None:
        while True:
            await self._attempt(self._timing.attempt_s)
            if self.leads:
                return
            await asyncio.sleep(self._pause_s())

    async def keep(self) -> str:
        while self._held is not None:
            deadline_s = self._held.renewed_s + self._timing.deadline_s
            await asyncio.sleep(max(0.0, min(self._timing.retry_s, deadline_s - self._clock_s())))
            left_s = deadline_s - self._clock_s()
            if left_s > 0:  # a process that slept over its deadline must not come back by a late renewal
                await self._attempt(min(self._timing.attempt_s, left_s))
            if (why := self._loss()) is not None:
                self._held = None
                return f"the Lease {self._me.namespace}/{self._me.name} is lost: {why}"
        return self._fault or "the Lease was given up"

    async def release(self) -> None:
        held, self._held = self._held, None
        try:
            async with asyncio.timeout(_RELEASE_S):
                while not await self._given_up():
                    pass  # a write of ours was cancelled on its way, and arrived
        except (ApiError, TimeoutError) as error:
            if held is not None:
                _log.warning("the Lease was not given up and expires by itself: %s", str(error) or "no answer")

    async def _given_up(self) -> bool:
        """False after a conflict. A standby looks too: its write may have been cancelled after it was stored."""
        if self._version is None or self._sight is None:
            await self._read()
        assert self._sight is not None
        ours = self._sight.exists and self._sight.record.holder == self._me.identity
        return not ours or await self._write(election.released(self._sight, self._now()))

    def _loss(self) -> str | None:
        if self._held is None or self._sight is None:
            return None
        return election.decide_loss(self._held, self._sight, self._me.identity, self._clock_s(), self._timing)

    def _pause_s(self) -> float:
        """Until the next attempt: no later than another's Lease can expire."""
        if self._rivalled:  # spread, so that two that gave up for each other do not meet again and again
            return self._timing.retry_s * random.uniform(1.0, 2.0)
        if self._sight is None or self._fault is not None:
            return self._timing.retry_s
        expires_s = election.decide(self._sight, self._me.identity, self._clock_s(), self._timing).expires_s
        if expires_s is None:
            return self._timing.retry_s
        return min(self._timing.retry_s, max(0.0, expires_s - self._clock_s()))

    async def _attempt(self, limit_s: float) -> None:
        """One attempt to take or renew, told in the log where it says something new."""
        try:
            async with asyncio.timeout(limit_s):
                told: str | None = await self._step()
                if told is None:  # a conflict: look again at once
                    told = await self._step()
            told, self._fault, self._rivalled = told or "", None, False
        except _RivalLeadsError as error:
            self._held, self._version, self._rivalled = None, None, True
            told = self._fault = f"not leading: {error}"
        except (ApiError, TimeoutError) as error:
            self._version = None  # it may have been stored all the same
            told = self._fault = f"the Lease cannot be used: {str(error) or f'no answer in {limit_s:g} s'}"
        if told and told != self._told:
            _log.log(logging.WARNING if self._fault else logging.INFO, "%s", told)
        self._told = told

    async def _step(self) -> str | None:
        """Reads if need be, decides, acts; what to tell, or None after a conflict. Raises ApiError."""
        if self._version is None or self._sight is None:
            await self._read()
        assert self._sight is not None
        if self._held is not None and self._loss() is not None:
            return ""
        decision = election.decide(self._sight, self._me.identity, self._clock_s(), self._timing)
        if decision.step is Step.WAIT:
            self._version = None
            return f"standing by: {decision.reason}"
        first, create = self._held is None, decision.step is Step.CREATE
        if first:
            await self._give_way()
        record = election.record_for(self._sight, self._me.identity, self._now(), self._timing)
        sent_s = self._clock_s()
        if not await self._write(record, create=create):
            return None
        if first or create:
            await self._give_way()
        self._held = Held(sent_s)
        if first:
            _log.info("leading: %s", decision.reason, extra={"identity": self._me.identity})
        return ""

    async def _give_way(self) -> None:
        """Raises _RivalLeadsError, with our Lease released, if another installation serves a namespace of ours."""
        rival = None if self._rivals is None else await self._rivals.find()
        if rival is None:
            return
        while not await self._given_up():
            pass
        raise _RivalLeadsError(rival)

    async def _read(self) -> None:
        stored = await self._cluster.get(LEASES, self._me.name, self._me.namespace)
        record = None if stored is None else election.read(stored.get("spec"))
        self._sight = election.see(self._sight, record, self._clock_s())
        self._version = "" if stored is None else str(stored["metadata"]["resourceVersion"])

    async def _write(self, record: Record, *, create: bool = False) -> bool:
        """False after a conflict: another was faster. Raises ApiError."""
        marks = {} if self._rivals is None else self._rivals.marks
        place, spec = {"name": self._me.name, "namespace": self._me.namespace}, election.spec_of(record)
        version, self._version = self._version, None
        if create:
            manifest = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": marks | place, "spec": spec}
            result = await self._cluster.create(manifest)
        else:
            patch = {"metadata": marks | {"resourceVersion": version}, "spec": spec}
            result = await self._cluster.merge(LEASES, self._me.name, self._me.namespace, patch)
        match result:
            case Written(stored):
                self._version = str(stored["metadata"]["resourceVersion"])
                self._sight = Sight(election.read(stored.get("spec")), self._clock_s())
                return True
            case Conflict():
                return False
            case Missing(message):
                if create:  # the namespace itself
                    raise ApiError(message)
                return False
            case Refused(message):
                raise ApiError(message)

    @staticmethod
    def _clock_s() -> float:
        return asyncio.get_running_loop().time()
