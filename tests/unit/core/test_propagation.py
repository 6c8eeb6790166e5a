"""Ready means that a request sent now would be answered: also by nodes that must first learn where to send it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import START, Fleet, Raw, condition, manual
from modelfleet.core.reconcile import plan
from modelfleet.core.snapshot import Settings

PROPAGATION_S = Settings(worker_image="worker").propagation_s


def serving(ready_s: float | None, replicas: int = 1) -> Fleet:
    """A settled model whose replicas have been Ready for so many seconds; None: nobody says since when."""
    fleet = Fleet(manual(replicas=replicas))
    fleet.settle()
    for pod in fleet.pods().values():
        turned(fleet, pod, ready_s)
    return fleet


def turned(fleet: Fleet, pod: Raw, ready_s: float | None) -> None:
    """The pod has been Ready for so many seconds, and its worker has run since the beginning."""
    (said,) = (each for each in pod["status"]["conditions"] if each["type"] == "Ready")
    said.pop("lastTransitionTime", None)
    if ready_s is not None:
        said["lastTransitionTime"] = (fleet.now - timedelta(seconds=ready_s)).isoformat()
    (container,) = pod["status"].setdefault("containerStatuses", [{"name": "worker"}])
    container["state"] = {"running": {"startedAt": (START - timedelta(days=1)).isoformat()}}


@pytest.mark.parametrize(
    ("ready_s", "status", "wake_s"),
    [
        (0.0, "False", PROPAGATION_S),
        (PROPAGATION_S - 1, "False", 1.0),
        (PROPAGATION_S, "True", None),
        (None, "True", None),
        pytest.param(-3600.0, "True", None, id="a clock that is an hour ahead"),
    ],
)
def test_ready_waits_for_the_nodes(ready_s: float | None, status: str, wake_s: float | None) -> None:
    outcome = serving(ready_s).reconcile()
    assert condition(outcome.status, "Available")[0] == "True"
    assert condition(outcome.status, "Ready")[:2] == (status, "Serving" if status == "True" else "Announced")
    moving = ("True", "Announced") if status == "False" else ("False", "Settled")
    assert condition(outcome.status, "Progressing")[:2] == moving
    assert outcome.wake_after_s == wake_s


def test_one_that_nodes_know_is_enough() -> None:
    fleet = serving(0.0, replicas=2)
    turned(fleet, next(iter(fleet.pods().values())), 60.0)
    assert condition(fleet.reconcile().status, "Ready")[0] == "True"


@pytest.mark.parametrize(("asked_s", "status"), [(1.0, "True"), (3.0, "False"), (PROPAGATION_S + 1, "False")])
def test_one_that_was_asked_to_end_takes_what_arrives_for_so_long(asked_s: float, status: str) -> None:
    fleet = serving(2.0, replicas=2)
    old = next(iter(fleet.pods().values()))
    turned(fleet, old, 60.0)
    by = fleet.now + timedelta(seconds=330 - asked_s)
    old["metadata"] |= {"deletionTimestamp": by.isoformat(), "deletionGracePeriodSeconds": 330}
    outcome = fleet.reconcile()
    assert condition(outcome.status, "Ready")[0] == status
    assert (outcome.wake_after_s == PROPAGATION_S - 2.0) == (status == "False")


@pytest.mark.parametrize("ready_s", [0.0, -30.0, -3600.0])
def test_what_was_seen_to_serve_for_long_is_known_whatever_a_clock_says(ready_s: float) -> None:
    fleet = serving(ready_s)
    (pod,) = fleet.pods().values()
    seen = replace(fleet.world(), serving_s={pod["metadata"]["uid"]: 60.0})
    assert condition(plan(seen).status, "Ready")[0] == "True"
