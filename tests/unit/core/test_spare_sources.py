"""What a rollout may take in place and what Kubernetes may evict, of fleets whose number has another source than the
declared load."""

from typing import Any

import pytest

from builders import Raw, condition
from planner_worlds import PlannedFleet, planned, settled
from scaling_worlds import sampled

NO_SURGE: Raw = {"rollout": {"maxSurge": 0}}


def left_alone(fleet: PlannedFleet) -> int:
    """How many pods Kubernetes must leave alone."""
    return int(fleet.objects["PodDisruptionBudget", "chat"]["spec"]["minAvailable"])


def out(fleet: PlannedFleet) -> int:
    """How many replicas of a fleet that served were taken out of the Service."""
    return len(fleet.pods()) - fleet.serving()


def new_image(fleet: PlannedFleet) -> None:
    fleet.deployment["spec"]["rollout"] = {"maxSurge": 0}
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}


def test_a_measured_load_above_the_declared_one_keeps_its_replicas_through_a_rollout_in_place() -> None:
    fleet = sampled()
    fleet.run(100, fleet.knee_rps * 6)
    many, site = fleet.replicas, fleet.fleet
    assert many >= 6
    assert site.serving() == many
    assert left_alone(site) == many

    new_image(site)
    outcome = fleet.reconcile()

    assert out(site) == 1
    said = condition(outcome.status, "Progressing")[2]
    assert (
        f"at most 1 of {many} leave first; the other {many - 1} stay of the {many} that the measured load gets" in said
    )


def test_no_more_than_one_leaves_of_the_fewest_replicas_that_the_user_wants() -> None:
    fleet = settled(planned(scaling={"minReplicas": 3}))
    assert (fleet.serving(), left_alone(fleet)) == (3, 3)

    new_image(fleet)
    outcome = fleet.reconcile()

    assert out(fleet) == 1
    assert condition(outcome.status, "Progressing")[2].endswith(", and minReplicas is 3")


def _scaler(manager: str) -> list[Raw]:
    fields = {"f:spec": {"f:scaling": {"f:replicas": {}}}}
    return [{"manager": manager, "subresource": "scale", "fieldsV1": fields}]


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        pytest.param("kube-controller-manager", (5, 1), id="a HorizontalPodAutoscaler measures: all are needed"),
        pytest.param("kubectl", (1, 4), id="by hand: the declared load counts"),
    ],
)
def test_a_number_that_was_written_through_the_scale_subresource(manager: str, expected: tuple[Any, Any]) -> None:
    scaling = {"mode": "Manual", "replicas": 5}
    fleet = PlannedFleet(planned(scaling=scaling))
    fleet.deployment["metadata"]["managedFields"] = _scaler(manager)
    fleet.settle()
    alone = left_alone(fleet)

    new_image(fleet)
    fleet.reconcile()

    assert (alone, out(fleet)) == expected
