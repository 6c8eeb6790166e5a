"""What the worker itself runs into, before and beside its engine: it always ends with a reason that can be read."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from group_process import group, group_plan
from modelfleet_worker import commands, processes
from worker_process import Worker, free_port, plan_of, running_worker, stand_in


def _no_program(folder: Path, python: Path) -> None:
    python.write_text("neither a program nor a script")


def _no_gate(folder: Path, python: Path) -> None:
    (folder / "worker" / "run").mkdir(parents=True)
    (folder / "worker" / "run" / "gate").write_text("a file where a folder goes")


def _no_code(folder: Path, python: Path) -> None:
    (folder / "worker" / "run").mkdir(parents=True)
    (folder / "worker" / "run" / "code").write_text("a file where a folder goes")


def _odd_name(folder: Path, python: Path) -> None:
    (folder / "model" / "config.json").unlink()
    Path(os.fsdecode(os.fsencode(folder / "model") + b"/weights-\xff.bin")).write_text("")


@pytest.mark.parametrize(
    ("wrong", "reason", "words"),
    [
        pytest.param(_no_program, "EngineStartFailed", "Exec format error", id="an interpreter that is no program"),
        pytest.param(_no_gate, "EngineStartFailed", "gate", id="a runtime folder that cannot be written to"),
        pytest.param(_no_code, "EngineStartFailed", "code", id="a folder for code that cannot be made"),
        pytest.param(_odd_name, "ModelNotFound", "weights-", id="a file whose name is no text"),
    ],
)
async def test_a_fault_beside_the_engine_has_a_reason(tmp_path: Path, wrong: Any, reason: str, words: str) -> None:
    under_test = stand_in(tmp_path)
    wrong(tmp_path, Path(under_test.python))
    async with running_worker(tmp_path, plan_of(under_test)) as worker:
        assert await worker.exit_code() == 1
        said = worker.termination
        assert said["reason"] == reason
        assert words in said["message"]
        assert said["remedy"].endswith(".")
        assert "Traceback" not in worker.log


def test_a_taken_status_port_is_named(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_of(stand_in(tmp_path))))
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        ports = [f"--status-port={port}", f"--http-port={free_port()}"]
        folders = [f"--{name}={tmp_path / name}" for name in ("runtime-folder", "scratch-folder", "termination-log")]
        command = [sys.executable, "-m", "modelfleet_worker.main", "serve", f"--plan={plan}", *ports, *folders]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    said = json.loads((tmp_path / "termination-log").read_text())
    assert said["reason"] == "EngineStartFailed"
    assert str(port) in said["message"]
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x", "9" * 5000])
def test_a_port_that_is_none_is_told_with_what_would_work(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        commands.run(["serve", "--plan=plan.json", f"--status-port={port}"])
    assert ended.value.code == 2
    assert "a port from 1 to 65535" in capsys.readouterr().err


def test_a_process_whose_name_is_no_text_is_seen_like_others() -> None:
    code = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'caf\\xc3'); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            assert child.pid in processes.descendants(os.getpid())
        finally:
            child.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_report_that_waits_for_a_volume_ends_when_it_is_told_to(tmp_path: Path, number: signal.Signals) -> None:
    os.mkfifo(tmp_path / "config.json")  # opening it waits, as a volume that does not answer
    command = [sys.executable, "-m", "modelfleet_worker.main", "inspect", str(tmp_path)]
    with subprocess.Popen([*command, f"--termination-log={tmp_path / 'log'}"]) as child:
        try:
            while not _is_in_main(child.pid):
                time.sleep(0.001)
            child.send_signal(number)
            assert child.wait(30) != 0
        finally:
            child.kill()


def _is_in_main(pid: int) -> bool:
    """Whether it holds SIGTERM back, or has said what it does."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = [int(status.partition(f"{name}:")[2].split()[0], 16) for name in ("SigBlk", "SigCgt")]
    return any(mask >> (signal.SIGTERM - 1) & 1 for mask in masks)


def test_signals_are_held_back_before_anything_is_imported_that_takes_time() -> None:
    code = "import sys; before = set(sys.modules); import modelfleet_worker.main; print(*(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "modelfleet_worker.main" in found
    assert not [name for name in found if name.split(".")[0] in ("pydantic", "modelfleet", "asyncio", "aiohttp")]


@pytest.mark.parametrize(
    ("told", "code"), [pytest.param(True, 0, id="it is told to"), pytest.param(False, 1, id="its start took too long")]
)
async def test_a_member_that_waits_for_a_volume_ends_when(tmp_path: Path, told: bool, code: int) -> None:
    under_test = stand_in(tmp_path)
    config = Path(under_test.model) / "config.json"
    config.unlink()
    os.mkfifo(config)
    plan = group_plan(plan_of(under_test, startDeadline_s=3600 if told else 1))
    async with group(tmp_path, plan) as members:
        worker = await members.start(1)
        await worker.until(lambda: _answers(worker))
        if told:
            worker.terminate()
        assert await worker.exit_code() == code
        assert told or worker.termination["reason"] == "EngineStartTimeout"


async def _answers(worker: Worker) -> bool:
    try:
        return (await worker.status("/startupz")).status == 503
    except OSError:
        return False
