"""The chart as Helm renders it, and what must hold of it however it is configured."""

import json
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
import yaml

from modelfleet.api import crd, names
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.parse import parse_class
from modelfleet.cli import crds, docs
from modelfleet.controller import options, resources
from modelfleet.core.catalog import CATALOG
from modelfleet_local.binaries import Binaries
from modelfleet_local.paths import REPOSITORY, cache_dir

HERE = Path(__file__).parent / "chart"
CHART = REPOSITORY / "charts/modelfleet"
IMAGES = ("operator.image=registry.example/modelfleet-operator:1", "worker.image=registry.example/modelfleet-worker:1")
TO_ZERO = ("activator.enabled=true", "activator.callerTokenSecretName=own-token")
CASES = {
    "default": IMAGES,
    "to-zero": (*IMAGES, *TO_ZERO),
    "demo": (*IMAGES, "acceleratorClasses.cpu.enabled=true"),
    "prometheus": (
        *IMAGES,
        "samples.source=Prometheus",
        "samples.prometheus.url=https://prometheus.monitoring:9090",
        "samples.prometheus.tokenSecretName=prometheus-token",
        "samples.prometheus.caConfigMapName=prometheus-ca",
    ),
    "two-namespaces": (
        *IMAGES,
        *TO_ZERO,
        "operator.namespaces={chat,search}",
        "crds.upgrade=false",
        "roles.aggregate=false",
        "catalogue.only={h100-sxm}",
        "acceleratorClasses.own.nodeSelector.a=b",
        "acceleratorClasses.own.resourceName=example.com/npu",
        "acceleratorClasses.own.acceleratorsPerNode=2",
    ),
}


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    binary = Binaries(cache_dir()).path("helm")
    assert binary.exists(), "helm is missing: run `make prepare`, which builds it"
    return subprocess.run([binary, *arguments], capture_output=True, text=True)


def template(*settings: str) -> subprocess.CompletedProcess[str]:
    where = ("modelfleet", str(CHART), "--namespace=modelfleet-system", "--kube-version=1.34.0")
    return helm("template", *where, *(f"--set={setting}" for setting in settings))


@cache
def rendered(case: str) -> list[dict[str, Any]]:
    done = template(*CASES[case])
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.mark.parametrize("case", CASES)
def test_the_chart_renders_the_golden_manifests(case: str, request: pytest.FixtureRequest) -> None:
    got = yaml.safe_dump_all(rendered(case), sort_keys=False, width=120)
    path = HERE / f"{case}.yaml"
    if request.config.getoption("--update-golden"):
        path.write_text(got)
    assert path.read_text() == got, "run `make golden`, then read the diff"


def test_every_golden_chart_has_a_case() -> None:
    assert {path.stem for path in HERE.glob("*.yaml")} == set(CASES)


def test_strict_lint_finds_nothing() -> None:
    done = helm("lint", "--strict", str(CHART), *(f"--set={image}" for image in IMAGES))
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize(
    "settings, sentence",
    [
        pytest.param(
            IMAGES[1:], "operator.image is empty: give the image built from", id="the operator's image is missing"
        ),
        pytest.param(
            IMAGES[:1], "worker.image is empty: give the image built from", id="the worker's image is missing"
        ),
        pytest.param((*IMAGES, "operator.replicas=0"), "minimum: got 0, want 1", id="no operator at all"),
        pytest.param((*IMAGES, "operater.logLevel=debug"), "'operater' not allowed", id="a misspelt section"),
        pytest.param(
            (*IMAGES, "samples.source=Prometheus"),
            "samples.prometheus.url is empty: source Prometheus needs the address of one",
            id="a Prometheus without an address",
        ),
        pytest.param((*IMAGES, "worker.drain=5"), "'drain' not allowed", id="a misspelt value"),
        pytest.param(
            (*IMAGES, "worker.drainSeconds=5m"), "got string, want integer", id="a duration where seconds are"
        ),
        pytest.param(
            (*IMAGES, "acceleratorClasses.l4.acceleratorsPerNode=0"), "minimum: got 0, want 1", id="a node without GPUs"
        ),
        pytest.param((*IMAGES, "acceleratorClasses.l4.vram=24Gi"), "'vram' not allowed", id="a field no class has"),
        pytest.param(
            (*IMAGES, "acceleratorClasses.l5.enabled=true"),
            "acceleratorClasses.l5.nodeSelector is missing: the catalogue has no l5, so it must be written whole",
            id="a new class half written",
        ),
        pytest.param(
            (*IMAGES, "acceleratorClasses.l4.deviceClassName=GPU"),
            "does not match pattern",
            id="a DeviceClass in capitals",
        ),
        pytest.param(
            (*IMAGES, "catalogue.only={h100}"),
            "catalogue.only: there is no h100 in the catalogue",
            id="an unknown name",
        ),
    ],
)
def test_bad_values_are_refused_with_a_reason(settings: tuple[str, ...], sentence: str) -> None:
    done = template(*settings)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_the_catalogue_can_be_left_out_whole() -> None:
    done = template(*IMAGES, "acceleratorClasses=null", "catalogue.enabled=false")
    assert done.returncode == 0, done.stderr
    assert names.CLASS_KIND not in {document["kind"] for document in yaml.safe_load_all(done.stdout) if document}


def test_a_device_class_takes_the_place_of_the_catalogue_s_resource() -> None:
    done = template(*IMAGES, "acceleratorClasses.l4.deviceClassName=gpu.example.com")
    found = [
        document for document in yaml.safe_load_all(done.stdout) if document and document["metadata"]["name"] == "l4"
    ]
    assert [(one["spec"]["deviceClassName"], one["spec"].get("resourceName")) for one in found] == [
        ("gpu.example.com", None)
    ]


def test_no_object_of_the_schema_takes_unknown_values() -> None:
    def open_objects(node: object, path: str) -> list[str]:
        if not isinstance(node, dict):
            return []
        found = [path] if node.get("type") == "object" and "additionalProperties" not in node else []
        return found + [hit for key, child in node.items() for hit in open_objects(child, f"{path}/{key}")]

    root = json.loads((CHART / "values.schema.json").read_text())
    assert open_objects(root, "") == ["/properties/global"]  # Helm's own


@pytest.mark.parametrize("case", CASES)
def test_no_role_has_a_wildcard_or_reads_secrets(case: str) -> None:
    for document in rendered(case):
        for rule in document.get("rules", ()):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "secrets" not in rule["resources"]


@pytest.mark.parametrize("case", CASES)
def test_the_operator_may_do_what_its_code_does_and_no_more(case: str) -> None:
    read, write = {"get", "list", "watch"}, {"create", "patch", "delete"}
    wanted = {resource_key(resource): read | write for resource in resources.CHILDREN}
    wanted[resource_key(resources.JOBS)] -= {"patch"}  # a Job that reads a model is never changed
    wanted[resource_key(resources.DEPLOYMENTS)] = read
    wanted[resource_key(resources.CLASSES)] = {"list", "watch"}
    wanted[resource_key(resources.PROFILES)] = {"list", "create", "patch"}
    for devices in (resources.DEVICE_CLASSES, resources.DEVICE_SLICES, resources.DEVICE_CLAIMS):
        wanted[resource_key(devices)] = {"list", "watch"}
    wanted[resource_key(resources.NODES)] = {"list", "watch"}
    wanted[names.GROUP, f"{names.DEPLOYMENT_PLURAL}/status"] = {"patch"}
    wanted[resource_key(resources.EVENTS)] = {"get", "create", "patch"}
    wanted[resource_key(resources.LEASES)] = {"list"}
    wanted["", "resourcequotas"] = {"list"}
    wanted[resource_key(resources.SLICES)] = {"get"} | write
    assert operator_rights(case) == wanted


def resource_key(resource: resources.Resource) -> tuple[str, str]:
    return resource.api_version.rpartition("/")[0], resource.plural


def operator_rights(case: str) -> dict[tuple[str, str], set[str]]:
    roles = [
        d for d in rendered(case) if d["kind"] in ("Role", "ClusterRole") and d["metadata"]["name"] == "modelfleet"
    ]
    return {
        (group, resource): set(rule["verbs"])
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize("case", CASES)
def test_the_lease_is_the_one_that_the_operator_asks_for_and_its_rights_are_by_its_name(case: str) -> None:
    (role,) = (d for d in rendered(case) if d["kind"] == "Role" and d["metadata"]["name"].endswith("leader-election"))
    lease = operator_options(case).lease
    assert lease is not None
    assert (lease.namespace, lease.holder) == (role["metadata"]["namespace"], "operator-pod")
    resource = {"apiGroups": ["coordination.k8s.io"], "resources": [resources.LEASES.plural]}
    by_name = {**resource, "resourceNames": [lease.name], "verbs": ["get", "patch"]}
    assert role["rules"] == [{**resource, "verbs": ["create"]}, by_name]


@pytest.mark.parametrize("replicas, budgets", [(1, 0), (2, 1)])
def test_a_disruption_budget_is_there_only_where_one_pod_may_go(replicas: int, budgets: int) -> None:
    done = template(*IMAGES, f"operator.replicas={replicas}")
    assert done.returncode == 0, done.stderr
    kinds = [document["kind"] for document in yaml.safe_load_all(done.stdout) if document]
    assert kinds.count("PodDisruptionBudget") == budgets


@pytest.mark.parametrize("case", CASES)
def test_every_pod_meets_the_restricted_standard_on_a_read_only_root(case: str) -> None:
    pods = [d["spec"]["template"]["spec"] for d in rendered(case) if d["kind"] in ("Deployment", "Job")]
    assert pods
    for pod in pods:
        assert pod["shareProcessNamespace"] is True  # ADR 21
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("case", CASES)
def test_the_operator_understands_the_flags_it_is_given(case: str) -> None:
    read = operator_options(case)
    assert read.settings.worker_image == "registry.example/modelfleet-worker:1"
    assert (read.settings.drain_s, read.settings.propagation_s, read.settings.start_deadline_s) == (300, 5, 1800)
    assert read.namespaces == (("chat", "search") if case == "two-namespaces" else ())
    assert read.metrics_port == operator_container(case)["ports"][0]["containerPort"]
    assert bool(read.settings.callers) == (TO_ZERO[0] in CASES[case])


def operator_container(case: str) -> dict[str, Any]:
    deployment = next(d for d in rendered(case) if d["kind"] == "Deployment" and d["metadata"]["name"] == "modelfleet")
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return found


def operator_options(case: str) -> options.Options:
    """What the operator reads from its flags and variables in a pod named operator-pod."""
    container = operator_container(case)
    pod = {"metadata.name": "operator-pod", "metadata.namespace": "modelfleet-system"}
    variables = {each["name"]: pod[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in container["env"]}
    with NamedTemporaryFile("w") as token:
        token.write("a-token")
        token.flush()
        mounted = [each.replace("/etc/modelfleet-activator/token", token.name) for each in container["args"]]
        return options.parse(mounted, variables)


@pytest.mark.parametrize("case", CASES)
def test_every_class_of_the_catalogue_is_one_that_the_api_takes(case: str) -> None:
    found = [document for document in rendered(case) if document["kind"] == names.CLASS_KIND]
    assert {document["apiVersion"] for document in found} == {names.API_VERSION}
    catalogue = {document["metadata"]["name"]: AcceleratorClass.model_validate(document) for document in found}
    assert all(parse_class(document) == catalogue[document["metadata"]["name"]] for document in found)
    expected = {"h100-sxm", "own"} if case == "two-namespaces" else set(CATALOG)
    assert set(catalogue) == expected | ({"cpu"} if case == "demo" else set())
    assert all(kind.is_predictable for name, kind in catalogue.items() if name in CATALOG)


def test_a_field_in_values_replaces_that_of_the_catalogue_and_leaves_the_others() -> None:
    done = template(*IMAGES, "acceleratorClasses.h100-sxm.nodeSelector.pool=gpu", "acceleratorClasses.l4.enabled=false")
    assert done.returncode == 0, done.stderr
    classes = {
        d["metadata"]["name"]: d["spec"] for d in yaml.safe_load_all(done.stdout) if d["kind"] == "AcceleratorClass"
    }
    assert classes["h100-sxm"]["nodeSelector"] == {"pool": "gpu"}
    assert classes["h100-sxm"]["compute"]["bf16"] == "989T"
    assert "l4" not in classes


def test_without_the_catalogue_only_classes_of_one_s_own_are_there() -> None:
    own = ("nodeSelector.a=b", "resourceName=example.com/npu", "acceleratorsPerNode=2")
    done = template(*IMAGES, "catalogue.enabled=false", *(f"acceleratorClasses.own.{field}" for field in own))
    assert done.returncode == 0, done.stderr
    found = [d["metadata"]["name"] for d in yaml.safe_load_all(done.stdout) if d["kind"] == "AcceleratorClass"]
    assert found == ["own"]


def test_the_catalogue_is_what_the_code_says() -> None:
    assert (CHART / "files/catalogue.yaml").read_text() == docs.catalogue(), "run `make generate`"


def test_the_chart_s_crds_are_those_of_the_models() -> None:
    found = {path.name: path.read_text() for path in (CHART / "crds").iterdir()}
    assert found == {kind.file_name: crds.text(kind) for kind in crd.KINDS}, "run `make generate`"


def test_the_upgrade_s_job_may_touch_the_crds_by_name_only() -> None:
    (role,) = (d for d in rendered("default") if d["metadata"]["name"] == "modelfleet-crd-upgrade" and "rules" in d)
    (rule,) = role["rules"]
    assert rule["resources"] == [resources.CRDS.plural]
    assert rule["resourceNames"] == sorted(crd.crd(kind)["metadata"]["name"] for kind in crd.KINDS)
    assert set(rule["verbs"]) == {"get", "create", "patch"}


def test_the_chart_is_of_the_project_s_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)
