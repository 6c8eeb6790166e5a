"""etcd, the API server and the kubelet are killed in the middle of a rollout of the real engine: requests go on being
answered, and the rollout ends as it would have."""

import json
import os
import signal
import subprocess
import time

import pytest

from modelfleet.api import names
from modelfleet_local import fleet

pytestmark = [pytest.mark.thorough, pytest.mark.engine]

STARTS_S = 900.0  # two engines beside a load on whatever the machine has left
DOWN_S = 12.0  # longer than a leader may go without renewing its Lease
PARTS = ("etcd", "kube-apiserver", "kubelet-local-0")


@pytest.fixture(scope="module")
def chat(site):
    """The ModelDeployment `chat`, served by one engine."""
    site.apply(site.deployment("chat"))
    site.wait_for("chat", "Ready", "True", timeout_s=STARTS_S)
    site.wait_for("chat", "Progressing", "False", "Settled")
    return site


@pytest.fixture
def load(chat):
    """Four clients on the Service, until the test stops them; their result."""
    # With pauses: the new engine starts on the same cores.
    argv = [*chat.load_argv("chat", 2 * STARTS_S), "1"]
    running = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop():
        out, _ = running.communicate(timeout=120)
        return json.loads(out)

    yield stop
    if running.poll() is None:
        running.kill()
        running.wait()


def answers_while_down(chat, part, question):
    """Kills a part of the cluster; how many questions are answered until it is started again, and how many not."""
    os.kill(chat.cluster.process(part).pid, signal.SIGKILL)
    until_s, results = time.monotonic() + DOWN_S, []
    while time.monotonic() < until_s:
        results.append(subprocess.run(question, capture_output=True, check=False).returncode == 0)
    chat.cluster.restart(part)
    chat.wait(f"a cluster with {part}", lambda: in_order(chat), timeout_s=120)
    return results.count(True), results.count(False)


def in_order(chat):
    nodes = chat.cluster.kubectl("get", "nodes", "-o", "json")
    if nodes.returncode or not chat.cluster.api.healthy():
        return False
    conditions = json.loads(nodes.stdout)["items"][0]["status"]["conditions"]
    return {"Ready": "True"}.items() <= {each["type"]: each["status"] for each in conditions}.items()


def revisions(chat):
    return {pod["metadata"]["labels"][names.REVISION_LABEL] for pod in chat.pods("chat")}


def test_requests_go_on_being_answered_while_each_is_down_in_a_rollout(chat, load):
    (before,) = revisions(chat)
    question = fleet.ask_argv(chat.cluster, chat.address("chat"), "chat", max_tokens=4)
    changed = chat.deployment("chat")
    changed["spec"]["engine"]["args"]["max-num-seqs"] = 4
    chat.apply(changed)
    chat.wait("the new replica", lambda: len(revisions(chat)) == 2, timeout_s=60)
    for part in PARTS:
        answered, failed = answers_while_down(chat, part, question)
        print(f"\n{part} down for {DOWN_S:.0f} s: {answered} questions answered, {failed} not")
        assert (answered > 0, failed) == (True, 0)
    assert before in revisions(chat), "the rollout was over before the last part was killed"
    chat.wait("the old replica goes", lambda: before not in revisions(chat), timeout_s=STARTS_S)
    chat.wait_for("chat", "Ready", "True", "Serving")
    chat.wait_for("chat", "Progressing", "False", "Settled")
    assert len(chat.pods("chat")) == 1
    counted = load()
    print(f"the load through all of it: {counted['answered']} answered, {len(counted['failed'])} failed")
    assert counted["failed"] == []
    assert counted["answered"] > 0
