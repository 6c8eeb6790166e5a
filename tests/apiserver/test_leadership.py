"""Two operators as processes on a real API server: one leads, the other stands by and takes over."""

import json
import re
import signal
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
import yaml
from forked_operator import ForkedOperator
from operator_process import chart_rules
from tcp_proxy import Wire

from modelfleet_local.waiting import wait_until

LOST = 5  # the exit status of a process that lost its Lease
LEASE = "modelfleet"
TAKEOVER_S = 60.0


@pytest.fixture
def make(account, namespace, tmp_path):
    """Makes operators with an account of their own each, for the test's namespace; what still runs is killed."""
    made = []
    arguments = (f"--namespaces={namespace}", "--leader-elect=true", f"--lease-namespace={namespace}")

    def operator():
        config = account(chart_rules())
        log = tmp_path / f"{config.stem}.log"
        made.append(ForkedOperator(config, log, (*arguments, f"--lease-name={LEASE}")))
        return made[-1]

    yield operator
    for each in made:
        if each.process is not None and each.process.poll() is None:
            each.kill()


@pytest.fixture
def pair(make):
    """One that leads and one that stands by, both ready."""
    first, second = make(), make()
    first.start()
    wait_leads(first)
    second.start()
    return first, second


@pytest.fixture
def served(pair, fleet):
    """The pair with a ModelDeployment `chat` in Mode Manual that it serves."""
    fleet.create_class()
    fleet.apply(manifest(fleet, 1))
    fleet.settled()
    return fleet


def manifest(fleet, replicas):
    return fleet.deployment(scaling={"mode": "Manual", "minReplicas": 1, "maxReplicas": 4, "replicas": replicas})


def wait_leads(operator):
    wait_until("leadership", lambda: operator.metric("leader") == 1, timeout_s=TAKEOVER_S)


def lease(fleet):
    path = f"/apis/coordination.k8s.io/v1/namespaces/{fleet.namespace}/leases/{LEASE}"
    return fleet.api.get(path)["spec"]


def requests_of(operator, cluster, since=0):
    """What the operator asked of the API server, by its audit log from byte `since` on."""
    account = f":{operator.log.stem}"
    lines = cluster.audit_log.read_bytes()[since:].splitlines(keepends=True)
    events = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [event for event in events if event["user"].get("username", "").endswith(account)]


def writes_of(operator, cluster, since):
    return [event for event in requests_of(operator, cluster, since) if event["verb"] not in {"get", "list", "watch"}]


def scaled_by(operator, fleet, replicas):
    """The deployment is scaled, and the one who does it is this operator."""
    fleet.apply(manifest(fleet, replicas))
    fleet.wait(f"{replicas} pods", lambda: len(fleet.children("pods")) == replicas)
    fleet.settled()
    assert operator.metric("reconcile_seconds_count") > 0


def waited_the_lease_out(operator):
    """It led once, because the leader before had not renewed for the Lease's 15 s; a busy machine looks later."""
    (reason,) = [line["message"] for line in operator.lines() if line["message"].startswith("leading")]
    assert seconds(r"did not renew for (\d+) s", reason) >= 15


def seconds(pattern, message):
    found = re.search(pattern, message)
    assert found is not None, message
    return int(found[1])


def errors(operator):
    return [line["message"] for line in operator.lines() if line["level"] == "error"]


def test_one_leads_and_the_other_is_ready_and_only_looks_at_the_lease(pair, served):
    first, second = pair
    assert (first.metric("leader"), second.metric("leader")) == (1, 0)
    assert (first.get("/readyz"), second.get("/readyz")) == ((200, "ok"), (200, "ok"))
    assert second.metric("reconcile_seconds_count") == 0
    asked = {
        (event["verb"], event.get("objectRef", {}).get("resource")) for event in requests_of(second, served.cluster)
    }
    assert asked == {("get", None), ("get", "leases")}  # None: the discovery of our CRDs at the start
    holder = lease(served)
    assert (holder["leaseDurationSeconds"], holder["leaseTransitions"]) == (15, 0)


def test_sigterm_hands_over_at_once(pair, served):
    first, second = pair
    assert first.stop() == 0
    wait_leads(second)
    reasons = [line["message"] for line in second.lines() if line["message"].startswith("leading")]
    assert reasons == ["leading: nobody leads"]
    assert lease(served)["leaseTransitions"] == 1
    scaled_by(second, served, 2)


@pytest.mark.thorough
def test_a_leader_that_was_killed_is_followed_once_its_lease_expired(pair, served):
    first, second = pair
    first.kill()
    served.apply(manifest(served, 2))
    wait_leads(second)
    waited_the_lease_out(second)
    scaled_by(second, served, 2)


def test_a_leader_that_was_frozen_amid_its_writes_for_longer_than_its_lease_ends_without_another(pair, served):
    first, second = pair
    names = [f"chat-{number}" for number in range(12)]
    served.apply({"apiVersion": "v1", "kind": "List", "items": [served.deployment(name) for name in names]})
    served.wait("the first writes", lambda: bool(served.children("configmaps", names[0])))
    first.process.send_signal(signal.SIGSTOP)
    wait_leads(second)
    since = served.cluster.audit_log.stat().st_size
    first.process.send_signal(signal.SIGCONT)
    assert first.wait() == LOST
    waited_the_lease_out(second)
    for name in names:
        served.settled(name)
        assert len(served.children("pods", name)) == 1
    # Creates whose time left was asked before the freeze may have been handed to their sockets already, or be on their
    # way there, one for each request in flight; their names are deterministic, so that they double nothing. Whatever
    # changes what is there carries what it read.
    late = writes_of(first, served.cluster, since)
    assert {event["verb"] for event in late} <= {"create"}, late
    assert len(late) <= 32  # cluster.py has no more in flight
    (line,) = errors(first)
    assert line.startswith(f"the Lease {served.namespace}/{LEASE} is lost: ")
    assert second.metric("leader") == 1


@pytest.fixture
def wired(make, api_server):
    """An operator behind a wire, and the wire."""
    operator = make()
    config = yaml.safe_load(operator.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    address = urlsplit(cluster["server"])
    wire = Wire((address.hostname, address.port))
    cluster["server"] = f"https://{address.hostname}:{wire.port}"
    operator.kubeconfig.write_text(json.dumps(config))
    yield operator, wire
    wire.close()


def test_a_leader_that_is_cut_off_ends_by_itself_and_the_other_goes_on(wired, make, fleet):
    (first, wire), second = wired, make()
    first.start()
    wait_leads(first)
    second.start()
    fleet.create_class()
    fleet.apply(manifest(fleet, 1))
    fleet.settled()
    since = fleet.cluster.audit_log.stat().st_size
    wire.cut()
    cut_at = datetime.now(UTC).isoformat()
    fleet.apply(manifest(fleet, 2))
    assert first.wait() == LOST
    wait_leads(second)
    scaled_by(second, fleet, 2)
    # What was on its way before the cut may be logged after it.
    late = [one for one in writes_of(first, fleet.cluster, since) if one["requestReceivedTimestamp"] > cut_at]
    assert late == []
    (line,) = errors(first)
    assert seconds(r"could not be renewed for (\d+) s", line) >= 10


def test_an_operator_without_the_right_to_its_lease_is_not_ready_and_says_why(account, namespace, tmp_path):
    rules = [rule for rule in chart_rules() if rule["apiGroups"] != ["coordination.k8s.io"]]
    arguments = ("--leader-elect=true", f"--lease-namespace={namespace}", f"--lease-name={LEASE}")
    operator = ForkedOperator(account(rules), tmp_path / "log", arguments)
    operator.start(wait=False)
    try:
        wait_until("its port", operator.finds_port, timeout_s=TAKEOVER_S)
        wait_until("a warning", lambda: "leases" in operator.log.read_text(), timeout_s=TAKEOVER_S)
        (warning,) = [line["message"] for line in operator.lines() if line["level"] == "warning"]
        assert "cannot get resource" in warning
        assert operator.get("/readyz") == (503, warning)
        assert operator.get("/healthz") == (200, "ok")
    finally:
        assert operator.stop() == 0
