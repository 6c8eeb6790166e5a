"""What a tool that applies manifests server-side finds changed while the operator works and replicas are scaled.

The short version, without the tools: `make e2e-gitops` runs Flux and Argo CD themselves for ten minutes.
"""

import copy
import difflib
import json

import pytest
import yaml
from judges import KUSTOMIZATION, argo_cd, flux
from place import SAMPLES

from apiserver.fleet import Fleet
from apiserver.forked_operator import ForkedOperator
from modelfleet.api import names

MANAGER = "--field-manager=kustomize-controller"


@pytest.fixture
def manual(api_server, namespace):
    """The sample in mode Manual, with a class of its own, on a claim that is bound."""
    fleet = Fleet(api_server, namespace, f"gpu-{namespace}")
    fleet.create_claim()
    fleet.create_class()
    manifest = yaml.safe_load((SAMPLES / "modeldeployment-manual-scaling.yaml").read_text())
    manifest["metadata"]["namespace"] = namespace
    manifest["spec"]["accelerators"] = {"classes": [fleet.class_name]}
    manifest["spec"]["model"] = {"source": "pvc://models/qwen3-8b"}
    yield fleet, manifest
    fleet.kubectl("delete", "mdep", "--all", "--wait=false")
    api_server.kubectl("delete", "accel", fleet.class_name, "--wait=false")
    api_server.kubectl("delete", "pv", f"models-{namespace}", "--wait=false")


@pytest.fixture
def operator(api_server, namespace, tmp_path):
    running = ForkedOperator(api_server.kubeconfig, tmp_path / "log", (f"--namespaces={namespace}",))
    running.start()
    yield running
    assert running.stop() == 0


def apply(fleet, manifest, *options):
    return fleet.kubectl(
        *("apply", "--server-side", "--force-conflicts", MANAGER, *options, "--filename=-"), stdin=json.dumps(manifest)
    )


def differences(fleet, manifest):
    """The lines that a server-side apply of the manifest would change.

    Not by `kubectl diff`: its two reads are a moment apart, in which the operator may write status.
    """
    stored = fleet.get(names.DEPLOYMENT_PLURAL, manifest["metadata"]["name"])
    applied = json.loads(apply(fleet, manifest, "--dry-run=server", "--output=json"))
    lines = difflib.ndiff(*(yaml.safe_dump(asked_for(each)).splitlines() for each in (stored, applied)))
    return [line.replace(" ", "") for line in lines if line[0] in "+-"]


def asked_for(stored):
    """What users ask for: all of an object but its status and what an API server keeps about its writes."""
    metadata = {
        key: value
        for key, value in stored["metadata"].items()
        if key not in ("generation", "managedFields", "resourceVersion")
    }
    return {**{key: value for key, value in stored.items() if key != "status"}, "metadata": metadata}


def without_replicas(manifest):
    kept = copy.deepcopy(manifest)
    del kept["spec"]["scaling"]["replicas"]
    return kept


def test_an_object_that_no_operator_has_looked_at_is_in_progress_for_both_tools(manual, tmp_path):
    fleet, manifest = manual
    apply(fleet, manifest)
    stored = fleet.get(names.DEPLOYMENT_PLURAL, "summaries")
    assert stored["status"] == {"observedGeneration": -1}
    assert argo_cd(stored, tmp_path)[0] == "Progressing"
    assert (flux([stored]), flux([stored], KUSTOMIZATION)) == (["InProgress"], ["InProgress"])


def test_scaling_is_no_difference_where_git_leaves_the_number_out(manual, operator, tmp_path):
    fleet, manifest = manual
    kept = without_replicas(manifest)
    apply(fleet, kept)
    for replicas in (3, 1, 4):
        fleet.kubectl("scale", "mdep", "summaries", f"--replicas={replicas}")
        fleet.wait(f"{replicas} pods", lambda count=replicas: len(fleet.children("pods", "summaries")) == count)
        assert differences(fleet, kept) == []
    fleet.settled("summaries")
    stored = fleet.get(names.DEPLOYMENT_PLURAL, "summaries")
    assert stored["spec"]["scaling"]["replicas"] == 4
    assert argo_cd(stored, tmp_path)[0] == "Healthy"
    assert (flux([stored]), flux([stored], KUSTOMIZATION)) == (["Current"], ["Current"])


def test_where_git_names_the_number_that_is_the_only_difference(manual, operator):
    fleet, manifest = manual
    apply(fleet, manifest)
    fleet.settled("summaries")
    assert differences(fleet, manifest) == []
    fleet.kubectl("scale", "mdep", "summaries", "--replicas=3")
    assert differences(fleet, manifest) == ["-replicas:3", "+replicas:2"]
