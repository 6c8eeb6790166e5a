"""Host memory as this container has it: its cgroup (v1 or v2), the node, and what processes hold. Reads files.

What the kernel documents in cgroup-v1/memory.rst and cgroup-v2.rst: the folder of a container may be its own root
(a cgroup namespace) or stand below the mount point under the path of /proc/self/cgroup; a limit of an ancestor counts.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from modelfleet_worker.kernel_files import kernel_text

_UNLIMITED_BYTES = 1 << 60  # v1 says "no limit" by a number near 2^63


def _lines_of(*names: str) -> re.Pattern[str]:
    """Lines of one of these names and a number. Looked for by the compiled pattern, since these files have many other
    lines, and they are read some times a second."""
    return re.compile(rf"^({'|'.join(names)}):?[ \t]+([0-9]+)(?=\s|$)", re.MULTILINE)


_NODE = _lines_of("MemTotal", "MemAvailable")
_STAT_V1 = _lines_of("total_shmem", "total_rss", "total_cache")
_STAT_V2 = _lines_of("anon", "shmem", "file")
_KILLS = _lines_of("oom_kill")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Use and limits of a cgroup, in bytes. `anonymous_bytes` is what processes hold for themselves, `shared_bytes`
    shared memory and files of memory-backed volumes, `cache_bytes` what the kernel gives back when it is needed.
    `limit_bytes` is None without a limit. `oom_kills` counts processes of the cgroup that were killed for lack of
    memory, by whatever limit, since the cgroup was made.
    """

    version: int
    used_bytes: int
    anonymous_bytes: int
    shared_bytes: int
    cache_bytes: int
    limit_bytes: int | None
    oom_kills: int


@dataclass(frozen=True, kw_only=True)
class Node:
    """The node's memory, in bytes; `available_bytes` is what could be had without swapping."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a process holds for itself, in bytes."""

    pid: int
    name: str
    anonymous_bytes: int


class Host:
    """Reads below `root`, which is `/` but in tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._version, self._folder = self._find()
        self._limited = tuple(self._ancestors(self._folder)) if self._folder is not None else ()

    def memory(self) -> Memory | None:
        """The cgroup's memory now; None where there is no memory controller."""
        if self._folder is None:
            return None
        try:
            return self._read_v2(self._folder) if self._version == 2 else self._read_v1(self._folder)
        except (OSError, ValueError, KeyError):
            return None

    def node(self) -> Node | None:
        """The node's memory; None where the kernel does not say."""
        try:
            words = _table(f"{self._root}/proc/meminfo", _NODE)
            return Node(total_bytes=words["MemTotal"] * 1024, available_bytes=words["MemAvailable"] * 1024)
        except (OSError, ValueError, KeyError):
            return None

    def held(self, pids: Iterable[int]) -> list[Held]:
        """What each of `pids` holds; those that ended are left out. Pages that a fork shares count for each."""
        return list(self._held(pids))

    def members(self) -> list[int]:
        """The processes of the cgroup that can be seen from here; those of other containers cannot."""
        if self._folder is None:
            return []
        with suppress(OSError, ValueError):
            return [int(line) for line in (self._folder / "cgroup.procs").read_text().split()]
        return []

    def _held(self, pids: Iterable[int]) -> Iterator[Held]:
        for pid in pids:
            with suppress(OSError, ValueError, KeyError):
                text = kernel_text(f"{self._root}/proc/{pid}/status")
                words = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
                anonymous = int(words["RssAnon"].split()[0]) * 1024
                yield Held(pid=pid, name=words["Name"].strip(), anonymous_bytes=anonymous)

    def _find(self) -> tuple[int, Path | None]:
        """The folder of our cgroup that has the memory controller."""
        try:
            lines = (self._root / "proc/self/cgroup").read_text().splitlines()
        except OSError:
            return 0, None
        paths = {kinds: path for _, kinds, path in (line.split(":", 2) for line in lines if line.count(":") >= 2)}
        mount = self._root / "sys/fs/cgroup"
        v1 = next((path for kinds, path in paths.items() if "memory" in kinds.split(",")), None)
        if v1 is not None:
            return 1, _existing(mount / "memory", v1, "memory.usage_in_bytes")
        return 2, _existing(mount, paths.get("", "/"), "memory.current")

    def _ancestors(self, folder: Path) -> Iterator[Path]:
        """The folders whose limits count."""
        mount = self._root / "sys/fs/cgroup"
        while folder != mount and mount in folder.parents:
            yield folder
            folder = folder.parent
        if self._version == 2:
            yield mount

    def _read_v2(self, folder: Path) -> Memory:
        stat = _table(f"{folder}/memory.stat", _STAT_V2)
        return Memory(
            version=2,
            used_bytes=int(kernel_text(f"{folder}/memory.current")),
            anonymous_bytes=stat["anon"],
            shared_bytes=stat.get("shmem", 0),
            cache_bytes=stat["file"] - stat.get("shmem", 0),
            limit_bytes=self._limit("memory.max"),
            oom_kills=_table(f"{folder}/memory.events", _KILLS).get("oom_kill", 0),
        )

    def _read_v1(self, folder: Path) -> Memory:
        stat = _table(f"{folder}/memory.stat", _STAT_V1)
        shared = stat.get("total_shmem", 0)
        return Memory(
            version=1,
            used_bytes=int(kernel_text(f"{folder}/memory.usage_in_bytes")),
            anonymous_bytes=stat["total_rss"],
            shared_bytes=shared,
            cache_bytes=stat["total_cache"] - shared,
            limit_bytes=self._limit("memory.limit_in_bytes"),
            oom_kills=_table(f"{folder}/memory.oom_control", _KILLS).get("oom_kill", 0),
        )

    def _limit(self, file: str) -> int | None:
        """The smallest limit of the cgroup and those above it."""
        limits = []
        for one in self._limited:
            with suppress(OSError, ValueError):  # the root has none, and "max" is none
                limits.append(int(kernel_text(f"{one}/{file}")))
        return min((limit for limit in limits if limit < _UNLIMITED_BYTES), default=None)


def _existing(mount: Path, path: str, file: str) -> Path | None:
    """The folder of `path` below `mount`, or the mount itself, where a container has only its own part mounted."""
    for folder in (mount / path.lstrip("/"), mount):
        if (folder / file).exists():
            return folder
    return None


def _table(path: str, lines: re.Pattern[str]) -> dict[str, int]:
    """The numbers of these lines by name; one that is not there is left out."""
    return {name: int(number) for name, number in lines.findall(kernel_text(path))}
