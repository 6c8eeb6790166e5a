"""The engine behind our worker, whose layers are taken out and put back while it serves."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import modelfleet_worker
from benchmarks.overhead import load
from benchmarks.overhead.figures import PERIOD_S, Noted
from modelfleet_worker import processes
from worker_process import NAME, Worker, plan_of, real_engine, running_worker

START_S = 900.0
"""How long a start may take on a machine that others use too."""
LAYERS = frozenset({"gate", "hooks", "iteration details", "stat logger"})
"""What `layer_switch` must find in an engine's processes, else nothing is measured."""
_SWITCH = Path(__file__).with_name("layer_switch.py")
_ENTRY_POINT = "[vllm.general_plugins]\nmodelfleet_layer_switch = layer_switch:install\n"
_METADATA = "Metadata-Version: 2.1\nName: modelfleet-layer-switch\nVersion: 1\n"
_PROMISE = {"digest": "0123456789ab", "objectives": [{"name": "bench", "ttft_s": 10.0, "tpot_s": 1.0}]}
_ASKED_EVERY = {"/readyz": 2.0, "/metrics": 5.0, "/livez": 10.0}
"""The status port, as a cluster asks it: the kubelet's probes and the operator's samples; seconds."""
_WARM_S = 5.0
_AS_IN_A_POD = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "--")
"""The supervisor sees its own processes alone, as in a pod: it looks at all that /proc shows."""


@dataclass(frozen=True)
class Run:
    """A shape's load with the layers turned all the time. `supervisor_cores`: CPU seconds a second of our supervisor,
    which stays in."""

    noted: Noted
    supervisor_cores: float


class Layered:
    """The engine behind our worker."""

    def __init__(self, worker: Worker, folder: Path) -> None:
        self._worker, self._folder = worker, folder / "worker" / "run" / "switches"

    async def measure(self, shape: load.Shape, seconds: float) -> Run:
        """Turns the layers for so long under the load of `shape`. Raises RuntimeError unless all of them were there."""
        start_s = time.monotonic() + _WARM_S
        found = self._tell(f"alternate {start_s} {PERIOD_S}")
        if found != LAYERS:
            raise RuntimeError(f"the engine has {sorted(found)} of ours, and it should have {sorted(LAYERS)}")
        port = int(self._worker._http.rpartition(":")[2])
        asking = asyncio.create_task(self._ask())
        async with load.steady(port, NAME, shape) as streams:
            await streams.stays(_WARM_S)
            before_s, began_s = self._supervisor_s(), time.monotonic()
            await streams.stays(seconds)
            cores = (self._supervisor_s() - before_s) / (time.monotonic() - began_s)
            self._tell("stop")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        noted = Noted(start_s, PERIOD_S, streams.times_s, self._edges())
        return Run(noted, cores)

    def _supervisor_s(self) -> float:
        """CPU time so far, by the kernel's clock of the process."""
        outside = self._worker.process.pid
        pid = next(one.pid for one in processes.below(outside) if one.parent == outside)
        return time.clock_gettime(~pid << 3 | 2)

    def _edges(self) -> dict[str, list[list[float]]]:
        found = {}
        for path in self._folder.glob("*.json"):
            told = json.loads(path.read_text())
            rows = told["edges"]
            found["core" if told["core"] else "api"] = [rows[at : at + 3] for at in range(0, len(rows), 3)]
            path.unlink()
        return found

    def _tell(self, words: str) -> frozenset[str]:
        """Tells each process of the engine; what they have of ours."""
        found: set[str] = set()
        own = self._folder / f"bench-{os.getpid()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asks:
            own.unlink(missing_ok=True)
            asks.bind(str(own))
            asks.settimeout(30)
            for path in self._folder.iterdir():
                if path == own:
                    continue
                with suppress(ConnectionRefusedError):  # it looked at the model before the start, and ended
                    asks.sendto(words.encode(), str(path))
                    said = json.loads(asks.recv(4096))
                    if isinstance(said, str):
                        raise RuntimeError(f"process {path.name} of the engine: {said}")
                    found |= set(said)
        return frozenset(found)

    async def _ask(self) -> None:
        """What a cluster asks of the status port."""
        due_s = dict.fromkeys(_ASKED_EVERY, time.monotonic())
        while True:
            for path, every_s in _ASKED_EVERY.items():
                if time.monotonic() >= due_s[path]:
                    due_s[path] += every_s
                    await self._worker.status(path)
            await asyncio.sleep(0.5)


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
    async with running_worker(folder, plan_of(engine, startDeadline_s=START_S), _AS_IN_A_POD) as worker:
        await worker.until_ready(START_S)
        try:
            yield Layered(worker, folder)
        except Exception:
            print(worker.log[-4000:])
            raise
        finally:
            worker.process.kill()  # and with it all of its namespace
            worker.process.wait()
