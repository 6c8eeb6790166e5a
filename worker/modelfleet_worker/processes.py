"""The processes below this one: adopts orphans, reaps what ended, ends all that is left. Linux only."""

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02
_TRACKER_S = 1.0


def adopt_orphans() -> None:
    """Makes this process the parent of orphaned descendants, as process 1 of a container is anyway.

    vLLM leaves its engine core and workers running, and their memory held, when the API server is killed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def descendants(root: int) -> list[int]:
    """The pids of all living processes below `root`; a zombie is not living."""
    children: dict[int, list[int]] = {}
    living: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # it ended meanwhile
            state, parent = _state_and_parent(entry / "stat")
            children.setdefault(parent, []).append(int(entry.name))
            if state not in "ZX":
                living.add(int(entry.name))
    found, below = [], list(children.get(root, ()))
    while below:
        pid = below.pop()
        below += children.get(pid, ())
        found.append(pid)
    return [pid for pid in found if pid in living]


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
                with suppress(ProcessLookupError):
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


def _state_and_parent(stat: Path) -> tuple[str, int]:
    fields = stat.read_text().rpartition(")")[2].split()  # the name before it may hold blanks and brackets
    return fields[0], int(fields[1])
