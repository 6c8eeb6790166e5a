"""The cgroups of a cluster's real nodes: below one folder in every hierarchy (version 1) or in the one (version 2)."""

import os
import time
from contextlib import suppress
from pathlib import Path

from modelfleet_local.errors import LocalClusterError

_CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")
_REMOVE_TIMEOUT_S = 10.0


def name_of(cluster: str) -> str:
    """The cluster's folder, relative to each hierarchy's root."""
    return f"modelfleet-{cluster}"


def create(group: str) -> None:
    """Makes the cgroup `group` (a path without leading slash) where kubelet and runc expect it."""
    for root in _hierarchies():
        folder = root
        for part in Path(group).parts:
            _delegate(folder)
            folder = folder / part
            folder.mkdir(exist_ok=True)
            for name in _CPUSET_FILES:  # version 1: an empty cpuset takes no process
                if (folder / name).exists() and not (folder / name).read_text().strip():
                    (folder / name).write_text((folder.parent / name).read_text())
        _delegate(folder)


def found(group: str) -> list[Path]:
    """The folders of `group` that are there."""
    return [root / group for root in _hierarchies() if (root / group).is_dir()]


def remove(group: str) -> None:
    """Removes `group` and all below, once its processes are gone. Raises LocalClusterError if one is still used."""
    deadline_s = time.monotonic() + _REMOVE_TIMEOUT_S
    for folder in found(group):
        for path, _, _ in os.walk(folder, topdown=False):
            while True:
                try:
                    os.rmdir(path)
                    break
                except FileNotFoundError:
                    break
                except OSError as error:  # the kernel lets go of ended processes a little later
                    if time.monotonic() > deadline_s:
                        raise LocalClusterError(f"cannot remove the cgroup {path}: {error.strerror}") from error
                    time.sleep(0.05)


def _hierarchies() -> list[Path]:
    """Where cgroup file systems are mounted, each hierarchy once."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if kind[0] in ("cgroup", "cgroup2") and fields[3] == "/":
            found.setdefault(fields[2], Path(fields[4]))  # the device number names the hierarchy
    return list(found.values())


def _delegate(folder: Path) -> None:
    """Version 2: hands the controllers down; version 1 has no such file."""
    control = folder / "cgroup.subtree_control"
    if control.exists():
        for controller in (folder / "cgroup.controllers").read_text().split():
            with suppress(OSError):
                control.write_text(f"+{controller}")
