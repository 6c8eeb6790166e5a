"""Flux's kustomize-controller and Argo CD's application controller keep this repository's samples, at the same time.

Each keeps all ModelDeployments in a namespace of its own and one of the two AcceleratorClasses. The nodes are kwok's.
"""

import random
import time

import pytest
from argo_site import AGENT as ARGO_AGENT
from argo_site import argo
from flux_site import AGENT as FLUX_AGENT
from flux_site import flux
from place import CPU_NODE, deployments, furnish, read, samples, writes_to_ours

from apiserver.operator_process import Operator
from cluster_fixtures import own_cluster
from modelfleet_local import Options, kwok
from modelfleet_local.waiting import wait_until

pytestmark = pytest.mark.gitops

BY_FLUX, BY_ARGO = "models-flux", "models-argo"
FILES = {BY_FLUX: samples(classes=["cpu"]), BY_ARGO: samples(classes=["h100-sxm"])}
SCALED = "summaries"  # the sample in mode Manual
APPLIED_S = 300.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Six GPU nodes and a CPU node of kwok, and an operator."""
    with own_cluster("gitops", Options(kwok_nodes=6, audit=True, owned=True)) as made:
        made.api.create("/api/v1/nodes", kwok.node("kwok-cpu", CPU_NODE))
        for namespace in FILES:
            furnish(made, namespace)
        operator = Operator(made.kubeconfig, tmp_path_factory.mktemp("operator") / "log")
        operator.start()
        yield made
        assert operator.stop() == 0, operator.log.read_text()


@pytest.fixture(scope="module")
def keepers(cluster, tmp_path_factory):
    """Both controllers, with the samples committed, applied and healthy."""
    with (
        flux(cluster, BY_FLUX, tmp_path_factory.mktemp("flux")) as by_flux,
        argo(cluster, BY_ARGO, tmp_path_factory.mktemp("argo")) as by_argo,
    ):
        commit(by_flux, by_argo)
        yield by_flux, by_argo


def commit(by_flux, by_argo, **changed):
    """Commits the samples, some changed by file name, and waits until they are applied and healthy."""
    by_flux.commit(FILES[BY_FLUX] | changed)
    by_argo.commit(FILES[BY_ARGO] | changed)
    wait_until("Flux to be ready", by_flux.is_applied, timeout_s=APPLIED_S)
    wait_until("Argo CD to be synced and healthy", by_argo.is_applied, timeout_s=APPLIED_S)


def replicas(cluster, namespace):
    return read(cluster, "mdep", SCALED, f"--namespace={namespace}")["spec"]["scaling"]["replicas"]


def scale(cluster, namespace, count):
    done = cluster.kubectl("scale", "mdep", SCALED, f"--namespace={namespace}", f"--replicas={count}")
    assert done.returncode == 0, done.stderr


def test_both_see_every_sample_healthy_once_it_serves(cluster, keepers):
    _, by_argo = keepers
    for namespace, files in FILES.items():
        for name in deployments(files):
            conditions = read(cluster, "mdep", name, f"--namespace={namespace}")["status"]["conditions"]
            assert {each["type"]: each["status"] for each in conditions}["Ready"] == "True", (namespace, name)
    for name in deployments(FILES[BY_ARGO]):
        health, message = by_argo.health("ModelDeployment", name)
        assert (health, "replicas serve" in message) == ("Healthy", True), (name, message)
    assert by_argo.health("AcceleratorClass", "h100-sxm") == ("Healthy", "a class has no state of its own")


def test_no_drift_is_seen_and_nothing_is_written_while_replicas_are_scaled(cluster, keepers, pytestconfig):
    by_flux, by_argo = keepers
    seconds = pytestconfig.getoption("--gitops-minutes") * 60
    since, syncs = cluster.audit_log.stat().st_size, by_argo.syncs()
    looks = by_flux.looks(), by_argo.looks()
    chance, scalings, states = random.Random(7), 0, set()
    ends_s = time.monotonic() + seconds
    wanted = {}
    while time.monotonic() < ends_s:
        for namespace in FILES:
            wanted[namespace] = chance.choice([count for count in range(1, 9) if count != wanted.get(namespace)])
            scale(cluster, namespace, wanted[namespace])
            scalings += 1
        pause_s = min(8.0, max(0.0, ends_s - time.monotonic()))
        until_s = time.monotonic() + pause_s
        while time.monotonic() < until_s:
            states.add((by_argo.state()[0], by_flux.ready()[0]))
            time.sleep(0.5)
    looked = by_flux.looks() - looks[0], by_argo.looks() - looks[1]
    writes = {agent: writes_to_ours(cluster.audit_log, agent, since) for agent in (FLUX_AGENT, ARGO_AGENT)}
    print(
        f"\n{seconds / 60:g} minutes, {scalings} scalings: Flux looked {looked[0]} times and wrote"
        f" {len(writes[FLUX_AGENT])} times, Argo CD looked {looked[1]} times and wrote {len(writes[ARGO_AGENT])} times;"
        f" seen (Argo CD sync, Flux Ready): {sorted(states)}"
    )
    assert writes == {FLUX_AGENT: [], ARGO_AGENT: []}
    assert {sync for sync, _ in states} == {"Synced"}
    assert by_argo.syncs() == syncs
    assert min(looked) >= max(1, int(seconds / 60))
    assert {namespace: replicas(cluster, namespace) for namespace in FILES} == wanted


@pytest.mark.parametrize("namespace", [BY_FLUX, BY_ARGO])
def test_what_differs_from_git_otherwise_is_put_back(cluster, keepers, namespace):
    place = ("mdep", SCALED, f"--namespace={namespace}")
    before = read(cluster, *place)["spec"]["scaling"]["maxReplicas"]
    done = cluster.kubectl("patch", *place, "--type=merge", '--patch={"spec":{"scaling":{"maxReplicas":9}}}')
    assert done.returncode == 0, done.stderr
    wait_until(
        "what Git says", lambda: read(cluster, *place)["spec"]["scaling"]["maxReplicas"] == before, timeout_s=APPLIED_S
    )


def test_what_cannot_work_is_a_failure_with_the_operator_s_reason_and_mends_with_the_next_commit(cluster, keepers):
    by_flux, by_argo = keepers
    file = "modeldeployment-tensor-parallel.yaml"
    broken = FILES[BY_FLUX][file].replace("tensor: 4", "tensor: 16")
    by_flux.commit(FILES[BY_FLUX] | {file: broken})
    by_argo.commit(FILES[BY_ARGO] | {file: broken})
    wait_until("Argo CD's Degraded", lambda: by_argo.state()[1] == "Degraded", timeout_s=APPLIED_S)
    health, message = by_argo.health("ModelDeployment", "llama-70b")
    assert (health, message.partition(":")[0]) == ("Degraded", "TensorExceedsNode")
    wait_until("Flux's failure", lambda: by_flux.ready()[0] == "False", timeout_s=APPLIED_S)
    assert "llama-70b" in by_flux.ready()[1]
    commit(by_flux, by_argo)
