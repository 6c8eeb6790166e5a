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
    """Makes the manifest of a deployment with the test's own name on the stand-in; it is deleted afterwards."""
    stand_in_installation.turn(installation)
    name = request.node.name.removeprefix("test_").replace("_", "-")[:40].rstrip("-")

    def made(**spec):
        stand_in = {"engine": {"installationClaimName": "stand-in"}, "model": {"source": "pvc://shelf/good"}}
        return shelf.deployment(name, **{**stand_in, **spec})

    yield made
    shelf.kubectl("delete", "mdep", name, "--ignore-not-found")
    shelf.wait("no pods", lambda: not shelf.pods(name), timeout_s=120)


def name_of(manifest):
    return manifest["metadata"]["name"]


def test_a_model_path_that_does_not_exist(shelf, deployment, models):
    manifest = deployment(model={"source": "pvc://shelf/late"})
    shelf.apply(manifest)
    message = shelf.wait_for(name_of(manifest), "Ready", "False", "ModelNotFound")
    assert "/models/shelf/late" in message
    assert "spec.model.source" in message
    (models / "late").mkdir()
    (models / "late" / "config.json").write_text("{}")
    shelf.wait_for(name_of(manifest), "Ready", "True")


def test_a_model_that_the_planner_cannot_find_is_said_before_an_engine_starts(shelf, deployment, models):
    manifest = deployment(accelerators={"classes": [shelf.known_class()]}, model={"source": "pvc://shelf/unread"})
    shelf.apply(manifest)
    message = shelf.wait_for(name_of(manifest), "Planned", "False", "ModelNotFound")
    assert "/models/shelf/unread" in message
    assert [pod for pod in shelf.pods(name_of(manifest)) if names.REPLICA_LABEL in pod["metadata"]["labels"]] == []
    (models / "unread").mkdir()
    (models / "unread" / "config.json").write_text("{}")
    message = shelf.wait_for(name_of(manifest), "Planned", "False", "UnknownArchitecture")
    assert "model_type" in message


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


def test_a_rollout_under_load_loses_no_request(shelf, deployment, installation):
    manifest = deployment()
    shelf.apply(manifest)
    name = name_of(manifest)
    shelf.wait_for(name, "Ready", "True")
    stand_in_installation.turn(installation, STAND_IN_TOKEN_S="0.02")
    load = subprocess.Popen(
        shelf.load_argv(name, seconds=600), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    shelf.apply(deployment(model={"source": "pvc://shelf/good", "maxContextTokens": 2048}))
    shelf.wait_for(name, "Progressing", "True", "RollingOut", timeout_s=30)
    shelf.wait_for(name, "Progressing", "False", "Settled")
    counts = json.loads(load.communicate("stop")[0])
    assert counts["failed"] == [], counts
    assert counts["answered"] > 20


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
