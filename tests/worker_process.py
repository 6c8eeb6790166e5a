"""A worker as a process of its own, with a plan for the stand-in or for the real engine, and what a client sees."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

import stand_in_engine
from modelfleet_local import engine
from modelfleet_local.paths import cache_dir
from modelfleet_worker import processes

NAME = "tiny"
_PATIENCE_S = 30.0  # for what takes a moment; a test that needs it all has failed


@dataclass(frozen=True)
class EngineUnderTest:
    """How a plan starts an engine. `tokens`: a stream of `choices`, each of so many, outlasts a drain's first steps,
    also where the machine stands still for some seconds."""

    python: str
    model: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    tokens: int
    start_patience_s: float
    choices: int = 1


def stand_in(folder: Path, **knobs: str) -> EngineUnderTest:
    """The stand-in; `knobs` are its environment variables without STAND_IN_, in lower case."""
    python, model = folder / "stand-in", folder / "model"
    here = Path(stand_in_engine.__file__).parent
    code = f"import sys; sys.path.append('{here}'); import stand_in_engine; stand_in_engine.main()"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -P -c "{code}" "$@"\n')
    python.chmod(0o755)
    model.mkdir()
    (model / "config.json").write_text("{}")
    env = {f"STAND_IN_{name.upper()}": value for name, value in knobs.items()}
    return EngineUnderTest(str(python), str(model), (), env, 400, 30.0)


def real_engine() -> EngineUnderTest:
    """vLLM for CPU with the tiny model. Raises LocalClusterError, with the command that installs both."""
    environment, model = engine.require_engine(cache_dir()), engine.require_model(cache_dir())
    args = ("--max-model-len=4096", "--enforce-eager", "--kv-cache-memory-bytes=64M")
    env = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    return EngineUnderTest(str(environment / "bin/python"), str(model), args, env, 4000, 240.0, choices=8)


def plan_of(under_test: EngineUnderTest, **limits: float | str) -> dict[str, Any]:
    """plan.json as the operator writes it."""
    bounds = {"startDeadline_s": 240, "drain_s": 120, "propagation_s": 1}
    return {
        "revision": "1a2b3c4d",
        "model": {"path": under_test.model, "servedNames": [NAME, "alias"]},
        "engine": {"python": under_test.python, "args": list(under_test.args), "env": dict(under_test.env)},
        "limits": {**bounds, **limits},
    }


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Worker:
    """A running worker. Waits are bounded by patience, never asserted."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, ports: tuple[int, int]) -> None:
        self.process, self.folder = process, folder
        self._http, self._status = (f"http://127.0.0.1:{port}" for port in ports)
        self.session = aiohttp.ClientSession()

    async def api(self, path: str, body: Any = None, **headers: str) -> Answer:
        """A request to the engine's port: POST with a body, else GET."""
        return await self._ask(self._http + path, body, headers)

    @property
    def status_address(self) -> str:
        """Host and port of the status port."""
        return self._status.removeprefix("http://")

    async def status(self, path: str) -> Answer:
        """A request to the status port."""
        return await self._ask(self._status + path, None, {})

    async def tell(self, path: str, body: Any, token: str) -> Answer:
        """A POST to the status port with `token`, none if it is empty."""
        return await self._ask(self._status + path, body, {"Authorization": f"Bearer {token}"} if token else {})

    async def metrics(self) -> dict[str, float]:
        """The worker's own page: series and value."""
        lines = (await self.status("/metrics")).text.splitlines()
        return {
            series: float(value) for series, _, value in (x.rpartition(" ") for x in lines if not x.startswith("#"))
        }

    async def in_flight(self) -> float:
        return (await self.metrics())["modelfleet_worker_in_flight"]

    async def ended(self, outcome: str) -> float:
        return (await self.metrics())[f'modelfleet_worker_requests_total{{outcome="{outcome}"}}']

    def stream(self, tokens: int, choices: int = 1) -> "aiohttp.client._RequestContextManager":
        """A streamed chat completion of `choices`, each of so many tokens."""
        messages = [{"role": "user", "content": "hi"}]
        body = {"model": NAME, "messages": messages, "max_tokens": tokens, "ignore_eos": True, "stream": True}
        body |= {"stream_options": {"include_usage": True}, "n": choices}
        timeout = aiohttp.ClientTimeout(total=None)
        return self.session.post(f"{self._http}/v1/chat/completions", json=body, timeout=timeout)

    async def until_ready(self, patience_s: float = _PATIENCE_S) -> None:
        await self.until(self._is_ready, patience_s)

    async def until(self, holds: Any, patience_s: float = _PATIENCE_S) -> None:
        """Waits until the coroutine function `holds` gives true. Raises AssertionError with the log if it does not."""
        try:
            async with asyncio.timeout(patience_s):
                while not await holds():  # noqa: ASYNC110 (another process's state has no event)
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"it did not come to that; the worker's log:\n{self.log}") from None

    async def _is_ready(self) -> bool:
        assert self.process.poll() is None, f"the worker ended:\n{self.log}"
        try:
            return (await self.status("/readyz")).status == 200
        except aiohttp.ClientError:
            return False

    async def exit_code(self, patience_s: float = _PATIENCE_S) -> int:
        """Waits for the worker's end."""
        await self.until(self._has_ended, patience_s)
        assert self.process.returncode is not None
        return self.process.returncode

    async def _has_ended(self) -> bool:
        return self.process.poll() is not None

    def terminate(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """Ends all its processes at once, as the end of a container does."""
        for pid in [self.process.pid, *self.below] if self.process.poll() is None else []:
            if not processes.is_resource_tracker(pid):  # those end by themselves, once they removed the shared memory
                os.kill(pid, signal.SIGKILL)

    @property
    def below(self) -> list[int]:
        """The pids of the engine's processes."""
        return processes.descendants(self.process.pid)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def termination(self) -> Any:
        """The termination message as the operator reads it; None if there is none."""
        path = self.folder / "termination-log"
        return json.loads(path.read_text()) if path.exists() else None

    async def _ask(self, url: str, body: Any, headers: Mapping[str, str]) -> Answer:
        method = "GET" if body is None else "POST"
        async with self.session.request(method, url, json=body, headers=headers) as answer:
            return Answer(answer.status, dict(answer.headers), await answer.text())


def living(pids: list[int]) -> list[int]:
    """Those of `pids` that still have a process."""
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def environment_of(pid: int) -> dict[str, str]:
    """The environment that process `pid` was started with."""
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


def pid_titled(pids: list[int], title: str) -> int:
    """The process among `pids` whose command line begins with `title`."""
    return next(pid for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(title.encode()))


def in_pod(folder: Path, name: str, uid: str) -> tuple[str, ...]:
    """What makes a worker believe that it is a container of this pod: a host name, and a file that a kubelet mounts."""
    hosts = folder / "pods" / uid / "etc-hosts"
    hosts.parent.mkdir(parents=True)
    shutil.copy("/etc/hosts", hosts)
    script = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'
    return ("unshare", "--mount", "--uts", "--", "sh", "-c", script, "sh", str(hosts), name)


def own_shared_memory(folder: Path) -> tuple[str, ...]:
    """What gives a worker a /dev/shm of its own, as a pod has it: the new `folder`, which shows what is left there."""
    folder.mkdir()
    return ("unshare", "--mount", "--", "sh", "-c", 'mount --bind "$0" /dev/shm && exec "$@"', str(folder))


@asynccontextmanager
async def running_worker(folder: Path, plan: Any, inside: Sequence[str] = ()) -> AsyncIterator[Worker]:
    """Starts a worker with `plan` (a value, or a text to write as it is); nothing of it is left afterwards.

    `inside` is what becomes it: a command that is given the worker's as its last arguments, `in_pod` say.
    """
    folder = folder / "worker"
    (folder / "run").mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(plan if isinstance(plan, str) else json.dumps(plan))
    ports = free_port(), free_port()
    options = {
        "plan": "plan.json",
        "termination-log": "termination-log",
        "runtime-folder": "run",
        "promise": "promise.json",
    }
    # The engine makes Unix sockets there, whose paths may have 107 bytes.
    scratch = tempfile.mkdtemp(prefix="worker-")
    flags = [f"--scratch-folder={scratch}", *(f"--{name}={folder / file}" for name, file in options.items())]
    command = [*inside, sys.executable, "-m", "modelfleet_worker.main", "serve", *flags]
    command += [f"--http-port={ports[0]}", f"--status-port={ports[1]}"]
    with (folder / "log").open("wb") as log:
        env = {"PATH": os.environ["PATH"], "VLLM_PORT": "tcp://10.0.0.1:80", "CUDA_VISIBLE_DEVICES": ""}
        process = subprocess.Popen(  # noqa: ASYNC220 (starts at once; the loop's own watcher is not under test)
            command, stdout=log, stderr=log, env=env, cwd=folder
        )
    try:
        async with ending(Worker(process, folder, ports)) as worker:
            yield worker
    finally:
        shutil.rmtree(scratch)


@asynccontextmanager
async def ending(worker: Worker) -> AsyncIterator[Worker]:
    """Nothing of the worker is left after the block."""
    process = worker.process
    try:
        yield worker
    finally:
        await worker.session.close()
        worker.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
