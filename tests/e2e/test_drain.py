"""A drain on a real kubelet as clients see it, over the stand-in engine; `make e2e-drain`."""

import json
import subprocess
from pathlib import Path

import pytest
import stand_in_installation

from modelfleet_local import fleet

pytestmark = pytest.mark.thorough
TOKENS = 1000  # 20 s at the stand-in's pace: longer than the steps of a drain on a busy machine


@pytest.fixture(scope="module")
def shelf(site, tmp_path_factory):
    """The site with a model and the stand-in on claims."""
    models, installation = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("engine")
    (models / "good").mkdir()
    (models / "good" / "config.json").write_text("{}")
    stand_in_installation.install(installation)
    stand_in_installation.turn(installation, STAND_IN_TOKEN_S="0.02")
    for name, folder in (("shelf", models), ("stand-in", installation)):
        for parent in (folder, *folder.parents[:2]):
            parent.chmod(parent.stat().st_mode | 0o555)
        fleet.apply(site.cluster, fleet.claimed_folder(site.namespace, name, folder))
    return site


@pytest.fixture
def drained(shelf):
    """A Ready deployment of two replicas, its name."""
    shelf.apply(
        shelf.deployment(
            "drained",
            model={"source": "pvc://shelf/good"},
            engine={"installationClaimName": "stand-in"},
            scaling={"minReplicas": 2, "maxReplicas": 2},
        )
    )
    shelf.wait_for("drained", "Ready", "True")
    shelf.wait_for("drained", "Progressing", "False", "Settled")
    yield "drained"
    shelf.kubectl("delete", "mdep", "drained", "--ignore-not-found")
    shelf.wait("no pods", lambda: not shelf.pods("drained"), timeout_s=120)


def test_a_deleted_pod_serves_closes_refuses_and_finishes_while_its_service_loses_nothing(shelf, drained):
    victim = shelf.pods(drained)[0]
    url = f"http://{victim['status']['podIP']}:8000"
    load = _started(shelf.load_argv(drained, seconds=600))
    script = Path(__file__).with_name("drain_client.py")
    client = _started(shelf.cluster.client_argv(script, url, drained, str(TOKENS)))
    assert client.stdout.readline().strip() == "streaming"
    shelf.kubectl("delete", "pod", victim["metadata"]["name"], "--wait=false")
    seen = json.loads(client.communicate()[0])
    through_service = json.loads(load.communicate("stop")[0])
    print(f"to the pod: {seen}\nthrough the Service: {through_service}")
    assert (seen["tokens"], seen["last"]) == (TOKENS, "data: [DONE]"), "the stream came whole"
    answers = [answer for answer, _ in seen["others"]]
    assert answers == ["200 kept", "200 close", "503 retry after 1"]
    assert through_service["failed"] == []
    assert through_service["answered"] > 20


def _started(argv: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
