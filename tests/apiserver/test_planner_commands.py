"""The planner's commands beside a real API server: what kubectl gives them, and what they give kubectl."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli_tables import Captured
from cluster_fixtures import Kubectl
from modelfleet.cli.main import main
from modelfleet_local import Cluster

STATUS = {
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Planned",
            "status": "True",
            "reason": "PlanPinned",
            "message": "tp2 on h100-sxm",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
    ],
    "plan": {
        "revision": "1a2b3c4d",
        "pools": [
            {"role": "Serve", "class": "h100-sxm", "layout": "tp2", "acceleratorsPerReplica": 2, "replicas": 3},
        ],
        "reasons": [{"check": "Sharding", "sentence": "the weights do not fit one accelerator"}],
    },
}


def deployment(namespace: str) -> dict[str, Any]:
    lengths = {"inputTokens": {"p50": 900, "p95": 4000}, "outputTokens": {"p50": 250, "p95": 800}}
    objective = {"name": "chat", "ttft": "4s", "tpot": "300ms", "load": {"requestsPerSecond": 2}, "lengths": lengths}
    return {
        "apiVersion": "modelfleet.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {
            "model": {"source": "pvc://weights/Llama-3.1-8B-Instruct"},
            "objectives": [objective],
            "accelerators": {"classes": ["h100-sxm"]},
            "scaling": {"minReplicas": 1, "maxReplicas": 9},
        },
    }


@pytest.fixture
def shell(api_server: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl and its configuration, as a user's shell has them."""
    monkeypatch.setenv("PATH", str(Path(api_server.binary("kubectl")).parent))
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))


@pytest.mark.usefixtures("shell")
def test_a_live_object_is_explained(namespace: str, kubectl: Kubectl, capsys: Captured):
    made = kubectl("create", "--filename=-", stdin=json.dumps(deployment(namespace)))
    assert made.returncode == 0, made.stderr
    patch = json.dumps({"status": STATUS})
    patched = kubectl("patch", "mdep", "chat", f"-n={namespace}", "--subresource=status", "--type=merge", f"-p={patch}")
    assert patched.returncode == 0, patched.stderr

    assert main(["explain", "chat", "-n", namespace]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"chat in {namespace}\n")
    assert "Serve: 3 × tp2 on h100-sxm, 2 accelerators a replica" in out
    assert "- Sharding: the weights do not fit one accelerator" in out


@pytest.mark.usefixtures("shell")
def test_an_object_that_is_not_there_gets_kubectls_own_words(namespace: str, capsys: Captured):
    assert main(["explain", "gone", "-n", namespace]) == 2
    assert "kubectl refused: Error from server (NotFound): modeldeployments" in capsys.readouterr().err


def test_the_catalogue_is_accepted_field_by_field(kubectl: Kubectl, capsys: Captured):
    assert main(["catalog", "-o", "yaml"]) == 0
    manifests = capsys.readouterr().out
    done = kubectl("create", "--dry-run=server", "--validate=strict", "--filename=-", stdin=manifests)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(list(yaml.safe_load_all(manifests)))


def test_nodes_as_kubectl_prints_them_bound_a_plan(namespace: str, kubectl: Kubectl, tmp_path: Path, capsys: Captured):
    nodes = kubectl("get", "nodes", "--output=json")
    (tmp_path / "nodes.json").write_text(nodes.stdout)
    (tmp_path / "chat.yaml").write_text(yaml.safe_dump(deployment(namespace)))
    name = json.loads(nodes.stdout)["items"][0]["metadata"]["labels"]["kubernetes.io/hostname"]
    own = yaml.safe_load(_class(capsys))
    shortfalls = {}
    for host in (name, "nowhere"):
        own["spec"]["nodeSelector"] = {"kubernetes.io/hostname": host}
        (tmp_path / "class.yaml").write_text(yaml.safe_dump(own))
        files = ["-f", str(tmp_path / "chat.yaml"), "-f", str(tmp_path / "class.yaml")]
        main(["plan", *files, "--nodes", str(tmp_path / "nodes.json"), "-o", "json"])
        (plan,) = json.loads(capsys.readouterr().out)["answer"]["plans"]
        shortfalls[host] = plan["shortfall"]
    assert shortfalls[name] == 0 < shortfalls["nowhere"]


def _class(capsys: Captured) -> str:
    assert main(["catalog", "h100-sxm", "-o", "yaml"]) == 0
    return capsys.readouterr().out
