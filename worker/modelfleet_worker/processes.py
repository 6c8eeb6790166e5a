"""This process and those below it: hears a stop, adopts orphans, reaps what ended, ends what is left. Linux only."""

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

from modelfleet_worker.kernel_files import kernel_text

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02
_PROC = Path("/proc")
_TRACKER_S = 1.0


def hear_stop(asked: Callable[[str], None]) -> None:
    """From now on the running loop calls `asked` with the name of each SIGTERM and SIGINT, those from before too."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked, number.name)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})  # main blocked them until now


def adopt_orphans() -> None:
    """Makes this process the parent of orphaned descendants.

    vLLM leaves its engine core and workers running, and their memory held, when the API server is killed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it: its state is one letter (`T`: stopped by a signal)."""

    pid: int
    name: str
    state: str
    parent: int


def below(root: int) -> list[Process]:
    """All living processes below `root`; a zombie is not living."""
    children: dict[int, list[tuple[int, str]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(
                OSError, ValueError, IndexError
            ):  # it ended meanwhile; a name may be cut in the middle of a character
                stat = kernel_text(f"/proc/{name}/stat")
                children.setdefault(_parent(stat), []).append((int(name), stat))
    found, left = [], list(children.get(root, ()))
    while left:
        pid, stat = left.pop()
        left += children.get(pid, ())
        found.append(_process(pid, stat))
    return [process for process in found if process.state not in "ZX"]


def descendants(root: int) -> list[int]:
    """The pids of all living processes below `root`."""
    return [process.pid for process in below(root)]


def read_bytes(pid: int, root: Path = _PROC) -> int:
    """What process `pid` had read from disk, pages of mapped files included; 0 if that may not be known. `root` is
    /proc but in tests."""
    try:
        fields = dict(line.split(": ") for line in (root / str(pid) / "io").read_text().splitlines())
        return int(fields.get("read_bytes", 0))
    except (OSError, ValueError):  # it ended meanwhile, belongs to someone else, or the kernel says something else
        return 0


def reap(kept: int | None) -> None:
    """Takes the exit status of every child that ended, so that none stays a zombie; not of `kept`, whose owner asks."""
    with suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == kept:
                return
            os.waitpid(ended.si_pid, 0)


def kill_descendants(timeout_s: float) -> list[int]:
    """Kills everything below this process until nothing is left or `timeout_s` passed, and gives what is left.

    Repeats, because a process may have started another meanwhile. Python's resource trackers get a moment to end by
    themselves: they remove the shared memory of those that were killed, which would fill /dev/shm over restarts.
    Blocks; reaps all children.
    """
    start_s = time.monotonic()
    while left := descendants(os.getpid()):
        passed_s = time.monotonic() - start_s
        for pid in left:
            if passed_s > _TRACKER_S or not is_resource_tracker(pid):
                with suppress(ProcessLookupError, PermissionError):  # the latter is told by what is left
                    os.kill(pid, signal.SIGKILL)
        reap(None)
        if passed_s > timeout_s:
            return left
        time.sleep(_POLL_S)
    reap(None)
    return []


def is_resource_tracker(pid: int) -> bool:
    """Whether `pid` is the helper of Python's multiprocessing that removes shared memory when its users are gone."""
    try:
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def wanted_s(pid: int, root: Path = _PROC) -> float | None:
    """The time for which threads of process `pid` ran, or would have run if a processor had been free, so far; None
    where the kernel keeps no such statistics (gVisor's does not). `root` is /proc but in tests.

    A process that a busy machine starves wants time; one that sleeps wants none. A thread that waits for a disk at this
    moment counts as one that has wanted the processor all along, because nobody can know how long it waits.
    """
    total_ns, tasks = 0, f"{root}/{pid}/task"
    with suppress(FileNotFoundError):  # the process ended; or no such process, which wants nothing
        for task in filter(str.isdigit, os.listdir(tasks)):
            with suppress(OSError, IndexError):  # it ended meanwhile
                try:
                    ran_ns, waited_ns, _ = (int(field) for field in kernel_text(f"{tasks}/{task}/schedstat").split())
                except (FileNotFoundError, ValueError):
                    if os.path.exists(f"{tasks}/{task}/stat"):
                        return None
                    continue
                total_ns += ran_ns + waited_ns
                if kernel_text(f"{tasks}/{task}/stat").rpartition(")")[2].split()[0] == "D":
                    return inf
    return total_ns / 1e9


def _parent(stat: str) -> int:
    return int(stat[stat.rindex(")") + 4 :].split(maxsplit=1)[0])  # the name may hold blanks and brackets


def _process(pid: int, stat: str) -> Process:
    head, _, tail = stat.rpartition(")")
    return Process(pid, head.partition("(")[2], tail.split(maxsplit=1)[0], _parent(stat))
