"""Taking a cluster down: the same steps for a running one, a half-started one, and what a crash or a reboot left."""

import shutil
import subprocess
from pathlib import Path

from modelfleet_local import cgroups, netns
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.paths import ClusterPaths
from modelfleet_local.processes import Process, Processes

# These start others, so they end first; whatever they started in between is found by the next round.
_FIRST = ("kubelet", "containerd")
_ROUNDS = 10


def remove(paths: ClusterPaths, processes: Processes) -> None:
    """Removes everything of the cluster but its logs. Raises LocalClusterError that names what resists."""
    for _ in range(_ROUNDS):
        members = _members(paths, processes)
        if not members:
            break
        processes.kill([p for p in members if p.name.startswith(_FIRST)] or members)
    for mount in reversed(_mounts(paths.state)):
        subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)
    netns.remove(paths.netns)
    cgroups.remove(cgroups.name_of(paths.name))
    if left := _mounts(paths.state):
        raise LocalClusterError(f"cannot unmount {', '.join(left)}")  # removing files below would reach into them
    if paths.state.exists():
        shutil.rmtree(paths.state)


def leftovers(paths: ClusterPaths, processes: Processes) -> list[str]:
    """What is there of the cluster, a line each; empty after `remove`."""
    lines = [f"process {p.pid} {p.name}" for p in _members(paths, processes)]
    lines += [f"mount {mount}" for mount in _mounts(paths.state)]
    lines += [f"cgroup {folder}" for folder in cgroups.found(cgroups.name_of(paths.name))]
    lines += [f"network namespace {paths.netns}"] if paths.netns.exists() else []
    lines += [f"state {paths.state}"] if paths.state.exists() else []
    return lines


def _members(paths: ClusterPaths, processes: Processes) -> list[Process]:
    found = [*processes.marked(), *processes.in_cgroup(cgroups.name_of(paths.name))]
    return list({p.pid: p for p in found}.values())


def _mounts(folder: Path) -> list[str]:
    """Mount points at or below `folder`, in the order in which they were mounted."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [p for p in points if p == str(folder) or p.startswith(f"{folder}/")]
