"""Replicas of more than one rank with the real vLLM on two real nodes: tensor parallelism inside a node, a pipeline
over both, and every way to lose a member. Prints how long it took to notice and to serve again."""

import os
import signal
import time

import group_story as story
import pytest
from site_under_test import Site

from cluster_fixtures import own_cluster
from modelfleet.api import names
from modelfleet_local import Options, engine, fleet
from modelfleet_local.paths import cache_dir

pytestmark = [pytest.mark.thorough, pytest.mark.engine]

READY_S = 900.0  # three imports of torch in a row for each rank, on two cores
ONE_A_NODE = "cpu-one-a-node"  # a class of the same nodes of which a replica gets one accelerator on each
TABLE: list[tuple[str, ...]] = []


@pytest.fixture(scope="module")
def cluster():
    """A cluster of this module's own with two real nodes."""
    with own_cluster("groups", Options(nodes=2, owned=True)) as made:
        yield made


@pytest.fixture(scope="module")
def site(cluster):
    """modelfleet on it, the tiny model and the engine."""
    images = fleet.load_images(cluster)
    fleet.install_operator(cluster, images, {"worker.propagationSeconds": "2", "worker.drainSeconds": "60"})
    made = Site(cluster, "groups")
    fleet.apply(cluster, fleet.model_namespace(made.namespace))
    folders = {
        fleet.MODEL_CLAIM: engine.require_model(cache_dir()),
        fleet.ENGINE_CLAIM: engine.require_engine(cache_dir()),
    }
    for claim, folder in folders.items():
        fleet.apply(cluster, fleet.claimed_folder(made.namespace, claim, folder))
    spec = {**made.read("accel", "cpu")["spec"], "acceleratorsPerNode": 1}
    made.apply(
        {"apiVersion": names.API_VERSION, "kind": names.CLASS_KIND, "metadata": {"name": ONE_A_NODE}, "spec": spec}
    )
    return made


def deployed(site, name, classes, **parallelism):
    """A ModelDeployment with these pins, Ready."""
    spec = {"accelerators": {"classes": classes}, "scaling": {"minReplicas": 1, "maxReplicas": 1}}
    manifest = site.deployment(name, parallelism=parallelism, **spec)
    # With tensor parallelism vLLM compiles a function even with enforce-eager; the image has no C++ compiler.
    manifest["spec"]["engine"]["env"] = [{"name": "TORCHDYNAMO_DISABLE", "value": "1"}]
    site.apply(manifest)
    began_s = time.monotonic()
    site.wait_for(name, "Ready", "True", timeout_s=READY_S)
    TABLE.append((f"{name}: from apply to Ready", "", f"{time.monotonic() - began_s:.0f} s", "", ""))
    return site


def gone(site, name):
    site.kubectl("delete", "mdep", name)
    site.wait(f"no pod of {name}", lambda: site.pods(name) == [], timeout_s=180)


@pytest.fixture(scope="module")
def expected(site):
    """The greedy answer of a replica that is one pod on one accelerator."""
    deployed(site, "alone", ["cpu"], tensor=1)
    text = story.answer(site, "alone")
    gone(site, "alone")
    return text


@pytest.fixture(scope="module")
def pipeline(site, expected):
    """`pair`: two pipeline stages, a node each."""
    return deployed(site, "pair", [ONE_A_NODE], tensor=1, pipeline=2)


def test_tensor_parallelism_inside_a_node_gives_the_answer_of_a_single_pod(site, expected):
    deployed(site, "tensor", ["cpu"], tensor=2)
    (pod,) = site.pods("tensor")
    assert pod["spec"]["containers"][0]["resources"]["limits"]["modelfleet.dev/cpu-slot"] == "2"
    assert story.answer(site, "tensor") == expected
    gone(site, "tensor")


def test_a_pipeline_over_two_nodes_gives_the_answer_of_a_single_pod(pipeline, expected):
    leader, worker = story.members(pipeline, "pair")
    assert leader["spec"]["nodeName"] != worker["spec"]["nodeName"]
    assert story.answer(pipeline, "pair") == expected


def lost(pipeline, expected, what, do):
    """What clients see while `do` takes a member away: nothing wrong, errors said as errors, then answers again."""
    pipeline.wait_for("pair", "Ready", "True", timeout_s=READY_S)
    with story.client(pipeline, "pair", expected) as seen:
        time.sleep(5)
        at_s = do()
        pipeline.wait("it is noticed", lambda: not leader_ready(pipeline), timeout_s=60)
        noticed_s = time.time() - at_s
        pipeline.wait("a Ready group", lambda: serves_again(pipeline), timeout_s=READY_S)
        time.sleep(5)
    error_s, again_s = seen.first("error", at_s), seen.first("right", at_s, "began")
    assert seen.count("wrong") == 0, seen.answers
    assert again_s is not None
    shown = "none in flight" if error_s is None else f"{error_s:.1f} s"
    counts = f"{seen.count('right')} right, {seen.count('error')} errors, {seen.count('wrong')} wrong"
    TABLE.append(
        (
            what,
            f"not Ready after {noticed_s:.1f} s, client's error after {shown}",
            f"{again_s:.0f} s",
            counts,
            said(pipeline),
        )
    )


def leader_ready(site):
    pods = story.members(site, "pair")
    leader = [pod for pod in pods if pod["metadata"]["labels"][names.RANK_LABEL] == "0"]
    return any(
        each["type"] == "Ready" and each["status"] == "True"
        for pod in leader
        for each in pod["status"].get("conditions", [])
    )


def serves_again(site):
    return len(story.members(site, "pair")) == 2 and leader_ready(site)


def said(site):
    """The words of the members that are still there; a deleted one took its own away."""
    return " | ".join(filter(None, (story.failure(pod) for pod in story.members(site, "pair"))))


def test_a_killed_engine_of_the_worker(pipeline, expected):
    lost(
        pipeline,
        expected,
        "SIGKILL of rank 1's engine",
        lambda: story.send(story.members(pipeline, "pair")[1], "VLLM", signal.SIGKILL),
    )


def test_a_frozen_rank(pipeline, expected):
    lost(
        pipeline,
        expected,
        "SIGSTOP of rank 1's engine",
        lambda: story.send(story.members(pipeline, "pair")[1], "VLLM", signal.SIGSTOP),
    )


def deleted(site, rank):
    """The pod of a rank is deleted by force, as by a lost node: no drain."""
    pod = story.members(site, "pair")[rank]
    at_s = time.time()
    site.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
    for pid in story.processes(pod):
        os.kill(pid, signal.SIGKILL)
    return at_s


def test_a_killed_worker_pod(pipeline, expected):
    lost(pipeline, expected, "rank 1's pod killed", lambda: deleted(pipeline, 1))


def test_a_killed_leader_pod(pipeline, expected):
    lost(pipeline, expected, "rank 0's pod killed", lambda: deleted(pipeline, 0))


def test_a_killed_kubelet_costs_no_request(pipeline, expected):
    pipeline.wait_for("pair", "Ready", "True", timeout_s=READY_S)
    node = story.members(pipeline, "pair")[1]["spec"]["nodeName"]
    with story.client(pipeline, "pair", expected) as seen:
        os.kill(pipeline.cluster.process(f"kubelet-{node}").pid, signal.SIGKILL)
        time.sleep(30)
        pipeline.cluster.restart(f"kubelet-{node}")
        time.sleep(10)
    assert (seen.count("wrong"), seen.count("error")) == (0, 0), seen.answers
    assert seen.count("right") > 0
    TABLE.append(
        ("rank 1's kubelet down for 30 s", "never", "0 s", f"{seen.count('right')} right, 0 errors, 0 wrong", "")
    )


def test_deletion_drains_and_leaves_no_request_unanswered(pipeline, expected):
    stream = pipeline.stream("pair", tokens=1500)
    pipeline.kubectl("delete", "mdep", "pair", "--wait=false")
    text, error = stream.communicate(timeout=240)
    assert (stream.returncode, error) == (0, "")
    assert len(text) > 1500
    pipeline.wait("no pod", lambda: pipeline.pods("pair") == [], timeout_s=120)


@pytest.fixture(scope="module", autouse=True)
def table():
    """Printed when all is over."""
    yield
    print("\n| what | noticed | serves again after | requests | said |\n| --- | --- | --- | --- | --- |")
    for row in TABLE:
        print(f"| {' | '.join(row)} |")
