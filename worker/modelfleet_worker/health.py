"""Looks at a serving engine every two seconds and ends the worker when it hangs (liveness.py judges)."""

import asyncio
import logging
import os
import time
from collections.abc import Iterable

import aiohttp
from prometheus_client.core import CounterMetricFamily, Metric

from modelfleet_worker import processes
from modelfleet_worker.engine_api import NotServedError
from modelfleet_worker.engine_counts import read_engines
from modelfleet_worker.engine_numbers import numbers
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.liveness import DOUBTFUL_S, SILENT_S, Judge, Look, Verdict
from modelfleet_worker.parts import Around, Part
from modelfleet_worker.state import State

_PERIOD_S = 2.0
_TOKEN_S = SILENT_S - DOUBTFUL_S - _PERIOD_S  # an answer that comes later comes after the verdict
_REMEDY = (
    "The container is restarted; if it recurs, look at its log (kubectl logs --previous) and at the accelerator's, and"
    " try another version of the engine."
)
_log = logging.getLogger(__name__)


class Health(Part):
    """Watches that the engine gets on with what it is asked.

    Cheap while all is well: counts that the gate keeps in memory, /health, and what /proc says. The engine's metrics
    page is read, and a token asked for, only when nothing ended for some seconds although somebody waits.
    """

    def __init__(self, around: Around) -> None:
        self._around = around
        self._judge = Judge()
        self._ended_at_s = time.monotonic()
        self._ended = -1
        self._canary: asyncio.Task[bool] | None = None
        self._canaries = 0

    async def watch(self) -> Failure:
        try:
            while True:
                await asyncio.sleep(_PERIOD_S)
                if self._around.progress.state not in (State.SERVING, State.DRAINING):
                    continue
                look = await self._look()
                verdict = self._judge.see(look)
                if verdict is Verdict.HUNG:
                    return self._hung()
                await self._ask(verdict is Verdict.DOUBTFUL)
        finally:
            await self._ask(False)

    def metrics(self) -> Iterable[Metric]:
        text = "Tokens asked for by the worker itself, because nothing showed that the engine works."
        family = CounterMetricFamily("modelfleet_worker_canaries", text)
        family.add_metric([], self._canaries)
        yield family

    async def _look(self) -> Look:
        counts = self._around.board.read()
        ended, now_s = sum(counts.ended.values()), time.monotonic()
        if ended != self._ended or not counts.in_flight:
            self._ended, self._ended_at_s = ended, now_s
        quiet = counts.in_flight > 0 and now_s - self._ended_at_s > _PERIOD_S
        healthy, seen = await asyncio.gather(self._around.api.healthy(), self._engine_numbers(quiet))
        work = counts.in_flight > 0 or not healthy
        told = None if seen is None else (float(ended), *seen)
        found = processes.below(os.getpid())
        stopped = [process for process in found if process.state == "T"]
        return Look(
            at_s=time.monotonic(),
            work=work,
            numbers=told,
            wanted_s=_wanted_s(process.pid for process in found) if work and self._judge.stands(told) else None,
            stopped=tuple(f"{process.name} ({process.pid})" for process in stopped),
            stopped_wanted_s=_wanted_s(process.pid for process in stopped),
            token=self._answered(),
        )

    async def _engine_numbers(self, wanted: bool) -> tuple[float, ...] | None:
        """The plugin's counts of steps and tokens; the engine's own page where it counts nothing."""
        if not wanted:
            return ()
        engines = read_engines(self._around.board.folder)
        if engines:
            steps = [sum(cell.steps for cell in engine.cells.values()) for engine in engines]
            return (*steps, *(float(count) for engine in engines for count in engine.counts.values()))
        try:
            async with asyncio.timeout(_PERIOD_S):
                page, _ = await self._around.api.metrics()
        except (aiohttp.ClientError, TimeoutError):
            return None
        return numbers(page.decode(errors="replace"))

    async def _ask(self, wanted: bool) -> None:
        """A request for a token is running exactly while one is wanted."""
        if wanted and self._canary is None:
            self._canaries += 1
            self._canary = asyncio.create_task(self._token())
        elif not wanted and self._canary is not None:
            canary, self._canary = self._canary, None
            canary.cancel()
            await asyncio.gather(canary, return_exceptions=True)

    async def _token(self) -> bool:
        try:
            async with asyncio.timeout(_TOKEN_S):
                await self._around.api.generate_one_token(self._around.plan.served_names[0])
        except (NotServedError, TimeoutError) as error:
            _log.warning("the engine gave no token when asked: %s", error or f"none within {_TOKEN_S:g} s")
            return False
        return True

    def _answered(self) -> bool:
        return self._canary is not None and self._canary.done() and self._canary.result()

    def _hung(self) -> Failure:
        message = f"The engine hangs: {self._judge.why}."
        state = self._around.progress.state
        return Failure(reason=Reason.ENGINE_HUNG, message=message, remedy=_REMEDY, phase=state)


def _wanted_s(pids: Iterable[int]) -> float | None:
    """The sum; None where one of them cannot be known."""
    each = [processes.wanted_s(pid) for pid in pids]
    return None if None in each else sum(one for one in each if one is not None)
