"""A pinned plan: what makes another revision, what moves no pod, and what counts only when a plan is made."""

from typing import Any

import pytest

from builders import Fleet, Raw, deployment
from modelfleet.core.snapshot import Settings
from planner_worlds import FACTS_8B, gpu_class, node, objective, planned, revision, settled

PLAIN = gpu_class(memory=None, memoryBandwidth=None, compute=None)

UNMOVED = [
    pytest.param({"nodes": ()}, id="no nodes any more"),
    pytest.param({"nodes": (node("one"), node("two"))}, id="another node"),
    pytest.param({"settings": Settings(worker_image="registry.example/another:2")}, id="another operator's settings"),
    pytest.param(
        {"classes": {"h100": gpu_class(supplies=[{"name": "spot", "pricePerAcceleratorHour": "9"}])}},
        id="another price",
    ),
    pytest.param({"profiles": ({"metadata": {"name": "x"}, "spec": {"source": "pvc://weights/llama"}},)}, id="junk"),
]


@pytest.mark.parametrize("change", UNMOVED)
def test_a_pinned_plan_moves_no_pod_for(change: dict[str, Any]):
    fleet = settled(planned())
    before, pods = revision(fleet), fleet.pods()
    for name, value in change.items():
        setattr(fleet, name, value)
    fleet.settle()
    assert (revision(fleet), fleet.pods()) == (before, pods)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"scaling": {"maxReplicas": 7, "maxAccelerators": 99}}, id="bounds"),
        pytest.param({"economics": {"reasons": ["Latency"]}}, id="economics"),
        pytest.param({"objectives": objective(name="renamed")}, id="an objective's name"),
        pytest.param({"objectives": objective(ttft="0m500ms")}, id="another spelling"),
        pytest.param({"parallelism": {"strategy": "Auto"}}, id="a default that is spelled out"),
    ],
)
def test_the_revision_stays_for(spec: Raw):
    assert revision(settled(planned(**spec))) == revision(settled(planned()))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"objectives": objective(ttft="600ms")}, id="another promise"),
        pytest.param({"parallelism": {"tensor": 1}}, id="a pin, although it is what was chosen"),
        pytest.param({"speculation": {"mode": "Never"}}, id="speculation"),
        pytest.param({"model": {"facts": FACTS_8B | {"layers": 30}}}, id="stated facts"),
    ],
)
def test_the_revision_is_another_for(spec: Raw):
    assert revision(settled(planned(**spec))) != revision(settled(planned()))


def test_a_promise_that_gives_the_same_pods_restarts_none():
    fleet = settled(planned())
    before, pods = revision(fleet), fleet.pods()
    knee = float(fleet.deployment["status"]["plan"]["pools"][0]["predicted"]["kneeRequestsPerSecond"])
    fleet.deployment["spec"]["objectives"] = objective(load={"requestsPerSecond": int(knee * 2.5)})
    fleet.settle()
    assert revision(fleet) == before
    assert len(fleet.pods()) > len(pods)
    assert pods.items() <= fleet.pods().items()
    assert fleet.deployment["status"]["scaling"]["lastDecision"]["reason"] == "SizedForLoad"


def test_a_revision_that_stands_for_another_promise_is_kept_by_every_later_operator():
    fleet = settled(planned())
    before = revision(fleet)
    fleet.deployment["spec"]["objectives"] = objective(load={"requestsPerSecond": 100})
    fleet.settle()
    plan_before, pods = fleet.deployment["status"]["plan"], fleet.pods()
    fleet.settings, fleet.nodes = Settings(worker_image="registry.example/another:2"), ()
    fleet.settle()
    assert (revision(fleet), fleet.deployment["status"]["plan"], fleet.pods()) == (before, plan_before, pods)


def test_a_stricter_promise_that_needs_other_pods_is_another_revision_and_the_old_one_comes_back_with_the_old_promise():
    fleet = settled(planned())
    before = revision(fleet)
    fleet.deployment["spec"]["objectives"] = objective(tpot="20ms")
    fleet.settle()
    assert revision(fleet) != before
    fleet.deployment["spec"]["objectives"] = objective()
    fleet.settle()
    assert revision(fleet) == before


@pytest.mark.parametrize("junk", ["{", "[]", '{"inputs": 1}', None])
def test_an_adoption_that_was_scribbled_on_costs_a_plan_and_no_pod(junk: str | None):
    fleet = settled(planned())
    fleet.deployment["spec"]["objectives"] = objective(load={"requestsPerSecond": 100})
    fleet.settle()
    before, pods = revision(fleet), fleet.pods()
    state = fleet.objects["ConfigMap", "chat-state"]
    state["data"] = {"adoption.json": junk} if junk else {}
    fleet.settle()
    assert (revision(fleet), fleet.pods()) == (before, pods)
    assert "planned" in fleet.objects["ConfigMap", "chat-state"]["data"]["adoption.json"]


def profile(**spec: Any) -> Raw:
    """A raw ModelProfile of the usual model on the usual class."""
    base = {
        "source": "pvc://weights/llama",
        "class": "h100",
        "layout": "tp1",
        "quantization": {"weights": "bf16"},
        "stepTime": {"decode": "1.5", "decodeSamples": 200, "prefill": "1.5", "prefillSamples": 50},
        "provenance": {"by": "modelfleet calibrate"},
    }
    return {"metadata": {"name": "slow", "namespace": "team"}, "spec": base | spec}


def test_measured_values_replace_predicted_ones_when_a_plan_is_made():
    fleet = settled(planned(), profiles=(profile(),))
    pool = fleet.deployment["status"]["plan"]["pools"][0]
    assert pool["predicted"]["source"] == "measured"
    assert "slow" in str(fleet.deployment["status"]["plan"]["reasons"])
    assert revision(fleet) == revision(settled(planned()))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(profile(source="pvc://weights/other"), id="another model"),
        pytest.param(profile(**{"class": "l4"}), id="another class"),
        pytest.param(profile(layout="tp2"), id="another layout"),
        pytest.param(profile(quantization={"weights": "fp8"}), id="other weights"),
        pytest.param(profile(quantization={"weights": "bf16", "kvCache": "fp8"}), id="another KV cache"),
        pytest.param(profile(layout="8x"), id="one that breaks a rule"),
    ],
)
def test_a_profile_counts_for_what_it_was_measured_on_only(other: Raw):
    fleet = settled(planned(), profiles=(other,))
    assert fleet.deployment["status"]["plan"]["pools"][0]["predicted"]["source"] == "predicted"


def test_a_profile_that_comes_later_is_used_at_the_next_revision_only():
    fleet = settled(planned())
    before = fleet.deployment["status"]["plan"]
    fleet.profiles = (profile(),)
    fleet.settle()
    assert fleet.deployment["status"]["plan"] == before


def test_a_class_that_gains_performance_facts_is_planned_anew():
    fleet = settled(planned(), classes={"h100": PLAIN})
    before = revision(fleet)
    fleet.classes = {"h100": gpu_class()}
    fleet.settle()
    assert revision(fleet) != before


def test_deployments_of_before_keep_their_revision():
    fleet = Fleet(deployment())
    fleet.settle()
    assert revision(fleet) == "f8b9cfbc"
