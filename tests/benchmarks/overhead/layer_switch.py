"""Inside each of the engine's processes: takes our layers out and puts them back, asked through a socket of its own.

Loaded by an entry point beside ours; a benchmark's tool, no part of the product. What is out is what vLLM has without
us: its own application below the gate, its own methods, its own list of stat loggers, its own settings. The thread that
waits for the word sleeps in the kernel and costs nothing.
"""

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vllm.engine.arg_utils import EngineArgs
from vllm.v1.engine.core import EngineCore
from vllm.v1.engine.output_processor import OutputProcessor
from vllm.v1.metrics.loggers import StatLoggerManager
from vllm.v1.metrics.stats import IterationStats

from modelfleet_worker.gate import Gate
from modelfleet_worker.gate_state import FOLDER_VARIABLE

FOLDER = "switches"
_EXECUTOR = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
"""Set here, since a plan may not: the model in the core's process, see engines.py."""
_HOOKED = (
    (OutputProcessor, "add_request"),
    (OutputProcessor, "propagate_error"),
    (IterationStats, "update_from_finished_request"),
)
_OURS = "modelfleet_worker."


class _Layers:
    """What this process has of ours, and whether it is in."""

    def __init__(self) -> None:
        self.managers: list[Any] = []
        self.cores: list[Any] = []
        self._taken: list[Callable[[], None]] = []

    def out(self) -> list[str]:
        """Takes out what is in; its names."""
        self.back()
        return [*self._gate(), *self._stat_logger(), *self._hooks(), *self._details()]

    def back(self) -> list[str]:
        """Puts back what was taken out."""
        while self._taken:
            self._taken.pop()()
        return []

    def _set(self, owner: Any, name: str, value: Any) -> None:
        before = getattr(owner, name)
        setattr(owner, name, value)
        self._taken.append(lambda: setattr(owner, name, before))

    def _gate(self) -> list[str]:
        def through(gate: Any, scope: Any, receive: Any, send: Any) -> Any:
            return gate._app(scope, receive, send)

        self._set(Gate, "__call__", through)
        return ["gate"] if self.managers else []  # every process imports the class; the one with an API has its object

    def _stat_logger(self) -> list[str]:
        found = []
        for manager in self.managers:
            ours = [one for one in manager.stat_loggers if type(one).__module__.startswith(_OURS)]
            if ours:
                self._set(manager, "stat_loggers", [one for one in manager.stat_loggers if one not in ours])
                found.append("stat logger")
        return found

    def _hooks(self) -> list[str]:
        found = []
        for owner, name in _HOOKED:
            plain = getattr(getattr(owner, name), "__wrapped__", None)
            if plain is not None:
                self._set(owner, name, plain)
                found.append("hooks")
        return found

    def _details(self) -> list[str]:
        found = []
        for core in self.cores:
            settings = core.vllm_config.observability_config
            if settings.enable_logging_iteration_details:
                self._set(settings, "enable_logging_iteration_details", False)
                found.append("iteration details")
        return found


_layers = _Layers()


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
    threading.Thread(target=_obey, args=(hears,), daemon=True).start()


def _obey(hears: socket.socket) -> None:
    while True:
        word, asks = hears.recvfrom(16)
        try:
            said: Any = _layers.out() if word == b"out" else _layers.back()
        except Exception as error:  # told, so that nothing is measured with half of it out
            said = repr(error)
        hears.sendto(json.dumps(said).encode(), asks)
