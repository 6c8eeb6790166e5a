"""The control plane of one cluster: etcd, API server, controller manager, scheduler, and the user's loopback port.

Nobody is anonymous: every part has a client certificate, for etcd too (pods on the host network could reach it).
"""

import json
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from modelfleet_local import netns, pki
from modelfleet_local.api import Api
from modelfleet_local.binaries import Binaries
from modelfleet_local.paths import ClusterPaths
from modelfleet_local.pki import Authority, Identity
from modelfleet_local.processes import Process, Processes, Program
from modelfleet_local.waiting import wait_until

API_PORT = 6443
SERVER_INSIDE = f"https://127.0.0.1:{API_PORT}"
KUBELET_CLIENT = "modelfleet-kube-apiserver"
_ETCD = "https://127.0.0.1:2379"
_ETCD_PEER = "https://127.0.0.1:2380"
_FIRST_SERVICE_ADDRESS = "10.96.0.1"
_SERVER_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    netns.GATEWAY,
    _FIRST_SERVICE_ADDRESS,
)
_READY_TIMEOUT_S = 120.0
# Every request once, at its end; the bodies stay out, so no secret is written.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
# Quick tests create many objects at once; the defaults (20 and 50 requests a second) would pace them.
_CLIENT_RATE = ("--kube-api-qps=200", "--kube-api-burst=400")


@dataclass(frozen=True)
class Environment:
    """What every part of a cluster is started with."""

    paths: ClusterPaths
    cache: Path
    binaries: Binaries
    processes: Processes
    authority: Authority

    def program(self, name: str) -> str:
        return str(self.binaries.path(name))

    @property
    def python(self) -> str:
        """The interpreter that runs us, for parts that are Python of ours."""
        return sys.executable

    def kubeconfig(self, name: str, identity: Identity, server: str = SERVER_INSIDE) -> Path:
        """A new credential for `identity`, as a kubeconfig; `server` is the address it is used from."""
        path = self.paths.kubeconfigs / f"{name}.yaml"
        client = self.authority.client(f"client-{name}", identity)
        pki.kubeconfig(
            path, server=server, authority=self.authority, client=client, name=f"modelfleet-{self.paths.name}"
        )
        return path


def start(env: Environment, *, audit: bool) -> Api:
    """Starts the control plane and waits until it is ready. Raises LocalClusterError naming the part and its log."""
    port, forwarder = _start_forwarder(env)
    server = f"https://127.0.0.1:{port}"
    admin = env.kubeconfig("admin", Identity("modelfleet-admin", ["system:masters"]), server)
    etcd = _start_etcd(env)
    service_accounts = pki.signing_key(env.paths.pki)
    apiserver = _start_apiserver(env, service_accounts, audit=audit)
    api = Api(admin)

    def check() -> None:
        for process in (etcd, apiserver, forwarder):
            env.processes.check(process)

    wait_until(
        f"an API server that is ready (log: {env.processes.log('kube-apiserver')})",
        api.healthy,
        timeout_s=_READY_TIMEOUT_S,
        check=check,
    )
    _start_controllers(env, service_accounts)
    api.bind(KUBELET_CLIENT, "system:kubelet-api-admin")
    return api


def _start_forwarder(env: Environment) -> tuple[int, Process]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        argv = [env.python, "-m", "modelfleet_local.forwarder", str(listener.fileno()), str(env.paths.netns)]
        program = Program("forwarder", [*argv, str(API_PORT)], outside=True, pass_fds=(listener.fileno(),))
        return listener.getsockname()[1], env.processes.start(program)


def _start_etcd(env: Environment) -> Process:
    authority = Authority(env.paths.pki, "etcd")
    server = authority.server("etcd", ["localhost", "127.0.0.1"])
    authority.client("etcd-client", Identity("kube-apiserver"))
    tls = [
        flag
        for prefix in ("", "peer-")
        for flag in (
            f"--{prefix}cert-file={server.certificate}",
            f"--{prefix}key-file={server.key}",
            f"--{prefix}trusted-ca-file={authority.certificate}",
            f"--{prefix}client-cert-auth",
        )
    ]
    argv = [
        env.program("etcd"),
        f"--data-dir={env.paths.state / 'etcd'}",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=default={_ETCD_PEER}",
        *tls,
        "--unsafe-no-fsync",  # the data does not outlive the cluster
        "--log-level=warn",
    ]
    return env.processes.start(Program("etcd", argv))


def _start_apiserver(env: Environment, service_accounts: pki.Credential, *, audit: bool) -> Process:
    serving = env.authority.server("kube-apiserver", _SERVER_NAMES)
    kubelet_client = env.authority.client("kubelet-client", Identity(KUBELET_CLIENT))
    folder = env.paths.pki
    argv = [
        env.program("kube-apiserver"),
        f"--etcd-servers={_ETCD}",
        f"--etcd-cafile={folder / 'etcd-ca.crt'}",
        f"--etcd-certfile={folder / 'etcd-client.crt'}",
        f"--etcd-keyfile={folder / 'etcd-client.key'}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={netns.GATEWAY}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={env.authority.certificate}",
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-account-key-file={service_accounts.certificate}",
        f"--service-account-signing-key-file={service_accounts.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={netns.SERVICE_CIDR}",
        "--allow-privileged=true",
        f"--kubelet-certificate-authority={env.authority.certificate}",
        f"--kubelet-client-certificate={kubelet_client.certificate}",
        f"--kubelet-client-key={kubelet_client.key}",
        "--kubelet-preferred-address-types=InternalIP",
        *_front_proxy_flags(env),
        *(_audit_flags(env) if audit else ()),
    ]
    return env.processes.start(Program("kube-apiserver", argv))


def _front_proxy_flags(env: Environment) -> list[str]:
    """For API servers behind ours (a metrics adapter): they know by these who asked."""
    authority = Authority(env.paths.pki, "front-proxy")
    client = authority.client("front-proxy-client", Identity("front-proxy-client"))
    return [
        f"--requestheader-client-ca-file={authority.certificate}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={client.certificate}",
        f"--proxy-client-key-file={client.key}",
    ]


def _audit_flags(env: Environment) -> list[str]:
    policy = env.paths.state / "audit-policy.yaml"
    policy.write_text(json.dumps(_AUDIT_POLICY))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={env.paths.logs / 'audit.log'}"]


def _start_controllers(env: Environment, service_accounts: pki.Credential) -> None:
    for name in ("kube-controller-manager", "kube-scheduler"):
        config = env.kubeconfig(name, Identity(f"system:{name}"))
        argv = [
            env.program(name),
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--authentication-tolerate-lookup-failure=true",
            f"--client-ca-file={env.authority.certificate}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={env.paths.pki / name}",
            "--leader-elect=false",
            *_CLIENT_RATE,
        ]
        if name == "kube-controller-manager":
            argv += [
                f"--service-account-private-key-file={service_accounts.key}",
                f"--root-ca-file={env.authority.certificate}",
                "--use-service-account-credentials=true",
            ]
        env.processes.start(Program(name, argv))
