"""The operator as a process, and a namespace with what a ModelDeployment needs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet import Fleet
from forked_operator import ForkedOperator
from operator_process import Operator
from rights import expanded, wait_holds

from modelfleet.api import names
from modelfleet_local import Cluster


@pytest.fixture(scope="module")
def operator(api_server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for the tests of a module, serving all namespaces."""
    running = ForkedOperator(api_server.kubeconfig, tmp_path_factory.mktemp("operator") / "log")
    running.start()
    yield running
    assert running.stop() == 0, running.log.read_text()
    bugs = [line for line in running.lines() if "traceback" in line]
    assert not bugs, bugs


@pytest.fixture
def own_operator(api_server: Cluster, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    """An operator for one test, which starts and stops it; it serves only the test's namespace."""
    own = ForkedOperator(api_server.kubeconfig, tmp_path / "log", (f"--namespaces={namespace}",))
    yield own
    if own.process is not None and own.process.poll() is None:
        own.kill()


@pytest.fixture
def fleet(api_server: Cluster, namespace: str) -> Iterator[Fleet]:
    """A namespace with a bound claim `models`; the class has a name of its own and is not created yet."""
    made = Fleet(api_server, namespace, f"gpu-{namespace}")
    made.create_claim()
    yield made
    made.kubectl("delete", names.DEPLOYMENT_PLURAL, "--all", "--wait=false")
    api_server.kubectl("delete", "accel", made.class_name, "--ignore-not-found", "--wait=false")
    api_server.kubectl("delete", "pv", f"models-{namespace}", "--wait=false")


@pytest.fixture
def account(api_server: Cluster, namespace: str, tmp_path: Path) -> Iterator[Callable[[list[dict[str, Any]]], Path]]:
    """Makes a kubeconfig for a service account with the rules of one ClusterRole; the file is named after both."""
    made: list[str] = []

    def make(rules: list[dict[str, Any]]) -> Path:
        name = f"{namespace}-{len(made)}"
        user = f"system:serviceaccount:{namespace}:{name}"
        made.append(user)
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        api_server.api.create(accounts, {"metadata": {"name": name}})
        api_server.api.grant(user, rules)
        wait_holds(api_server.api, f"{namespace}:{name}", [next(expanded(rules[0]))])
        told = api_server.api.create(f"{accounts}/{name}/token", {"spec": {}})
        config = yaml.safe_load(api_server.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": told["status"]["token"]}
        path = tmp_path / f"{name}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    yield make
    if made:
        api_server.kubectl("delete", "clusterrole,clusterrolebinding", *made, "--wait=false")
