"""The processes of a cluster: started in their own sessions, remembered, found again and ended by pid only.

A process is known by its pid and its start time, so a reused pid is never taken for it. Every process also carries its
cluster's state folder in its environment (children such as containerd's shims inherit it), so that one whose record was
never written, because the launcher was killed in between, is found too.
"""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from modelfleet_local import netns
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.paths import ClusterPaths
from modelfleet_local.system import tool_environment

MARK = "MODELFLEET_LOCAL_CLUSTER"
_TAIL_LINES = 8
_TAIL_WIDTH = 300
_KILL_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Process:
    """A process that was started: start_ticks is field 22 of /proc/PID/stat."""

    name: str
    pid: int
    start_ticks: int

    @staticmethod
    def current() -> "Process":
        """This process."""
        stat = _stat(os.getpid())
        return Process("owner", os.getpid(), stat[0] if stat else 0)

    def alive(self) -> bool:
        """Whether it runs (a zombie does not)."""
        stat = _stat(self.pid)
        return stat is not None and stat == (self.start_ticks, True)


@dataclass(frozen=True)
class Program:
    """What to start. `outside` leaves it in the host's network namespace."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    outside: bool = False
    pass_fds: Sequence[int] = ()


class Processes:
    """The processes of one cluster."""

    def __init__(self, paths: ClusterPaths) -> None:
        self._paths = paths
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def log(self, name: str) -> Path:
        """Where the process `name` writes its output."""
        return self._paths.logs / f"{name}.log"

    def start(self, program: Program) -> Process:
        """Starts a program detached from us, and remembers it. Raises LocalClusterError if it is not installed."""
        argv = list(program.argv) if program.outside else netns.entered(self._paths.netns, program.argv)
        env = {**tool_environment(), **program.env, MARK: str(self._paths.state)}
        with self.log(program.name).open("ab") as log:
            try:
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=env,
                    pass_fds=program.pass_fds,
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise LocalClusterError(f"{argv[0]} is not installed; run `make setup`") from None
        stat = _stat(child.pid)
        process = Process(program.name, child.pid, stat[0] if stat else 0)
        self._children[child.pid] = child
        self._paths.processes.mkdir(mode=0o700, exist_ok=True)
        record = {"process": asdict(process), "program": asdict(program)}
        self._record(program.name).write_text(json.dumps(record))
        return process

    def restart(self, name: str) -> Process:
        """Ends the part `name`, if it still runs, and starts it as it was started before."""
        if not self._record(name).exists():
            raise LocalClusterError(f"no part {name} was started")
        program = Program(**json.loads(self._record(name).read_text())["program"])
        if program.pass_fds:
            raise LocalClusterError(f"{name} holds an open socket and cannot be started again; take the cluster down")
        running = self.find(name)
        if running:
            self.kill([running])
        return self.start(program)

    def _record(self, name: str) -> Path:
        return self._paths.processes / f"{name}.json"

    def recorded(self) -> list[Process]:
        """The remembered processes, alive or not, in the order of their names. Unreadable records are left out."""
        found = []
        for record in sorted(self._paths.processes.glob("*.json")):
            with suppress(ValueError, KeyError, TypeError, OSError):
                found.append(Process(**json.loads(record.read_text())["process"]))
        return found

    def find(self, name: str) -> Process | None:
        """The remembered process `name`, if it is alive."""
        return next((p for p in self.recorded() if p.name == name and self.alive(p)), None)

    def alive(self, process: Process) -> bool:
        """Whether it runs; reaps it first if it is our child."""
        child = self._children.get(process.pid)
        if child is not None and child.poll() is not None:
            return False
        return process.alive()

    def check(self, process: Process) -> None:
        """Raises LocalClusterError with the end of its log if the process is gone."""
        if not self.alive(process):
            log = self.log(process.name)
            raise LocalClusterError(f"{process.name} ended; its log is {log}:\n{tail(log)}")

    def marked(self) -> list[Process]:
        """Every live process that carries this cluster's mark."""
        mark = f"{MARK}={self._paths.state}".encode()
        found = []
        for pid, stat in _all_alive():
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(Process(_command(pid), pid, stat))
        return found

    def in_cgroup(self, cgroup: str) -> list[Process]:
        """Every live process in the cgroup `cgroup` (a path without leading slash) or below, in any hierarchy."""
        found = []
        for pid, stat in _all_alive():
            with suppress(OSError):
                paths = [line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
                if any(f"{path}/".startswith(f"/{cgroup}/") for path in paths):
                    found.append(Process(_command(pid), pid, stat))
        return found

    def kill(self, targets: Collection[Process]) -> None:
        """Ends processes at once. Raises LocalClusterError for one that survives.

        Nothing of a cluster outlives it, so there is nothing to save; and what a kill leaves, `down` must clean anyway.
        """
        waiting = {fd: process for process in targets if (fd := _pidfd(process)) is not None}
        for fd in waiting:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        left = _wait_ended(waiting, _KILL_TIMEOUT_S)
        for process in targets:
            self.alive(process)  # reaps our own children
        if left:
            raise LocalClusterError(f"{', '.join(f'{p.name} (pid {p.pid})' for p in left)} did not end after SIGKILL")


def tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log, indented; says so if there are none."""
    try:
        text = log.read_text(errors="replace").splitlines()[-lines:]
    except OSError:
        text = []
    return "\n".join(f"  {line[:_TAIL_WIDTH]}" for line in text) or "  (empty)"


def _pidfd(process: Process) -> int | None:
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return None
    if process.alive():  # looked at after opening, so the descriptor is this process and no successor
        return fd
    os.close(fd)
    return None


def _wait_ended(waiting: dict[int, Process], patience_s: float) -> list[Process]:
    poll = select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    left = dict(waiting)
    deadline_s = time.monotonic() + patience_s
    while left and (remaining_s := deadline_s - time.monotonic()) > 0:
        for fd, _ in poll.poll(remaining_s * 1000):
            poll.unregister(fd)
            del left[fd]
    for fd in waiting:
        os.close(fd)
    return list(left.values())


def _stat(pid: int) -> tuple[int, bool] | None:
    """(start ticks, not a zombie), or None without such a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return int(fields[19]), fields[0] not in ("Z", "X")


def _all_alive() -> Iterator[tuple[int, int]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            stat = _stat(int(entry))
            if stat is not None and stat[1]:
                yield int(entry), stat[0]


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return "?"
