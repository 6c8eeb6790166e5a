"""How the operator's process begins and ends, and what it needs."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from operator_process import Operator, chart_rules

from modelfleet.api import names
from modelfleet_local.waiting import wait_until

CRDS = [f"{plural}.{names.GROUP}" for plural in (names.DEPLOYMENT_PLURAL, names.CLASS_PLURAL, names.PROFILE_PLURAL)]


@pytest.fixture
def own_operator(api_server, namespace, tmp_path):
    """A process of its own, which is not forked as elsewhere."""
    own = Operator(api_server.kubeconfig, tmp_path / "log", (f"--namespaces={namespace}",))
    yield own
    if own.process is not None and own.process.poll() is None:
        own.kill()


def last_line(operator):
    return operator.lines()[-1]


def test_sigterm_ends_it_with_status_0(own_operator):
    own_operator.start()
    assert own_operator.stop() == 0
    assert last_line(own_operator)["message"] == "stopped"


def test_it_needs_no_more_rights_than_the_chart_grants(account, fleet, tmp_path):
    lease = ("--leader-elect=true", f"--lease-namespace={fleet.namespace}", "--lease-name=modelfleet")
    operator = Operator(account(chart_rules()), tmp_path / "log", lease)
    operator.start()
    try:
        fleet.create_class()
        fleet.apply(fleet.deployment(scaling={"mode": "Manual", "minReplicas": 1, "maxReplicas": 2}))
        fleet.settled()
        fleet.kubectl("scale", "mdep", "chat", "--replicas=2")
        fleet.wait("two pods", lambda: len(fleet.children("pods")) == 2)
        fleet.wait("an event", lambda: bool(fleet.api.get(fleet.path("events"))["items"]))
    finally:
        operator.stop()
    assert [line for line in operator.lines() if line["level"] != "info"] == []


def test_its_port_tells_health_readiness_and_metrics(own_operator, fleet):
    own_operator.start()
    fleet.create_class()
    fleet.apply(fleet.deployment())
    fleet.settled()
    assert (own_operator.get("/healthz"), own_operator.get("/readyz")) == ((200, "ok"), (200, "ok"))
    own_operator.runs_after(0)
    assert own_operator.metric("writes_total") > 0
    assert own_operator.metric("known_deployments") == 1
    told = own_operator.get("/metrics")[1]
    for name in ("queue_depth", "queue_oldest_key_age_seconds", "event_loop_lag_seconds", "last_event_age_seconds"):
        assert f"\nmodelfleet_operator_{name} " in told


def test_a_kubeconfig_that_is_not_there_is_one_sentence(tmp_path):
    operator = Operator(tmp_path / "none", tmp_path / "log")
    operator.start(wait=False)
    assert operator.wait() == 3
    assert "there is no kubeconfig at" in last_line(operator)["message"]


def test_an_api_server_that_does_not_answer_is_one_sentence(api_server, tmp_path):
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "config").write_text(json.dumps(config))
    operator = Operator(tmp_path / "config", tmp_path / "log", ("--start-timeout-seconds=0",))
    operator.start(wait=False)
    assert operator.wait() == 3
    assert "the API server cannot be used" in last_line(operator)["message"]


def test_a_token_that_the_api_server_does_not_take_is_one_sentence(api_server, tmp_path):
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "wrong"}
    (tmp_path / "config").write_text(json.dumps(config))
    operator = Operator(tmp_path / "config", tmp_path / "log", ("--start-timeout-seconds=0",))
    operator.start(wait=False)
    assert operator.wait() == 3
    assert "Unauthorized" in last_line(operator)["message"]


def test_a_port_that_is_taken_is_one_sentence(api_server, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        operator = Operator(api_server.kubeconfig, tmp_path / "log", (f"--metrics-port={port}",))
        operator.start(wait=False)
        assert operator.wait() == 4
    assert f"the metrics port {port} cannot be opened" in last_line(operator)["message"]


@pytest.fixture
def without_crds(api_server):
    """The cluster lacks our CRDs during the test."""
    api_server.kubectl("delete", "crd", *CRDS, "--wait=true")
    # The API server stops to serve them a moment after they are gone.
    wait_until("the end of our API", lambda: not api_server.api.healthy(f"/apis/{names.API_VERSION}"), timeout_s=30)
    yield
    done = crds_apply(api_server.kubeconfig)
    assert done.returncode == 0, done.stderr


def crds_apply(kubeconfig):
    """`modelfleet crds apply`."""
    program = [str(Path(sys.executable).with_name("modelfleet")), "crds", "apply", f"--kubeconfig={kubeconfig}"]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_missing_crds_are_one_sentence_that_names_them_and_the_remedy(api_server, without_crds, tmp_path):
    operator = Operator(api_server.kubeconfig, tmp_path / "log", ("--start-timeout-seconds=0",))
    operator.start(wait=False)
    assert operator.wait() == 3
    lines = operator.lines()
    assert lines[-1]["message"] == (
        f"the cluster lacks the CRDs {', '.join(CRDS)}; install them with `modelfleet crds apply`"
    )
    assert not [line for line in lines if "traceback" in line]


def test_crds_apply_needs_rights_by_name_only_and_an_operator_that_waits_then_begins(
    api_server, account, without_crds, namespace, tmp_path
):
    by_name = account(
        [
            {
                "apiGroups": ["apiextensions.k8s.io"],
                "resources": ["customresourcedefinitions"],
                "resourceNames": CRDS,
                "verbs": ["get", "create", "patch"],
            }
        ]
    )
    operator = Operator(api_server.kubeconfig, tmp_path / "log", (f"--namespaces={namespace}",))
    operator.start(wait=False)
    installed = crds_apply(by_name)
    assert (installed.returncode, installed.stderr) == (0, "")
    operator.wait_ready()
    assert operator.stop() == 0


def test_crds_apply_removes_what_this_version_no_longer_has_and_a_second_time_changes_nothing(api_server):
    (name, *_) = CRDS
    stored = json.loads(api_server.kubectl("get", "crd", name, "--output=json").stdout)
    schema = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["ofAnOlderVersion"] = {"type": "string"}
    assert api_server.kubectl("replace", "-f-", stdin=json.dumps(stored)).returncode == 0
    versions = []
    for _ in range(2):
        assert crds_apply(api_server.kubeconfig).returncode == 0
        now = json.loads(api_server.kubectl("get", "crd", name, "--output=json").stdout)
        versions.append(now["metadata"]["resourceVersion"])
    properties = now["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert "ofAnOlderVersion" not in properties
    assert versions[0] == versions[1]
