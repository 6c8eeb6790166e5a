"""The life of a worker: starts an engine, says when it serves, drains it, explains an end that nobody asked for."""

import asyncio
import logging
import os
import secrets
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from modelfleet_worker import assembly, command, processes, starting
from modelfleet_worker.drain import Drain
from modelfleet_worker.engine import Engine
from modelfleet_worker.engine_api import EngineApi, NotServedError
from modelfleet_worker.failure import Failure
from modelfleet_worker.gate_state import Board
from modelfleet_worker.group import Lead, Members
from modelfleet_worker.interfaces import listening_host
from modelfleet_worker.member import Member
from modelfleet_worker.parts import Around
from modelfleet_worker.plan import Plan
from modelfleet_worker.serving import Server
from modelfleet_worker.start_outlook import Phase
from modelfleet_worker.state import Progress, State
from modelfleet_worker.status import Status, served
from modelfleet_worker.waiting import first
from modelfleet_worker.watching import Watchers, explained, watchers

STOP_TIMEOUT_S = 10.0
KILL_TIMEOUT_S = 5.0
"""The two together bound the time from the end of a drain to the process's end; the pod's grace period covers them."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a worker listens, reads and writes: the engine's port, the port of probes and metrics, the one at which a
    group's leader hears its members, a folder shared with the gate, the only folder that the engine may write to, the
    operator's promise.json, and the termination message."""

    http_port: int
    status_port: int
    group_port: int
    runtime: Path
    scratch: Path
    promise: Path
    termination_log: Path


class _BrokenError(Exception):
    """There is nothing to serve with. `failure` says why; None: the engine ended, and nobody had asked for it."""

    def __init__(self, failure: Failure | None = None) -> None:
        super().__init__()
        self.failure = failure


class Supervisor:
    """One worker, from start to end."""

    def __init__(self, plan: Plan, places: Places, member: Member | None = None) -> None:
        """`member` is rank 0 of a group; None for an engine that is one pod's."""
        self._plan, self._places = plan, places
        now_s = time.monotonic()
        self._deadline_s = now_s + plan.limits.start_deadline_s
        self._progress = Progress(now_s)
        self._board = Board(places.runtime / "gate")
        self._stop = asyncio.Event()
        self._token = secrets.token_hex(16)
        self._api = EngineApi(places.http_port, self._token)
        drain = Drain(self._board, plan.limits)
        first_token = starting.FirstToken(self._api, plan.served_names[0])
        self._server = Server(first_token, drain, self._board, self._progress)
        around = Around(
            plan=plan,
            runtime=places.runtime,
            promise=places.promise,
            termination_log=places.termination_log,
            scratch=places.scratch,
            board=self._board,
            drain=drain,
            progress=self._progress,
            api=self._api,
        )
        lead = None if member is None else Lead(member, places.group_port, self._progress, self._asked_to_stop)
        members = () if member is None or lead is None else (Members(around, member, lead),)
        self._parts = (*assembly.parts(around), *members)

    async def run(self) -> Failure | None:
        """Lives until SIGTERM or SIGINT, then drains and gives None; or gives why there is nothing to serve with.

        All processes below this one are gone when it returns. Raises OSError if the status port cannot be opened.
        """
        processes.hear_stop(self._asked_to_stop)
        processes.adopt_orphans()
        async with self._api, self._status_port():
            failure = await self._run()
            for part in self._parts:
                await part.close(failure)
            return failure

    async def _run(self) -> Failure | None:
        try:
            await self._check()
        except _BrokenError as broken:
            return broken.failure
        return None if self._stop.is_set() else await self._live()

    def _asked_to_stop(self, name: str) -> None:
        _log.info("%s received%s", name, " again, which changes nothing" if self._stop.is_set() else "")
        self._stop.set()

    async def _check(self) -> None:
        """Returns when an engine may be started, or when a stop is asked for."""
        if await first(self._left_s(), self._stop.wait(), self._checks()) is None:
            waits_for = starting.LOOKS_AT_FILES
            raise _BrokenError(starting.start_timeout(self._plan.limits.start_deadline_s, waits_for, ""))

    async def _checks(self) -> None:
        for part in self._parts:
            if failure := await part.check():
                raise _BrokenError(failure)

    async def _live(self) -> Failure | None:
        broken = None
        try:
            engine = self._launch()
            try:
                await self._live_with(engine)
            except _BrokenError as error:
                broken, state = error, self._progress.state
                await asyncio.gather(*(part.hear_out() for part in self._parts))
        finally:
            self._progress.state = State.GONE
            if left := processes.kill_descendants(KILL_TIMEOUT_S):
                _log.error("processes %s do not end", left)
        if broken is None:
            return None
        failure = broken.failure or engine.failure(state)
        failure = await explained(replace(failure, log=failure.log or engine.log), self._parts)
        if state is State.STARTING and await self._worth_another_start(failure):
            self._progress.start_again(time.monotonic())
            return await self._live()
        return failure

    async def _worth_another_start(self, failure: Failure) -> bool:
        """A part has taken back what may have kept the engine from starting, and there is time left."""
        took_back = [await part.took_back(failure) for part in self._parts]
        return any(took_back) and self._left_s() > 0 and not self._stop.is_set()

    def _launch(self) -> Engine:
        self._places.scratch.mkdir(parents=True, exist_ok=True)
        code = _link_code(self._places.runtime / "code")
        around = command.Surroundings(
            python=assembly.engine_python(self._plan),
            host=listening_host(),
            port=self._places.http_port,
            code=str(code),
            gate_folder=str(self._board.folder),
            gate_token=self._token,
            scratch=str(self._places.scratch),
            equipment=tuple(part.equip(code) for part in self._parts),
        )
        argv = command.argv(self._plan, around)
        _log.info("starting %s", " ".join(argv))
        heard = [part.heard for part in self._parts]
        engine = Engine(argv, command.environment(self._plan, around, os.environ), around.scratch, heard)
        self._progress.enter(Phase.BOOT, time.monotonic())
        return engine

    async def _live_with(self, engine: Engine) -> None:
        """Returns once the engine was told to end. Raises _BrokenError."""
        async with watchers(self._parts) as found:
            await self._start(engine, found)
            if not self._stop.is_set():
                await self._serve(engine, found)
            await self._finish(engine, found)
        for part in self._parts:
            part.released()
        if not await engine.stop(STOP_TIMEOUT_S):
            _log.warning("the engine did not end within %g s of SIGTERM", STOP_TIMEOUT_S)

    async def _start(self, engine: Engine, found: Watchers) -> None:
        """Returns when the engine serves, or when a stop is asked for."""
        try:
            ended = await first(self._left_s(), self._stop.wait(), _breaks(engine, found), self._server.started())
        except NotServedError as error:
            raise _BrokenError(starting.not_served(self._plan.served_names[0], error, engine.log)) from error
        if ended is None:
            deadline_s = self._plan.limits.start_deadline_s
            raise _BrokenError(starting.start_timeout(deadline_s, self._server.waits_for, engine.log))
        if ended == 2 and (fault := self._server.fault(engine.log)):
            raise _BrokenError(fault)

    async def _serve(self, engine: Engine, found: Watchers) -> None:
        """Returns when a stop is asked for."""
        engine.serves()
        self._progress.enter(None, time.monotonic())
        self._progress.state = State.SERVING
        took = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self._progress.phases_s(0).items())
        _log.info("serving %s (%s)", ", ".join(self._plan.served_names), took)
        await first(None, _breaks(engine, found), self._stop.wait())

    async def _finish(self, engine: Engine, found: Watchers) -> None:
        """Returns when the engine may be told to end."""
        served = self._progress.state is State.SERVING
        self._progress.state = State.DRAINING if served else self._progress.state
        await first(None, self._server.finished(served=served), _breaks(engine, found))

    def _left_s(self) -> float:
        """What is left of the start's deadline."""
        return max(0.0, self._deadline_s - time.monotonic())

    def _status_port(self) -> AbstractAsyncContextManager[None]:
        status = Status(self._plan.revision, self._progress, self._board, self._api, self._parts)
        return served(status.app(), self._places.status_port)


async def _breaks(engine: Engine, found: Watchers) -> None:
    """Never returns: raises _BrokenError once the engine ended, or once a watcher found that it serves no more."""
    await first(None, engine.ended(), found.found())
    raise _BrokenError(None if not engine.alive else found.failure)


def _link_code(folder: Path) -> Path:
    """Makes `folder` hold our package and nothing else: the engine must not see the packages that we run on."""
    folder.mkdir(exist_ok=True)
    link = folder / "modelfleet_worker"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(__file__).resolve().parent)
    return folder
