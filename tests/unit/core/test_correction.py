"""Settings that are lowered after a death: which step is taken, when, and what is remembered of it."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import START
from modelfleet.api.reasons import Reason
from modelfleet.core.correction import (
    PAUSE_S,
    STEPS_LIMIT,
    Death,
    Learned,
    corrected,
    decide_correction,
    entry_of,
    learned,
)
from modelfleet.core.failures import Failure, Proposal
from modelfleet.core.plan import CorrectionStep, Limits, Plan
from modelfleet.core.revisions import Revision

DAY = timedelta(seconds=PAUSE_S)
FRACTION = "gpu-memory-utilization"
PLAN = Plan(
    image="image:1",
    image_pull_policy="IfNotPresent",
    class_name="h100",
    device="Cuda",
    tensor=1,
    resource_name="nvidia.com/gpu",
    accelerators=1,
    shared_memory="2Gi",
    claim="models",
    path="m",
    served_names=("chat",),
    engine_args=("--tensor-parallel-size=1", "--gpu-memory-utilization=0.9", "--max-num-batched-tokens=8192"),
    limits=Limits(start_deadline_s=1, drain_s=1, propagation_s=1),
)


def death(flag: str = FRACTION, value: str = "0.85", reason: Reason = Reason.MEMORY_FRACTION_TOO_HIGH, **more: Any):
    failure = Failure(reason, "it died", hopeless=True, proposal=Proposal(flag, value))
    return Death(**{"failures": [failure], "plan": PLAN, **more})


def step(value: str = "0.85", at=START, flag: str = FRACTION) -> CorrectionStep:
    return CorrectionStep(flag=flag, value=value, before="0.9", cause="MemoryFractionTooHigh", at=at)


def revision(number: int, scope: str, *steps: CorrectionStep) -> Revision:
    return Revision("0" * 63 + str(number), number, corrected(PLAN, Learned(scope, steps)))


@pytest.mark.parametrize(
    ("of", "before", "taken", "note"),
    [
        pytest.param(death(), Learned("s"), "0.85", "", id="a small step down is taken"),
        pytest.param(death(value="0.8"), Learned("s"), "0.8", "", id="a tenth is the largest step"),
        pytest.param(death(value="0.7"), Learned("s"), None, "", id="more than a tenth at once is not believed"),
        pytest.param(death(value="0.95"), Learned("s"), None, "", id="upward is not believed"),
        pytest.param(death(value="0.9"), Learned("s"), None, "", id="the same is no step"),
        pytest.param(death(value="much"), Learned("s"), None, "", id="no number is no step"),
        pytest.param(death(flag="trust-remote-code"), Learned("s"), None, "", id="another flag is not touched"),
        pytest.param(
            death(flag="long-prefill-token-threshold", value="4096", reason=Reason.LONG_PROMPT_SPIKE),
            Learned("s"),
            "4096",
            "",
            id="a bound that was not set is set",
        ),
        pytest.param(
            death(flag="max-num-batched-tokens", value="4096", reason=Reason.LONG_PROMPT_SPIKE),
            Learned("s"),
            "4096",
            "",
            id="half of the tokens of a step",
        ),
        pytest.param(
            death(flag="max-num-batched-tokens", value="2048", reason=Reason.LONG_PROMPT_SPIKE),
            Learned("s"),
            None,
            "",
            id="less than half at once is not believed",
        ),
        pytest.param(
            death(flag="kv-cache-memory-bytes", value="1000000000"), Learned("s"), "1000000000", "", id="a KV cache"
        ),
        pytest.param(death(reason=Reason.FOREIGN_MEMORY), Learned("s"), None, "", id="never for a foreign process"),
        pytest.param(death(reason=Reason.ENGINE_DIED), Learned("s"), None, "", id="nor for a death of another kind"),
        pytest.param(
            death(users={FRACTION: "0.9"}), Learned("s"), None, "is yours", id="what the user wrote is the user's"
        ),
        pytest.param(
            death(),
            Learned("s", (step("0.89"), step("0.88"), step("0.87")), START - 2 * DAY),
            None,
            "no more are",
            id="three in all",
        ),
        pytest.param(
            death(), Learned("s", (), START - DAY + timedelta(seconds=1)), None, "one correction a day", id="one a day"
        ),
        pytest.param(death(), Learned("s", (), START - DAY), "0.85", "", id="a day later"),
        pytest.param(
            death(),
            Learned("s", (), START + timedelta(hours=1)),
            None,
            "one correction a day",
            id="a clock that went back makes no day pass",
        ),
        pytest.param(death(failures=[]), Learned("s"), None, "", id="nobody died"),
        pytest.param(death(plan=None), Learned("s"), None, "", id="nothing is known of what it ran with"),
    ],
)
def test_a_step(of, before, taken, note):
    found = decide_correction(before, of, START)
    assert (found.taken.value if found.taken else None) == taken
    assert (note in found.note) if note else not found.note
    assert (found.learned == before) == (taken is None)
    assert (found.wake_after_s is not None) == ("a day" in found.note)


def test_a_step_says_what_it_was_before_and_when_it_was_taken():
    found = decide_correction(Learned("s"), death(), START)
    assert found.taken == step("0.85")
    assert found.learned == Learned("s", (step("0.85"),), START)


def test_a_plan_is_corrected_the_same_way_every_time_and_each_flag_stands_once():
    what = Learned("s", (step("0.85"), step("0.8"), step("4096", flag="long-prefill-token-threshold")))
    once = corrected(PLAN, what)
    assert once == corrected(PLAN, what)
    assert once.engine_args == (
        "--tensor-parallel-size=1",
        "--max-num-batched-tokens=8192",
        "--gpu-memory-utilization=0.8",
        "--long-prefill-token-threshold=4096",
    )
    assert corrected(PLAN, Learned("s")) is PLAN


def test_what_is_kept_is_read_again():
    what = Learned("s", (step(),), START)
    assert learned(entry_of({}, what), {}, "s") == what


def test_other_scopes_are_kept_and_count_for_the_daily_limit():
    first = entry_of({}, Learned("s", (step(),), START))
    both = entry_of(first, Learned("t", (step(at=START + DAY),), START + DAY))
    assert learned(both, {}, "s") == Learned("s", (step(),), START + DAY)
    assert learned(both, {}, "u") == Learned("u", (), START + DAY)


def test_at_most_four_scopes_are_kept_the_newest_of_them():
    entry: dict[str, Any] = {}
    for name in "abcdef":
        entry = entry_of(entry, Learned(name, (step(),)))
    assert [each["scope"] for each in entry["scopes"]] == list("cdef")


def test_a_lost_entry_is_made_up_from_the_newest_revision_of_the_scope():
    known = {
        str(number): each
        for number, each in enumerate(
            (revision(1, "s", step()), revision(3, "t", step("0.7")), revision(2, "s", step(), step("0.8")))
        )
    }
    assert learned({}, known, "s").flags == {FRACTION: "0.8"}
    assert learned({}, known, "u") == Learned("u", (), START)


GARBAGE: list[Any] = [
    {"scopes": "none"},
    {"scopes": [{"scope": "s"}, 7]},
    {"scopes": [{"scope": "s", "steps": [{"flag": FRACTION, "value": "0.1"}]}]},
    {"scopes": [{"scope": "s", "steps": [{**step().model_dump(mode="json"), "at": "yesterday"}]}]},
    {"scopes": [{"scope": "s", "steps": [{**step().model_dump(mode="json"), "flag": "enable-auto-tool-choice"}]}]},
    {"scopes": [{"scope": "s", "steps": [step().model_dump(mode="json")] * (STEPS_LIMIT + 1)}]},
]


@pytest.mark.parametrize("entry", GARBAGE)
def test_what_somebody_wrote_by_hand_counts_as_lost(entry):
    assert learned(entry, {"1": revision(1, "s", step())}, "s").flags == {FRACTION: "0.85"}
    assert learned(entry, {}, "s") == Learned("s")


@given(value=st.text(max_size=32), flag=st.text(max_size=64), days=st.floats(-3, 3))
def test_whatever_a_worker_proposes_at_most_one_small_step_is_taken(value, flag, days):
    before = Learned("s", (), START - timedelta(days=days))
    found = decide_correction(before, death(flag=flag, value=value), START)
    assert len(found.learned.steps) <= 1
    assert found.learned.scope == "s"
