"""A Kubernetes on this machine: up, down, and what a user or a test does with it in between."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from modelfleet_local import cleanup, controlplane, dns, kwok, netns, proxy
from modelfleet_local.api import Api
from modelfleet_local.binaries import CONTROL_PLANE, NODE
from modelfleet_local.controlplane import Environment
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.node import MAX_NODES, Node, NodeShape, import_image, runtime_socket
from modelfleet_local.paths import cache_dir, cluster_paths
from modelfleet_local.pki import Authority
from modelfleet_local.processes import Process, Processes
from modelfleet_local.progress import Say, silent
from modelfleet_local.system import require_packages
from modelfleet_local.target import Target

_KEPT_LOGS = 10


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a cluster is made of, beside its control plane."""

    nodes: int = 0
    """real nodes: containerd and kubelet on this machine"""
    node_shape: NodeShape = field(default_factory=NodeShape)
    kwok_nodes: int = 0
    """fake nodes"""
    kwok_shape: kwok.Shape = field(default_factory=kwok.Shape)
    audit: bool = False
    """write logs/audit.log: each request with its user, verb and object"""
    owned: bool = False
    """belongs to this process: `remove_orphans` takes it down once the process is gone, however it ended"""


class Cluster(Target):
    """The cluster `name`. Making this object starts nothing; two objects of one name are the same cluster."""

    def __init__(self, name: str, options: Options | None = None, *, say: Say = silent) -> None:
        """`say` gets a line before each step that takes long. Raises LocalClusterError for a bad name."""
        self.name = name
        self.paths = cluster_paths(name)
        self._options = options or Options()
        if not 0 <= self._options.nodes <= MAX_NODES:
            raise LocalClusterError(f"{self._options.nodes} real nodes: this machine can be at most {MAX_NODES} nodes")
        super().__init__(say)
        self._processes = Processes(self.paths)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for use in the host's network namespace."""
        return self.paths.admin_kubeconfig

    @property
    def logs(self) -> Path:
        """The folder with a log for each part; it outlives `down`."""
        return self.paths.logs

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON event a line; there with the option `audit`."""
        return self.paths.logs / "audit.log"

    @property
    def api(self) -> Api:
        """A client with the administrator's credential."""
        return Api(self.require_up())

    def require_up(self) -> Path:
        """The administrator's kubeconfig of a cluster that is up. Raises LocalClusterError if it is not."""
        if not self.paths.record.exists():
            hint = f"start it with `python -m modelfleet_local up --name {self.name}`"
            raise LocalClusterError(f"cluster {self.name} is not up; {hint}")
        return self.kubeconfig

    def up(self) -> None:
        """Starts the cluster; a running one is left alone, remains of an unclean stop are removed first.

        Raises LocalClusterError that says what failed and where its log is; nothing but the logs is left then.
        """
        if os.geteuid() != 0:
            raise LocalClusterError("a cluster needs network namespaces and mounts; run this as root")
        require_packages()
        needed = [*CONTROL_PLANE, "kwok", *(NODE if self._options.nodes else ())]
        self._binaries.ensure(needed, self._say)
        with self._locked():
            if self._is_running():
                self._say(f"cluster {self.name} is up already")
                return
            if cleanup.leftovers(self.paths, self._processes):
                ended = [part for part, pid in self.processes().items() if pid is None]
                why = f"it is not whole ({', '.join(ended)} ended)" if ended else "it did not end cleanly"
                self._say(f"cluster {self.name} starts anew, without its objects, because {why}")
                cleanup.remove(self.paths, self._processes)
            try:
                self._start()
            except BaseException:
                cleanup.remove(self.paths, self._processes)
                raise

    def down(self) -> None:
        """Removes the cluster, whatever state it is in; the logs stay. Raises LocalClusterError naming what resists."""
        with self._locked():
            cleanup.remove(self.paths, self._processes)

    def leftovers(self) -> list[str]:
        """What is there of the cluster, a line each: processes, mounts, cgroups, network namespace, state."""
        return cleanup.leftovers(self.paths, self._processes)

    def processes(self) -> dict[str, int | None]:
        """The parts that were started, with the pid of each that still runs."""
        return {p.name: p.pid if self._processes.alive(p) else None for p in self._processes.recorded()}

    def process(self, name: str) -> Process:
        """The running part `name`. Raises LocalClusterError if it does not run."""
        found = self._processes.find(name)
        if found is None:
            raise LocalClusterError(f"cluster {self.name} has no running {name}")
        return found

    def restart(self, part: str) -> Process:
        """Ends a part (kubelet-local-0, kube-scheduler and so on) and starts it again, as a crash would."""
        self.require_up()
        return self._processes.restart(part)

    def netns_argv(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` in the cluster's network, where Services and pods have addresses."""
        self.require_up()
        return netns.entered(self.paths.netns, argv)

    def client_argv(self, script: Path, *args: str) -> list[str]:
        """The command line that runs a Python script of ours in the cluster's network."""
        return self.netns_argv([sys.executable, str(script), *args])

    def run_in_netns(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Runs a command in the cluster's network; the caller looks at the exit status."""
        return subprocess.run(self.netns_argv(argv), capture_output=True, text=True, check=False)

    def import_image(self, archive: Path) -> None:
        """Loads an image archive into every real node. Raises LocalClusterError."""
        self.require_up()
        for folder in sorted((self.paths.state / "nodes").glob("*")):
            import_image(runtime_socket(self.paths.state, folder.name), archive)

    def _start(self) -> None:
        for folder in (self.paths.state, self.paths.pki, self.paths.kubeconfigs, self.paths.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _empty(self.paths.logs)
        _prune_logs(self.paths.logs.parent)
        if self._options.owned:
            self.paths.owner.write_text(json.dumps(asdict(Process.current())))
        netns.create(self.paths.netns)
        authority = Authority(self.paths.pki, "cluster")
        env = Environment(self.paths, cache_dir(), self._binaries, self._processes, authority)
        nodes = [Node(env, index, self._options.node_shape) for index in range(self._options.nodes)]
        runtimes = [node.start_runtime() for node in nodes]
        self._say("starting the control plane")
        api = controlplane.start(env, audit=self._options.audit)
        kwok.start(env, api, self._say)
        if nodes:
            self._say(f"joining {', '.join(node.name for node in nodes)}")
            proxy.start(env, nodes[0].name)
            dns.start(env, api)
        for node, runtime in zip(nodes, runtimes, strict=True):
            node.join(api, runtime)
        if self._options.kwok_nodes:
            self._say(f"adding {self._options.kwok_nodes} kwok nodes")
            kwok.add_nodes(api, self._options.kwok_nodes, self._options.kwok_shape)
        self.paths.record.write_text(json.dumps(self._description()))
        self._say(f"cluster {self.name} is up")

    def _is_running(self) -> bool:
        """Whether a finished `up` with these options stands whole. Raises LocalClusterError for other options."""
        try:
            record = json.loads(self.paths.record.read_text())
        except (OSError, ValueError):
            return False
        whole = all(self.processes().values()) and netns.exists(self.paths.netns)
        if whole and record != json.loads(json.dumps(self._description())):
            raise LocalClusterError(
                f"cluster {self.name} is up with other options or programs; take it down first: "
                f"`python -m modelfleet_local down --name {self.name}`"
            )
        return whole and bool(self.processes())

    def _description(self) -> dict[str, Any]:
        programs = [str(self._binaries.path(name)) for name in CONTROL_PLANE]
        return {"options": asdict(self._options), "programs": programs}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.paths.lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            with self.paths.lock.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if not _same_file(file, self.paths.lock):
                    continue  # its last holder took the cluster down and removed the file meanwhile
                yield
                if not self.paths.state.exists():
                    self.paths.lock.unlink()
                return


def known_clusters() -> list[str]:
    """The names of clusters of which anything is there."""
    return [path.name for path in sorted((cache_dir() / "clusters").glob("*")) if path.is_dir()]


def remove_orphans(say: Say = silent) -> None:
    """Takes down every cluster that was made with the option `owned` by a process that is gone (a killed test run)."""
    for name in known_clusters():
        cluster = Cluster(name, say=say)
        try:
            owner = Process(**json.loads(cluster.paths.owner.read_text()))
        except (OSError, ValueError):  # nobody's, or gone since we looked
            continue
        if not owner.alive():
            say(f"removing cluster {name}, whose owner is gone")
            cluster.down()


def _same_file(file: IO[str], path: Path) -> bool:
    return path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())


def _prune_logs(folder: Path) -> None:
    """Removes the oldest logs of clusters that are down. Another cluster that starts now may remove the same."""
    here = set(known_clusters())
    old = []
    for path in folder.iterdir():
        if path.is_dir() and path.name not in here:
            with suppress(FileNotFoundError):
                old.append((path.stat().st_mtime, path))
    for _, path in sorted(old)[:-_KEPT_LOGS]:
        shutil.rmtree(path, ignore_errors=True)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
