"""The planner in the operator's process against a real API server, with kwok for kubelets: what a user sees of it."""

import json

import pytest

from modelfleet.api import names
from planner_worlds import FACTS_8B, PERFORMANCE

STATED = {"source": "pvc://models/chat", "facts": FACTS_8B}


@pytest.fixture
def fast(operator, fleet):
    """A namespace with a class whose performance is stated."""
    fleet.create_class(**PERFORMANCE)
    return fleet


def objective(fleet, **changes):
    """The usual objective with changes."""
    return [{**fleet.deployment()["spec"]["objectives"][0], **changes}]


def status(fleet):
    """The status of `chat`."""
    return fleet.get(names.DEPLOYMENT_PLURAL, "chat")["status"]


def notes(fleet, reason):
    """What events of a reason say."""
    found = fleet.api.get(fleet.path("events"))["items"]
    return [event["note"] for event in found if event["reason"] == reason]


def test_a_deployment_without_parallelism_gets_a_plan_and_status_and_events_say_why(fast):
    fast.apply(fast.deployment(model=STATED))
    fast.settled()
    plan = status(fast)["plan"]
    (pool,) = plan["pools"]
    assert (pool["layout"], pool["replicas"], pool["predicted"]["source"]) == ("tp1", 1, "predicted")
    assert {reason["check"] for reason in plan["reasons"]} >= {"FitsOneAccelerator", "TokenBudget", "Load"}
    assert plan["rejected"][0]["layout"] == "tp2"
    fast.wait("the event", lambda: bool(notes(fast, "PlanPinned")))
    assert "fits one accelerator" in notes(fast, "PlanPinned")[0]
    (revision,) = fast.children("controllerrevisions")
    assert f"--max-num-seqs={pool['engine']['sequenceCap']}" in revision["data"]["plan"]["engineArgs"]
    assert status(fast)["cost"]["perHour"] == "2.5"


def test_an_infeasible_promise_makes_no_pod_and_names_what_would_work(fast):
    fast.apply(fast.deployment(model=STATED, objectives=objective(fast, ttft="1ms")))
    message = fast.wait_condition("Planned", "False", "Infeasible")
    assert "nearest that would work" in message
    assert fast.condition("Ready")[:2] == ("False", "Infeasible")
    assert [fast.children(plural) for plural in ("pods", "services", "configmaps", "controllerrevisions")] == [[]] * 4
    fast.wait("the event", lambda: bool(notes(fast, "Infeasible")))


def test_an_offer_that_is_taken_is_rolled_out(fast):
    fast.apply(fast.deployment(model=STATED, objectives=objective(fast, ttft="1ms")))
    fast.wait_condition("Planned", "False", "Infeasible")
    fast.apply(fast.deployment(model=STATED))
    fast.settled()


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        pytest.param({"parallelism": {"tensor": 3}}, "Infeasible", "32 attention heads", id="a tensor out of step"),
        pytest.param(
            {"model": {**STATED, "maxContextTokens": 1_000_000}},
            "Contradiction",
            "spec.model.maxContextTokens",
            id="a context that the model has not",
        ),
        pytest.param(
            {"parallelism": {"strategy": "Disaggregated"}},
            "NotRolledOut",
            "Disaggregated",
            id="prefill and decode apart",
        ),
    ],
)
def test_what_cannot_be_is_said_before_a_pod_exists(fast, spec, reason, words):
    fast.apply(fast.deployment(**{"model": STATED, **spec}))
    assert words in fast.wait_condition("Planned", "False", reason)
    assert fast.children("pods") == []


def test_an_undescribed_model_is_read_by_a_job_that_may_not_do_more_than_that(fast):
    fast.apply(fast.deployment())
    fast.wait("a Job", lambda: bool(fast.children("jobs")))
    (job,) = fast.children("jobs")
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert job["metadata"]["ownerReferences"][0]["kind"] == names.DEPLOYMENT_KIND


def test_a_job_that_ends_without_a_report_is_a_condition_and_no_hang(fast):
    # kwok ends a Job's pods without running them, and so without a termination message.
    fast.apply(fast.deployment())
    message = fast.wait_condition("Planned", "False", "InspectFailed")
    assert "ended without a report" in message
    assert fast.children("controllerrevisions") == []


def test_a_class_without_performance_starts_at_once_and_says_that_nothing_was_predicted(operator, fleet):
    fleet.create_class()
    fleet.apply(fleet.deployment())
    fleet.settled()
    assert "nothing was predicted" in fleet.condition("Planned")[2]
    assert fleet.children("jobs") == []


def test_a_price_or_a_node_that_changes_moves_no_pod(fast):
    fast.apply(fast.deployment(model=STATED))
    fast.settled()
    before = [pod["metadata"]["uid"] for pod in fast.children("pods")]
    fast.create_class(**{**PERFORMANCE, "supplies": [{"name": "spot", "pricePerAcceleratorHour": "1.5"}]})
    fast.wait("the new price", lambda: status(fast)["cost"]["perHour"] == "1.5")
    assert [pod["metadata"]["uid"] for pod in fast.children("pods")] == before


def test_a_profile_is_found_by_its_short_name_and_read_when_a_plan_is_made(fast):
    profile = {
        "apiVersion": names.API_VERSION,
        "kind": names.PROFILE_KIND,
        "metadata": {"name": "measured", "namespace": fast.namespace},
        "spec": {
            "source": "pvc://models/chat",
            "class": fast.class_name,
            "layout": "tp1",
            "quantization": {"weights": "bf16"},
            "stepTime": {"decode": "1.2", "decodeSamples": 100, "prefill": "1.2", "prefillSamples": 20},
            "provenance": {"by": "a test"},
        },
    }
    fast.apply(profile)
    assert "pvc://models/chat" in fast.kubectl("get", "mprof", "measured")
    fast.apply(fast.deployment(model=STATED))
    fast.settled()
    assert status(fast)["plan"]["pools"][0]["predicted"]["source"] == "measured"
    assert "measured" in json.dumps(status(fast)["plan"]["reasons"])
