"""What a later plan makes of profiles: their knee, their uncertainty, which of several, and a plan made on request."""

from dataclasses import replace
from typing import Any

import pytest

from builders import Raw
from modelfleet.api.parse import parse_deployment
from modelfleet.core.inputs import promised
from modelfleet.core.plan import read
from modelfleet.core.scaling.policy import Memory, Sample, Terms, decide
from modelfleet.core.scaling.terms import terms_of
from planner_worlds import objective, planned, revision, settled


def digest(deployment: Raw) -> str:
    return promised(parse_deployment(deployment))  # type: ignore[arg-type]


def profile(name: str = "mine", knee: str = "", **spec: Any) -> Raw:
    """A profile that corrects nothing, with this knee for the usual promise."""
    base: Raw = {
        "source": "pvc://weights/llama",
        "class": "h100",
        "layout": "tp1",
        "quantization": {"weights": "bf16"},
        "stepTime": {"decodeSamples": 1000, "prefillSamples": 1000},
        "provenance": {"by": "modelfleet calibrate"},
    }
    if knee:
        base["knee"] = {"promise": digest(planned()), "requestsPerSecond": knee, "uncertainty": "10%", "samples": 900}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": base | spec}


def of_operator(of: Raw) -> Raw:
    owner = {"apiVersion": "modelfleet.dev/v1alpha1", "kind": "ModelDeployment", "name": "chat", "uid": "u1"}
    return {**of, "metadata": {**of["metadata"], "ownerReferences": [owner | {"controller": True}]}}


def hosted(fleet: Any) -> Any:
    (item,) = (each for (kind, _), each in fleet.objects.items() if kind == "ControllerRevision")
    plan = read(item["data"]["plan"])
    assert plan is not None
    assert plan.planned is not None
    return plan.planned.hosted


def predicted(fleet: Any) -> Raw:
    return dict(fleet.deployment["status"]["plan"]["pools"][0]["predicted"])


def test_a_measured_knee_counts_at_its_low_end():
    fleet = settled(planned(), profiles=(profile(knee="4"),))
    assert (hosted(fleet).knee_rps, hosted(fleet).knee_measured) == (3.6, True)
    assert "its knee is 3.6 requests a second" in str(fleet.deployment["status"]["plan"]["reasons"])


def test_a_lower_knee_has_more_replicas_planned():
    few, many = (settled(planned(), profiles=(profile(knee=knee),)) for knee in ("9", "1"))
    count = [one.deployment["status"]["plan"]["pools"][0]["replicas"] for one in (few, many)]
    assert count[1] > count[0]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"ttft": "700ms"}, id="another limit"),
        pytest.param({"share": "95%"}, id="another share"),
        pytest.param(
            {"lengths": {"inputTokens": {"p50": 700, "p95": 900}, "outputTokens": {"p50": 90, "p95": 300}}},
            id="other lengths",
        ),
    ],
)
def test_a_knee_of_another_promise_says_nothing(change: Raw):
    fleet = settled(planned(objectives=objective(**change)), profiles=(profile(knee="4"),))
    assert hosted(fleet).knee_measured is False
    assert predicted(fleet)["source"] == "measured"


def test_another_load_or_name_is_the_same_promise():
    same = planned(objectives=objective(name="other", load={"requestsPerSecond": 99}))
    assert digest(same) == digest(planned())


def test_of_several_objectives_their_loads_are_part_of_it():
    def two(load: int) -> Raw:
        return planned(objectives=[*objective(), *objective(name="batch", load={"requestsPerSecond": load})])

    assert digest(two(1)) != digest(two(9))


def test_a_profile_that_somebody_keeps_comes_before_an_operators():
    fleet = settled(planned(), profiles=(of_operator(profile("a", "2")), profile("z", "4")))
    assert hosted(fleet).knee_rps == 3.6


def test_the_stated_uncertainty_is_the_plans():
    sure = profile(stepTime={"decodeSamples": 1000, "tpotUncertainty": "4%", "ttftUncertainty": "9%"})
    assert predicted(settled(planned(), profiles=(sure,)))["uncertainty"].startswith("4")


def test_a_profile_of_a_surer_measurement_has_a_higher_knee():
    def knee(width: str) -> float:
        step = {"decodeSamples": 1000, "prefillSamples": 1000, "tpotUncertainty": width, "ttftUncertainty": width}
        return float(hosted(settled(planned(), profiles=(profile(stepTime=step),))).knee_rps)

    assert knee("5%") > knee("40%")


def test_another_word_has_the_plan_made_anew_and_keeps_pods_that_are_the_same():
    fleet = settled(planned())
    before, pods = revision(fleet), fleet.pods()
    fleet.profiles = (profile(knee="4"),)
    fleet.settle()
    assert predicted(fleet)["source"] == "predicted"
    fleet.deployment["spec"]["replan"] = "once"
    fleet.deployment["metadata"]["generation"] = 2
    fleet.settle()
    assert predicted(fleet)["source"] == "measured"
    assert predicted(fleet)["kneeRequestsPerSecond"] == "3.6"
    if revision(fleet) == before:
        assert fleet.pods() == pods


def test_without_the_word_the_revision_is_what_it_was_before_there_was_one():
    assert revision(settled(planned(replan=""))) == revision(settled(planned()))


def test_the_autoscaler_begins_anew_with_a_knee_that_was_measured():
    terms = Terms(
        knee_rps=3.6, share=0.99, mean_input_tokens=100.0, mean_output_tokens=50.0, prompt_part=0.3, cold_start_s=60.0,
        min_replicas=1, max_replicas=9, measured=True,
    )  # fmt: skip
    sample = Sample(
        now_s=5.0, arrivals=0, input_tokens=0, ended=0, good=0, finished=0, output_tokens=0, serving=1, pending_s=(),
        waiting=0,
    )  # fmt: skip
    learned = Memory(log_knee=0.3, knee_sure=300.0, last_s=0.0)
    _, after = decide(sample, learned, terms)
    assert (after.log_knee, after.knee_sure) == (0.0, Memory().knee_sure)
    _, again = decide(replace(sample, now_s=10.0), replace(after, log_knee=0.1), terms)
    assert again.log_knee == 0.1
    _, other = decide(sample, learned, replace(terms, measured=False))
    assert other.log_knee == 0.3


def test_the_terms_say_whether_the_knee_was_measured():
    fleet = settled(planned(), profiles=(profile(knee="4"),))
    (item,) = (each for (kind, _), each in fleet.objects.items() if kind == "ControllerRevision")
    plan, of = read(item["data"]["plan"]), parse_deployment(fleet.deployment)
    assert plan is not None
    assert terms_of(plan, of.spec.objectives[0], ()).measured is True  # type: ignore[union-attr]
