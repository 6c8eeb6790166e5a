"""Every reason is documented, and its page is the code's."""

import re
from pathlib import Path

import pytest

from modelfleet.api.conditions import MEANING, ConditionStatus, ConditionType
from modelfleet.api.reasons import EventReason, Reason, ScalingReason
from modelfleet.cli.main import main

PAGE = Path(__file__).parents[3] / "docs" / "conditions.md"


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_has_a_standing_a_meaning_and_a_remedy(reason: Reason) -> None:
    assert re.fullmatch("[A-Z][A-Za-z]+", reason)
    assert reason.standings
    assert reason.meaning.endswith(".")
    assert reason.remedy.endswith((".", ")"))


@pytest.mark.parametrize("reason", [*ScalingReason, *EventReason])
def test_a_reason_outside_the_conditions_has_a_meaning_and_a_remedy(reason: ScalingReason | EventReason) -> None:
    assert re.fullmatch("[A-Z][A-Za-z]+", reason)
    assert reason.meaning.endswith(".")
    assert reason.remedy.endswith(".")


def test_every_condition_has_a_meaning_and_a_reason() -> None:
    assert set(MEANING) == set(ConditionType) == {condition for reason in Reason for condition, _ in reason.standings}


def test_the_reasons_of_a_worker_are_those_of_the_contract() -> None:
    contract = (PAGE.parent / "architecture.md").read_text().partition("\nReasons: ")[2].partition(". The operator")[0]

    assert set(re.findall("`([A-Za-z]+)`", contract)) <= {reason.value for reason in Reason}


def test_bad_news_has_a_remedy() -> None:
    bad = [reason for reason in Reason if any(status is ConditionStatus.FALSE for _, status in reason.standings)]
    content = {Reason.SETTLED, Reason.REPLICA_LOST}

    assert [reason for reason in bad if reason.remedy == "Nothing to do." and reason not in content] == []


def test_the_page_is_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    main(["docs", "conditions"])

    assert PAGE.read_text() == capsys.readouterr().out, "run `make generate`"
