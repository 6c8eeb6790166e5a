"""A second installation: refused with the reason where it shares a namespace with the first, else both work.

The tests are one story and run in this order, on a cluster whose pods really run.
"""

import json
import subprocess

import pytest
from release import Release, Version
from site_under_test import Site

from cluster_fixtures import own_cluster
from modelfleet.api import names
from modelfleet_local import Options, fleet
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.waiting import wait_until

ONE_POD = "--set=operator.replicas=1"
NO_CATALOGUE = "--set=catalogue.enabled=false,acceleratorClasses=null"
REFUSED = "another installation of modelfleet already serves these namespaces"

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.own_cluster("installs and removes the CRDs, and reads the audit log"),
]


@pytest.fixture(scope="module")
def cluster():
    """A cluster with the namespaces `chat` and `search`, and nothing of modelfleet."""
    with own_cluster("second", Options(nodes=1, audit=True, owned=True), crds=False) as made:
        fleet.apply(made, fleet.model_namespace("chat"), fleet.model_namespace("search"))
        yield made


@pytest.fixture(scope="module")
def current(cluster):
    return Version(fleet.CHART, fleet.load_images(cluster))


@pytest.fixture(scope="module")
def first(cluster, current):
    """The first installation, which serves all namespaces."""
    made = Release(cluster, "modelfleet", "modelfleet-system")
    made.install(current, ONE_POD)
    made.wait_leads(current)
    return made


@pytest.fixture
def second(cluster):
    return Release(cluster, "search-modelfleet", "search-system")


def requests_of(release):
    """What a release's operators asked of the API server, by its audit log."""
    account = f"system:serviceaccount:{release.namespace}:{release.name}"
    lines = release.cluster.audit_log.read_bytes().splitlines(keepends=True)
    events = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [event for event in events if event["user"].get("username", "") == account]


@pytest.mark.parametrize(
    "settings, namespaces",
    [
        pytest.param((), "all", id="all namespaces twice"),
        pytest.param(("--set=operator.namespaces={search}",), "search", id="one of all namespaces"),
    ],
)
def test_helm_refuses_one_that_shares_a_namespace_and_names_the_other(first, second, current, settings, namespaces):
    with pytest.raises(LocalClusterError) as caught:
        second.install(current, ONE_POD, NO_CATALOGUE, *settings)
    assert f"{REFUSED}: {namespaces}. Its operator {first.leader()}_" in str(caught.value)
    assert "holds the Lease modelfleet-system/modelfleet. Upgrade that release, uninstall it, or give each" in str(
        caught.value
    )
    assert second.helm("list", "--all", "--short") == ""


def test_helm_refuses_the_same_release_name_in_another_namespace_with_the_same_reason(first, cluster, current):
    with pytest.raises(LocalClusterError, match=REFUSED):
        Release(cluster, first.name, "other-system").install(current, ONE_POD)


def test_one_that_came_without_helm_s_check_does_not_lead_is_not_ready_and_says_why(first, second, current):
    chart = ("template", second.name, str(current.chart), "--kube-version=1.34.0")
    rendered = second.helm(*chart, *current.settings, ONE_POD, NO_CATALOGUE)
    second.cluster.kubectl("create", "namespace", second.namespace)
    done = second.cluster.kubectl("apply", f"--namespace={second.namespace}", "-f", "-", stdin=rendered)
    assert done.returncode == 0, done.stderr
    try:
        wait_until("its reason", lambda: any("not leading" in line for line in second.logs()), timeout_s=120)
        (warning,) = [json.loads(line) for line in second.logs() if "not leading" in line]
        assert warning["level"] == "warning"
        assert "all namespaces are served by another installation of modelfleet: modelfleet-" in warning["message"]
        (pod,) = second.pods()
        assert [status["ready"] for status in pod["status"]["containerStatuses"]] == [False]
        assert {event["verb"] for event in requests_of(second)} == {"get", "list"}
        assert first.leader()
    finally:
        second.cluster.kubectl("delete", f"--namespace={second.namespace}", "-f", "-", stdin=rendered)
        wait_until("no pods of it", lambda: not second.pods(), timeout_s=120)


def test_two_with_namespaces_of_their_own_both_lead_and_each_serves_its_own(first, second, current, cluster):
    first.upgrade(current, ONE_POD, "--set=operator.namespaces={chat}")
    wait_until("the new leader", lambda: serves(first) == "chat", timeout_s=120)
    second.install(current, ONE_POD, NO_CATALOGUE, "--set=operator.namespaces={search}")
    second.wait_leads(current)
    for release, namespace in ((first, "chat"), (second, "search")):
        site = Site(cluster, namespace)
        site.apply(site.deployment("model"))
        site.wait_for("model", "Planned", "True", timeout_s=60)
        site.wait("its pod", lambda site=site: len(site.pods("model")) == 1, timeout_s=60)
        wrote_to = {
            event["objectRef"]["namespace"]
            for event in requests_of(release)
            if event["verb"] == "create" and event["objectRef"]["resource"] == "pods"
        }
        assert wrote_to == {namespace}
    assert first.leader()
    assert second.leader()


def serves(release):
    key = names.SERVES_ANNOTATION.replace(".", r"\.")
    done = release.kubectl("get", "lease", release.name, "-o", f"jsonpath={{.metadata.annotations.{key}}}")
    return done.stdout


def test_each_is_upgraded_without_minding_the_other(first, second, current):
    before = first.leader(), second.leader()
    first.upgrade(current, ONE_POD, "--set=operator.namespaces={chat}", "--set=operator.logLevel=debug")
    second.upgrade(
        current, ONE_POD, NO_CATALOGUE, "--set=operator.namespaces={search}", "--set=operator.logLevel=debug"
    )
    for release, old in zip((first, second), before, strict=True):
        wait_until("a new leader", lambda release=release, old=old: release.leader() not in ("", old), timeout_s=120)


def test_uninstalling_the_second_leaves_the_first_alone(first, second, cluster):
    leader = first.leader()
    assert "uninstalled" in second.helm("uninstall", second.name, "--wait")
    assert first.leader() == leader
    site = Site(cluster, "chat")
    site.kubectl("delete", "mdep", "model", "--timeout=60s")
    done: subprocess.CompletedProcess[str] = cluster.kubectl("get", "accel", "-o", "name")
    assert "acceleratorclass.modelfleet.dev/h100-sxm" in done.stdout
