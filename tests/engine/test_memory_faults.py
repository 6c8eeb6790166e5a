"""Each cause of a death provoked on the real engine, and what the worker makes of it. `make e2e-memory`; needs root."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from large_vocabulary import with_large_vocabulary
from memory_cgroup import Cgroup, memory_cgroup
from worker_process import EngineUnderTest, Worker, pid_titled, plan_of, real_engine, running_worker

pytestmark = [pytest.mark.engine, pytest.mark.thorough]
GIB, MIB = 1 << 30, 1 << 20
PATIENCE_S = 1500.0

TABLE: list[tuple[str, str, str]] = []
"""Cause, what was provoked, what the worker said: printed at the end."""


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    yield
    print("\n\ncause | provoked | reason: message")
    for row in TABLE:
        print(" | ".join(row))


@pytest.fixture
def engine() -> EngineUnderTest:
    return real_engine()


@asynccontextmanager
async def worker_of(engine: EngineUnderTest, folder: Path, group: Cgroup | None = None) -> AsyncIterator[Worker]:
    async with running_worker(folder, plan_of(engine, startDeadline_s=PATIENCE_S)) as worker:
        if group is not None:
            group.add(worker.process.pid)  # long before it has read its plan
        yield worker


async def death(worker: Worker, cause: str, provoked: str) -> Any:
    """Waits for the worker's end; what it left."""
    assert await worker.exit_code(PATIENCE_S) == 1
    said = worker.termination
    TABLE.append((cause, provoked, f"{said['reason']}: {said['message']}"))
    if folder := os.environ.get("MEMORY_LOGS"):
        name = "".join(letter if letter.isalnum() else "-" for letter in f"{cause}-{provoked}")
        shutil.copy(worker.folder / "log", Path(folder) / f"{name}.log")
        shutil.copy(worker.folder / "termination-log", Path(folder) / f"{name}.json")
    return said


def other(engine: EngineUnderTest, *args: str, without: str = "--kv-cache-memory-bytes") -> EngineUnderTest:
    kept = tuple(arg for arg in engine.args if not arg.startswith(without))
    return replace(engine, args=(*kept, *args))


async def test_a_share_that_is_more_than_the_node_has_is_refused_before_the_engine_starts(
    engine: EngineUnderTest, tmp_path: Path
) -> None:
    async with worker_of(other(engine, "--gpu-memory-utilization=0.99"), tmp_path) as worker:
        said = await death(worker, "fraction too high", "0.99 of the node's memory")
    assert said["reason"] == "MemoryFractionTooHigh"
    assert said["correction"]["flag"] == "gpu-memory-utilization"
    assert 0.89 <= float(said["correction"]["value"]) < 0.99


async def test_a_share_that_the_engine_itself_finds_too_high(engine: EngineUnderTest, tmp_path: Path) -> None:
    with memory_cgroup("share") as group:
        group.limit(3 * GIB)
        contained = group.as_container(other(engine, "--gpu-memory-utilization=0.9"), tmp_path)
        async with worker_of(contained, tmp_path, group) as worker:
            said = await death(worker, "fraction too high", "0.9 of 3 GiB, of which the engine's imports leave less")
    assert said["reason"] == "MemoryFractionTooHigh"
    assert said["correction"]["before"] == "0.9"


async def test_a_foreign_process_that_holds_the_memory_before_the_start(
    engine: EngineUnderTest, tmp_path: Path
) -> None:
    with memory_cgroup("before") as group:
        group.limit(4 * GIB)
        with group.holder(3 * GIB) as pid:
            args = other(engine, "--kv-cache-memory-bytes=2G")
            async with worker_of(args, tmp_path, group) as worker:
                said = await death(worker, "foreign process", "3 of 4 GiB held before the start")
    assert said["reason"] == "ForeignMemory"
    assert f"pid {pid}" in said["message"]
    assert "correction" not in said


async def test_a_foreign_process_that_takes_the_memory_while_the_engine_serves(
    engine: EngineUnderTest, tmp_path: Path
) -> None:
    with memory_cgroup("while") as group:
        async with worker_of(engine, tmp_path, group) as worker:
            await worker.until_ready(PATIENCE_S)
            group.limit(group.used_bytes + 700 * MIB)
            with group.holder(600 * MIB) as pid:
                await asyncio.sleep(5)
                with group.holder(400 * MIB):
                    said = await death(worker, "foreign process", "1000 MiB taken in the container while it served")
    assert said["reason"] == "ForeignMemory"
    assert f"pid {pid}" in said["message"]
    assert said["evidence"]["oomKills"] >= 1
    assert "correction" not in said


async def test_a_long_prompt_whose_log_probabilities_do_not_fit(engine: EngineUnderTest, tmp_path: Path) -> None:
    model = with_large_vocabulary(Path(engine.model), tmp_path / "large")
    with memory_cgroup("spike") as group:
        large = replace(other(engine, "--max-num-batched-tokens=4096", without="none"), model=str(model))
        async with worker_of(large, tmp_path, group) as worker:
            await worker.until_ready(PATIENCE_S)
            group.limit(group.used_bytes + 500 * MIB)
            asking = asyncio.ensure_future(_ask(worker, tokens=3500, prompt_logprobs=1))
            said = await death(
                worker, "activation spike", "3500 tokens with prompt_logprobs, 500 MiB beside the engine"
            )
            await asyncio.gather(asking, return_exceptions=True)
    assert said["reason"] == "LongPromptSpike"
    assert said["evidence"]["promptTokens"] >= 3500
    assert said["correction"] == {"flag": "long-prefill-token-threshold", "value": "2048", "before": ""}


async def test_a_container_that_is_too_small_for_the_engine(engine: EngineUnderTest, tmp_path: Path) -> None:
    with memory_cgroup("host") as group:
        group.limit(900 * MIB)
        async with worker_of(engine, tmp_path, group) as worker:
            said = await death(worker, "host memory", "a limit of 900 MiB")
    assert said["reason"] == "HostOutOfMemory"
    assert said["evidence"]["oomKills"] >= 1


async def test_a_kv_cache_that_holds_no_sequence(engine: EngineUnderTest, tmp_path: Path) -> None:
    async with worker_of(other(engine, "--kv-cache-memory-bytes=1M"), tmp_path) as worker:
        said = await death(worker, "KV cache too small", "1 MiB for a context of 4096 tokens")
    assert said["reason"] == "KvCacheTooSmall"
    assert "correction" not in said


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize("title", ["vllm.entrypoints", "VLLM::EngineCore", "VLLM::Worker"])
async def test_a_process_that_somebody_kills(engine: EngineUnderTest, tmp_path: Path, title: str) -> None:
    async with worker_of(engine, tmp_path) as worker:
        await worker.until_ready(PATIENCE_S)
        os.kill(next(pid for pid in worker.below if title.encode() in command_line(pid)), signal.SIGKILL)
        said = await death(worker, "SIGKILL", f"of {title}")
    assert said["reason"] == "EngineDied"
    assert "no kill for lack of memory was counted" in said["message"]
    assert "correction" not in said


async def test_a_process_that_somebody_stops(engine: EngineUnderTest, tmp_path: Path) -> None:
    async with worker_of(engine, tmp_path) as worker:
        await worker.until_ready(PATIENCE_S)
        os.kill(pid_titled(worker.below, "VLLM::EngineCore"), signal.SIGSTOP)
        asking = asyncio.ensure_future(_ask(worker, tokens=10))
        said = await death(worker, "SIGSTOP", "of the engine core, with a request in flight")
        await asyncio.gather(asking, return_exceptions=True)
    assert said["reason"] == "EngineHung"
    assert "stopped" in said["message"]


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system with next to no room, in which the engine is to write."""
    folder = Path(tempfile.mkdtemp(prefix="mf", dir="/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=12", "modelfleet-test", folder], check=True)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


async def test_a_full_disk(engine: EngineUnderTest, tmp_path: Path, full_disk: Path) -> None:
    async with worker_of(engine, tmp_path) as worker:
        said = await death(worker, "full disk", "64 KiB and 12 files for what the engine writes")
    assert said["reason"] == "DiskFull"
    assert str(full_disk) in said["message"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(lambda raw: raw[: len(raw) // 2], "its header speaks of", id="cut off"),
        pytest.param(lambda raw: os.urandom(len(raw)), "no safetensors file", id="garbage"),
    ],
)
async def test_damaged_weights(
    engine: EngineUnderTest, tmp_path: Path, change: Callable[[bytes], bytes], words: str
) -> None:
    model = tmp_path / "model"
    shutil.copytree(engine.model, model)
    weights = model / "model.safetensors"
    weights.write_bytes(change(weights.read_bytes()))
    async with worker_of(replace(engine, model=str(model)), tmp_path) as worker:
        said = await death(worker, "corrupt weights", words)
    assert said["reason"] == "WeightsDamaged"
    assert words in said["message"]
    assert "model.safetensors" in said["message"]


async def _ask(worker: Worker, tokens: int, **more: Any) -> None:
    """A completion over a prompt of so many tokens; how it ends does not matter."""
    body = {"model": "tiny", "prompt": [5] * tokens, "max_tokens": 4, **more}
    with suppress(aiohttp.ClientError):
        await worker.api("/v1/completions", body=body)
