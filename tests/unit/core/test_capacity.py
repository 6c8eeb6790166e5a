"""How many replicas may be missing, and what the others carry."""

from functools import cache
from typing import Any

import pytest

from modelfleet.api.rollout import Rollout
from modelfleet.core.capacity import Needs, decide_spare
from modelfleet.core.plan import Plan
from planner_worlds import PlannedFleet, planned

UNPREDICTED = "how much of the load the other 2 carry is not predicted"


def plan(load_rps: float | None, knee_rps: float = 4.0) -> Plan:
    """A plan of replicas that serve `knee_rps` each, for this load; None: nothing is predicted."""
    read = _usual()
    if load_rps is None or read.planned is None:
        return read.model_copy(update={"planned": None})
    hosted = read.planned.hosted.model_copy(update={"load_rps": load_rps, "knee_rps": knee_rps})
    return read.model_copy(update={"planned": read.planned.model_copy(update={"hosted": hosted})})


@cache
def _usual() -> Plan:
    fleet = PlannedFleet(planned())
    fleet.settle()
    stored = next(item for (kind, _), item in fleet.objects.items() if kind == "ControllerRevision")
    return Plan.model_validate(stored["data"]["plan"])


@pytest.mark.parametrize(
    ("rollout", "replicas", "load_rps", "expected"),
    [
        pytest.param({}, 3, 10.0, (1, 0), id="each is needed: a rollout takes one, Kubernetes none"),
        pytest.param({}, 5, 10.0, (2, 2), id="two are above what the load needs"),
        pytest.param({}, 3, None, (1, 0), id="nothing is predicted: as if each were needed"),
        pytest.param({"maxUnavailable": 0}, 5, 10.0, (0, 0), id="the user says none"),
        pytest.param({"maxUnavailable": 2}, 3, 10.0, (2, 2), id="the user says two"),
        pytest.param({"maxUnavailable": 9}, 3, 10.0, (3, 3), id="no more than there are"),
        pytest.param({}, 1, 1.0, (1, 0), id="one replica: only its own rollout takes it away"),
    ],
)
def test_bounds(rollout: dict[str, Any], replicas: int, load_rps: float | None, expected: tuple[int, int]) -> None:
    spare = decide_spare(Rollout.model_validate(rollout), replicas, plan(load_rps))
    assert (spare.missing, spare.evictable) == expected


MEASURED = Needs(source="the measured load gets")


@pytest.mark.parametrize(
    ("rollout", "replicas", "needs", "expected"),
    [
        pytest.param({}, 8, Needs(), (5, 5), id="the declared load needs three of eight"),
        pytest.param({}, 8, MEASURED, (1, 0), id="the measured load needs them all, whatever was declared"),
        pytest.param({}, 8, Needs(least=6), (2, 2), id="minReplicas needs more than the load"),
        pytest.param({}, 8, Needs(least=8), (1, 0), id="minReplicas needs all: a rollout must go on all the same"),
        pytest.param({}, 4, Needs(least=1), (1, 1), id="the load needs more than minReplicas"),
        pytest.param({"maxUnavailable": 3}, 8, MEASURED, (3, 3), id="what the user says wins over the measured load"),
        pytest.param({"maxUnavailable": 3}, 8, Needs(least=8), (3, 3), id="and over minReplicas"),
        pytest.param({"maxUnavailable": 0}, 8, Needs(least=8), (0, 0), id="also where it says none"),
    ],
)
def test_more_than_the_declared_load_may_need_replicas(
    rollout: dict[str, Any], replicas: int, needs: Needs, expected: tuple[int, int]
) -> None:
    spare = decide_spare(Rollout.model_validate(rollout), replicas, plan(10.0), needs=needs)
    assert (spare.missing, spare.evictable) == expected


@pytest.mark.parametrize(
    ("replicas", "needs", "said"),
    [
        pytest.param(8, MEASURED, "the other 7 stay of the 8 that the measured load gets", id="the measured load"),
        pytest.param(2, MEASURED, "the other one stays of the 2 that the measured load gets", id="one of two"),
        pytest.param(1, MEASURED, "no replica is left meanwhile", id="none"),
        pytest.param(
            4,
            Needs(least=4),
            "the other 3 carry 100% of the declared 10 requests a second, and minReplicas is 4",
            id="minReplicas, and what the others carry",
        ),
        pytest.param(
            4,
            Needs(least=4, source="minReplicas asks for"),
            "the other 3 stay of the 4 that minReplicas asks for",
            id="minReplicas against a measured load",
        ),
        pytest.param(
            4,
            Needs(least=4, source="schedules[0] asks for"),
            "the other 3 stay of the 4 that schedules[0] asks for, and minReplicas is 4",
            id="both",
        ),
    ],
)
def test_who_needs_what_is_lost_is_said(replicas: int, needs: Needs, said: str) -> None:
    assert decide_spare(Rollout(), replicas, plan(10.0), needs=needs).loss == said


@pytest.mark.parametrize(
    ("replicas", "load_rps", "said"),
    [
        pytest.param(3, 10.0, "the other 2 carry 80% of the declared 10 requests a second", id="a part"),
        pytest.param(5, 10.0, "the other 3 carry 100% of the declared 10 requests a second", id="no more than all"),
        pytest.param(2, 10.0, "the other one carries 40% of the declared 10 requests a second", id="one"),
        pytest.param(1, 10.0, "no replica is left meanwhile", id="none"),
        pytest.param(3, None, UNPREDICTED, id="not predicted"),
    ],
)
def test_what_is_lost_is_said(replicas: int, load_rps: float | None, said: str) -> None:
    assert decide_spare(Rollout(), replicas, plan(load_rps)).loss == said
