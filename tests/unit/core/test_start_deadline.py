"""How long a start may take: a floor, and what reading a large checkpoint takes."""

import pytest

from builders import Fleet, deployment
from modelfleet.core.plan import read
from modelfleet.core.start_deadline import BANDWIDTH_BYTES_S, ENGINE_S, FETCH_S, MOST_S, fetch_limit_s, start_deadline_s
from planner_worlds import FACTS_405B, PlannedFleet, gpu_class, objective, planned
from weight_worlds import COMMIT, fetching, planned_by, report

FLOOR_S = 1800.0
SLOW = {"ttft": "30s", "tpot": "200ms"}


@pytest.mark.parametrize(
    ("checkpoint_bytes", "bandwidth", "deadline_s"),
    [
        pytest.param(None, 2e9, FLOOR_S, id="a size that is not known: the floor"),
        pytest.param(16e9, None, FLOOR_S, id="a small model: the floor"),
        pytest.param(810e9, None, ENGINE_S + 2 * 810e9 / BANDWIDTH_BYTES_S, id="a large one from a slow disk"),
        pytest.param(810e9, 10e9, FLOOR_S, id="the same from a fast one: the floor again"),
        pytest.param(810e9, 1e9, 2520.0, id="810 GB at 1 GB/s: 900 s and twice 810 s"),
        pytest.param(10**400, None, MOST_S, id="a size that no float holds"),
        pytest.param(810e9, 1e-6, MOST_S, id="a disk that would take years"),
        pytest.param(-1, None, FLOOR_S, id="a size below zero"),
    ],
)
def test_the_deadline(checkpoint_bytes: float | None, bandwidth: float | None, deadline_s: float):
    assert start_deadline_s(FLOOR_S, checkpoint_bytes, bandwidth) == deadline_s


def limits_s(fleet: Fleet) -> float:
    """The deadline that the first reconcile pins."""
    fleet.reconcile()
    (revision,) = [item for (kind, _), item in fleet.objects.items() if kind == "ControllerRevision"]
    plan = read(revision["data"]["plan"])
    assert plan is not None
    return plan.limits.start_deadline_s


def test_a_plan_with_predictions_pins_a_deadline_for_its_checkpoint():
    asked = planned(FACTS_405B, objectives=objective(**SLOW), model={"maxContextTokens": 8192})
    slow = limits_s(PlannedFleet(asked, machines=("one", "two")))
    fast = PlannedFleet(asked, machines=("one", "two"), classes={"h100": gpu_class(storageBandwidth="20G")})
    assert slow > 4000
    assert limits_s(fast) == FLOOR_S


def test_a_bandwidth_that_is_stated_later_changes_no_plan_that_is_pinned():
    fleet = PlannedFleet(planned(FACTS_405B, objectives=objective(**SLOW), model={"maxContextTokens": 8192}))
    before = limits_s(fleet)
    fleet.classes["h100"]["spec"]["storageBandwidth"] = "20G"
    assert limits_s(fleet) == before


def test_where_nothing_is_predicted_the_floor_holds():
    assert limits_s(Fleet(deployment())) == FLOOR_S


def test_where_nothing_is_predicted_the_size_that_the_job_read_counts():
    fleet = planned_by(fetching(words=report(COMMIT, checkpoint_bytes=400 * 10**9)))
    assert limits_s(fleet) == ENGINE_S + 2 * 400e9 / BANDWIDTH_BYTES_S


@pytest.mark.parametrize(
    ("start_s", "limit_s"),
    [
        pytest.param(1800.0, FETCH_S, id="a small model has a day"),
        pytest.param(9000.0, 90_000.0, id="810 GB: ten times the start, so a fetch at 9 MB/s is in time"),
    ],
)
def test_how_long_one_attempt_to_fetch_may_take(start_s: float, limit_s: float):
    assert fetch_limit_s(start_s) == limit_s
