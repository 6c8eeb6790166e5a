"""A real node on this machine: containerd and kubelet, with everything that they keep or mount in the cluster's folder.

Both run in a mount namespace of the node's own, so that no mount of theirs is ever seen by the host and all of them end
with the last process. In it the fixed paths that kubelet, containerd and CNI insist on lie in the cluster's folder, and
the kernel settings that kubelet would change for the whole machine are covered by plain files that it may change.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelfleet_local import cgroups, kwok, netns, pause
from modelfleet_local.api import Api
from modelfleet_local.controlplane import Environment
from modelfleet_local.dns import CLUSTER_DNS, DOMAIN
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.pki import Credential, Identity
from modelfleet_local.processes import Process, Program
from modelfleet_local.system import run_tool
from modelfleet_local.waiting import wait_until

MAX_NODES = 4
_CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_RUNTIME_TIMEOUT_S = 30.0
_READY_TIMEOUT_S = 120.0
# What kubelet sets machine-wide (pkg/kubelet/cm: setupKernelTunables).
_KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
# In the node's mount namespace: puts the folder of the first word, if it is not empty, into memory, covers each TARGET
# with SOURCE (two words each, ended by --), then becomes the program.
_COVER = (
    '[ -z "$1" ] || mount -t tmpfs -o mode=0700 modelfleet "$1"; shift;'
    ' while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift; exec "$@"'
)


@dataclass(frozen=True, kw_only=True)
class NodeShape:
    """What a real node offers beside the machine's CPU and memory."""

    labels: Mapping[str, str] = field(default_factory=lambda: {"modelfleet.dev/accelerator": "cpu"})
    extended_resources: Mapping[str, int] = field(default_factory=lambda: {"modelfleet.dev/cpu-slot": 2})
    in_memory: bool = False
    """keep images and containers in memory, up to half of the machine's: a slow disk unpacks and removes them slowly"""


@dataclass(frozen=True)
class Node:
    """The real node number `index` of a cluster."""

    env: Environment
    index: int
    shape: NodeShape

    @property
    def name(self) -> str:
        return f"local-{self.index}"

    @property
    def address(self) -> str:
        return f"10.88.0.{1 + self.index}"

    @property
    def folder(self) -> Path:
        return self.env.paths.state / "nodes" / self.name

    @property
    def socket(self) -> Path:
        return runtime_socket(self.env.paths.state, self.name)

    @property
    def _home(self) -> Path:
        """Where containerd keeps images and containers."""
        return self.folder / "containerd"

    @property
    def cgroup(self) -> str:
        return f"{cgroups.name_of(self.env.paths.name)}/{self.name}"

    def start_runtime(self) -> Process:
        """Starts containerd; does not wait, so that it comes up beside the control plane."""
        self._own_address()
        cgroups.create(self.cgroup)
        covers = self._covers()
        for source, target in covers.items():
            if source.is_dir():
                target.mkdir(mode=0o755, parents=True, exist_ok=True)
        config = self.folder / "containerd.toml"
        config.write_text(self._containerd_config())
        flat = [str(path) for pair in covers.items() for path in pair]
        self._home.mkdir()
        memory = str(self._home) if self.shape.in_memory else ""
        argv = ["unshare", "--mount", "--propagation=slave", "--", "sh", "-euc", _COVER, "sh", memory, *flat, "--"]
        return self.env.processes.start(Program(f"containerd-{self.name}", [*argv, "containerd", f"--config={config}"]))

    def join(self, api: Api, runtime: Process) -> None:
        """Starts kubelet and waits until pods can run. Raises LocalClusterError that names the part and its log."""
        ping = ["ctr", f"--address={self.socket}", "version"]
        wait_until(
            f"containerd on {self.name} (log: {self.env.processes.log(runtime.name)})",
            lambda: self.socket.exists() and _succeeds(ping),
            timeout_s=_RUNTIME_TIMEOUT_S,
            check=lambda: self.env.processes.check(runtime),
        )
        import_image(self.socket, pause.ensure_pause(self.env.cache))
        kubelet = self.start_kubelet(runtime)
        self._start_keeper(api)

        def check() -> None:
            self.env.processes.check(runtime)
            self.env.processes.check(kubelet)

        wait_until(
            f"a ready node {self.name} (log: {self.env.processes.log(kubelet.name)})",
            lambda: self._ready(api),
            timeout_s=_READY_TIMEOUT_S,
            check=check,
        )

    def start_kubelet(self, runtime: Process) -> Process:
        """Starts kubelet in the mount namespace of `runtime`, containerd's process."""
        identity = Identity(f"system:node:{self.name}", ["system:nodes"])
        kubeconfig = self.env.kubeconfig(f"kubelet-{self.name}", identity)
        serving = self.env.authority.server(f"kubelet-{self.name}", [self.name, self.address])
        config = self.folder / "kubelet.yaml"
        config.write_text(json.dumps(self._kubelet_config(serving), indent=1))
        labels = ",".join(f"{key}={value}" for key, value in self.shape.labels.items())
        argv = [
            "nsenter",
            f"--mount=/proc/{runtime.pid}/ns/mnt",
            "--",
            self.env.program("kubelet"),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            f"--node-labels={labels}",
            f"--cert-dir={self.folder / 'kubelet-pki'}",
        ]
        return self.env.processes.start(Program(f"kubelet-{self.name}", argv))

    def _start_keeper(self, api: Api) -> None:
        user = f"modelfleet-keeper-{self.name}"
        nodes = {"apiGroups": [""], "resourceNames": [self.name]}
        rules = [
            {**nodes, "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
            {**nodes, "resources": ["nodes/status"], "verbs": ["patch"]},
        ]
        api.grant(user, rules)
        kubeconfig = self.env.kubeconfig(f"keeper-{self.name}", Identity(user))
        argv = [self.env.python, "-m", "modelfleet_local.keeper", str(kubeconfig), self.name]
        resources = [f"{key}={value}" for key, value in self.shape.extended_resources.items()]
        self.env.processes.start(Program(f"keeper-{self.name}", [*argv, *resources]))

    def _ready(self, api: Api) -> bool:
        if not api.healthy(f"/api/v1/nodes/{self.name}"):
            return False  # not registered yet
        offered = api.get(f"/api/v1/nodes/{self.name}")["status"].get("allocatable", {})
        wanted = {key: str(value) for key, value in self.shape.extended_resources.items()}
        return kwok.ready(api, self.name) and wanted.items() <= offered.items()

    def _own_address(self) -> None:
        if self.index:  # the first node's address is the bridge's own
            address = ["ip", "addr", "add", f"{self.address}/16", "dev", netns.BRIDGE]
            run_tool(netns.entered(self.env.paths.netns, address))

    def _covers(self) -> dict[Path, Path]:
        """What lies where in the node's mount namespace: source in the cluster's folder, target on the machine."""
        folders = {
            "kubelet": "/var/lib/kubelet",  # device plugins register there, whatever --root-dir says
            "container-links": "/var/log/containers",
            "cni-cache": "/var/lib/cni",
            "shims": "/run/containerd",  # the shims' sockets
        }
        covers = {self.folder / name: Path(target) for name, target in folders.items()}
        for source in covers:
            source.mkdir(mode=0o700, parents=True)
        for setting in _KERNEL_SETTINGS:
            real = Path("/proc/sys") / setting
            if real.exists():
                source = self.folder / f"sysctl-{real.name}"
                source.write_text(real.read_text())
                covers[source] = real
        return covers

    def _containerd_config(self) -> str:
        plugins = next((folder for folder in _CNI_FOLDERS if (folder / "bridge").exists()), None)
        if plugins is None:
            raise LocalClusterError("the CNI plugins are not installed; run `make setup`")
        cni = self.folder / "cni"
        cni.mkdir()
        (cni / "10-pods.conflist").write_text(json.dumps(self._cni_config()))
        cri = "io.containerd.grpc.v1.cri"
        settings: dict[str, dict[str, Any]] = {
            "": {"version": 2, "root": str(self._home / "root"), "state": str(self._home / "state"), "oom_score": 0},
            "grpc": {"address": str(self.socket)},
            'plugins."io.containerd.internal.v1.opt"': {"path": str(self._home / "opt")},
            f'plugins."{cri}"': {
                "sandbox_image": pause.REFERENCE,
                "netns_mounts_under_state_dir": True,
                # Where this process may not lower a score (a container, a small VM), runc fails without a word.
                "restrict_oom_score_adj": True,
            },
            f'plugins."{cri}".containerd': {"snapshotter": _snapshotter()},
            f'plugins."{cri}".containerd.runtimes.runc': {"runtime_type": "io.containerd.runc.v2"},
            f'plugins."{cri}".containerd.runtimes.runc.options': {"Root": str(self._home / "runc")},
            f'plugins."{cri}".cni': {"bin_dir": str(plugins), "conf_dir": str(cni)},
        }
        lines = []
        for section, values in settings.items():
            lines += [f"[{section}]"] if section else []
            lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]  # JSON scalars are TOML
        return "\n".join(lines) + "\n"

    def _cni_config(self) -> dict[str, Any]:
        first = 64 * self.index
        pods = {
            "subnet": netns.POD_CIDR,
            "rangeStart": f"10.88.{first}.16",  # below are the nodes
            "rangeEnd": f"10.88.{first + 63}.254",
            "gateway": netns.GATEWAY,
        }
        ipam = {
            "type": "host-local",
            "dataDir": str(self.folder / "cni-addresses"),
            "ranges": [[pods]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {"type": "bridge", "bridge": netns.BRIDGE, "isGateway": True, "hairpinMode": True, "ipam": ipam}
        portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, portmap]}

    def _kubelet_config(self, serving: Credential) -> dict[str, Any]:
        (self.folder / "resolv.conf").write_text("")  # the host's name servers cannot be reached from inside
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.env.authority.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "clusterDNS": [CLUSTER_DNS],
            "clusterDomain": DOMAIN,
            "resolvConf": str(self.folder / "resolv.conf"),
            "podLogsDir": str(self.folder / "pod-logs"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            # A worker whose cause of failure is mended is tried again soon, not after the kubelet's usual five minutes.
            "crashLoopBackOff": {"maxContainerRestartPeriod": "15s"},
            # The disk is the user's, and images can't be pulled again: nothing is evicted or collected for space.
            "evictionHard": {},
            "imageGCHighThresholdPercent": 100,
            "enableSystemLogHandler": False,
        }


def runtime_socket(state: Path, name: str) -> Path:
    """Where containerd of the real node `name` listens."""
    return state / "nodes" / name / "containerd.sock"


def import_image(socket: Path, archive: Path) -> None:
    """Loads an image archive, for pods with imagePullPolicy Never or IfNotPresent. Raises LocalClusterError."""
    argv = ["ctr", f"--address={socket}", "--namespace=k8s.io", "images", "import"]
    run_tool([*argv, f"--snapshotter={_snapshotter()}", str(archive)])


def _snapshotter() -> str:
    """Overlays do not stack: on a machine whose root is one (a container), files are copied instead."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    root = next(line.partition(" - ")[2].split()[0] for line in reversed(mounts) if line.split()[4] == "/")
    return "native" if root == "overlay" else "overlayfs"


def _succeeds(argv: list[str]) -> bool:
    try:
        run_tool(argv)
    except LocalClusterError:
        return False
    return True
