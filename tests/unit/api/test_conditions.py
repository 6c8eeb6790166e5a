"""How one condition replaces another, and how they are read and written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelfleet.api.conditions import Condition, ConditionStatus, dump, read, upsert

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = THEN + timedelta(hours=1)


def condition(status: str, at: datetime, **changes: Any) -> Condition:
    fields = {"type": "Ready", "reason": "Starting", "observed_generation": 1} | changes
    return Condition(status=ConditionStatus(status), last_transition_time=at, **fields)


@pytest.mark.parametrize(
    ("before", "after", "at"),
    [
        pytest.param("False", "False", THEN, id="an unchanged status keeps its time"),
        pytest.param("False", "True", NOW, id="a changed status takes the new time"),
        pytest.param("Unknown", "False", NOW, id="to know is a change"),
    ],
)
def test_the_time_is_that_of_the_last_transition(before: str, after: str, at: datetime) -> None:
    (got,) = upsert((condition(before, THEN),), condition(after, NOW, reason="Other", observed_generation=2))

    assert (got.last_transition_time, got.reason, got.observed_generation) == (at, "Other", 2)


def test_conditions_are_ordered_by_type_and_the_others_stay() -> None:
    old = (condition("True", THEN, type="Planned"), condition("True", THEN, type="Ready"))

    got = upsert(old, condition("True", NOW, type="Accepted"))

    assert [each.type for each in got] == ["Accepted", "Planned", "Ready"]
    assert got[1:] == old


def test_what_was_written_is_read_again() -> None:
    conditions = (condition("True", THEN, message="all is well"),)

    assert read({"conditions": dump(conditions)}) == conditions


def test_times_are_written_in_whole_seconds() -> None:
    (got,) = dump([condition("True", THEN.replace(microsecond=123456))])

    assert got["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="no conditions"),
        pytest.param({"conditions": None}, id="null"),
        pytest.param({"conditions": "text"}, id="no list"),
        pytest.param({"conditions": [{"type": "Ready"}, "text", None]}, id="broken entries"),
    ],
)
def test_what_cannot_be_read_is_left_out(status: dict[str, Any]) -> None:
    assert read(status) == ()
