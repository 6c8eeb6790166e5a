"""Each bad input gets a condition with a reason and a remedy, and mends by itself when the cause goes away.

The engine is the stand-in, held to the real one by tests/engine, but for the model that vLLM itself must refuse.
"""

import json
import subprocess

import pytest
import stand_in_installation

from modelfleet.api import names
from modelfleet_local import engine, fleet
from modelfleet_local.paths import cache_dir

GONE_S = 60  # well below the grace that a worker has for its drain
STREAM_TOKENS = 1000  # of half a second each until the test lets go


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder of models on the claim `shelf`: `good`, and what tests add."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "good").mkdir()
    (folder / "good" / "config.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """The stand-in engine on the claim `stand-in`."""
    folder = tmp_path_factory.mktemp("engine")
    stand_in_installation.install(folder)
    return folder


@pytest.fixture(scope="module")
def shelf(site, models, installation):
    """The site with both claims."""
    for folder in (models, installation):
        for parent in (folder, *folder.parents[:2]):
            parent.chmod(parent.stat().st_mode | 0o555)
    fleet.apply(site.cluster, fleet.claimed_folder(site.namespace, "shelf", models))
    fleet.apply(site.cluster, fleet.claimed_folder(site.namespace, "stand-in", installation))
    return site


@pytest.fixture
def deployment(shelf, installation, request):
    """Makes the manifest of a deployment with the test's own name on the stand-in; it is deleted afterwards.

    Its pod may end while the next test runs: the node has a slot for both.
    """
    stand_in_installation.turn(installation)
    name = request.node.name.removeprefix("test_").replace("_", "-")[:40].rstrip("-")

    def made(**spec):
        stand_in = {"engine": {"installationClaimName": "stand-in"}, "model": {"source": "pvc://shelf/good"}}
        return shelf.deployment(name, **{**stand_in, **spec})

    yield made
    shelf.kubectl("delete", "mdep", name, "--ignore-not-found")


def name_of(manifest):
    return manifest["metadata"]["name"]


@pytest.fixture(scope="module")
def unread(shelf, models):
    """A deployment whose planner has said that it cannot find the model, which has come since. The Job that looks is
    tried again a minute later, so the module's other tests run in between."""
    source = {"engine": {"installationClaimName": "stand-in"}, "model": {"source": "pvc://shelf/unread"}}
    manifest = shelf.deployment("unread", accelerators={"classes": [shelf.known_class()]}, **source)
    shelf.apply(manifest)
    said = shelf.wait_for("unread", "Planned", "False", "ModelNotFound")
    pods = shelf.pods("unread")
    (models / "unread").mkdir()
    (models / "unread" / "config.json").write_text("{}")
    yield said, pods
    shelf.kubectl("delete", "mdep", "unread")


def test_a_model_that_the_planner_cannot_find_is_said_before_an_engine_starts(unread):
    message, pods = unread
    assert "/models/shelf/unread" in message
    assert [pod for pod in pods if names.REPLICA_LABEL in pod["metadata"]["labels"]] == []


def test_a_model_path_that_does_not_exist(shelf, deployment, models):
    manifest = deployment(model={"source": "pvc://shelf/late"})
    shelf.apply(manifest)
    message = shelf.wait_for(name_of(manifest), "Ready", "False", "ModelNotFound")
    assert "/models/shelf/late" in message
    assert "spec.model.source" in message
    (models / "late").mkdir()
    (models / "late" / "config.json").write_text("{}")
    shelf.wait_for(name_of(manifest), "Ready", "True")


def test_a_claim_that_does_not_exist(shelf, deployment, models):
    manifest = deployment(model={"source": "pvc://nothing/good"})
    shelf.apply(manifest)
    message = shelf.wait_for(name_of(manifest), "Ready", "False", "Unschedulable")
    assert 'persistentvolumeclaim "nothing" not found' in message
    fleet.apply(shelf.cluster, fleet.claimed_folder(shelf.namespace, "nothing", models))
    shelf.wait_for(name_of(manifest), "Ready", "True")
    shelf.cluster.kubectl("delete", "pv", f"{shelf.namespace}-nothing", "--wait=false")


def test_more_replicas_than_the_node_has_room_for(shelf, deployment):
    manifest = deployment(scaling={"minReplicas": 1, "maxReplicas": 4, "mode": "Manual", "replicas": 4})
    shelf.apply(manifest)
    message = shelf.wait_for(name_of(manifest), "Placed", "False", "NoRoom")
    assert "needs 1 node × 1 free cpu" in message
    shelf.wait_for(name_of(manifest), "Ready", "True")
    shelf.kubectl("scale", "mdep", name_of(manifest), "--replicas=2")
    shelf.wait_for(name_of(manifest), "Placed", "True")
    shelf.wait("two pods", lambda: len(shelf.pods(name_of(manifest))) == 2)


def test_an_image_that_nobody_has(shelf, deployment):
    manifest = deployment(engine={"installationClaimName": "stand-in", "image": "localhost/modelfleet/nobody:1"})
    shelf.apply(manifest)
    message = shelf.wait_for(name_of(manifest), "Ready", "False", "ImageNotPullable")
    assert "localhost/modelfleet/nobody:1" in message
    shelf.apply(deployment())
    shelf.wait_for(name_of(manifest), "Ready", "True")


def test_an_engine_that_ends_at_its_start(shelf, deployment, installation):
    stand_in_installation.turn(
        installation, STAND_IN_EXIT="1", STAND_IN_SAYS="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"
    )
    manifest = deployment()
    shelf.apply(manifest)
    shelf.wait_for(name_of(manifest), "Ready", "False", "EngineOutOfMemory")
    stand_in_installation.turn(installation)
    shelf.wait_for(name_of(manifest), "Ready", "True")


def test_a_namespace_whose_policy_is_privileged_s_opposite_admits_our_pods(shelf, deployment):
    manifest = deployment()
    shelf.apply(manifest)
    shelf.wait_for(name_of(manifest), "Ready", "True")
    labels = shelf.read("namespace", shelf.namespace)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_pod_that_is_deleted_before_its_program_hears_signals_is_gone_at_once(shelf, deployment):
    manifest = deployment()
    shelf.apply(manifest)
    shelf.wait_for(name_of(manifest), "Ready", "True")
    spec = shelf.pods(name_of(manifest))[0]["spec"]
    (worker,) = spec["containers"]
    deaf = {
        key: value
        for key, value in worker.items()
        if key not in ("resources", "ports", "startupProbe", "livenessProbe", "readinessProbe")
    }
    deaf["command"] = ["/usr/bin/python3", "-c", "import time; time.sleep(3600)"]  # as at the start of any program
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "deaf"},
        "spec": {**spec, "containers": [deaf], "schedulingGates": []},
    }
    assert spec["terminationGracePeriodSeconds"] > 2 * GONE_S
    shelf.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    shelf.wait("a pod that runs", lambda: shelf.read("pod", "deaf")["status"]["phase"] == "Running")
    shelf.kubectl("delete", "pod", "deaf", f"--timeout={GONE_S}s")


def test_a_rollout_under_load_loses_no_request(shelf, deployment, installation):
    manifest = deployment()
    shelf.apply(manifest)
    name = name_of(manifest)
    shelf.wait_for(name, "Ready", "True")
    before = shelf.read("mdep", name)["status"]["plan"]["revision"]
    stand_in_installation.turn(installation, STAND_IN_TOKEN_S="0.02")
    load = subprocess.Popen(
        shelf.load_argv(name, seconds=600), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    shelf.apply(deployment(model={"source": "pvc://shelf/good", "maxContextTokens": 2048}))

    def rolled_out():
        status = shelf.read("mdep", name)["status"]
        said = {each["type"]: each["reason"] for each in status["conditions"]}
        return status["plan"]["revision"] != before and said["Progressing"] == "Settled"

    shelf.wait("the new revision alone", rolled_out)
    counts = json.loads(load.communicate("stop")[0])
    assert counts["failed"] == [], counts
    assert counts["answered"] > 20


def test_deletion_while_a_stream_runs_and_no_operator_does_finishes_the_stream_and_leaves_nothing(
    shelf, deployment, installation
):
    slow = installation / "slow"
    slow.touch()
    stand_in_installation.turn(installation, STAND_IN_SLOW_WHILE="/opt/engine/slow")
    manifest = deployment()
    name = name_of(manifest)
    scale = ("scale", "deployment", fleet.RELEASE, "-n", fleet.SYSTEM_NAMESPACE)
    shelf.apply(manifest)
    shelf.wait_for(name, "Ready", "True")
    assert shelf.cluster.kubectl(*scale, "--replicas=0").returncode == 0
    try:
        shelf.wait("no operator", lambda: not operator_pods(shelf), timeout_s=60)
        stream = shelf.stream(name, tokens=STREAM_TOKENS)
        shelf.kubectl("delete", "mdep", name, "--wait=false")
        shelf.wait("a pod that ends", lambda: "deletionTimestamp" in shelf.pods(name)[0]["metadata"])
        assert stream.poll() is None, "the stream ended before the pod was asked to"
        slow.unlink()
        text, error = stream.communicate(timeout=240)
        assert (stream.returncode, error) == (0, "")
        assert len(text) > STREAM_TOKENS
        shelf.wait("nothing left", lambda: children(shelf, name) == [], timeout_s=120)
    finally:
        slow.unlink(missing_ok=True)
        shelf.cluster.kubectl(*scale, "--replicas=2")
        shelf.wait("both operators", lambda: len(operator_pods(shelf)) == 2, timeout_s=60)


def operator_pods(site):
    done = site.cluster.kubectl("get", "pods", "-n", fleet.SYSTEM_NAMESPACE, "-o", "json")
    return json.loads(done.stdout)["items"]


def children(site, name):
    kinds = "mdep,pods,services,configmaps,controllerrevisions,jobs,poddisruptionbudgets,networkpolicies"
    return site.read(kinds, "-l", f"{names.DEPLOYMENT_LABEL}={name}")["items"]


@pytest.mark.engine
def test_a_model_that_vllm_refuses(shelf, deployment, models):
    refused = models / "refused"
    refused.mkdir()
    for file in engine.require_model(cache_dir()).iterdir():
        (refused / file.name).write_bytes(file.read_bytes())
    config = json.loads((refused / "config.json").read_text())
    (refused / "config.json").write_text(json.dumps({**config, "architectures": ["NobodyForCausalLM"]}))
    real = {"installationClaimName": fleet.ENGINE_CLAIM, "args": {"enforce-eager": "true"}}
    manifest = deployment(model={"source": "pvc://shelf/refused"}, engine=real)
    shelf.apply(manifest)
    message = shelf.wait_for(name_of(manifest), "Ready", "False", "ModelRefused")
    assert "NobodyForCausalLM" in message


def test_a_model_that_came_after_the_planner_looked_is_read_when_it_looks_again(shelf, unread):
    message = shelf.wait_for("unread", "Planned", "False", "UnknownArchitecture")
    assert "model_type" in message
