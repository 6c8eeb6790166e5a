"""`kubectl modelfleet`, with the real kubectl."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from api_objects import DEPLOYMENT, changed
from modelfleet.api import crd
from modelfleet_local import Cluster

BIN = Path(sys.executable).parent


@pytest.fixture
def run(api_server: Cluster):
    """Runs kubectl with our programs on its PATH and no kubeconfig of its own."""

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": "/nonexistent"}
        return subprocess.run(
            [str(api_server.binary("kubectl")), *args], env=environment, capture_output=True, text=True
        )

    return run


def test_kubectl_finds_the_plugin(run):
    assert f"{BIN}/kubectl-modelfleet" in run("plugin", "list").stdout


def test_kubectl_runs_it_with_its_exit_status(run, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(changed(DEPLOYMENT, {"spec.scaling.minReplicas": 0})))
    done = run("modelfleet", "lint", str(path))
    assert (done.returncode, done.stderr) == (1, "")
    assert "spec.scaling.minReplicas: minReplicas 0 needs toZero" in done.stdout


def test_kubectl_completes_it(run):
    done = run("__complete", "modelfleet", "li")
    assert done.stdout.splitlines()[0].partition("\t")[0] == "lint"


def test_it_talks_to_the_cluster_of_the_flags(run, api_server, tmp_path):
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    good = config["current-context"]
    config["contexts"].append({"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}})
    config["clusters"].append({"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}})
    config["users"].append({"name": "nobody", "user": {}})
    config["current-context"] = "nowhere"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    served = run("modelfleet", f"--kubeconfig={path}", f"--context={good}", "crds", "apply")
    assert (served.returncode, served.stderr) == (0, "")
    assert served.stdout.count("is served in this version") == len(crd.KINDS)
    refused = run("modelfleet", "crds", "apply", f"--kubeconfig={path}")
    assert refused.returncode == 1
    assert refused.stderr.startswith("modelfleet crds apply: ")
    unknown = run("modelfleet", "crds", "apply", f"--kubeconfig={path}", "--context=absent")
    assert (unknown.returncode, "absent" in unknown.stderr) == (1, True)
