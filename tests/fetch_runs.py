"""Fetches for tests: with little patience, in this process or in one that is killed."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from modelfleet.api.sources import ModelSource
from modelfleet_worker.failure import Failure
from modelfleet_worker.fetch.order import Order
from modelfleet_worker.fetch.run import Errand, fetch
from modelfleet_worker.fetch.transfer import Patience
from weight_servers import COMMIT, HubHandler, RegistryHandler, Shelf, StoreHandler

HASTY = Patience(read_s=1.0, attempts=3, backoff_s=0.01, floor_bytes=16 << 10, window_s=1.0)
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["fetch_runs", "modelfleet_worker.fetch.hub"])


@dataclass(frozen=True)
class Dialect:
    """One kind of server, and how a model on it is named. `below` is put before each file's path on its shelf."""

    name: str
    handler: Any
    source: str
    revision: str
    secret: Mapping[str, str]
    below: str = ""

    def shelf(self, files: Mapping[str, bytes], **more: Any) -> Shelf:
        return Shelf({f"{self.below}{path}": body for path, body in files.items()}, **more)

    def order(self, address: str, root: Path, **more: Any) -> Order:
        source = self.source.replace("HOST", address)
        endpoint = "" if source.startswith("oci") else f"http://{address}"
        usual = {"revision": self.revision, "endpoint": endpoint, "key": "k1", "root": root, "shared": True}
        return Order(source=ModelSource(source), **(usual | more))


HUB = Dialect("hub", HubHandler, "hf://org/model@main", COMMIT, {"token": "hf_right"})
STORE = Dialect(
    "store",
    StoreHandler,
    "s3://weights/llama",
    "",
    {"accessKeyId": "user", "secretAccessKey": "right"},
    below="llama/",
)
REGISTRY = Dialect(
    "registry", RegistryHandler, "oci://HOST/org/model:v1", "", {"username": "user", "password": "right"}
)


def errand(order: Order, **more: Any) -> Errand:
    """An errand with little patience; progress goes beside the store."""
    runtime = order.root.parent / "run"
    runtime.mkdir(parents=True, exist_ok=True)
    return Errand(order=order, **({"secret": {}, "pod": "pod-1", "runtime": runtime, "patience": HASTY} | more))


def run(order: Order, **more: Any) -> Failure | None:
    """A fetch in this process."""
    return fetch(errand(order, **more))


def until(true: Callable[[], bool]) -> None:
    """Waits until it is true; fails after 20 s."""
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, "it never came to it"
        time.sleep(0.005)


def files_of(folder: Path) -> dict[str, bytes]:
    """A published model's files, without our manifest."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".modelfleet")
    }


@dataclass
class Killed:
    """A fetch in a process of its own. It ends by itself before the file operation `at_operation`, where that is
    given, by SIGKILL."""

    of: Errand
    at_operation: int = 0
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        self.process = _CONTEXT.Process(target=_child, args=(self.of, self.at_operation), daemon=True)
        self.process.start()

    def kill_when(self, ready: Callable[[], bool]) -> None:
        """SIGKILL as soon as `ready`; fails if it ends first."""
        deadline = time.monotonic() + 30
        while not ready():
            assert self.process.is_alive(), f"it ended by itself with {self.process.exitcode}"
            assert time.monotonic() < deadline, "it never came that far"
            time.sleep(0.002)
        self.process.kill()
        self.process.join()

    def ends(self) -> int:
        """The exit status: 0 for success, 1 for a failure, below zero for a signal."""
        self.process.join(60)
        assert self.process.exitcode is not None, "it does not end"
        return int(self.process.exitcode)


def pods(order: Order, count: int, **more: Any) -> list[Killed]:
    """So many fetches of one order at once, each in a process of its own."""
    return [Killed(replace(errand(order, **more), pod=f"pod-{index}")) for index in range(count)]


_OPERATIONS = frozenset({"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.utime"})


def _child(of: Errand, at_operation: int) -> None:
    seen = 0
    below = str(of.order.root)

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in _OPERATIONS and str(arguments[0]).startswith(below):
            seen += 1
            if seen == at_operation:
                os.kill(os.getpid(), signal.SIGKILL)

    if at_operation:
        sys.addaudithook(count)
    failure = fetch(of)
    os._exit(0 if failure is None else 1)
