"""The number of replicas follows a real load on a real kubelet; `make e2e-scaling`.

A long story over the stand-in engine, in order: a step up, a burst in which the operator is restarted, a replica whose
engine is stopped in bursts, and the decay to the minimum. A short one over vLLM: from one engine to two. The load is a
client's in the cluster's network. Prints the way of the number.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scaling_story import GOOD_S, NAME, OBJECTIVE, SLOWER_CLASS, Watched, deployment, scaled_site, slow_class
from site_under_test import Site

from modelfleet_local import engine, fleet
from modelfleet_local.paths import cache_dir

pytestmark = [pytest.mark.thorough]

# Shorter than what the worker takes for a hang and ends itself, long against the objective's ttft.
STOPPED_IN_BURSTS = """
import os, signal, subprocess, sys
# Not this process, whose own command line holds the name: once it ends, a signal to it would end the bursts in a stop.
pids = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
engines = [pid for pid in pids if b"stand_in_engine.py" in open(f"/proc/{pid}/cmdline", "rb").read()]
code = f'''
import os, signal, time
for _ in range(120):
    for sign, seconds in ((signal.SIGSTOP, 3), (signal.SIGCONT, 1.2)):
        for pid in {engines}:
            os.kill(pid, sign)
        time.sleep(seconds)
'''
subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.DEVNULL)
print(engines)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster of this module's own."""
    with scaled_site("scaling", Path(tmp_path_factory.mktemp("stand-in")), {}) as made:
        yield made


def uids(site: Site) -> set[str]:
    return {pod["metadata"]["uid"] for pod in site.pods(NAME)}


def test_the_number_follows_the_load_names_a_slow_replica_and_survives_a_restart(site: Site) -> None:
    site.apply(deployment(site))
    site.wait_for(NAME, "Progressing", "False", "Settled", timeout_s=300)
    story = Watched(site)
    story.load(0.5)
    time.sleep(45)
    story.load(2.2)
    story.until("a step up is served", 2, 5, 300)
    before = int(story.look()["to"])

    story.load(4.0)
    of_operator = ("-n", fleet.SYSTEM_NAMESPACE, "delete", "pods", "-l", "app.kubernetes.io/name=modelfleet")
    assert site.cluster.kubectl(*of_operator, "--wait=false").returncode == 0
    after_restart = len(story.seen)
    story.until("a burst is served", before + 1, 5, 300)
    assert min(to for to, _ in story.seen[after_restart - 1 :]) >= before, "a restart takes nothing away"

    slow = site.pods(NAME)[0]["metadata"]
    site.run_in_pod(slow["name"], STOPPED_IN_BURSTS)
    site.wait("the slow replica is replaced", lambda: slow["uid"] not in uids(site), 480)
    notes = site.read("events.events.k8s.io")["items"]
    said = [each["note"] for each in notes if each["reason"] == "SlowReplica"]
    print(said)
    assert any(slow["name"] in note for note in said)

    story.load(0.1)
    story.until("the minimum", 1, 1, 1500)
    seen = story.end()
    print(f"the client: {seen['answered']} answered, {seen['good']} within {GOOD_S} s, {seen['failed'][:3]} failed")
    assert seen["failed"] == []


@pytest.mark.engine
def test_a_step_is_served_by_two_real_engines(site: Site) -> None:
    site.kubectl("delete", "mdep", NAME, "--ignore-not-found")
    folders = {
        fleet.MODEL_CLAIM: engine.require_model(cache_dir()),
        fleet.ENGINE_CLAIM: engine.require_engine(cache_dir()),
    }
    for claim, folder in folders.items():
        fleet.apply(site.cluster, fleet.claimed_folder(site.namespace, claim, folder))
    slow_class(site, "slower-cpu", SLOWER_CLASS)
    site.apply(site.deployment("chat", objectives=[OBJECTIVE], accelerators={"classes": ["slower-cpu"]}))
    site.wait_for("chat", "Progressing", "False", "Settled", timeout_s=600)
    story = Watched(site, "chat")
    story.load(0.4)
    time.sleep(45)
    assert int(story.look()["to"]) == 1
    story.load(1.6)
    story.until("two engines serve", 2, 2, 600)
    time.sleep(60)
    assert site.condition("chat", "Ready")["status"] == "True"
    seen = story.end()  # what a start of this length cannot follow is held for an hour, so no decay is waited for
    print(f"the client: {seen['answered']} answered, {seen['good']} within {GOOD_S} s, {seen['failed'][:3]} failed")
    assert seen["failed"] == []
    assert seen["good"] >= 0.9 * seen["answered"]
