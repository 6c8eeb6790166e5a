"""Replicas of more than one rank with the real vLLM on two real nodes: tensor parallelism inside a node, a pipeline
over both, and every way to lose a member. Prints how long it took to notice and to serve again."""

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

import group_story as story
import pytest
import stand_in_installation
from site_under_test import Site

from cluster_fixtures import own_cluster
from modelfleet.api import names
from modelfleet_local import Options, engine, fleet
from modelfleet_local.paths import cache_dir

pytestmark = pytest.mark.thorough

READY_S = 1500.0  # three imports of torch in a row for each rank, on two cores
ONE_A_NODE = "cpu-one-a-node"  # a class of the same nodes of which a replica gets one accelerator on each
SHORT = 8  # tokens: ranks on one machine wait for each other with all of its cores
TABLE: list[tuple[str, ...]] = []


@pytest.fixture(scope="module")
def cluster():
    """A cluster of this module's own with two real nodes."""
    with own_cluster("groups", Options(nodes=2, owned=True)) as made:
        yield made


@pytest.fixture(scope="module")
def installed(cluster):
    """modelfleet on it, and a class of the same nodes of which a replica gets one accelerator on each."""
    images = fleet.load_images(cluster)
    fleet.install_operator(cluster, images, {"worker.propagationSeconds": "2", "worker.drainSeconds": "60"})
    made = Site(cluster, "default")
    spec = {**made.read("accel", "cpu")["spec"], "acceleratorsPerNode": 1}
    kind = {"apiVersion": names.API_VERSION, "kind": names.CLASS_KIND, "metadata": {"name": ONE_A_NODE}}
    made.apply({**kind, "spec": spec})
    return cluster


def stand_in(folder):
    """The stand-in as an installation; its answers do not depend on the layout, its deaths do."""
    stand_in_installation.install(folder)
    stand_in_installation.turn(folder, STAND_IN_TOKEN_S="0.02")
    return folder, {}


def vllm(_):
    """The real engine. With tensor parallelism it compiles a function even with enforce-eager; the image has no C++
    compiler."""
    args = {"enforce-eager": "true", "kv-cache-memory-bytes": "64M", "max-num-seqs": 8}
    env = [{"name": "TORCHDYNAMO_DISABLE", "value": "1"}]
    return engine.require_engine(cache_dir()), {"args": args, "env": env}


@dataclass(frozen=True)
class EngineSite(Site):
    """A site whose deployments share engine settings."""

    settings: dict[str, Any]


@pytest.fixture(scope="module", params=[stand_in, pytest.param(vllm, marks=pytest.mark.engine)])
def site(request, installed, tmp_path_factory):
    """A namespace with the tiny model and an engine."""
    TABLE.append((f"**{request.param.__name__}**", "", "", "", ""))
    installation, settings = request.param(tmp_path_factory.mktemp("installation") / "engine")
    made = EngineSite(installed, f"groups-{request.param.__name__.replace('_', '-')}", settings)
    fleet.apply(installed, fleet.model_namespace(made.namespace))
    folders = {fleet.MODEL_CLAIM: engine.require_model(cache_dir()), fleet.ENGINE_CLAIM: installation}
    for claim, folder in folders.items():
        fleet.apply(installed, fleet.claimed_folder(made.namespace, claim, folder))
    yield made
    made.remove()


def apply(site, name, classes, **parallelism):
    """A ModelDeployment with these pins."""
    spec = {"accelerators": {"classes": classes}, "scaling": {"minReplicas": 1, "maxReplicas": 1}}
    used = {"installationClaimName": fleet.ENGINE_CLAIM, **site.settings}
    site.apply(site.deployment(name, parallelism=parallelism, engine=used, **spec))


def gone(site, name):
    site.kubectl("delete", "mdep", name)
    site.wait(f"no pod of {name}", lambda: site.pods(name) == [], timeout_s=180)


@pytest.fixture(scope="module")
def pipeline(site):
    """`pair`: two pipeline stages, a node each. Beside it `alone`, one pod on one accelerator."""
    began_s = time.monotonic()
    apply(site, "pair", [ONE_A_NODE], tensor=1, pipeline=2)
    apply(site, "alone", ["cpu"], tensor=1)
    for name in ("pair", "alone"):
        site.wait_for(name, "Ready", "True", timeout_s=READY_S)
        TABLE.append((f"{name}: from apply to Ready", "", f"{time.monotonic() - began_s:.0f} s", "", ""))
    return site


@pytest.fixture(scope="module")
def answers(pipeline):
    """The greedy answers of `alone`, long and short."""
    texts = story.answer(pipeline, "alone"), story.answer(pipeline, "alone", SHORT)
    gone(pipeline, "alone")
    return texts


@pytest.fixture(scope="module")
def expected(answers):
    return answers[0]


def test_a_pipeline_over_two_nodes_gives_the_answer_of_a_single_pod(pipeline, expected):
    leader, worker = story.members(pipeline, "pair")
    assert leader["spec"]["nodeName"] != worker["spec"]["nodeName"]
    (policy,) = pipeline.read("networkpolicies")["items"]
    assert policy["metadata"]["name"] == leader["metadata"]["name"]
    assert story.answer(pipeline, "pair") == expected


def lost(pipeline, expected, what, do):
    """What clients see while `do` takes a member away: nothing wrong, errors said as errors, then answers again."""
    pipeline.wait_for("pair", "Ready", "True", timeout_s=READY_S)
    said = set()
    with story.client(pipeline, "pair", expected) as seen:
        time.sleep(5)
        at_s = do()
        pipeline.wait("it is noticed", lambda: not leader_ready(pipeline, said), timeout_s=60)
        noticed_s = time.time() - at_s
        pipeline.wait("a Ready group", lambda: serves_again(pipeline, said), timeout_s=READY_S)
        time.sleep(40)  # longer than the client waits for a pod that vanished
    error_s, again_s = seen.first("error", at_s), seen.first("right", at_s, "began")
    assert seen.count("wrong") == 0, seen.answers
    assert again_s is not None
    cut = sum(one["is"] == "error" and one["began"] <= at_s for one in seen.answers)
    counts = f"{seen.count('right')} right, {cut} cut off, {seen.count('error') - cut} refused meanwhile, 0 wrong"
    noticed = f"not Ready after {noticed_s:.1f} s, the client's error after {error_s or 0:.1f} s"
    TABLE.append((what, noticed, f"{again_s:.0f} s", counts, " / ".join(sorted(said))))
    print(f"\n{TABLE[-1]}")


def leader_ready(site, said):
    """Whether rank 0 is Ready; `said` takes in what members said about their ends."""
    pods = story.members(site, "pair")
    said |= {words for words in map(story.failure, pods) if words}
    leader = [pod for pod in pods if pod["metadata"]["labels"][names.RANK_LABEL] == "0"]
    conditions = [each for pod in leader for each in pod["status"].get("conditions", [])]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def serves_again(site, said):
    return leader_ready(site, said) and len(story.members(site, "pair")) == 2


def deleted(site, rank):
    """The pod of a rank is deleted by force, as by a lost node: no drain."""
    pod = story.members(site, "pair")[rank]
    at_s = time.time()
    site.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
    story.kill(list(story.processes(pod)), signal.SIGKILL)
    return at_s


def test_a_killed_worker_pod(pipeline, expected):
    lost(pipeline, expected, "rank 1's pod killed", lambda: deleted(pipeline, 1))


def test_a_killed_leader_pod(pipeline, expected):
    lost(pipeline, expected, "rank 0's pod killed", lambda: deleted(pipeline, 0))


def test_a_frozen_rank(pipeline, expected):
    lost(
        pipeline,
        expected,
        "SIGSTOP of rank 1's engine",
        lambda: story.send(story.members(pipeline, "pair")[1], "VLLM", signal.SIGSTOP),
    )


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


def test_tensor_parallelism_inside_a_node_gives_the_answer_of_a_single_pod(pipeline, answers):
    apply(pipeline, "tensor", ["cpu"], tensor=2)
    pipeline.wait_for("tensor", "Ready", "True", timeout_s=READY_S)
    (pod,) = pipeline.pods("tensor")
    assert pod["spec"]["containers"][0]["resources"]["limits"]["modelfleet.dev/cpu-slot"] == "2"
    assert story.answer(pipeline, "tensor", SHORT) == answers[1]


@pytest.fixture(scope="module", autouse=True)
def table():
    """Printed when all is over."""
    yield
    print("\n| what | noticed | serves again after | requests | said |\n| --- | --- | --- | --- | --- |")
    for row in TABLE:
        print(f"| {' | '.join(row)} |")
