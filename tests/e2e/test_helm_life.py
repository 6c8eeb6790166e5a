"""The life of a release on a cluster whose pods really run: installed, upgraded, rolled back, removed, put back.

The tests are one story and run in this order; through all of it two ModelDeployments serve and no pod of theirs ends.
The engine is the stand-in, held to the real one by tests/engine.
"""

import json
import subprocess
from contextlib import contextmanager

import pytest
import stand_in_installation
from release import READY_S, Release, Version, previous_version
from site_under_test import Site

from cluster_fixtures import own_cluster
from modelfleet.api import names
from modelfleet_local import Options, fleet
from modelfleet_local.node import NodeShape
from modelfleet_local.waiting import wait_until

MODELS = ("chat", "search")

pytestmark = pytest.mark.own_cluster("installs and removes the CRDs and the version before this one")


@pytest.fixture(scope="module")
def cluster():
    """A cluster on which nothing of modelfleet is installed, not even its CRDs."""
    shape = NodeShape(extended_resources={"modelfleet.dev/cpu-slot": 4})
    with own_cluster("helm", Options(nodes=1, node_shape=shape, owned=True), crds=False) as made:
        yield made


@pytest.fixture(scope="module")
def current(cluster):
    return Version(fleet.CHART, fleet.load_images(cluster))


@pytest.fixture(scope="module")
def previous(cluster, tmp_path_factory):
    version = previous_version(tmp_path_factory.mktemp("previous"))
    for image in version.images.values():
        cluster.import_image(image.archive)
    return version


@pytest.fixture(scope="module")
def release(cluster, previous):
    """modelfleet, installed as the version before this one."""
    made = Release(cluster, "modelfleet", "modelfleet-system")
    made.install(previous)
    return made


@pytest.fixture(scope="module")
def site(release, tmp_path_factory):
    """A namespace with the stand-in engine and a model on claims, and two ModelDeployments that serve."""
    made = Site(release.cluster, "models")
    fleet.apply(made.cluster, fleet.model_namespace(made.namespace))
    for claim in ("shelf", "stand-in"):
        folder = tmp_path_factory.mktemp(claim)
        if claim == "shelf":
            (folder / "good").mkdir()
            (folder / "good" / "config.json").write_text("{}")
        else:
            stand_in_installation.install(folder)
        for parent in (folder, *folder.parents[:2]):
            parent.chmod(parent.stat().st_mode | 0o555)
        fleet.apply(made.cluster, fleet.claimed_folder(made.namespace, claim, folder))
    for name in MODELS:
        made.apply(manifest(made, name))
    for name in MODELS:
        made.wait_for(name, "Progressing", "False", "Settled")
    return made


def manifest(site, name, replicas=1):
    spec = {"engine": {"installationClaimName": "stand-in"}, "model": {"source": "pvc://shelf/good"}}
    scaling = {"mode": "Manual", "minReplicas": 1, "maxReplicas": 2, "replicas": replicas}
    return site.deployment(name, **spec, scaling=scaling)


def lives(site):
    """Each worker pod with what changes when it is restarted, and each owner and revision."""
    found = {}
    for name in MODELS:
        (deployment,) = [site.read("mdep", name)]
        for pod in site.pods(name):
            restarts = [status["restartCount"] for status in pod["status"]["containerStatuses"]]
            found[pod["metadata"]["name"]] = (pod["metadata"]["uid"], restarts)
        found[name] = (deployment["metadata"]["uid"], deployment["status"]["plan"]["revision"])
    return found


@contextmanager
def serving(site):
    """Requests all the while; none may fail, and no worker pod may end or be restarted."""
    before = lives(site)
    load = subprocess.Popen(
        site.load_argv(MODELS[0], seconds=900), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield
    finally:
        counts = json.loads(load.communicate("stop")[0])
    assert counts["failed"] == []
    assert counts["answered"] > 20
    assert lives(site) == before


def settled(site):
    for name in MODELS:
        site.wait_for(name, "Ready", "True")
        site.wait_for(name, "Progressing", "False", "Settled")


def follows_scaling(site):
    """The operator that leads now works: a replica more and one less, beside the ones that serve."""
    name = MODELS[1]
    for replicas in (2, 1):
        site.kubectl("scale", "mdep", name, f"--replicas={replicas}")
        site.wait(f"{replicas} replicas", lambda count=replicas: site.read("mdep", name)["status"]["replicas"] == count)
        site.wait_for(name, "Progressing", "False", "Settled")
        site.wait("the pods", lambda count=replicas: len(site.pods(name)) == count)


def test_an_upgrade_from_the_version_before_restarts_no_pod(site, release, current, previous):
    assert release.image_of_leader() == previous.images["operator"].reference
    with serving(site):
        release.upgrade(current)
        release.wait_leads(current)
        settled(site)
    follows_scaling(site)


def test_the_upgrade_brought_the_crds_to_this_version(site):
    done = site.cluster.kubectl("diff", "-f", str(fleet.CHART / "crds"))
    assert (done.returncode, done.stdout) == (0, "")


def test_the_upgrade_leaves_nothing_of_its_hook_behind(release):
    kinds = "job,serviceaccount,clusterrole,clusterrolebinding"
    done = release.kubectl("get", kinds, "-o", "name")
    assert done.returncode == 0
    assert "crd-upgrade" not in done.stdout


def test_a_rollback_restarts_no_pod_and_the_version_before_goes_on(site, release, previous):
    with serving(site):
        release.helm("rollback", release.name, "1", "--wait", "--timeout=180s")
        release.wait_leads(previous)
        settled(site)
    follows_scaling(site)


@pytest.mark.thorough
def test_after_a_rollback_the_upgrade_works_again(site, release, current):
    with serving(site):
        release.upgrade(current)
        release.wait_leads(current)
        settled(site)


def test_the_notes_say_what_an_uninstall_leaves(release):
    notes = " ".join(release.helm("get", "notes", release.name).split())
    assert "The CRDs, your ModelDeployments and their pods stay, and go on serving." in notes


def test_an_uninstall_leaves_the_crds_the_models_and_their_pods_which_go_on_serving(site, release):
    with serving(site):
        assert "uninstalled" in release.helm("uninstall", release.name, "--wait")
        wait_until("no operator", lambda: not release.pods(), timeout_s=READY_S)
        kinds = "clusterrole,clusterrolebinding,accel,role,rolebinding,serviceaccount,pdb,deployment"
        ours = f"-l=app.kubernetes.io/instance={release.name}"
        assert release.cluster.kubectl("get", kinds, "--all-namespaces", ours, "-o", "name").stdout == ""
        crds = release.cluster.kubectl("get", "crd", "-o", "name").stdout
        for plural in (names.DEPLOYMENT_PLURAL, names.CLASS_PLURAL):
            assert f"{plural}.{names.GROUP}" in crds


@pytest.mark.thorough
def test_installed_again_it_takes_over_what_runs(site, release, current):
    with serving(site):
        notes = release.install(current)
        assert "The CRDs, your ModelDeployments and their pods" in notes
        release.wait_leads(current)
        settled(site)
    follows_scaling(site)
