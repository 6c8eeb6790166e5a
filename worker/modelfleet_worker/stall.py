"""Finds an engine that is alive and does nothing: requests in flight without progress, and processes that are frozen.

vLLM's /health stays 200 when a peer on another node is dead or frozen, so health proves nothing here.
"""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path

import aiohttp

from modelfleet_worker import processes
from modelfleet_worker.engine_api import EngineApi, NotServedError
from modelfleet_worker.gate_state import Board

SUSPECT_S = 8.0
STALLED_S = 20.0
"""Seconds at work without a step. After the first we ask for a token ourselves, so that a client who is slow to send
its request is not taken for a stall; after the second the engine is given up: with the looks, in less than 30 s."""

FROZEN_S = 5.0
_LOOK_S = 2.0
# The front end counts these by itself, without a step of the engine.
_NOT_STEPS = (b"vllm:admission_rejections",)


class Stall:
    """Seconds at work in which nothing changed. Pure: the clock is an argument."""

    def __init__(self) -> None:
        self._seen: bytes | None = None
        self._at_s: float | None = None
        self.stalled_s = 0.0

    def observe(self, now_s: float, in_flight: int, steps: bytes | None) -> None:
        """Takes in one look: `steps` differs whenever the engine took a step, None is no answer.

        Time without work does not count and forgives nothing: clients that give up and come again are still waiting.
        """
        if steps is not None and steps != self._seen:
            self._seen, self.stalled_s = steps, 0.0
        elif in_flight and self._at_s is not None:
            self.stalled_s += now_s - self._at_s
        self._at_s = now_s


async def stalled(board: Board, api: EngineApi, model: str) -> str:
    """Returns a sentence once the engine is at work and makes no progress."""
    stall, canary = Stall(), None
    try:
        while True:
            await asyncio.sleep(_LOOK_S)
            in_flight = board.read().in_flight
            work = in_flight + (canary is not None and not canary.done())
            stall.observe(time.monotonic(), work, await _steps(api) if work else None)
            if stall.stalled_s >= STALLED_S:
                return f"The engine made no progress for {stall.stalled_s:.0f} s with {in_flight} requests in flight."
            if stall.stalled_s >= SUSPECT_S and canary is None:
                canary = asyncio.ensure_future(_ask(api, model))
            elif stall.stalled_s == 0 and canary is not None:
                canary.cancel()
                canary = None
    finally:
        if canary is not None:
            canary.cancel()


async def frozen() -> str:
    """Returns a sentence once a process of the engine has been stopped by a signal for a while."""
    since_s: dict[int, float] = {}
    while True:
        await asyncio.sleep(_LOOK_S)
        now_s = time.monotonic()
        stopped = {pid: since_s.get(pid, now_s) for pid in processes.descendants(os.getpid()) if _state(pid) == "T"}
        since_s = stopped
        for pid, at_s in stopped.items():
            if now_s - at_s >= FROZEN_S:
                return f"The engine's process {_title(pid)} has been stopped by a signal for {now_s - at_s:.0f} s."


def steps_of(page: bytes) -> bytes:
    """What of an engine's metrics page moves when it takes a step."""
    lines = page.splitlines()
    return b"\n".join(line for line in lines if line.startswith(b"vllm:") and not line.startswith(_NOT_STEPS))


async def _steps(api: EngineApi) -> bytes | None:
    try:
        page, _ = await api.metrics()
    except (aiohttp.ClientError, TimeoutError):
        return None
    return steps_of(page)


async def _ask(api: EngineApi, model: str) -> None:
    """A request for one token: only the step that answers it counts."""
    with suppress(NotServedError):
        await api.generate_one_token(model)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _title(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").split()
    except OSError:
        words = []
    return f"{words[0][:60]} ({pid})" if words else str(pid)
