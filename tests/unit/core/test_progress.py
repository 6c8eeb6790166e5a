"""How long a new replica may take to serve, from what else the operator waits for, and how a time is said."""

from functools import cache
from typing import Any

import pytest

from builders import Fleet, accelerator_class, condition, manual
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.parse import parse_class
from modelfleet.core.plan import Place, Plan, Weights
from modelfleet.core.progress import in_words, longest_start_s
from planner_worlds import planned, settled

FETCHED = Weights(source="hf://org/model", place=Place.NODE)
FOLDER = Weights(source="file:///models", place=Place.FOLDER)
BOUGHT = {"supplies": [{"name": "spot", "provisioning": "Autoscaled", "limit": 8, "pricePerAcceleratorHour": "1"}]}


def plan(start_deadline_s: float = 9000, drain_s: float = 300, weights: Weights | None = None) -> Plan:
    """A plan of a replica that may take so long."""
    read = _usual()
    limits = {"start_deadline_s": start_deadline_s, "drain_s": drain_s, "propagation_s": 5}
    return read.model_copy(update={"limits": read.limits.model_copy(update=limits), "weights": weights})


@cache
def _usual() -> Plan:
    stored = next(item for (kind, _), item in settled(planned()).objects.items() if kind == "ControllerRevision")
    return Plan.model_validate(stored["data"]["plan"])


def classes(**spec: Any) -> dict[str, AcceleratorClass]:
    parsed = parse_class(accelerator_class("h100", **spec))
    assert isinstance(parsed, AcceleratorClass)
    return {"h100": parsed}


@pytest.mark.parametrize(
    ("plans", "spec", "expected_s"),
    [
        pytest.param([plan(9000)], {}, 305 + 900 + 9000, id="the old one's drain, the image, and the start"),
        pytest.param([plan(9000)], BOUGHT, 305 + 900 + 900 + 9000, id="a node is bought before"),
        pytest.param([plan(9000, weights=FETCHED)], {}, 305 + 900 + 8100 + 9000, id="weights are fetched"),
        pytest.param([plan(9000, weights=FOLDER)], {}, 305 + 900 + 9000, id="weights are on the node"),
        pytest.param([plan(600, weights=FETCHED)], {}, 305 + 900 + 600, id="a short start leaves nothing for a fetch"),
        pytest.param([plan(1800), plan(9000)], {}, 305 + 900 + 9000, id="the longest of several classes"),
        pytest.param([plan(1800, drain_s=7200)], {}, 7205 + 900 + 1800, id="a long drain"),
    ],
)
def test_how_long_a_start_may_take(plans: list[Plan], spec: dict[str, Any], expected_s: float) -> None:
    assert longest_start_s(plans, classes(**spec)) == expected_s


def test_a_class_that_is_gone_buys_nothing() -> None:
    assert longest_start_s([plan(1800)], {}) == 305 + 900 + 1800


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(1800, "30m"), (3005, "51m"), (3600, "1h"), (10205, "2h51m"), (1e9, "277777h47m"), (0, "0m")],
)
def test_a_time_in_words(seconds: float, said: str) -> None:
    assert in_words(seconds) == said


def test_a_rollout_whose_image_is_long_in_coming_is_given_as_long_as_a_start_may_take() -> None:
    fleet = Fleet(manual(2, engine={"image": "image:1"}), broken_images={"image:2"})
    fleet.settle()
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    said = []
    for _ in range(55):
        said.append(condition(fleet.reconcile().status, "Progressing")[1])
        fleet.tick(60)
    assert set(said[5:50]) == {"ImageNotPullable"}
    assert said[-1] == "RolledBack"
    assert "for 51m no further new replica has come" in condition(fleet.deployment["status"], "Progressing")[2]
