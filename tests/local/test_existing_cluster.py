"""The demo and the end-to-end tests on a cluster that somebody else started, known by its kubeconfig alone."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_fixtures import own_cluster
from modelfleet_local import Cluster, Options, fleet
from modelfleet_local.paths import REPOSITORY

IMAGES = ("--operator-image=registry.example/operator:1", "--worker-image=registry.example/worker:1")


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "modelfleet_local", "demo", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def content(cluster: Cluster) -> list[str]:
    """What a run could leave behind."""
    kinds = "namespaces,crds,clusterroles,clusterrolebindings,pv,priorityclasses"
    done = cluster.kubectl("get", kinds, "-o", "name")
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    done = demo(f"--kubeconfig={tmp_path / 'nothing'}", *IMAGES)
    assert (done.returncode, done.stderr) == (
        1,
        f"modelfleet_local: there is no kubeconfig {tmp_path / 'nothing'}\n",
    )


def test_flags_for_an_existing_cluster_without_one() -> None:
    done = demo("--keep")
    assert (done.returncode, done.stderr) == (
        1,
        "modelfleet_local: --keep is for an existing cluster: give --kubeconfig too\n",
    )


def test_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": ""}}],
        "current-context": "gone",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    done = demo(f"--kubeconfig={tmp_path / 'config'}", *IMAGES)
    assert done.returncode == 1
    assert f"modelfleet_local: the cluster of {tmp_path / 'config'} cannot be used: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cluster_without_a_node_for_the_small_model_is_refused_before_anything_is_made(api_server: Cluster) -> None:
    before = content(api_server)
    done = demo(f"--kubeconfig={api_server.kubeconfig}", *IMAGES)
    assert done.returncode == 1
    assert "no node has the label modelfleet.dev/accelerator=cpu and offers modelfleet.dev/cpu-slot" in done.stderr
    assert "kubectl label node NODE" in done.stderr
    made = set(content(api_server)) - set(before)  # namespaces of other tests may go meanwhile
    assert made == set()


def test_a_user_who_may_not_do_it_is_told_which_right_is_missing(api_server: Cluster, namespace: str, tmp_path) -> None:
    assert api_server.kubectl("create", "serviceaccount", "guest", f"--namespace={namespace}").returncode == 0
    token = api_server.kubectl("create", "token", "guest", f"--namespace={namespace}").stdout.strip()
    config = json.loads(api_server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "config").write_text(json.dumps(config))
    done = demo(f"--kubeconfig={tmp_path / 'config'}", *IMAGES)
    assert done.returncode == 1
    assert f"the user of {tmp_path / 'config'} may not create namespaces; use a cluster administrator's" in done.stderr


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    """A second cluster with this checkout's images on its node, and a copy of its kubeconfig."""
    with own_cluster("other", Options(nodes=1, owned=True), crds=False) as cluster:
        fleet.load_images(cluster)
        copy = tmp_path_factory.mktemp("other") / "kubeconfig"
        copy.write_bytes(cluster.kubeconfig.read_bytes())
        yield cluster, copy


@pytest.mark.existing
@pytest.mark.engine
def test_the_demo_runs_there_and_leaves_nothing(other: tuple[Cluster, Path]) -> None:
    cluster, kubeconfig = other
    before = content(cluster)
    make = ["make", "--no-print-directory", "demo", f"KUBECONFIG={kubeconfig}", "DEMO=--images-loaded"]
    done = subprocess.run(make, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    assert done.stdout.endswith("demo: ok\n")
    assert content(cluster) == before


@pytest.mark.existing
@pytest.mark.engine
def test_the_end_to_end_tests_run_there_and_leave_nothing(other: tuple[Cluster, Path]) -> None:
    cluster, kubeconfig = other
    before = content(cluster)
    argv = [sys.executable, "-m", "pytest", "-v", "-rs", "tests/e2e", f"--kubeconfig={kubeconfig}", "--images-loaded"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert "refused on an existing cluster: it reads the API server's audit log" in done.stdout
    assert content(cluster) == before
