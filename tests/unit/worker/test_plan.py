"""plan.json: what is read, and the sentence for what cannot be."""

import json
from typing import Any

import pytest

from modelfleet_worker.plan import Limits, Plan, PlanError, parse_plan


def whole() -> dict[str, Any]:
    return {
        "revision": "1a2b3c4d",
        "model": {"path": "/models/claim", "servedNames": ["chat", "alias"], "later": 1},
        "engine": {"python": "/opt/engine/bin/python", "args": ["--seed=1"], "env": {"A": "b"}},
        "limits": {"startDeadline_s": 1800, "drain_s": 300, "propagation_s": 0.5},
        "later": {},
    }


def test_a_plan_with_fields_of_a_later_version() -> None:
    assert parse_plan(json.dumps(whole())) == Plan(
        revision="1a2b3c4d",
        model_path="/models/claim",
        served_names=("chat", "alias"),
        python="/opt/engine/bin/python",
        args=("--seed=1",),
        env={"A": "b"},
        limits=Limits(start_deadline_s=1800, drain_s=300, propagation_s=0.5),
    )


def test_an_engine_of_the_images_own_needs_no_words() -> None:
    value = whole()
    del value["engine"]
    plan = parse_plan(json.dumps(value))
    assert (plan.python, plan.args, plan.env) == (None, (), {})


@pytest.mark.parametrize(
    ("part", "key", "given", "says"),
    [
        ("model", "path", None, "model.path is missing"),
        ("model", "path", "models/x", 'model.path must be an absolute path, not "models/x"'),
        ("model", "servedNames", [], "model.servedNames must be a list of at least one name, not []"),
        ("engine", "python", 3, "engine.python must be an absolute path, not 3"),
        ("engine", "args", "--x", 'engine.args must be a list of strings, not "--x"'),
        ("engine", "env", {"A": 1}, 'engine.env must be an object of strings, not {"A": 1}'),
        ("limits", "drain_s", -1, "limits.drain_s must be a number of seconds from 0 to 1000000000, not -1"),
        ("limits", "drain_s", True, "limits.drain_s must be a number of seconds from 0 to 1000000000, not true"),
        ("limits", "startDeadline_s", float("nan"), "limits.startDeadline_s must be a number of seconds"),
    ],
)
def test_a_wrong_field_is_named(part: str, key: str, given: Any, says: str) -> None:
    value = whole()
    value[part][key] = given
    with pytest.raises(PlanError) as caught:
        parse_plan(json.dumps(value))
    assert f"plan.json: {says}" in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"model": []}'])
def test_what_is_no_plan_at_all_is_said(text: str) -> None:
    with pytest.raises(PlanError, match=r"^plan\.json"):
        parse_plan(text)
