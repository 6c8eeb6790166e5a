"""Fixtures that start a real API server for the tests that ask for one. Nothing starts otherwise."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from modelfleet_local import Cluster, Options
from modelfleet_local.cluster import remove_orphans
from modelfleet_local.existing import ExistingCluster, ImageSource
from modelfleet_local.fleet import SYSTEM_NAMESPACE
from modelfleet_local.paths import REPOSITORY
from modelfleet_local.progress import Clocked
from modelfleet_local.target import Target
from modelfleet_local.waiting import wait_until


class Kubectl(Protocol):
    """Runs kubectl as administrator; the test looks at the exit status."""

    def __call__(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]: ...


def apply_crds(cluster: Target) -> None:
    """Installs the CRDs of the checkout and waits until the API server serves them."""
    files = sorted((REPOSITORY / "crds").glob("*.yaml"))
    if not files:
        return
    args = [f"--filename={file}" for file in files]
    for command in (["apply", "--server-side"], ["wait", "--for=condition=Established", "--timeout=30s"]):
        done = cluster.kubectl(*command, *args)
        assert done.returncode == 0, f"the CRDs in crds/ cannot be installed: {done.stderr}"


@contextmanager
def own_cluster(kind: str, options: Options, *, crds: bool = True) -> Iterator[Cluster]:
    """A cluster that ends with this run, however the run ends; with our CRDs, unless a test installs them itself.

    Its nodes keep their images in memory: to remove them from a disk has taken longer than many a test.
    """
    say = Clocked()
    remove_orphans(say)
    options = replace(options, node_shape=replace(options.node_shape, in_memory=True))
    cluster = Cluster(f"{kind}-{os.getpid()}", options, say=say)
    cluster.up()
    try:
        if crds:
            apply_crds(cluster)
        yield cluster
    finally:
        cluster.down()


@contextmanager
def _namespace(cluster: Cluster) -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    api = cluster.api
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})

    def has_service_account() -> bool:  # without one every pod is refused
        accounts = api.get(f"/api/v1/namespaces/{name}/serviceaccounts")["items"]
        return any(account["metadata"]["name"] == "default" for account in accounts)

    wait_until(f"the default service account in {name}", has_service_account, timeout_s=30)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def _refuse_existing(config: pytest.Config) -> None:
    if config.getoption("--kubeconfig") is not None:
        pytest.skip(
            "refused on an existing cluster: it needs a control plane of its own (audit log, kwok nodes, restarts)"
        )


@contextmanager
def _existing(config: pytest.Config) -> Iterator[ExistingCluster]:
    """The cluster of --kubeconfig with our CRDs; what was made there is removed."""
    say = Clocked()
    options = (config.getoption(f"--{name}") for name in ("operator-image", "worker-image", "images-loaded"))
    cluster = ExistingCluster(config.getoption("--kubeconfig"), ImageSource(*options).images(say), say)
    cluster.check(SYSTEM_NAMESPACE)
    crds = not cluster.has_crds()
    try:
        if crds:
            apply_crds(cluster)
        yield cluster
    finally:
        cluster.remove(crds=crds)


@pytest.fixture(scope="session")
def api_server(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A control plane of this run's own, with two kwok nodes of 8 GPUs, an audit log and our CRDs; no real node."""
    _refuse_existing(pytestconfig)
    with own_cluster("api", Options(kwok_nodes=2, audit=True, owned=True)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def real_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster | ExistingCluster]:
    """A cluster on which pods really run, with our CRDs: this run's own with an audit log, or that of --kubeconfig."""
    if pytestconfig.getoption("--kubeconfig") is not None:
        with _existing(pytestconfig) as existing:
            yield existing
        return
    with own_cluster("real", Options(nodes=1, audit=True, owned=True)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubectl(api_server: Cluster) -> Kubectl:
    return api_server.kubectl


@pytest.fixture(scope="session")
def kubeconfig(api_server: Cluster) -> Path:
    return api_server.kubeconfig


@pytest.fixture
def namespace(api_server: Cluster) -> Iterator[str]:
    """A fresh namespace on `api_server` in which pods can be created; it and what is in it go away afterwards."""
    with _namespace(api_server) as name:
        yield name


@pytest.fixture
def real_namespace(real_cluster: Cluster, pytestconfig: pytest.Config) -> Iterator[str]:
    """A fresh namespace on `real_cluster`, as `namespace` is on `api_server`."""
    _refuse_existing(pytestconfig)
    with _namespace(real_cluster) as name:
        yield name
