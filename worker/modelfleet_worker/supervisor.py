"""The life of a worker: starts an engine, says when it serves, drains it, explains an end that nobody asked for."""

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from modelfleet_worker import command, preflight, processes, stall
from modelfleet_worker.engine import Engine
from modelfleet_worker.engine_api import EngineApi, NotServedError
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.gate_state import Board, Mode
from modelfleet_worker.group import GroupEngine, Lead, never_assembled
from modelfleet_worker.interfaces import interface_of
from modelfleet_worker.member import Member, engine_environment
from modelfleet_worker.plan import Plan
from modelfleet_worker.state import Phase, Progress, State
from modelfleet_worker.status import Status

STOP_TIMEOUT_S = 10.0
KILL_TIMEOUT_S = 5.0
"""The two together bound the time from the end of a drain to the process's end; the pod's grace period covers them."""

_POLL_S = 0.25
_SETTLE_S = 0.1
ENGINE_PYTHON_VARIABLE = "MODELFLEET_ENGINE_PYTHON"  # set by images in which our packages have a Python of their own
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a worker listens and writes: the engine's port, the port of probes and metrics, a folder shared with the
    gate, and the only folder that the engine may write to. A group's leader listens on `group_port` for its members."""

    http_port: int
    status_port: int
    group_port: int
    runtime: Path
    scratch: Path


class _EngineEndedError(Exception):
    """The engine ended, and nobody had asked for it."""


class Supervisor:
    """One worker, from start to end."""

    def __init__(self, plan: Plan, places: Places, member: Member | None = None) -> None:
        """`member` is rank 0 of a group; None for an engine that is one pod's."""
        self._plan, self._places, self._member = plan, places, member
        now_s = time.monotonic()
        self._deadline_s = now_s + plan.limits.start_deadline_s
        self._progress = Progress(now_s)
        self._board = Board(places.runtime / "gate")
        self._stop = asyncio.Event()
        self._token = secrets.token_hex(16)
        self._api = EngineApi(places.http_port, self._token)
        self._waits_for = "its /health never was 200"
        port, asked = places.group_port, self._asked_to_stop
        self._lead = None if member is None else Lead(member, port, self._progress, asked)

    async def run(self) -> Failure | None:
        """Lives until SIGTERM or SIGINT, then drains and gives None; or gives why there is nothing to serve with.

        All processes below this one are gone when it returns. Raises OSError if the status port cannot be opened.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop, number.name)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})  # main blocked them until now
        processes.adopt_orphans()
        python = self._plan.python or os.environ.get(ENGINE_PYTHON_VARIABLE) or sys.executable
        async with self._api, self._status_port():
            if self._lead is not None:
                return await self._as_leader(self._lead, python)
            return preflight.check(self._plan, python) or await self._live(python)

    async def _as_leader(self, lead: Lead, python: str) -> Failure | None:
        """The same with the other members of the group, who hear how it ended."""
        failure = None
        await lead.open()
        try:
            self._progress.enter(Phase.MEMBERS, time.monotonic())
            failure = preflight.check(self._plan, python) or await self._assemble(lead)
            if failure is None and not self._stop.is_set():
                failure = await self._live(python)
        finally:
            await lead.close(failure)
        return failure

    async def _assemble(self, lead: Lead) -> Failure | None:
        """Returns None when all members are there, or when a stop is asked for."""
        left_s = self._deadline_s - time.monotonic()
        if await _first(left_s, self._stop.wait(), lead.assemble()) is not None:
            return None
        return never_assembled(self._plan.limits.start_deadline_s, lead.missing)

    def _asked_to_stop(self, name: str) -> None:
        _log.info("%s received%s", name, " again, which changes nothing" if self._stop.is_set() else "")
        self._stop.set()

    async def _live(self, python: str) -> Failure | None:
        state, ended = State.STARTING, False
        try:
            engine = self._launch(python)
            try:
                if failure := await self._start(engine):
                    return failure
                if not self._stop.is_set():
                    await self._serve(engine)
                await self._drain(engine)
            except _EngineEndedError:
                state, ended = self._progress.state, True
        finally:
            self._progress.state = State.GONE
            if left := processes.kill_descendants(KILL_TIMEOUT_S):
                _log.error("processes %s do not end", left)
        return engine.failure(state) if ended else None

    def _launch(self, python: str) -> Engine | GroupEngine:
        self._places.scratch.mkdir(parents=True, exist_ok=True)
        around = command.Surroundings(
            python=python,
            host=listening_host(),
            port=self._places.http_port,
            code=str(_link_code(self._places.runtime / "code")),
            gate_folder=str(self._board.folder),
            gate_token=self._token,
            scratch=str(self._places.scratch),
            group_args=self._lead.args if self._lead else (),
            group_env=engine_environment(self._member, interface_of) if self._member else {},
        )
        argv = command.argv(self._plan, around)
        _log.info("starting %s", " ".join(argv))
        engine = Engine(argv, command.environment(self._plan, around, os.environ), around.scratch)
        self._progress.enter(Phase.ENGINE, time.monotonic())
        return GroupEngine(engine, self._lead) if self._lead else engine

    async def _start(self, engine: Engine | GroupEngine) -> Failure | None:
        """Returns None when the engine serves, or when a stop is asked for."""
        left_s = self._deadline_s - time.monotonic()
        try:
            first = await _first(left_s, self._stop.wait(), engine.ended(), self._generates())
        except NotServedError as error:
            return _not_served(self._plan.served_names[0], error, engine.log)
        if first is None:
            return _start_timeout(self._plan.limits.start_deadline_s, self._waits_for, engine.log)
        if first == 1:
            raise _EngineEndedError
        if first == 2 and not self._board.read().gates:
            return _ungated(engine.log)
        return None

    async def _generates(self) -> None:
        """Returns when a token came through the served name. Raises NotServedError if none will come."""
        while not await self._api.healthy():  # noqa: ASYNC110 (another process's state has no event)
            await asyncio.sleep(_POLL_S)
        self._progress.enter(Phase.FIRST_TOKEN, time.monotonic())
        self._waits_for = "it is healthy and gave no answer to a request for one token"
        while True:
            try:
                await self._api.generate_one_token(self._plan.served_names[0])
                break
            except NotServedError as error:
                if error.final:
                    raise
                self._waits_for = f"it is healthy and answers a request for one token with {error}"
                await asyncio.sleep(_POLL_S)

    async def _serve(self, engine: Engine | GroupEngine) -> None:
        """Returns when a stop is asked for."""
        engine.serves()
        if isinstance(engine, GroupEngine):
            engine.watch(stall.stalled(self._board, self._api, self._plan.served_names[0]))
        self._progress.enter(None, time.monotonic())
        self._progress.state = State.SERVING
        took = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self._progress.phases_s(0).items())
        _log.info("serving %s (%s)", ", ".join(self._plan.served_names), took)
        if await _first(None, engine.ended(), self._stop.wait()) == 0:
            raise _EngineEndedError

    async def _drain(self, engine: Engine | GroupEngine) -> None:
        """Lets requests in flight finish, then ends the engine. A worker that never served ends at once."""
        if self._progress.state is State.SERVING:
            limits = self._plan.limits
            self._progress.state = State.DRAINING
            _log.info("draining: arrivals are served for %g s more", limits.propagation_s)
            self._board.set_mode(Mode.CLOSE)
            if await _first(limits.propagation_s, engine.ended()) is not None:
                raise _EngineEndedError
            self._board.set_mode(Mode.REFUSE)
            _log.info("draining: %d in flight, arrivals are refused", self._board.read().in_flight)
            first = await _first(limits.drain_s, self._idle(), engine.ended())
            if first == 1:
                raise _EngineEndedError
            if first is None:
                _log.warning("%d requests are cut off after %g s", self._board.read().in_flight, limits.drain_s)
        if not await engine.stop(STOP_TIMEOUT_S):
            _log.warning("the engine did not end within %g s of SIGTERM", STOP_TIMEOUT_S)

    async def _idle(self) -> None:
        """Returns when nothing is in flight, seen twice: a gate may just have read the old mode and not counted yet."""
        idle = 0
        while idle < 2:
            idle = 0 if self._board.read().in_flight else idle + 1
            await asyncio.sleep(_SETTLE_S)

    @asynccontextmanager
    async def _status_port(self) -> AsyncIterator[None]:
        app = Status(self._plan.revision, self._progress, self._board, self._api).app()
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, port=self._places.status_port).start()
            yield
        finally:
            await runner.cleanup()


def listening_host() -> str:
    """`::` where that takes IPv4 too, else `0.0.0.0`: a pod's address may be of either family."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
            both = probe.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 0
    except OSError:
        both = False
    return "::" if both else "0.0.0.0"


def _link_code(folder: Path) -> Path:
    """Makes `folder` hold our package and nothing else: the engine must not see the packages that we run on."""
    folder.mkdir(exist_ok=True)
    link = folder / "modelfleet_worker"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(__file__).resolve().parent)
    return folder


async def _first(timeout_s: float | None, *work: Coroutine[Any, Any, Any]) -> int | None:
    """The index of what ended first, the lowest of several; None after `timeout_s`. Raises what it raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for index, task in enumerate(tasks):
        if task in done:
            task.result()
            return index
    return None


def _not_served(name: str, error: NotServedError, log: str) -> Failure:
    message = f"The engine started and does not serve {name}: {str(error).rstrip('. ')}."
    remedy = "Serve a model that generates text, with the engine of this worker's image."
    return Failure(reason=Reason.MODEL_REFUSED, message=message, remedy=remedy, log=log)


def _ungated(log: str) -> Failure:
    message = "The engine serves without the gate, so requests would not be counted and admin paths not hidden."
    remedy = "Use an engine that honours vLLM's --middleware; unset VLLM_USE_RUST_FRONTEND."
    return Failure(reason=Reason.ENGINE_START_FAILED, message=message, remedy=remedy, log=log)


def _start_timeout(deadline_s: float, waits_for: str, log: str) -> Failure:
    message = f"The engine served no token within {deadline_s:g} s: {waits_for}."
    remedy = "See in the log what it was doing; speed up the volume, or raise the start deadline."
    return Failure(reason=Reason.ENGINE_START_TIMEOUT, message=message, remedy=remedy, log=log)
