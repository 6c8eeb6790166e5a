"""What Argo CD and Flux make of a ModelDeployment in each state that it can be in, and of the kinds without a state."""

import subprocess
from pathlib import Path

import pytest
import yaml
from judges import GITOPS, KUSTOMIZATION, SCRIPTS, argo_cd, flux, program

from modelfleet.api import names
from modelfleet.api.conditions import ConditionStatus, ConditionType
from modelfleet.api.reasons import Reason
from modelfleet_local.paths import REPOSITORY

RECORDED = Path(__file__).parents[1] / "golden" / "children"


def deployment(status, generation=1, **metadata):
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.DEPLOYMENT_KIND,
        "metadata": {"name": "chat", "namespace": "models", "generation": generation, **metadata},
        "spec": {"scaling": {"minReplicas": 1}},
        "status": status,
    }


def recorded(name):
    """A status as the operator writes it in that state."""
    return yaml.safe_load((RECORDED / f"status-{name}.yaml").read_text())


def changed(name, **conditions):
    """A recorded status with other statuses and reasons of some conditions, each as `status/reason`."""
    status = recorded(name)
    for condition in status["conditions"]:
        if condition["type"] in conditions:
            condition["status"], _, condition["reason"] = conditions[condition["type"]].partition("/")
    return status


BUG = {str(kind): f"Unknown/{Reason.OPERATOR_BUG}" for kind in ConditionType}
STATES = [
    # the object, Argo CD, Flux with our expressions, Flux without
    pytest.param(
        deployment({"observedGeneration": -1}), "Progressing", "InProgress", "InProgress", id="nobody has looked at it"
    ),
    pytest.param(
        deployment(recorded("settled"), generation=2), "Progressing", "InProgress", "InProgress", id="changed just now"
    ),
    pytest.param(deployment(recorded("new")), "Progressing", "InProgress", "InProgress", id="its first replica starts"),
    pytest.param(deployment(recorded("settled")), "Healthy", "Current", "Current", id="it serves and nothing moves"),
    pytest.param(
        deployment(changed("settled", Progressing="True/RollingOut")),
        "Progressing",
        "InProgress",
        "Current",
        id="it serves and a rollout is under way",
    ),
    pytest.param(
        deployment(changed("settled", Progressing="False/Unschedulable")),
        "Degraded",
        "Failed",
        "Current",
        id="it serves and a further replica finds no node",
    ),
    pytest.param(
        deployment(recorded("image-not-pullable")), "Degraded", "Failed", "InProgress", id="its image cannot be pulled"
    ),
    pytest.param(deployment(recorded("no-room")), "Degraded", "Failed", "Current", id="no node has room for another"),
    pytest.param(
        deployment(changed("refused", Accepted="False/SpecInvalid", Ready="False/SpecInvalid")),
        "Degraded",
        "Failed",
        "InProgress",
        id="the spec is refused",
    ),
    pytest.param(
        deployment(
            changed(
                "refused",
                Accepted="False/ClassNotFound",
                Planned="Unknown/NotEvaluated",
                Ready="False/ClassNotFound",
            )
        ),
        "Progressing",
        "InProgress",
        "InProgress",
        id="its class is not there yet",
    ),
    pytest.param(
        deployment(changed("settled", Ready="False/EngineDied", Progressing="True/EngineDied")),
        "Progressing",
        "InProgress",
        "InProgress",
        id="its engine died and is started again",
    ),
    pytest.param(
        deployment(changed("settled", **BUG)), "Degraded", "Failed", "InProgress", id="the operator has a fault"
    ),
    pytest.param(
        deployment(recorded("settled"), deletionTimestamp="2026-01-02T03:04:05Z"),
        "Progressing",
        "Current",
        "Terminating",
        id="it is being deleted",
    ),
]


@pytest.mark.parametrize("obj, argo, with_expressions, without", STATES)
def test_each_state_of_a_model_deployment(obj, argo, with_expressions, without, tmp_path):
    status, message = argo_cd(obj, tmp_path)
    assert (status, *flux([obj], KUSTOMIZATION), *flux([obj])) == (argo, with_expressions, without)
    assert message


PROGRESSING = [
    (status, reason)
    for reason in Reason
    for kind, status in reason.standings
    if kind is ConditionType.PROGRESSING and reason is not Reason.OPERATOR_BUG
]


@pytest.mark.parametrize("status, reason", PROGRESSING, ids=lambda part: str(part))
def test_every_reason_to_move_is_waited_for_and_every_other_but_settled_is_a_failure(status, reason, tmp_path):
    obj = deployment(changed("settled", Progressing=f"{status}/{reason}"))
    expected = ("Progressing", "InProgress")
    if status is ConditionStatus.FALSE:
        expected = ("Healthy", "Current") if reason is Reason.SETTLED else ("Degraded", "Failed")
    assert (argo_cd(obj, tmp_path)[0], *flux([obj], KUSTOMIZATION)) == expected


def test_the_message_in_argo_cd_is_the_operator_s_with_its_reason(tmp_path):
    status = recorded("image-not-pullable")
    (said,) = (each["message"] for each in status["conditions"] if each["type"] == "Progressing")
    assert argo_cd(deployment(status), tmp_path) == ("Degraded", f"ImageNotPullable: {said}")


@pytest.mark.parametrize("kind", ["AcceleratorClass", "ModelProfile"])
@pytest.mark.parametrize(
    "status, argo",
    [
        pytest.param({}, "Healthy", id="without a status"),
        pytest.param(
            {"conditions": [{"type": "Accepted", "status": "True", "reason": "Valid", "message": "x"}]},
            "Healthy",
            id="accepted",
        ),
        pytest.param(
            {"conditions": [{"type": "Accepted", "status": "False", "reason": "Invalid", "message": "x"}]},
            "Degraded",
            id="not accepted",
        ),
    ],
)
def test_a_kind_that_only_states_something(kind, status, argo, tmp_path):
    obj = {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": "one"}, "status": status}
    assert argo_cd(obj, tmp_path)[0] == argo
    assert flux([{**obj, "status": {}}]) == ["Current"]


def test_every_kind_of_ours_has_a_health_check_and_every_check_is_in_the_component():
    component = yaml.safe_load((GITOPS / "argocd" / "kustomization.yaml").read_text())
    (generator,) = component["configMapGenerator"]
    folders = sorted(path.name for path in SCRIPTS.iterdir())
    assert sorted(generator["files"]) == [
        f"resource.customizations.health.modelfleet.dev_{kind}=modelfleet.dev/{kind}/health.lua" for kind in folders
    ]
    kinds = {yaml.safe_load(path.read_text())["spec"]["names"]["kind"] for path in (REPOSITORY / "crds").iterdir()}
    assert kinds <= set(folders)


def test_kubectl_merges_the_component_into_a_config_map_of_argo_cd(tmp_path):
    (tmp_path / "argocd").mkdir()
    for path in (GITOPS / "argocd").rglob("*"):
        if path.is_file() and path.name != "application.yaml":
            target = tmp_path / "argocd" / path.relative_to(GITOPS / "argocd")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(path.read_text())
    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm", "namespace": "argocd"}}
    (tmp_path / "argocd-cm.yaml").write_text(yaml.safe_dump({**own, "data": {"url": "https://argocd.example.com"}}))
    (tmp_path / "kustomization.yaml").write_text("resources: [argocd-cm.yaml]\ncomponents: [argocd]\n")
    done = run_kubectl("kustomize", str(tmp_path))
    (merged,) = yaml.safe_load_all(done)
    key = "resource.customizations.health.modelfleet.dev_ModelDeployment"
    assert merged["data"][key] == (SCRIPTS / "ModelDeployment" / "health.lua").read_text()
    assert merged["data"]["url"] == "https://argocd.example.com"


def run_kubectl(*args):
    done = subprocess.run([program("kubectl"), *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
