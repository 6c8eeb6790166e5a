"""How a hold of sessions reaches workers, and what it leaves alone."""

import json
from typing import Any

from builders import deployment
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.parse import parse_deployment
from modelfleet.core.inputs import planner_inputs
from modelfleet.core.promise import digest, promise
from modelfleet_worker.promise import Hold, parse_promise

WHEN = {"header": "X-Tier", "values": ["silver", "gold"]}


def held(**change: Any) -> ModelDeployment:
    one = deployment()
    one["spec"]["sessions"] = {"hold": {"when": WHEN, "maxGap": "1m30s", "maxShareOfCache": "12.5%", **change}}
    found = parse_deployment(one)
    assert isinstance(found, ModelDeployment)
    return found


def plain() -> ModelDeployment:
    found = parse_deployment(deployment())
    assert isinstance(found, ModelDeployment)
    return found


def test_a_worker_reads_the_hold_that_the_operator_writes() -> None:
    said = parse_promise(json.dumps(promise(held())))
    assert said.hold == Hold(
        header="x-tier", values=frozenset({"gold", "silver"}), max_gap_s=90.0, max_share_of_cache=0.125
    )


def test_without_a_hold_the_promise_says_nothing_of_one() -> None:
    assert "hold" not in promise(plain())
    assert parse_promise(json.dumps(promise(plain()))).hold is None


def test_a_hold_changes_neither_what_requests_are_judged_by_nor_what_pods_are_made_from() -> None:
    assert digest(held()) == digest(held(maxGap="5s")) == digest(plain())
    assert planner_inputs(held(), ()) == planner_inputs(plain(), ())
