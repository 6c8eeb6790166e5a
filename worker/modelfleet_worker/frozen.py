"""Finds processes of the engine that are frozen, where no API tells whether it works. Reads /proc."""

import asyncio
import os
import time

from modelfleet_worker import processes

FROZEN_S = 5.0
_LOOK_S = 1.0


async def frozen() -> str:
    """Returns a sentence once a process of the engine has been stopped by a signal for a while."""
    since_s: dict[int, float] = {}
    while True:
        await asyncio.sleep(_LOOK_S)
        now_s = time.monotonic()
        stopped = [process for process in processes.below(os.getpid()) if process.state == "T"]
        since_s = {process.pid: since_s.get(process.pid, now_s) for process in stopped}
        for process in stopped:
            frozen_s = now_s - since_s[process.pid]
            if frozen_s >= FROZEN_S:
                what = f"{process.name} ({process.pid})"
                return f"The engine's process {what} has been stopped by a signal for {frozen_s:.0f} s."
