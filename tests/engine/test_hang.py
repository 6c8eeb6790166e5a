"""A hanging engine is found and ended with a reason; one that is merely slow, idle or not read from is left alone.

Each story waits as long as the worker does before it gives an engine up, so they run in `make e2e-drain`.
"""

import asyncio
import os
import signal
from pathlib import Path

import aiohttp
import pytest

from modelfleet_worker.liveness import DOUBTFUL_S, SILENT_S, STOPPED_S
from stand_in_engine import WORKER_TITLE
from worker_process import EngineUnderTest, Worker, living, pid_titled, plan_of, real_engine, running_worker, stand_in

pytestmark = pytest.mark.thorough
FOUND_WITHIN_S = 30.0


@pytest.fixture(params=["stand-in", pytest.param("vllm", marks=pytest.mark.engine)])
def under_test(request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    return stand_in(tmp_path, token_s="0.01") if request.param == "stand-in" else real_engine()


@pytest.mark.parametrize("title", ["API server", "VLLM::EngineCore", WORKER_TITLE])
async def test_a_stopped_process_at_work_is_found(under_test: EngineUnderTest, tmp_path: Path, title: str) -> None:
    async with running_worker(tmp_path, plan_of(under_test)) as worker:
        await worker.until_ready(under_test.start_patience_s)
        below = worker.below
        async with worker.stream(under_test.tokens) as answer:
            await answer.content.readline()
            os.kill(_pid(below, title), signal.SIGSTOP)
            await _ends_hung(worker, "a signal stopped its process")
        assert not living(below)


@pytest.mark.parametrize("fault", ["stalls", "freezes"])
async def test_an_engine_that_hangs_asleep_is_found(tmp_path: Path, fault: str) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path, fault=fault))) as worker:
        await worker.until_ready()
        asking = asyncio.create_task(worker.api("/v1/completions", {"model": "tiny", "prompt": "hi", "max_tokens": 2}))
        await _ends_hung(worker, "its processes sleep")
        with pytest.raises(aiohttp.ClientError):
            await asking


async def test_a_busy_engine_without_tokens_is_not_given_up_within_twice_that_time(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path, fault="spins"))) as worker:
        await worker.until_ready()
        asking = asyncio.create_task(worker.api("/v1/completions", {"model": "tiny", "prompt": "hi", "max_tokens": 2}))
        await asyncio.sleep(2 * SILENT_S)
        assert worker.process.poll() is None
        assert (await worker.status("/livez")).status == 200
        asking.cancel()


async def test_a_client_that_does_not_read_costs_the_engine_a_token_and_nothing_else(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path, token_s="0"))) as worker:
        await worker.until_ready()
        async with worker.stream(300_000) as answer:
            await answer.content.readline()
            await worker.until(lambda: _has_asked(worker), 120.0)
            await asyncio.sleep(SILENT_S)
            assert (await worker.status("/readyz")).status == 200
            assert worker.process.poll() is None
            answer.close()


async def test_an_idle_engine_is_never_asked(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path))) as worker:
        await worker.until_ready()
        await asyncio.sleep(STOPPED_S + DOUBTFUL_S)
        assert (await worker.metrics())["modelfleet_worker_canaries_total"] == 0
        assert (await worker.status("/livez")).status == 200


async def _ends_hung(worker: Worker, words: str) -> None:
    since_s = asyncio.get_running_loop().time()
    assert await worker.exit_code(4 * FOUND_WITHIN_S) == 1
    took_s = asyncio.get_running_loop().time() - since_s  # printed for the reader; a loaded machine asserts nothing
    said = worker.termination
    assert (said["reason"], said["phase"]) == ("EngineHung", "serving")
    assert words in said["message"]
    print(f"found after {took_s:.1f} s: {said['message']}")


async def _has_asked(worker: Worker) -> bool:
    return (await worker.metrics())["modelfleet_worker_canaries_total"] > 0


def _pid(pids: list[int], title: str) -> int:
    """The stand-in is its own API server and engine core in one process."""
    titled = [pid for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(title.encode())]
    if titled:
        return pid_titled(pids, title)
    return pids[0]
