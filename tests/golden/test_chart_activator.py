"""The activators in the chart: off unless asked for, apart from the operator, with no right but those that they use."""

import base64
from typing import Any

import pytest
import yaml
from test_chart import CASES, IMAGES, TO_ZERO, rendered, resource_key, template

from modelfleet.activator import options
from modelfleet.api import names
from modelfleet.controller import resources

NAME = "modelfleet-activator"
WITH = [case for case, settings in CASES.items() if "activator.enabled=true" in settings]


def one(case: str, kind: str, name: str = NAME) -> dict[str, Any]:
    (found,) = (d for d in rendered(case) if d["kind"] == kind and d["metadata"]["name"] == name)
    return found


def container(case: str) -> dict[str, Any]:
    found: dict[str, Any] = one(case, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return found


def test_without_being_asked_for_there_is_nothing_of_them() -> None:
    assert [d for d in rendered("default") if "activator" in d["metadata"]["name"]] == []


@pytest.mark.parametrize("case", WITH)
def test_the_activator_understands_the_flags_it_is_given(case: str) -> None:
    pod = {
        "metadata.name": "activator-pod",
        "metadata.namespace": "modelfleet-system",
        "status.podIP": "10.0.0.7",
        "spec.nodeName": "node-1",
    }
    variables = {each["name"]: pod[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in container(case)["env"]}
    read = options.parse(container(case)["args"], variables)

    assert (read.pod, read.service) == ("activator-pod", NAME)
    assert read.own is not None
    assert (read.own.address, read.own.namespace, read.own.node) == ("10.0.0.7", "modelfleet-system", "node-1")
    assert read.namespaces == (("chat", "search") if case == "two-namespaces" else ())
    assert read.limits == options.Limits()
    assert read.metrics_port == container(case)["ports"][0]["containerPort"]


@pytest.mark.parametrize("case", WITH)
def test_it_goes_on_for_those_it_holds_almost_as_long_as_the_kubelet_lets_it(case: str) -> None:
    pod = one(case, "Deployment")["spec"]["template"]["spec"]
    read = options.parse(container(case)["args"], {"POD_NAME": "a", "POD_NAMESPACE": "b"})

    assert pod["terminationGracePeriodSeconds"] == read.grace_s + 10


@pytest.mark.parametrize("case", WITH)
def test_activators_are_two_on_different_nodes_and_one_may_be_evicted_at_a_time(case: str) -> None:
    deployment, budget = one(case, "Deployment"), one(case, "PodDisruptionBudget")
    labels = deployment["spec"]["selector"]["matchLabels"]
    terms = deployment["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    keys = [t["podAffinityTerm"]["topologyKey"] for t in terms["preferredDuringSchedulingIgnoredDuringExecution"]]

    assert deployment["spec"]["replicas"] == 2
    assert keys == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert (budget["spec"]["maxUnavailable"], budget["spec"]["selector"]["matchLabels"]) == (1, labels)


@pytest.mark.parametrize("case", WITH)
def test_nothing_that_selects_the_operator_s_pods_selects_an_activator(case: str) -> None:
    pod = one(case, "Deployment")["spec"]["template"]["metadata"]["labels"]
    of_operator = one(case, "Deployment", "modelfleet")["spec"]["selector"]["matchLabels"]

    assert not of_operator.items() <= pod.items()


@pytest.mark.parametrize("case", WITH)
def test_the_activator_may_do_what_its_code_does_and_no_more(case: str) -> None:
    of_all = [d for d in rendered(case) if d["kind"] in ("Role", "ClusterRole") and d["metadata"]["name"] == NAME]
    for role in of_all:
        rights = {
            (group, resource): set(rule["verbs"])
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }
        assert rights == {
            resource_key(resources.DEPLOYMENTS): {"list", "watch"},
            (names.GROUP, f"{names.DEPLOYMENT_PLURAL}/status"): {"patch"},
            resource_key(resources.SLICES): {"list", "watch", "patch"},
        }
    assert len(of_all) == (2 if case == "two-namespaces" else 1)


@pytest.mark.parametrize("case", WITH)
def test_both_policies_speak_of_the_account_that_the_pods_run_under_and_deny(case: str) -> None:
    account = one(case, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    for part in ("demand", "endpoints"):
        policy = one(case, "ValidatingAdmissionPolicy", f"{NAME}-{part}")
        binding = one(case, "ValidatingAdmissionPolicyBinding", f"{NAME}-{part}")
        (condition,) = policy["spec"]["matchConditions"]
        assert f'"system:serviceaccount:modelfleet-system:{account}"' in condition["expression"]
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_a_token_is_made_unless_a_secret_is_named() -> None:
    done = template(*IMAGES, TO_ZERO[0])
    assert done.returncode == 0, done.stderr
    documents = [document for document in yaml.safe_load_all(done.stdout) if document]
    (secret,) = (d for d in documents if d["kind"] == "Secret")
    mounted = next(d for d in documents if d["kind"] == "Deployment" and d["metadata"]["name"] == NAME)
    volumes = {v["name"]: v for v in mounted["spec"]["template"]["spec"]["volumes"]}

    assert len(base64.b64decode(secret["data"]["token"])) == 48
    assert volumes["token"]["secret"]["secretName"] == secret["metadata"]["name"]
    assert "Secret" not in {d["kind"] for d in rendered("to-zero")}


@pytest.mark.parametrize("replicas, budgets", [(1, 0), (3, 1)])
def test_a_single_activator_has_no_budget_that_would_block_a_drain(replicas: int, budgets: int) -> None:
    done = template(*IMAGES, *TO_ZERO, f"activator.replicas={replicas}")
    assert done.returncode == 0, done.stderr
    found = [d for d in yaml.safe_load_all(done.stdout) if d and d["kind"] == "PodDisruptionBudget"]
    assert [d["metadata"]["name"] for d in found].count(NAME) == budgets
