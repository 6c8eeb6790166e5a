"""The chart's roles are exactly what the operator and the upgrade's hook use, proven from the audit log."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from fleet import Fleet
from forked_operator import ForkedOperator
from rights import granted, used, wait_holds
from role_scenarios import Story, play

from cluster_fixtures import own_cluster
from modelfleet.api import crd
from modelfleet_local import Options, fleet

RELEASE = "modelfleet"
HOOK = f"{RELEASE}-crd-upgrade"
SYSTEM, MODELS = "modelfleet-system", "models"
TEMPLATE = "charts/modelfleet/templates"
KINDS = {"ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}


@dataclass(frozen=True)
class Installation:
    """The chart's roles on a cluster of their own."""

    cluster: object
    manifests: tuple
    folder: object

    def account(self, name):
        """The kubeconfig of a service account of the chart."""
        done = self.cluster.kubectl("create", "token", name, f"--namespace={SYSTEM}", "--duration=2h")
        assert done.returncode == 0, done.stderr
        config = yaml.safe_load(self.cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": done.stdout.strip()}
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def granted(self, account):
        return granted(self.manifests, account)

    def used(self, account):
        return used(self.cluster.audit_log, f"system:serviceaccount:{SYSTEM}:{account}")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((), id="all namespaces are served"),
        pytest.param((MODELS,), id="one namespace is served", marks=pytest.mark.thorough),
    ],
)
def served(request):
    return request.param


@pytest.fixture(scope="module")
def installation(served, tmp_path_factory):
    """A cluster without our CRDs, with the accounts and roles of the chart as Helm renders it."""
    with own_cluster("roles", Options(kwok_nodes=2, audit=True, owned=True), crds=False) as cluster:
        fleet.apply(cluster, *(fleet.plain_namespace(name) for name in (SYSTEM, MODELS)))
        images = [f"--set={part}.image=registry.example/{part}:1" for part in ("operator", "worker")]
        named = [f"--set-json=operator.namespaces={json.dumps(served)}"]
        settings = [*images, *named, "--kube-version=1.34.0"]
        rendered = fleet.helm(cluster, "template", RELEASE, str(fleet.CHART), f"--namespace={SYSTEM}", *settings)
        manifests = tuple(item for item in yaml.safe_load_all(rendered) if item and item["kind"] in KINDS)
        fleet.apply(cluster, *manifests)
        for account in (RELEASE, HOOK):
            wait_holds(cluster.api, f"{SYSTEM}:{account}", granted(manifests, account))
        yield Installation(cluster, manifests, tmp_path_factory.mktemp("accounts"))


@pytest.fixture(scope="module")
def hook_ran(installation):
    """The hook's command under its account: on a cluster without our CRDs, and on one that has them."""
    for _ in range(2):
        argv = [Path(sys.executable).with_name("modelfleet"), "crds", "apply"]
        done = subprocess.run(
            [*argv, f"--kubeconfig={installation.account(HOOK)}"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("is served in this version") == len(crd.KINDS)
    return installation


@pytest.fixture(scope="module")
def operator_ran(hook_ran, served, tmp_path_factory):
    """The operator under its account, through all scenarios."""
    own = Fleet(hook_ran.cluster, MODELS, "gpu")
    own.create_claim()
    own.create_class()
    arguments = ("--leader-elect=true", f"--lease-namespace={SYSTEM}", f"--lease-name={RELEASE}")
    operator = ForkedOperator(
        hook_ran.account(RELEASE),
        tmp_path_factory.mktemp("operator") / "log",
        (
            *arguments,
            f"--namespaces={','.join(served)}",
            "--resync-seconds=5",
            "--profiles-seconds=1",
            "--samples-interval-seconds=1",
        ),
    )
    operator.start()
    try:
        play(Story(own, operator))
    finally:
        operator.stop()
    return hook_ran


def test_the_hook_may_do_all_that_it_does(hook_ran):
    uses = hook_ran.used(HOOK)
    assert (uses.denied, uses.undiscovered) == (frozenset(), frozenset())


def test_the_hook_does_all_that_it_may_do(hook_ran):
    assert unused(hook_ran, HOOK) == [], f"no run used these; take them out of {TEMPLATE}/crd-upgrade.yaml"


def test_the_operator_may_do_all_that_it_does(operator_ran):
    uses = operator_ran.used(RELEASE)
    assert [str(right) for right in sorted(uses.denied)] == [], (
        f"the API server said 403; see {TEMPLATE}/operator-role.yaml"
    )
    assert uses.undiscovered == frozenset()


def test_the_operator_does_all_that_it_may_do(operator_ran):
    assert unused(operator_ran, RELEASE) == [], (
        f"no scenario used these: take them out of {TEMPLATE}/operator-role.yaml, or, if the operator needs them, add"
        " to SCENARIOS in tests/apiserver/role_scenarios.py what makes it use them"
    )


def test_what_was_used_is_granted_by_these_roles_and_by_nothing_else(operator_ran):
    for account in (RELEASE, HOOK):
        grants = operator_ran.granted(account)
        strange = [str(use) for use in operator_ran.used(account).rights if not any(g.covers(use) for g in grants)]
        assert strange == []


def unused(installation, account):
    """The grants that no request needed, as sentences."""
    uses = installation.used(account).rights
    grants = installation.granted(account)
    assert grants, f"the chart gives {account} nothing at all"
    return [str(grant) for grant in sorted(grants) if not any(grant.covers(use) for use in uses)]
