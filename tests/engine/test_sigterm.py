"""SIGTERM at moments of the real engine's start: the worker ends with status 0 inside its bound and leaves nothing.

The same for every phase over the stand-in is in tests/unit/worker/test_drain_entrance.py; `make e2e-drain` runs this.
"""

import asyncio
import os
from pathlib import Path

import pytest

from modelfleet_worker.supervisor import KILL_TIMEOUT_S, STOP_TIMEOUT_S
from worker_process import Worker, living, own_shared_memory, plan_of, real_engine, running_worker

pytestmark = [pytest.mark.thorough, pytest.mark.engine]
BOUND_S = STOP_TIMEOUT_S + KILL_TIMEOUT_S
PATIENCE_S = 200.0
_SLOW_MACHINE_S = 15.0

MOMENTS = {
    "while the API server imports": "INFO modelfleet-worker: starting",
    "while the engine core is made": "Resolved architecture",
    "while the worker process is made": "Initializing a V1 LLM engine",
    "when the load begins": "Starting to load model",
    "when the cache is sized": "KV cache size",
    "when routes are made": "Available routes are",
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_sigterm_ends_a_starting_engine(tmp_path: Path, moment: str) -> None:
    shared_memory = tmp_path / "shm"
    inside = own_shared_memory(shared_memory)
    async with running_worker(tmp_path, plan_of(real_engine(), propagation_s=3600), inside) as worker:
        await worker.until(lambda: _says(worker, MOMENTS[moment]), PATIENCE_S)
        below = worker.below
        worker.terminate()
        since_s = asyncio.get_running_loop().time()
        assert await worker.exit_code(BOUND_S + _SLOW_MACHINE_S) == 0, worker.log
        print(f"{moment}: ended after {asyncio.get_running_loop().time() - since_s:.1f} s")
        assert worker.termination is None
        assert not living(below)
    assert os.listdir(shared_memory) == []


async def _says(worker: Worker, words: str) -> bool:
    return words in worker.log
