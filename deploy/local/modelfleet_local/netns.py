"""A cluster's network namespace: made, entered and removed. The host keeps its own; only the network is apart.

Unlike `ip netns exec`, entering leaves /sys and every mount as they are: cgroups stay visible.
"""

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from modelfleet_local.errors import LocalClusterError
from modelfleet_local.system import run_tool

BRIDGE = "mf0"
GATEWAY = "10.88.0.1"
POD_CIDR = "10.88.0.0/16"
SERVICE_CIDR = "10.96.0.0/16"
_CLONE_NEWNET = 0x40000000
# Ports that join later would change the bridge's hardware address, and pods would lose their gateway for a while.
_BRIDGE_MAC = "02:6d:66:00:00:01"


def create(path: Path) -> None:
    """Makes the namespace with loopback and the pods' bridge in it. Raises LocalClusterError."""
    path.parent.mkdir(mode=0o755, exist_ok=True)
    path.touch(mode=0o600)
    run_tool(["unshare", f"--net={path}", "--", "true"])
    links = [
        ["link", "set", "lo", "up"],
        ["link", "add", BRIDGE, "address", _BRIDGE_MAC, "type", "bridge"],
        ["addr", "add", f"{GATEWAY}/16", "dev", BRIDGE],
        ["link", "set", BRIDGE, "up"],
        # Services have no interface; what starts here needs a way out before kube-proxy's rules turn it to a pod.
        ["route", "add", SERVICE_CIDR, "dev", BRIDGE],
    ]
    for link in links:
        run_tool(entered(path, ["ip", *link]))


def remove(path: Path) -> None:
    """Removes the namespace's name; the namespace itself ends with its last process. Missing is fine."""
    while _is_mounted(path):
        run_tool(["umount", str(path)])
    path.unlink(missing_ok=True)


def exists(path: Path) -> bool:
    """Whether the name is there and holds a namespace."""
    return _is_mounted(path)


def entered(path: Path, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` inside. The process keeps its id: nsenter becomes the command."""
    return ["nsenter", f"--net={path}", "--", *argv]


def enter(path: Path) -> None:
    """Moves the calling thread inside; sockets that are open already stay where they were opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            error = ctypes.get_errno()
            raise LocalClusterError(f"cannot enter {path}: {os.strerror(error)}")


def _is_mounted(path: Path) -> bool:
    return any(line.split()[4] == str(path) for line in Path("/proc/self/mountinfo").read_text().splitlines())
