"""The operator as a process that is forked from one in which everything is imported: it starts at once.

Starting an interpreter takes longer than what a test of fifty kills does in between.
"""

import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from operator_process import IMAGE, Operator

from modelfleet.controller import main

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["__main__", "modelfleet.controller.main", "forked_operator"])


class _Process:
    """A forked process, as subprocess.Popen shows one."""

    def __init__(self, argv: list[str], log: Path) -> None:
        self._process = _CONTEXT.Process(target=_run, args=(argv, log), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        assert code is not None, f"the operator did not end within {timeout} s"
        return code

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def _run(argv: list[str], log: Path) -> None:
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    os.chdir("/")
    main.main(argv)


@dataclass
class ForkedOperator(Operator):
    """As Operator, but for how the process comes to be."""

    def start(self, *, wait: bool = True) -> None:
        argv = [f"--kubeconfig={self.kubeconfig}", f"--worker-image={IMAGE}", "--metrics-host=127.0.0.1"]
        argv += ["--metrics-port=0", "--propagation-seconds=1", "--leader-elect=false", *self.arguments]
        self.port = 0
        self.log.touch()  # the new process opens it a moment later
        started_at = self.log.stat().st_size
        self.process = _Process(argv, self.log)  # type: ignore[assignment]
        if wait:
            self.wait_ready(started_at)
