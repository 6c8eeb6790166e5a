"""Equal specs have equal bytes, so that a plan's hash moves only when something changed."""

import json
from typing import Any

import pytest

from api_objects import CLASS, DEPLOYMENT, changed
from modelfleet.api.parse import parse_class, parse_deployment
from modelfleet.api.schema import canonical


def spelled(raw: dict[str, Any]) -> str:
    parsed = parse_deployment(raw) if raw["kind"] == "ModelDeployment" else parse_class(raw)
    assert not isinstance(parsed, tuple)
    return json.dumps(canonical(parsed.spec))


OBJECTIVE = "spec.objectives.0"


@pytest.mark.parametrize(
    ("base", "one", "other"),
    [
        pytest.param(DEPLOYMENT, {f"{OBJECTIVE}.ttft": "60s"}, {f"{OBJECTIVE}.ttft": "1m"}, id="durations"),
        pytest.param(DEPLOYMENT, {f"{OBJECTIVE}.share": 99}, {}, id="a default that is written out"),
        pytest.param(DEPLOYMENT, {"spec.parallelism": {}}, {}, id="an empty map"),
        pytest.param(
            DEPLOYMENT,
            {f"{OBJECTIVE}.load.requestsPerSecond": "12.0"},
            {f"{OBJECTIVE}.load.requestsPerSecond": 12},
            id="rates",
        ),
        pytest.param(
            DEPLOYMENT,
            {"spec.engine.args": {"seed": 1, "dtype": "auto"}},
            {"spec.engine.args": {"dtype": "auto", "seed": "1"}},
            id="flags in another order",
        ),
        pytest.param(
            CLASS,
            {"spec.hostPerAccelerator.memory": "1Gi"},
            {"spec.hostPerAccelerator.memory": "1024Mi"},
            id="quantities",
        ),
    ],
)
def test_equal_values_are_spelled_alike(base: Any, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert spelled(changed(base, one)) == spelled(changed(base, other))


def test_different_values_are_spelled_differently() -> None:
    assert spelled(changed(DEPLOYMENT, {"spec.parallelism.tensor": 2})) != spelled(changed(DEPLOYMENT, {}))


def test_the_objects_name_is_the_served_name_unless_given() -> None:
    plain = parse_deployment(DEPLOYMENT)
    named = parse_deployment(changed(DEPLOYMENT, {"spec.model.servedNames": ["a", "b"]}))

    assert not isinstance(plain, tuple)
    assert not isinstance(named, tuple)
    assert (plain.served_names, named.served_names) == (("chat",), ("a", "b"))
