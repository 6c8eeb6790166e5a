"""Inside each of the engine's processes: takes our layers out and puts them back in turns of some milliseconds.

Loaded by an entry point beside ours; a benchmark's tool, no part of the product. It hears two words through a socket of
its own, `alternate START_S PERIOD_S` and `stop`. A thread then turns the layers by the monotonic clock, which all
processes of a machine share, in, out, out, in, and notes this process's CPU time at each edge. What is out is what vLLM
has without us: its own methods, its own list of stat loggers, its own settings, and chunks that go straight to uvicorn.
The gate's beginning and end of a request stay in: they cannot be turned while a request runs.
"""

import json
import os
import socket
import threading
import time
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vllm.engine.arg_utils import EngineArgs
from vllm.v1.engine.core import EngineCore
from vllm.v1.engine.output_processor import OutputProcessor
from vllm.v1.metrics.loggers import LoggingStatLogger, StatLoggerManager
from vllm.v1.metrics.stats import IterationStats

from modelfleet_worker.exchange import Exchange
from modelfleet_worker.gate_state import FOLDER_VARIABLE
from modelfleet_worker.pulse import Pulse

FOLDER = "switches"
_EXECUTOR = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
"""The model in the process of the engine's core, as vLLM has it on one GPU; set here, since a plan may not. Its default
on CPU is a process more, and the two wait for each other by spinning: then the CPU time of each is that of all others
too."""
_HOOKED = (
    (EngineCore, "capture_iteration_details"),
    (OutputProcessor, "add_request"),
    (OutputProcessor, "propagate_error"),
    (IterationStats, "update_from_finished_request"),
)
_OURS = "modelfleet_worker."
_TURNS = (True, False, False, True)

_now = SimpleNamespace(ours=True)
"""Which side it is. Methods look at it themselves: to set a method of a class anew makes Python forget what it knows of
all methods of that class, and then the turn would cost more than what it shows."""


class _Layers:
    """What this process has of ours."""

    def __init__(self) -> None:
        self.managers: list[Any] = []
        self.cores: list[Any] = []
        self._found: list[str] = []
        self._turned: list[tuple[Any, str, Any, Any]] = []

    def find(self) -> list[str]:
        """From now on what this process has of ours can be turned; its names."""
        if not self._found:
            self._found = [*self._gate(), *self._stat_logger(), *self._hooks(), *self._details()]
        return self._found

    def turn(self, ours: bool) -> None:
        """To one side; does as much where it is that already."""
        _now.ours = ours
        for owner, name, with_us, without in self._turned:
            setattr(owner, name, with_us if ours else without)

    def _gate(self) -> list[str]:
        if not self.managers:
            return []  # every process imports the class; the one with an API has its object
        ours, beat = Exchange.send, Pulse._beat

        def send(self: Any, message: Any) -> Any:
            return ours(self, message) if _now.ours else self._send(message)

        def look(self: Any, loop: Any) -> None:
            if _now.ours:
                beat(self, loop)
            else:
                self._arm(loop)

        Exchange.send, Pulse._beat = send, look  # type: ignore[method-assign]
        return ["gate"]

    def _stat_logger(self) -> list[str]:
        found = []
        for manager in self.managers:
            plain = [one for one in manager.stat_loggers if not type(one).__module__.startswith(_OURS)]
            if plain != manager.stat_loggers:
                self._turned.append((manager, "stat_loggers", manager.stat_loggers, plain))
                found.append("stat logger")
        # A step that began before an edge brings its details after it, and vLLM's logger would print them.
        LoggingStatLogger._log_iteration_details = lambda *_: None
        return found

    def _hooks(self) -> list[str]:
        return ["hooks" for owner, name in _HOOKED if _either(owner, name)]

    def _details(self) -> list[str]:
        found = []
        for core in self.cores:
            settings = core.vllm_config.observability_config
            if settings.enable_logging_iteration_details:
                self._turned.append((settings, "enable_logging_iteration_details", True, False))
                found.append("iteration details")
        return found


def _either(owner: Any, name: str) -> bool:
    """The method is ours or vLLM's, as the side is. False if it is vLLM's alone."""
    ours = getattr(owner, name)
    plain = getattr(ours, "__wrapped__", None)
    if plain is None:
        return False

    def either(*args: Any, **kwargs: Any) -> Any:
        return (ours if _now.ours else plain)(*args, **kwargs)

    setattr(owner, name, either)
    return True


_layers = _Layers()


class _Turns(threading.Thread):
    """Turns the layers until it is stopped. `noted` has three numbers an edge: which, when, and the CPU time so far."""

    def __init__(self, start_s: float, period_s: float) -> None:
        super().__init__(daemon=True)
        self._start_s, self._period_s = start_s, period_s
        self._over = False
        self.noted = array("d")

    def run(self) -> None:
        number = 0
        while not self._over:
            time.sleep(max(0.0, self._start_s + number * self._period_s - time.monotonic()))
            _layers.turn(_TURNS[number % 4])
            at_s = time.monotonic()
            self.noted.extend((number, at_s, time.process_time()))
            number = max(number, int((at_s - self._start_s) / self._period_s)) + 1

    def stop(self) -> None:
        """The layers are in afterwards."""
        self._over = True
        self.join()
        _layers.turn(True)


def install() -> None:
    """vLLM calls it in each of its processes, before it makes an engine's objects there."""
    make_manager, make_cache = StatLoggerManager.__init__, EngineCore._initialize_kv_caches
    make_config = EngineArgs.create_engine_config

    def config_made(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.distributed_executor_backend = _EXECUTOR
        return make_config(self, *args, **kwargs)

    def manager_made(self: Any, *args: Any, **kwargs: Any) -> None:
        make_manager(self, *args, **kwargs)
        _layers.managers.append(self)

    def core_made(self: Any, *args: Any, **kwargs: Any) -> Any:
        _layers.cores.append(self)
        return make_cache(self, *args, **kwargs)

    EngineArgs.create_engine_config = config_made
    StatLoggerManager.__init__ = manager_made
    EngineCore._initialize_kv_caches = core_made
    _listen()
    os.register_at_fork(after_in_child=_listen)  # a forked child has loaded the plugins and has no thread


def _listen() -> None:
    folder = Path(os.environ[FOLDER_VARIABLE]).parent / FOLDER
    folder.mkdir(exist_ok=True)
    path = folder / str(os.getpid())
    path.unlink(missing_ok=True)
    hears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    hears.bind(str(path))
    threading.Thread(target=_obey, args=(hears, path), daemon=True).start()


def _obey(hears: socket.socket, path: Path) -> None:
    turns: _Turns | None = None
    while True:
        words, asks = hears.recvfrom(100)
        try:
            said: Any = _layers.find()
            if words == b"stop" and turns is not None:
                turns.stop()
                told = {"core": bool(_layers.cores), "edges": list(turns.noted)}
                path.with_suffix(".json").write_text(json.dumps(told))
            else:
                turns = _Turns(*map(float, words.split()[1:]))
                turns.start()
        except Exception as error:  # told, so that nothing is measured with half of it out
            said = repr(error)
        hears.sendto(json.dumps(said).encode(), asks)
