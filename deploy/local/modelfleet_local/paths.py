"""Where the local cluster keeps things: the cache, the state of a cluster, its logs. Creates nothing.

Everything lies in one cache folder, so that removing it removes every trace. A cluster's state is private (0700) and
lives from `up` to `down`; its logs outlive `down`, so that a failure can still be read.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from modelfleet_local.errors import LocalClusterError

LOCAL = Path(__file__).resolve().parent.parent
REPOSITORY = LOCAL.parent.parent
GO_MODULES = LOCAL / "go"
DEBIAN_PACKAGES = LOCAL / "debian-packages.txt"

# The same pin stands in bootstrap.sh, which installs it before any Python of ours runs.
UV_VERSION = "0.13.9"

# A socket's path may hold 107 bytes; this is the longest one below a cluster's folder.
_LONGEST_SOCKET = len("/nodes/local-9/containerd.sock.ttrpc")
_SOCKET_LIMIT_BYTES = 107
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?")


def cache_dir() -> Path:
    """The folder for everything built or downloaded: $MODELFLEET_CACHE, else ~/.cache/modelfleet."""
    return Path(os.environ.get("MODELFLEET_CACHE") or Path.home() / ".cache" / "modelfleet").absolute()


@dataclass(frozen=True)
class ClusterPaths:
    """The places of one cluster."""

    name: str
    state: Path
    logs: Path
    lock: Path

    @property
    def netns(self) -> Path:
        return Path("/run/netns") / f"modelfleet-{self.name}"

    @property
    def processes(self) -> Path:
        return self.state / "processes"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def kubeconfigs(self) -> Path:
        return self.state / "kubeconfigs"

    @property
    def admin_kubeconfig(self) -> Path:
        """The user's kubeconfig: through the forwarded loopback port."""
        return self.kubeconfigs / "admin.yaml"

    @property
    def owner(self) -> Path:
        """The process that the cluster belongs to, if it belongs to one."""
        return self.state / "owner.json"

    @property
    def record(self) -> Path:
        """What `up` was asked for, written last: its absence means that `up` did not end."""
        return self.state / "cluster.json"


def cluster_paths(name: str, cache: Path | None = None) -> ClusterPaths:
    """The places of cluster `name`. Raises LocalClusterError for a name or a cache path that cannot work."""
    if not _NAME.fullmatch(name):
        raise LocalClusterError(
            f"cluster name {name!r}: use at most 20 lower-case letters, digits and dashes, no dash at either end"
        )
    root = cache or cache_dir()
    state = root / "clusters" / name
    if len(os.fsencode(state)) + _LONGEST_SOCKET > _SOCKET_LIMIT_BYTES:
        raise LocalClusterError(f"{state} is too long for Unix sockets; set MODELFLEET_CACHE to a shorter path")
    return ClusterPaths(name, state, root / "logs" / name, root / "clusters" / f"{name}.lock")
