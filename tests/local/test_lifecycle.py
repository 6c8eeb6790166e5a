"""Up and down: after an orderly life, after a crash at any point, after a reboot, and beside another cluster."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from local.machine import seen_by_the_host
from modelfleet_local import Cluster, LocalClusterError, Options
from modelfleet_local.node import NodeShape
from modelfleet_local.waiting import wait_until


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a cluster; whatever the test leaves of it goes away."""
    name = f"life-{uuid.uuid4().hex[:8]}"
    yield name
    Cluster(name).down()


def test_two_clusters_side_by_side_know_nothing_of_each_other(api_server: Cluster, name: str) -> None:
    other = Cluster(name, Options(owned=True))
    other.up()
    assert other.kubectl("create", "namespace", "only-here").returncode == 0
    assert api_server.kubectl("get", "namespace", "only-here").returncode != 0
    theirs = api_server.api.get("/api/v1/nodes")["items"]
    assert theirs
    assert other.api.get("/api/v1/nodes")["items"] == []
    mixed = other.kubectl(f"--server={_server(api_server)}", "get", "nodes")  # its credential on the neighbour's port
    assert "x509" in mixed.stderr
    other.down()
    assert other.leftovers() == []
    assert all(api_server.processes().values())


def test_a_real_node_changes_nothing_that_the_host_sees_and_leaves_nothing(name: str) -> None:
    before = seen_by_the_host()
    cluster = Cluster(name, Options(nodes=1, owned=True))
    cluster.up()
    assert seen_by_the_host() == before
    assert _run_a_pod(cluster).returncode == 0
    assert seen_by_the_host() == before
    cluster.down()
    assert cluster.leftovers() == []
    assert seen_by_the_host() == before


def test_up_heals_a_cluster_whose_parts_were_killed_under_running_pods(name: str) -> None:
    cluster = Cluster(name, Options(nodes=1, owned=True))
    cluster.up()
    assert _run_a_pod(cluster).returncode == 0
    for pid in cluster.processes().values():
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    # the shims and the pods go on without anyone who knows them
    wait_until("the end of every part", lambda: not any(cluster.processes().values()), timeout_s=10)
    assert [line for line in cluster.leftovers() if "containerd-shim" in line]
    cluster.up()
    assert cluster.kubectl("get", "pods").stdout == ""
    assert _run_a_pod(cluster).returncode == 0
    cluster.down()
    assert cluster.leftovers() == []


@pytest.mark.parametrize("part", ["kube-apiserver", "kubelet-local-0"])
def test_down_cleans_what_a_launcher_left_that_was_killed_after_starting(part: str, name: str) -> None:
    cluster = Cluster(name)
    launcher = subprocess.Popen([sys.executable, "-m", "modelfleet_local", "up", "--name", name, "--nodes", "1"])
    wait_until(f"the start of {part}", lambda: part in cluster.processes(), timeout_s=60)
    launcher.kill()
    launcher.wait()
    assert cluster.leftovers() != []
    with pytest.raises(LocalClusterError, match="is not up"):
        cluster.require_up()
    cluster.down()
    assert cluster.leftovers() == []


def test_after_a_reboot_the_remains_go_and_no_stranger_with_an_old_pid_is_killed(name: str) -> None:
    cluster = Cluster(name)
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        cluster.paths.processes.mkdir(parents=True)
        old = {"name": "etcd", "pid": stranger.pid, "start_ticks": 1}
        program = {"name": "etcd", "argv": ["etcd"], "env": {}, "outside": False, "pass_fds": []}
        (cluster.paths.processes / "etcd.json").write_text(json.dumps({"process": old, "program": program}))
        (cluster.paths.processes / "kwok.json").write_text("")  # torn by the power cut
        cluster.paths.record.write_text("{}")
        cluster.paths.netns.parent.mkdir(exist_ok=True)
        cluster.paths.netns.touch()  # the handle's file outlives the namespace
        cluster.down()
        assert cluster.leftovers() == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_second_up_of_a_running_cluster_changes_nothing(api_server: Cluster) -> None:
    before = api_server.processes()
    api_server.up()
    assert api_server.processes() == before


def test_up_with_other_options_on_a_running_cluster_is_refused_with_the_remedy(api_server: Cluster) -> None:
    with pytest.raises(LocalClusterError, match=f"take it down first: `.* down --name {api_server.name}`"):
        Cluster(api_server.name, Options(kwok_nodes=7)).up()


def test_a_part_that_cannot_start_is_named_with_its_log_and_nothing_stays(name: str) -> None:
    cluster = Cluster(
        name, Options(nodes=1, node_shape=NodeShape(labels={"kubernetes.io/not-allowed": "x"}), owned=True)
    )
    with pytest.raises(
        LocalClusterError, match=r"(?s)kubelet-local-0 ended; its log is .*kubelet-local-0\.log:\n.*not-allowed"
    ):
        cluster.up()
    assert cluster.leftovers() == []


@pytest.mark.parametrize("bad", ["", "Demo", "-a", "a/b", "x" * 21])
def test_a_name_that_cannot_work_is_refused(bad: str) -> None:
    with pytest.raises(LocalClusterError, match="cluster name"):
        Cluster(bad)


def _server(cluster: Cluster) -> str:
    return cluster.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}").stdout


def _run_a_pod(cluster: Cluster) -> subprocess.CompletedProcess[str]:
    """Runs one real pod and waits until it is ready."""
    wait_until(
        "the default service account",
        lambda: cluster.kubectl("get", "serviceaccount", "default").returncode == 0,
        timeout_s=30,
    )
    cluster.kubectl("run", "one", "--image=localhost/modelfleet-pause:1", "--image-pull-policy=Never")
    return cluster.kubectl("wait", "pod/one", "--for=condition=Ready", "--timeout=60s")
