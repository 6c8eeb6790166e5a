"""Restarts an operator's process whenever it ends, as a kubelet would (without the kubelet's back-off)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from operator_process import Operator


class Keeper:
    """What became of an operator that is kept running."""

    def __init__(self, operator: Operator) -> None:
        self._operator, self._stop, self._lock = operator, threading.Event(), threading.Lock()
        self.ends: list[int] = []
        """The exit statuses so far."""
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """SIGKILL; it is started again."""
        with self._lock:
            self._operator.kill()

    def let_go(self) -> None:
        """No longer restarts it."""
        self._stop.set()
        self._thread.join(30)

    def _keep(self) -> None:
        while not self._stop.wait(0.05):
            with self._lock:
                process = self._operator.process
                if process is not None and process.poll() is not None:
                    self.ends.append(process.returncode)
                    self._operator.start(wait=False)


@contextmanager
def kept(operator: Operator) -> Iterator[Keeper]:
    """Keeps a started operator running, and kills it in the end."""
    keeper = Keeper(operator)
    try:
        yield keeper
    finally:
        keeper.let_go()
        operator.kill()
