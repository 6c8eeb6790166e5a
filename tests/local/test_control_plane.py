"""What a control plane is for its users: reachable by its owner on loopback only, closed to everyone else."""

import ssl
import stat
import subprocess
import urllib.error
import urllib.request

import pytest

from modelfleet_local import Cluster


def test_a_pod_on_a_kwok_node_becomes_ready(api_server: Cluster, namespace: str) -> None:
    pod = [
        "--namespace",
        namespace,
        "--image=none",
        "--restart=Never",
        '--overrides={"spec": {"automountServiceAccountToken": false}}',
    ]
    created = api_server.kubectl("run", "one", *pod)
    assert created.returncode == 0, created.stderr
    waited = api_server.kubectl("wait", "--namespace", namespace, "pod/one", "--for=condition=Ready", "--timeout=30s")
    assert waited.returncode == 0, waited.stderr


def test_a_pod_that_is_not_restricted_is_refused_where_the_namespace_says_so(
    api_server: Cluster, namespace: str
) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    assert api_server.kubectl("label", "namespace", namespace, label).returncode == 0
    refused = api_server.kubectl("run", "one", "--namespace", namespace, "--image=none")
    assert refused.returncode != 0
    assert 'violates PodSecurity "restricted' in refused.stderr


def test_without_a_credential_every_request_is_refused(api_server: Cluster) -> None:
    server = api_server.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}").stdout
    trust = ssl.create_default_context(cafile=str(api_server.paths.pki / "cluster-ca.crt"))
    for path in ("/readyz", "/version", "/api/v1/nodes"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(server + path, context=trust, timeout=10)


def test_only_root_can_read_keys_and_kubeconfigs(api_server: Cluster) -> None:
    state = api_server.paths.state
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    files = [
        p for folder in (api_server.paths.pki, api_server.paths.kubeconfigs) for p in folder.rglob("*") if p.is_file()
    ]
    secret = [p for p in files if p.suffix in (".key", ".yaml")]
    assert len(secret) > 5
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in secret} == {p.name: 0o600 for p in secret}


def test_the_host_sees_one_listener_and_it_is_on_loopback(api_server: Cluster) -> None:
    ours = {pid for pid in api_server.processes().values() if pid}
    listeners = _listeners(ours, ["ss", "--listening", "--tcp", "--udp", "--numeric", "--processes", "--no-header"])
    assert [address.rpartition(":")[0] for address, _ in listeners] == ["127.0.0.1"]
    assert [pid for _, pid in listeners] == [api_server.process("forwarder").pid]


def test_every_request_is_in_the_audit_log(api_server: Cluster, namespace: str) -> None:
    assert f'"name":"{namespace}"' in api_server.audit_log.read_text()
    assert "apiserver_request_total" in api_server.kubectl("get", "--raw", "/metrics").stdout


def _listeners(pids: set[int], argv: list[str]) -> list[tuple[str, int]]:
    """(local address, pid) of the listening sockets that belong to `pids`."""
    found = []
    for line in subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines():
        for pid in pids:
            if f"pid={pid}," in line:
                found.append((line.split()[4], pid))
    return found
