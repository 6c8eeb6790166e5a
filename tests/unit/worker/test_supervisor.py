"""The worker as a process, over the stand-in engine: how it starts, drains, fails and cleans up."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from modelfleet_worker.start_outlook import Phase
from stand_in_engine import WORKER_TITLE
from worker_process import Worker, environment_of, living, pid_titled, plan_of, running_worker, stand_in

NO_CACHE = "(EngineCore pid=9) ERROR 11-29 17:54:29 [core.py:1] ValueError: No available memory for the cache blocks."


async def test_a_start_shows_its_phases_and_ends_in_serving(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path))) as worker:
        await worker.until_ready()
        page = await worker.metrics()
        assert page['modelfleet_worker_info{revision="1a2b3c4d"}'] == 1
        states = {state: page[f'modelfleet_worker_state{{state="{state}"}}'] for state in ("starting", "serving")}
        assert states == {"starting": 0, "serving": 1}
        phases = [phase for phase in Phase if f'modelfleet_worker_start_phase_seconds{{phase="{phase}"}}' in page]
        assert phases == [Phase.PREFLIGHT, Phase.BOOT, Phase.FIRST_TOKEN]
        assert (await worker.status("/startupz")).status == 200


async def test_the_engine_sees_nothing_of_the_pods_environment(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path))) as worker:
        await worker.until_ready()
        names = environment_of(worker.below[0])
        assert "VLLM_PORT" not in names, "a Service named vllm injects it, and vLLM refuses to start with it"
        assert names["HF_HUB_OFFLINE"] == "1"
        assert names["HOME"] == names["TMPDIR"] != os.environ["HOME"]
        package, entry_point = sorted(os.listdir(names["PYTHONPATH"]))
        assert (package, entry_point.endswith(".dist-info")) == ("modelfleet_worker", True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_a_stop_during_the_start_ends_the_engine_at_once(tmp_path: Path, number: signal.Signals) -> None:
    under_test = stand_in(tmp_path, start_s="3600")
    async with running_worker(tmp_path, plan_of(under_test, propagation_s=3600)) as worker:
        await worker.until(lambda: _says(worker, "starting"))
        worker.terminate(number)
        assert await worker.exit_code() == 0
        assert worker.termination is None


async def test_an_idle_worker_ends_after_the_propagation_time_alone(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path), drain_s=3600, propagation_s=0.2)) as worker:
        await worker.until_ready()
        below = worker.below
        worker.terminate(signal.SIGINT)
        assert await worker.exit_code() == 0
        assert not living(below)


async def test_a_drain_cuts_off_what_is_longer_than_it_may_take(tmp_path: Path) -> None:
    under_test = stand_in(tmp_path, token_s="0.01")
    async with running_worker(tmp_path, plan_of(under_test, drain_s=0.2, propagation_s=0)) as worker:
        await worker.until_ready()
        async with worker.stream(1_000_000) as answer:
            await answer.content.readline()
            worker.terminate()
            rest = (await answer.content.read()).decode()
        assert '"error"' in rest
        assert await worker.exit_code() == 0
        assert "1 requests are cut off" in worker.log


async def test_an_engine_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    under_test = stand_in(tmp_path, fault="deaf")
    async with running_worker(tmp_path, plan_of(under_test, propagation_s=0)) as worker:
        await worker.until_ready()
        below = worker.below
        worker.terminate()
        assert await worker.exit_code() == 0
        assert not living(below)


async def test_orphans_of_a_killed_engine_do_not_outlive_the_worker(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path))) as worker:
        await worker.until_ready()
        below = worker.below
        orphan = pid_titled(below, WORKER_TITLE)
        (api_server,) = [pid for pid in below if pid != orphan]
        os.kill(api_server, signal.SIGKILL)
        assert await worker.exit_code() == 1
        said = worker.termination
        assert (said["reason"], said["exitCode"]) == ("EngineDied", -9)
        assert said["message"].startswith("The engine ended while it served, killed by signal 9")
        assert not living(below)


async def test_an_engine_that_dies_in_the_drain_is_a_failure(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path), propagation_s=3600)) as worker:
        await worker.until_ready()
        worker.terminate()
        await worker.until(lambda: _says(worker, "connections closed"))
        os.kill(pid_titled(worker.below, WORKER_TITLE), signal.SIGKILL)
        assert await worker.exit_code() == 1
        assert (worker.termination["reason"], worker.termination["phase"]) == ("EngineDied", "draining")


async def test_an_unhealthy_engine_takes_the_readiness_and_not_the_liveness(tmp_path: Path) -> None:
    under_test = stand_in(tmp_path)
    async with running_worker(tmp_path, plan_of(under_test)) as worker:
        await worker.until_ready()
        os.kill(worker.below[0], signal.SIGSTOP)  # it answers nothing any more
        answer = await worker.status("/readyz")
        assert (answer.status, answer.json["reason"]) == (503, "EngineUnhealthy")
        assert (await worker.status("/livez")).status == 200
        os.kill(worker.below[0], signal.SIGCONT)
        await worker.until_ready()


@pytest.mark.parametrize(
    ("knobs", "reason", "words"),
    [
        pytest.param({"says": NO_CACHE, "exit": "1"}, "KvCacheTooSmall", "cache blocks", id="it says why"),
        pytest.param({"exit": "3"}, "EngineStartFailed", "with exit code 3", id="it says nothing"),
        pytest.param({"exit": "0"}, "EngineStartFailed", "with exit code 0", id="it ends with exit code 0"),
        pytest.param({"fault": "unhealthy"}, "EngineStartTimeout", "/health never was 200", id="it is never healthy"),
        pytest.param({"fault": "silent"}, "EngineStartTimeout", "gave no answer", id="it never gives a token"),
        pytest.param({"fault": "failing"}, "EngineStartTimeout", "HTTP 500", id="it fails each request"),
        pytest.param({"fault": "refusing"}, "ModelRefused", "HTTP 400", id="its model cannot generate"),
        pytest.param({"fault": "ungated"}, "EngineStartFailed", "the gate", id="it does not load the gate"),
    ],
)
async def test_a_start_fails_with_a_reason_when(tmp_path: Path, knobs: dict[str, str], reason: str, words: str) -> None:
    patience_s = 4 if reason == "EngineStartTimeout" else 60  # the others end by themselves
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path, **knobs), startDeadline_s=patience_s)) as worker:
        assert await worker.exit_code() == 1
        said = worker.termination
        assert (said["reason"], said["phase"]) == (reason, "starting")
        assert words in said["message"]
        assert said["remedy"].endswith(".")
        assert "Traceback" not in worker.log


def _without_config(plan: Any) -> None:
    Path(plan["model"]["path"], "config.json").unlink()


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        pytest.param(_without_config, "ModelNotFound", "has no config.json", id="the model has no config"),
        pytest.param(lambda p: p["engine"].update(python="/none"), "EngineStartFailed", "/none", id="no interpreter"),
        pytest.param(lambda p: p["limits"].pop("drain_s"), "PlanUnreadable", "limits.drain_s", id="a field is missing"),
        pytest.param(lambda p: p["engine"].update(args=["--what=1"]), "EngineArgumentsRefused", "--what", id="a flag"),
    ],
)
async def test_nothing_is_served_when(tmp_path: Path, change: Any, reason: str, words: str) -> None:
    plan = plan_of(stand_in(tmp_path))
    change(plan)
    async with running_worker(tmp_path, plan) as worker:
        assert await worker.exit_code() == 1
        assert worker.termination["reason"] == reason
        assert words in worker.termination["message"]
        assert "Traceback" not in worker.log


async def test_counts_of_an_earlier_container_are_forgotten(tmp_path: Path) -> None:
    gate = tmp_path / "worker" / "run" / "gate"
    gate.mkdir(parents=True)
    (gate / f"counts-{os.getpid()}").write_bytes((5).to_bytes(8, "little") * 6)
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path))) as worker:
        await worker.until_ready()
        assert (await worker.in_flight(), await worker.ended("completed")) == (0, 0)


async def test_many_requests_at_once_are_counted_one_by_one(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path))) as worker:
        await worker.until_ready()
        body = {"model": "tiny", "prompt": "hi", "max_tokens": 2}
        answers = await asyncio.gather(*(worker.api("/v1/completions", body) for _ in range(100)))
        assert {answer.status for answer in answers} == {200}

        async def all_counted() -> bool:
            return (await worker.in_flight(), await worker.ended("completed")) == (0, 100)

        await worker.until(all_counted)  # the last answers may arrive before the engine's code around them returned


async def _says(worker: Worker, words: str) -> bool:
    return words in worker.log
