"""The worker's part that looks after memory, in a worker over the stand-in engine, and alone with recorded devices."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelfleet_worker.devices import Devices, DevicesError
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.gate_state import Board
from modelfleet_worker.memory import Memory
from modelfleet_worker.memory_driver import Driver
from modelfleet_worker.nvml import NvmlDevices
from modelfleet_worker.plan import Limits, MemoryPlan, Plan
from modelfleet_worker.recent_inputs import RecentInputs, recent_inputs
from modelfleet_worker.state import Progress, State
from nvml_session import session
from worker_process import plan_of, running_worker, stand_in

MIB = 1 << 20
PATIENCE_S = 30.0
DIED = Failure(reason=Reason.ENGINE_DIED, message="It died.", remedy="", phase=State.SERVING)
SHARE = (
    "(Worker pid=8) ERROR 11-30 00:33:56 [multiproc_executor.py:953] ValueError: Available memory on node 0"
    " (19.47/21.34 GiB) on startup is less than desired CPU memory utilization (0.92, 19.63 GiB)."
)


async def test_a_worker_whose_engine_refuses_its_share_proposes_a_lower_one(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path, says=SHARE, exit="1"))) as worker:
        assert await worker.exit_code() == 1
        said = worker.termination
    assert said["reason"] == "MemoryFractionTooHigh"
    assert said["correction"] == {"flag": "gpu-memory-utilization", "value": "0.90", "before": "0.92"}
    assert said["evidence"]["wantedBytes"] > said["evidence"]["freeBytes"]


def part(folder: Path, name: str, **memory: Any) -> Memory:
    plan = Plan(
        revision="",
        model_path=str(folder),
        served_names=("m",),
        python=None,
        args=("--gpu-memory-utilization=0.9",) if name.startswith("h100") else (),
        env={},
        limits=Limits(start_deadline_s=1, drain_s=1, propagation_s=1),
        memory=MemoryPlan(**memory),
    )
    return Memory(plan, Progress(0.0), folder / "log", Board(folder / "gate").folder, devices=opens(name))


def opens(name: str) -> Callable[[], Devices]:
    return lambda: NvmlDevices(session(name))


@pytest.mark.parametrize(
    ("name", "device", "reason"),
    [
        pytest.param("no-library", "", None, id="no library, and a plan that does not say what it is for"),
        pytest.param("no-library", "Cpu", None, id="no library, and a plan for CPU"),
        pytest.param(
            "no-library", "Cuda", Reason.ACCELERATOR_UNAVAILABLE, id="no library, and a plan for accelerators"
        ),
        pytest.param("no-driver", "", Reason.ACCELERATOR_UNAVAILABLE, id="a driver that is gone"),
        pytest.param("no-device", "Cuda", Reason.ACCELERATOR_UNAVAILABLE, id="no device"),
        pytest.param("h100-idle", "Cuda", None, id="an idle device"),
        pytest.param("h100-foreign", "Cuda", Reason.FOREIGN_MEMORY, id="a foreign process"),
    ],
)
async def test_a_start(tmp_path: Path, name: str, device: str, reason: Reason | None) -> None:
    failure = await part(tmp_path, name, device=device, accelerator_bytes=81559 * MIB).check()
    assert (failure.reason if failure else None) == reason


async def test_a_fault_that_the_driver_reports_while_the_engine_runs_explains_its_death(tmp_path: Path) -> None:
    memory = part(tmp_path, "h100-idle")
    assert await memory.check() is None
    memory._driver = Driver(NvmlDevices(session("h100-xid")))
    found = await memory.explain(DIED)
    assert (found.reason, found.evidence["xid"]) == (Reason.ACCELERATOR_FAULTY, 48)


async def test_what_a_watch_sees_is_on_the_metrics_page(tmp_path: Path) -> None:
    memory = part(tmp_path, "h100-foreign")
    await memory.check()
    assert not list(memory.metrics())
    memory._ring.append(await memory._sample(PATIENCE_S))
    values = {sample.name: sample.value for family in memory.metrics() for sample in family.samples}
    assert values["modelfleet_worker_accelerator_used_bytes"] == 30254 * MIB
    assert values["modelfleet_worker_host_own_bytes"] > MIB


def test_prompts_of_an_earlier_engine_are_forgotten_before_the_next(tmp_path: Path) -> None:
    memory = part(tmp_path, "h100-idle")
    folder = tmp_path / "gate"
    RecentInputs(folder).began(1, 3500, logprobs=True, media=False)
    memory.equip(tmp_path)
    assert recent_inputs(folder) == ()


async def test_what_an_earlier_engine_of_the_worker_said_explains_nothing_of_the_next(tmp_path: Path) -> None:
    memory = part(tmp_path, "no-library")
    await memory.check()
    memory.heard(SHARE)
    memory._ring.append(await memory._sample(PATIENCE_S))
    memory.equip(tmp_path)
    assert not list(memory.metrics())
    failed = Failure(reason=Reason.ENGINE_START_FAILED, message="It failed.", remedy="")
    assert (await memory.explain(failed)).reason is Reason.ENGINE_START_FAILED


async def test_a_device_that_is_lost_when_the_engine_has_died_is_why(tmp_path: Path) -> None:
    memory = part(tmp_path, "h100-idle")
    await memory.check()
    memory._driver = Driver(NvmlDevices(session("h100-no-handle"), visible="1"))
    found = await memory.explain(DIED)
    assert (found.reason, "has fallen off the bus" in found.message) == (Reason.ACCELERATOR_FAULTY, True)


async def test_a_device_that_is_lost_shows_no_use_on_the_metrics_page(tmp_path: Path) -> None:
    memory = part(tmp_path, "h100-idle")
    memory._driver = Driver(NvmlDevices(session("h100-no-handle")))
    memory._ring.append(await memory._sample(PATIENCE_S))
    (used, *_) = memory.metrics()
    assert [sample.labels["device"] for sample in used.samples] == ["0"]


async def test_a_driver_that_stops_answering_leaves_the_worker_alive(tmp_path: Path) -> None:
    class Gone:
        def read(self) -> Any:
            raise DevicesError("GPU is lost")

        def xids(self) -> Any:
            return ()

    memory = part(tmp_path, "h100-idle")
    memory._driver = Driver(Gone())
    assert (await memory._sample(PATIENCE_S)).devices == ()
