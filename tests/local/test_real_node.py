"""What a real node is for its pods: names, Services, restricted security, slots; closed without a credential."""

import json

import pytest

from modelfleet_local import Cluster
from modelfleet_local.waiting import wait_until

_IMAGE = "localhost/modelfleet-pause:1"
_SLOT = "modelfleet.dev/cpu-slot"
# perl-base and bash are essential on Debian; the machine's own serve inside the otherwise empty image
_HOST_FOLDERS = {"/usr": "/usr", "/bin": "/usr/bin", "/lib": "/usr/lib", "/lib64": "/usr/lib64"}
_SERVER = """
use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalPort => 8080, Listen => 5) or die;
while (my $client = $server->accept) { print $client "hello " . $client->peerhost . "\\n"; close $client }
"""


def test_a_pod_finds_another_through_its_service_name_and_sees_its_caller(
    real_cluster: Cluster, real_namespace: str
) -> None:
    server = _pod("server", ["/usr/bin/perl", "-e", _SERVER])
    port = {"port": 80, "targetPort": 8080}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "greeter"},
        "spec": {"selector": {"app": "server"}, "ports": [port]},
    }
    ask = "until head -n 1 < /dev/tcp/greeter/80; do sleep 0.2; done; hostname -I"
    client = _pod("client", ["/bin/bash", "-c", ask], restartPolicy="Never")
    _apply(real_cluster, real_namespace, server, service, client)
    phase = "--for=jsonpath={.status.phase}=Succeeded"
    waited = real_cluster.kubectl("wait", "-n", real_namespace, "pod/client", phase, "--timeout=60s")
    assert waited.returncode == 0, real_cluster.kubectl("describe", "pods", "-n", real_namespace).stdout
    said = real_cluster.kubectl("logs", "-n", real_namespace, "client").stdout.splitlines()
    greeting, own_address = said[-2:]  # before them, bash tells of each try that came before the server
    assert greeting == f"hello {own_address.strip()}"


def test_the_api_server_is_reached_from_pods_and_other_names_do_not_exist(
    real_cluster: Cluster, real_namespace: str
) -> None:
    ask = "(: < /dev/tcp/kubernetes.default/443) && echo reached; getent hosts example.com || echo unknown"
    _apply(real_cluster, real_namespace, _pod("client", ["/bin/bash", "-c", ask], restartPolicy="Never"))
    phase = "--for=jsonpath={.status.phase}=Succeeded"
    assert real_cluster.kubectl("wait", "-n", real_namespace, "pod/client", phase, "--timeout=60s").returncode == 0
    assert real_cluster.kubectl("logs", "-n", real_namespace, "client").stdout.split() == ["reached", "unknown"]


def test_a_restricted_pod_that_asks_for_a_slot_runs(real_cluster: Cluster, real_namespace: str) -> None:
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    assert real_cluster.kubectl("label", "namespace", real_namespace, enforce).returncode == 0
    container = {
        "name": "main",
        "image": _IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {_SLOT: "1"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {"containers": [container], "automountServiceAccountToken": False, "enableServiceLinks": False}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "restricted"}, "spec": spec}
    _apply(real_cluster, real_namespace, pod)
    ready = ["pod/restricted", "--for=condition=Ready", "--timeout=60s"]
    waited = real_cluster.kubectl("wait", "-n", real_namespace, *ready)
    assert waited.returncode == 0, real_cluster.kubectl("describe", "pods", "-n", real_namespace).stdout


def test_slots_come_back_after_a_kubelet_restart_that_set_them_to_zero(real_cluster: Cluster) -> None:
    def offered() -> list[str]:
        status = real_cluster.api.get("/api/v1/nodes/local-0")["status"]
        return [status["capacity"][_SLOT], status["allocatable"][_SLOT]]

    real_cluster.restart("kubelet-local-0")
    # what a restarted kubelet writes, unless it finds a device plugin's checkpoint
    zero = {"status": {part: {_SLOT: "0"} for part in ("capacity", "allocatable")}}
    real_cluster.api.patch("/api/v1/nodes/local-0/status", zero)
    wait_until("two slots", lambda: offered() == ["2", "2"], timeout_s=30)


@pytest.mark.parametrize(
    "url", ["https://10.88.0.1:10250/pods", "https://10.88.0.1:6443/api", "https://127.0.0.1:2379/version"]
)
def test_inside_the_cluster_too_nobody_is_served_without_a_credential(real_cluster: Cluster, url: str) -> None:
    script = (
        "import ssl, sys, urllib.request\n"
        "context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE\n"
        "print(urllib.request.urlopen(sys.argv[1], context=context, timeout=10).status)"
    )
    asked = real_cluster.run_in_netns(["python3", "-c", script, url])
    assert asked.returncode != 0
    assert "401" in asked.stderr or "certificate required" in asked.stderr, asked.stderr


def test_kubelet_answers_the_api_server(real_cluster: Cluster, real_namespace: str) -> None:
    _apply(real_cluster, real_namespace, _pod("shell", ["/bin/sleep", "600"], terminationGracePeriodSeconds=0))
    ready = ["pod/shell", "--for=condition=Ready", "--timeout=60s"]
    assert real_cluster.kubectl("wait", "-n", real_namespace, *ready).returncode == 0
    said = real_cluster.kubectl("exec", "-n", real_namespace, "shell", "--", "/bin/bash", "-c", "echo inside $HOSTNAME")
    assert said.stdout == "inside shell\n", said.stderr


def _pod(name: str, command: list[str], **spec: object) -> dict[str, object]:
    mounts = [{"name": f"f{i}", "mountPath": path, "readOnly": True} for i, path in enumerate(_HOST_FOLDERS)]
    volumes = [{"name": f"f{i}", "hostPath": {"path": path}} for i, path in enumerate(_HOST_FOLDERS.values())]
    container = {
        "name": "main",
        "image": _IMAGE,
        "imagePullPolicy": "Never",
        "command": command,
        "volumeMounts": mounts,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "volumes": volumes, "automountServiceAccountToken": False, **spec},
    }


def _apply(cluster: Cluster, namespace: str, *objects: dict[str, object]) -> None:
    content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    done = cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(content))
    assert done.returncode == 0, done.stderr
