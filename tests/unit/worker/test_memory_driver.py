"""A driver that hangs, as one may whose device is broken, holds up neither the worker nor the account of a death."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from test_memory_part import DIED, part

from modelfleet_worker.cgroup import Memory as Cgroup
from modelfleet_worker.devices import Device, Xid
from modelfleet_worker.failure import Reason
from modelfleet_worker.memory import PERIOD_S
from modelfleet_worker.memory_driver import Driver

GIB = 1 << 30
DEVICE = Device(index=0, name="NVIDIA H100 80GB HBM3", uuid="GPU-0", usable_bytes=80 * GIB, used_bytes=0)
HOST = Cgroup(
    version=2,
    used_bytes=4 * GIB,
    anonymous_bytes=3 * GIB,
    shared_bytes=0,
    cache_bytes=0,
    limit_bytes=4 * GIB,
    oom_kills=0,
)


class Stuck:
    """Answers the first `answers` questions; the next ones only once it is freed."""

    def __init__(self, answers: int = 0) -> None:
        self.asked, self.answers, self.free = 0, answers, threading.Event()

    def read(self) -> Sequence[Device]:
        self.asked += 1
        if self.asked > self.answers:
            self.free.wait()
        return (replace(DEVICE, used_bytes=self.asked),)

    def xids(self) -> Sequence[Xid]:
        return ()


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    driver = Stuck()
    yield driver
    driver.free.set()


@pytest.mark.looptime
async def test_a_driver_that_hangs_is_waited_for_so_long_and_asked_once(stuck: Stuck) -> None:
    driver = Driver(stuck)
    assert [await driver.look(3.0) for _ in range(3)] == [(), (), ()]
    assert asyncio.get_running_loop().time() == 9.0
    assert stuck.asked == 1


async def test_an_answer_that_came_too_late_is_not_taken_for_what_is_now(stuck: Stuck) -> None:
    driver = Driver(stuck)
    assert await driver.look(0.01) == ()
    stuck.free.set()
    (device,) = await driver.look(30.0)
    assert device.used_bytes == 2


@pytest.mark.looptime
async def test_a_death_is_accounted_for_without_a_driver_that_hangs(tmp_path: Path, stuck: Stuck) -> None:
    memory = part(tmp_path, "h100-idle")
    memory._driver = Driver(stuck)
    loop = asyncio.get_running_loop()
    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(loop.time())
            await asyncio.sleep(0.5)

    beating = asyncio.create_task(beat())
    assert (await memory.explain(DIED)).reason is Reason.ENGINE_DIED
    beating.cancel()
    assert loop.time() <= 5.0
    assert len(beats) > 5, "whatever else the worker answers goes on meanwhile"


async def test_what_is_written_before_a_kill_of_the_container_asks_no_driver(
    tmp_path: Path, stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck.answers = 1
    memory = part(tmp_path, "h100-idle")
    await memory.check()
    memory._driver = Driver(stuck)
    memory._ring.append(await memory._sample(30.0))
    monkeypatch.setattr(memory._host, "memory", lambda: HOST)
    memory._foresee()
    assert '"provisional": true' in (tmp_path / "log").read_text()
    assert stuck.asked == 1


async def test_a_kill_that_the_kernel_counted_is_told_without_a_driver_that_hangs(
    tmp_path: Path, stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelfleet_worker.memory._ANSWER_S", 0.05)
    memory = part(tmp_path, "h100-idle")
    monkeypatch.setattr(memory._host, "memory", lambda: HOST)
    await memory.check()
    memory._driver = Driver(stuck)
    monkeypatch.setattr(memory._host, "memory", lambda: replace(HOST, anonymous_bytes=0, oom_kills=1))
    assert (await memory.explain(replace(DIED, exit_code=-9))).reason is Reason.HOST_OUT_OF_MEMORY


@pytest.mark.looptime
async def test_a_driver_that_hangs_before_the_start_makes_the_accelerators_unavailable(
    tmp_path: Path, stuck: Stuck
) -> None:
    memory = part(tmp_path, "h100-idle")
    memory._open = lambda: stuck
    failure = await memory.check()
    assert failure is not None
    assert (failure.reason, "not answered for 120 s" in failure.message) == (Reason.ACCELERATOR_UNAVAILABLE, True)


@pytest.mark.looptime
async def test_memory_is_looked_at_while_the_driver_hangs(
    tmp_path: Path, stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = part(tmp_path, "h100-idle")
    memory._driver = Driver(stuck)
    looks: list[float] = []
    loop = asyncio.get_running_loop()

    def foresee() -> float:
        looks.append(loop.time())
        return 0.0

    monkeypatch.setattr(memory, "_foresee", foresee)
    watching = asyncio.create_task(memory.watch())
    await asyncio.sleep(PERIOD_S)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert len(looks) >= 8
