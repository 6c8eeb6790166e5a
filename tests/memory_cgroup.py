"""A memory cgroup of this machine for a test, v1 or v2: limits what is put into it. Needs root."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from worker_process import EngineUnderTest

_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
_HOLD = """
import ctypes, sys, time
open('/proc/self/oom_score_adj', 'w').write('-1000')
held = bytearray(int(sys.argv[1]))
for page in range(0, len(held), 4096):
    held[page] = 1
print('held', flush=True)
time.sleep(3600)
"""


class Cgroup:
    """One cgroup."""

    def __init__(self, folder: Path, version: int) -> None:
        self._folder, self._version = folder, version

    def add(self, pid: int) -> None:
        """Puts a process into it, and with it those that it starts from now on."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def limit(self, size_bytes: int) -> None:
        """Processes of the cgroup get no more than this."""
        (self._folder / ("memory.limit_in_bytes" if self._version == 1 else "memory.max")).write_text(str(size_bytes))

    def as_container(self, engine: EngineUnderTest, folder: Path) -> EngineUnderTest:
        """The engine with this cgroup mounted where a container finds its own: vLLM looks nowhere else for a limit."""
        mount = _V1 if self._version == 1 else _V2
        inside = f'mount --bind {self._folder} {mount} && exec {engine.python} "$@"'
        python = folder / "contained"
        python.write_text(f"#!/bin/sh\nexec unshare --mount sh -c '{inside}' sh \"$@\"\n")
        python.chmod(0o755)
        return replace(engine, python=str(python))

    @property
    def used_bytes(self) -> int:
        """What its processes hold for themselves; file caches are not in it."""
        key = "total_rss" if self._version == 1 else "anon"
        lines = (line.split() for line in (self._folder / "memory.stat").read_text().splitlines())
        return next(int(value) for name, value in lines if name == key)

    @contextmanager
    def holder(self, size_bytes: int) -> Iterator[int]:
        """A foreign process in the cgroup that holds so much, and that the kernel kills last. Gives its pid."""
        process = subprocess.Popen(
            [sys.executable, "-c", "import sys; input(); exec(sys.argv.pop(1))", _HOLD, str(size_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self.add(process.pid)
            assert process.stdin
            assert process.stdout
            process.stdin.write(b"\n")
            process.stdin.close()
            assert process.stdout.readline() == b"held\n", "the holder got no memory"
            yield process.pid
        finally:
            process.kill()
            process.wait()


@contextmanager
def memory_cgroup(name: str) -> Iterator[Cgroup]:
    """A new cgroup; removed when its processes have ended. Raises AssertionError where none can be made."""
    assert os.geteuid() == 0, "making a cgroup needs root: run this as root"
    version = 1 if (_V1 / "memory.limit_in_bytes").exists() else 2
    folder = (_V1 if version == 1 else _V2) / f"modelfleet-{name}-{os.getpid()}"
    folder.mkdir()
    try:
        yield Cgroup(folder, version)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(100):
        try:
            folder.rmdir()
            return
        except OSError:  # its last process is not gone yet
            time.sleep(0.1)
    raise AssertionError(f"{folder} has processes left: {(folder / 'cgroup.procs').read_text().split()}")
