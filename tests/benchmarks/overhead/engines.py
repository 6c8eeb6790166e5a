"""The engine behind our worker, whose layers can be taken out while it serves, and the engine alone."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

import modelfleet_worker
from benchmarks.overhead import load
from modelfleet_worker import processes
from worker_process import NAME, Worker, free_port, plan_of, real_engine, running_worker

START_S = 900.0
"""How long a start may take on a machine that others use too."""
LAYERS = frozenset({"gate", "hooks", "iteration details", "stat logger"})
"""What `layer_switch` must find in an engine's processes, else nothing is measured."""
_SWITCH = Path(__file__).with_name("layer_switch.py")
_ENTRY_POINT = "[vllm.general_plugins]\nmodelfleet_layer_switch = layer_switch:install\n"
_METADATA = "Metadata-Version: 2.1\nName: modelfleet-layer-switch\nVersion: 1\n"
_PROMISE = {"digest": "0123456789ab", "objectives": [{"name": "bench", "ttft_s": 10.0, "tpot_s": 1.0}]}
_ONE_PROCESS = "--distributed-executor-backend=vllm.v1.executor.uniproc_executor.UniProcExecutor"
"""The model in the process of the engine's core, as vLLM has it on one GPU. Its default on CPU is a process more, and
the two wait for each other by spinning: then the CPU time of each is that of all others too. With our worker the switch
sets it, since a plan may not."""
_ASKED_EVERY = {"/readyz": 2.0, "/metrics": 5.0, "/livez": 10.0}
"""The status port, as a cluster asks it: the kubelet's probes and the operator's samples; seconds."""
_MOSTLY = 0.5
_SETTLES_S = 0.05  # what a server does after its last byte belongs to the segment too


@dataclass(frozen=True)
class Cpu:
    """CPU seconds that processes took: the engine's core, its API server, our supervisor."""

    core_s: float = 0.0
    api_s: float = 0.0
    supervisor_s: float = 0.0

    def since(self, before: "Cpu") -> "Cpu":
        """What was taken since `before`."""
        core_s, api_s = self.core_s - before.core_s, self.api_s - before.api_s
        return Cpu(core_s, api_s, self.supervisor_s - before.supervisor_s)

    @property
    def all_s(self) -> float:
        return self.core_s + self.api_s + self.supervisor_s


@dataclass(frozen=True)
class Segment:
    """What a segment of load took."""

    tokens: int
    served: load.Served
    cpu: Cpu

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.served.wall_s

    @property
    def cpu_us_per_token(self) -> float:
        return self.cpu.all_s / self.tokens * 1e6


class Server:
    """A server on `port`; `root` is the process above all of its own, `supervised` if that is our supervisor."""

    def __init__(self, port: int, root: int, *, supervised: bool) -> None:
        self.port, self.root, self._supervised = port, root, supervised
        self.again = 0
        """Segments that were measured again."""

    async def segment(self, shape: load.Shape) -> Segment:
        """Puts load on it and measures; again where the client had no time to read what came."""
        while True:
            before = self.cpu()
            served = await load.serve(self.port, NAME, shape)
            await asyncio.sleep(_SETTLES_S)
            if served.read >= _MOSTLY:
                return Segment(shape.all_tokens, served, self.cpu().since(before))
            self.again += 1

    def cpu(self) -> Cpu:
        """CPU time so far of those processes that live, by the kernel's clock of each."""
        core_s = api_s = supervisor_s = 0.0
        for pid in (self.root, *processes.descendants(self.root)):
            with suppress(OSError):  # it ended meanwhile
                seconds = time.clock_gettime(~pid << 3 | 2)
                title = Path(f"/proc/{pid}/cmdline").read_bytes()
                if title.startswith(b"VLLM::"):
                    core_s += seconds
                elif pid == self.root and self._supervised:
                    supervisor_s += seconds
                else:
                    api_s += seconds
        return Cpu(core_s, api_s, supervisor_s)


class Layered(Server):
    """The engine behind our worker. Its layers are in after the start."""

    def __init__(self, worker: Worker, folder: Path) -> None:
        super().__init__(int(worker._http.rpartition(":")[2]), worker.process.pid, supervised=True)
        self._worker, self._folder = worker, folder / "worker" / "run" / "switches"
        self._asking: asyncio.Task[None] | None = None
        self._in_s = 0.0
        self._asked = dict.fromkeys(_ASKED_EVERY, 0.0)

    def put_in(self) -> None:
        """Puts the layers back, and lets the supervisor run and be asked as in a cluster."""
        self._tell(b"back")
        os.kill(self.root, signal.SIGCONT)
        self._asking = asyncio.create_task(self._ask())

    async def take_out(self) -> None:
        """Takes the layers out and stops the supervisor. Raises RuntimeError unless all of them were there."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        os.kill(self.root, signal.SIGSTOP)
        found = self._tell(b"out")
        if found != LAYERS:
            raise RuntimeError(f"the engine has {sorted(found)} of ours, and it should have {sorted(LAYERS)}")

    def _tell(self, word: bytes) -> frozenset[str]:
        """Tells each process of the engine; what they say."""
        found: set[str] = set()
        alive = {str(pid) for pid in self._worker.below}
        own = self._folder / f"bench-{os.getpid()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asks:
            own.unlink(missing_ok=True)
            asks.bind(str(own))
            asks.settimeout(30)
            for path in self._folder.iterdir():
                if path.name in alive:
                    asks.sendto(word, str(path))
                    said = json.loads(asks.recv(4096))
                    if isinstance(said, str):
                        raise RuntimeError(f"process {path.name} of the engine: {said}")
                    found |= set(said)
        return frozenset(found)

    async def _ask(self) -> None:
        """What a cluster asks of the status port, by a clock that runs while the layers are in."""
        while True:
            for path, every_s in _ASKED_EVERY.items():
                if self._in_s >= self._asked[path]:
                    self._asked[path] += every_s
                    await self._worker.status(path)
            await asyncio.sleep(0.5)
            self._in_s += 0.5


def parts_alone(batches: Sequence[int]) -> Any:
    """What each layer takes alone, in CPU microseconds: see parts.py, which runs in the engine's Python. Raises
    subprocess.CalledProcessError, with its words on stderr."""
    argv = [real_engine().python, str(Path(__file__).with_name("parts.py")), *map(str, batches)]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(modelfleet_worker.__path__[0]).parent)}
    said = subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(said.splitlines()[-1])


@asynccontextmanager
async def layered(folder: Path) -> AsyncIterator[Layered]:
    """A worker with the switch in its engine; nothing of it is left afterwards."""
    engine = real_engine()
    code = folder / "worker" / "run" / "code"
    (code / "modelfleet_layer_switch-1.dist-info").mkdir(parents=True)
    (code / "modelfleet_layer_switch-1.dist-info" / "entry_points.txt").write_text(_ENTRY_POINT)
    (code / "modelfleet_layer_switch-1.dist-info" / "METADATA").write_text(_METADATA)
    shutil.copy(_SWITCH, code)
    (folder / "worker" / "promise.json").write_text(json.dumps(_PROMISE))
    async with running_worker(folder, plan_of(engine, startDeadline_s=START_S)) as worker:
        await worker.until_ready(START_S)
        try:
            yield Layered(worker, folder)
        except Exception:
            print(worker.log[-4000:])
            raise


@asynccontextmanager
async def bare(folder: Path) -> AsyncIterator[Server]:
    """The engine as the supervisor starts it, without gate, plugin and the flag that feeds the plugin."""
    engine, port, scratch = real_engine(), free_port(), tempfile.mkdtemp(prefix="bare-", dir="/tmp")
    argv = [engine.python, "-m", "vllm.entrypoints.cli.main", "serve", engine.model, *engine.args]
    argv += ["--host=::", f"--port={port}", "--disable-access-log-for-endpoints=/health,/metrics"]
    argv += [_ONE_PROCESS, "--served-model-name", NAME]
    env = {"PATH": os.environ["PATH"], "HOME": scratch, "TMPDIR": scratch, "HF_HUB_OFFLINE": "1", **engine.env}
    env |= {"VLLM_NO_USAGE_STATS": "1", "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "", "USER": "modelfleet"}
    async with AsyncExitStack() as stack:
        output = stack.enter_context((folder / "bare.log").open("wb"))
        process = subprocess.Popen(  # noqa: ASYNC220 (in a session of its own, as ours is: the kernel shares by session)
            argv, env=env, cwd=scratch, stdout=output, stderr=output, start_new_session=True
        )
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        stack.callback(_end, process)
        async with asyncio.timeout(START_S):
            while not await _healthy(port):  # noqa: ASYNC110 (another process's state has no event)
                await asyncio.sleep(0.2)
        yield Server(port, process.pid, supervised=False)


def _end(process: subprocess.Popen[bytes]) -> None:
    below = processes.descendants(process.pid)
    process.terminate()
    process.wait()
    for pid in below:
        if not processes.is_resource_tracker(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def _healthy(port: int) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/health") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False
