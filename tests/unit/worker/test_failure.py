"""The termination message."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelfleet.api import reasons
from modelfleet_worker.failure import LIMIT_BYTES, Failure, Reason

ANY = st.text(st.characters(exclude_categories=()), max_size=8000)


@given(message=st.text(max_size=8000), log=st.text(max_size=8000))
def test_is_json_that_the_kubelet_does_not_cut(message: str, log: str) -> None:
    failure = Failure(reason=Reason.ENGINE_DIED, message=message, remedy="Look.", exit_code=-9, log=log)
    text = failure.to_json()
    assert len(text.encode()) <= LIMIT_BYTES
    value = json.loads(text)
    assert (value["reason"], value["remedy"], value["exitCode"]) == ("EngineDied", "Look.", -9)
    assert message.startswith(value["message"])
    assert log.endswith(value["log"])


def test_a_long_log_loses_its_beginning_and_keeps_the_message() -> None:
    value = json.loads(Failure(reason=Reason.ENGINE_DIED, message="m", remedy="r", log="é" * 9000 + "end").to_json())
    assert value["message"] == "m"
    assert value["log"].endswith("end")
    assert len(value["log"]) > 1500


@given(message=ANY, remedy=ANY, log=ANY, evidence=st.dictionaries(st.text(max_size=9), ANY, max_size=3))
def test_whatever_it_says_it_is_json_of_that_length(message: str, remedy: str, log: str, evidence: Any) -> None:
    failure = Failure(reason=Reason.ENGINE_DIED, message=message, remedy=remedy, log=log, evidence=evidence)
    text = failure.to_json()
    assert len(text.encode()) <= LIMIT_BYTES
    assert json.loads(text)["reason"] == "EngineDied"


def test_a_remedy_that_is_too_long_is_cut_and_not_tried_for_ever() -> None:
    value = json.loads(Failure(reason=Reason.ENGINE_DIED, message="m", remedy="\x01" * 9000).to_json())
    assert 600 < len(value["remedy"]) < 9000


@pytest.mark.parametrize("reason", list(Reason))
def test_the_api_documents_every_reason(reason: Reason) -> None:
    assert reasons.Reason(reason.value).remedy
