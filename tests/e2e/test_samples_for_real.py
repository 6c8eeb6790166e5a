"""What is measured of a fleet on a real kubelet, over the stand-in engine; `make e2e-samples`."""

import json
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import stand_in_installation

from modelfleet_local import fleet

pytestmark = pytest.mark.thorough
NAME = "measured"
LENGTHS = {"inputTokens": {"p50": 4000, "p95": 4000}, "outputTokens": {"p50": 2000, "p95": 2000}}
OBJECTIVE = {
    "name": "interactive",
    "ttft": "5s",
    "tpot": "1s",
    "share": "80%",
    "load": {"requestsPerSecond": 1000},
    "lengths": LENGTHS,
}
OPERATORS = "app.kubernetes.io/name=modelfleet"
OWN_PAGE = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8001/metrics').read().decode())"


@pytest.fixture(scope="module")
def measured(site, tmp_path_factory):
    """The site with two replicas of a stand-in that answers quickly."""
    models, installation = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("engine")
    (models / "good").mkdir()
    (models / "good" / "config.json").write_text("{}")
    stand_in_installation.install(installation)
    for name, folder in (("shelf", models), ("stand-in", installation)):
        for parent in (folder, *folder.parents[:2]):
            parent.chmod(parent.stat().st_mode | 0o555)
        fleet.apply(site.cluster, fleet.claimed_folder(site.namespace, name, folder))
    site.apply(
        site.deployment(
            NAME,
            model={"source": "pvc://shelf/good", "maxContextTokens": 4096},
            objectives=[OBJECTIVE],
            engine={"installationClaimName": "stand-in"},
            scaling={"mode": "Manual", "replicas": 2, "minReplicas": 1, "maxReplicas": 2},
        )
    )
    site.wait_for(NAME, "Progressing", "False", "Settled")
    return site


def goodput(site):
    return site.read("mdep", NAME)["status"].get("goodput", {})


@contextmanager
def load(site):
    """Requests for the time of the block, some four a second; gives what the client saw, once it is over."""
    argv = [*site.load_argv(NAME, 1800), "0.5"]
    running, seen = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True), {}
    try:
        yield seen
    finally:
        seen.update(json.loads(running.communicate("stop")[0]))


def test_each_worker_says_which_pod_it_is(measured):
    for pod in measured.pods(NAME):
        page = measured.run_in_pod(pod["metadata"]["name"], OWN_PAGE)
        line = next(line for line in page.splitlines() if line.startswith("modelfleet_worker_pod_info{"))
        assert f'worker_pod="{pod["metadata"]["name"]}"' in line
        assert f'worker_pod_uid="{pod["metadata"]["uid"]}"' in line


def test_no_traffic_then_a_promise_that_is_kept_with_the_clients_numbers(measured):
    measured.wait_for(NAME, "ObjectivesMet", "Unknown", "NoTraffic", timeout_s=180)
    with load(measured) as client:
        message = measured.wait_for(NAME, "ObjectivesMet", "True", "ShareKept", timeout_s=240)
        assert measured.read("mdep", NAME)["status"]["plan"]["pools"][0]["observed"]["concurrency"]
        time.sleep(70)  # a minute of figures more
    # The figures of the last requests: they are in the window for five minutes from now on.
    measured.wait("figures of the whole load", lambda: _counted(measured) >= 0.95 * client["answered"], timeout_s=150)
    print(f"{message}\n{goodput(measured)}\nthe client: {client['answered']} answered, {client['failed']} failed")
    assert client["failed"] == []
    assert _counted(measured) <= client["answered"] * 1.05 + 1, "each request counts once"


def _counted(site) -> int:
    return sum(each["requests"] for each in goodput(site).get("objectives", []))


def test_an_operator_that_was_restarted_says_that_it_does_not_know_yet_and_then_knows(measured):
    with load(measured) as client:
        measured.wait_for(NAME, "ObjectivesMet", "True", "ShareKept", timeout_s=240)
        pods = [pod["metadata"]["uid"] for pod in measured.pods(NAME)]
        of_operator = ("-n", fleet.SYSTEM_NAMESPACE, "delete", "pods", "-l", OPERATORS)
        done = measured.cluster.kubectl(*of_operator, "--wait=false")
        assert done.returncode == 0, done.stderr
        measured.wait_for(NAME, "ObjectivesMet", "Unknown", timeout_s=180)
        measured.wait_for(NAME, "ObjectivesMet", "True", "ShareKept", timeout_s=240)
    assert client["failed"] == []
    assert [pod["metadata"]["uid"] for pod in measured.pods(NAME)] == pods, "nothing was replaced for it"


@contextmanager
def cut_off(site):
    """The operator's pods reach no worker's page for the time of the block; all else goes on."""
    selected = ("-n", fleet.SYSTEM_NAMESPACE, "get", "pods", "-l", OPERATORS, "-o", "json")
    pods = json.loads(site.cluster.kubectl(*selected).stdout)["items"]
    inside = [["nsenter", f"--target={process_of(pod['metadata']['uid'])}", "--net", "--"] for pod in pods]
    rule = ["OUTPUT", "-p", "tcp", "--dport", "8001", "-j", "DROP"]
    for argv in inside:
        subprocess.run([*argv, "iptables", "-I", *rule], check=True)
    try:
        yield
    finally:
        for argv in inside:
            subprocess.run([*argv, "iptables", "-D", *rule], check=True)


def process_of(uid):
    """The id of the operator's process in a pod: the kubelet's mounts show which pod a process is in."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, mounts = (folder / "cmdline").read_bytes(), (folder / "mountinfo").read_text()
        except OSError:
            continue
        if b"modelfleet-operator" in command and f"/pods/{uid}/" in mounts:
            return int(folder.name)
    raise AssertionError(f"no process of pod {uid}")


def test_metrics_that_are_cut_off_are_no_data_change_nothing_and_come_back(measured):
    with load(measured) as client:
        measured.wait_for(NAME, "ObjectivesMet", "True", "ShareKept", timeout_s=240)
        before = [pod["metadata"]["uid"] for pod in measured.pods(NAME)]
        with cut_off(measured):
            message = measured.wait_for(NAME, "ObjectivesMet", "Unknown", "NoData", timeout_s=180)
            assert goodput(measured) == {}
            time.sleep(60)
            assert measured.condition(NAME, "ObjectivesMet")["reason"] == "NoData"
        measured.wait_for(NAME, "ObjectivesMet", "True", "ShareKept", timeout_s=240)
    print(message)
    assert client["failed"] == []
    assert [pod["metadata"]["uid"] for pod in measured.pods(NAME)] == before
