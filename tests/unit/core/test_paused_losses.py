"""What is lost while a rollout is paused comes back as the revision that serves, or served."""

import pytest

from builders import Fleet, Raw, condition, is_ready, manual, merged

NEW, BEFORE = "image:2", "image:1"


def image(pod: Raw) -> str:
    """Which revision it is of."""
    found: str = pod["spec"]["containers"][0]["image"]
    return found


def count(fleet: Fleet, of: str, *, serving: bool = False) -> int:
    return sum(image(pod) == of and (is_ready(pod) or not serving) for pod in fleet.pods().values())


def broken(replicas: int, **rollout: object) -> Fleet:
    """A rollout that is paused when its first replica cannot come up."""
    fleet = Fleet(manual(replicas, engine={"image": BEFORE}), broken_images={NEW})
    fleet.settle()
    change(fleet, engine={"image": NEW}, rollout=rollout)
    for _ in range(4):
        fleet.reconcile()
        fleet.tick()
    change(fleet, rollout={"paused": True})
    for _ in range(2):
        fleet.reconcile()
        fleet.tick()
    assert (count(fleet, BEFORE, serving=True), count(fleet, NEW)) == (replicas, 1)
    return fleet


def change(fleet: Fleet, **spec: object) -> None:
    fleet.deployment["spec"] = merged(fleet.deployment["spec"], spec)
    fleet.deployment["metadata"]["generation"] += 1


def lose(fleet: Fleet, replicas: int) -> None:
    """So many that serve are gone at once."""
    gone = [name for name, pod in fleet.pods().items() if image(pod) == BEFORE][:replicas]
    for name in gone:
        del fleet.objects["Pod", name]


@pytest.mark.parametrize(
    ("replicas", "lost"),
    [
        pytest.param(1, 1, id="the only one"),
        pytest.param(3, 1, id="one of several"),
        pytest.param(3, 3, id="all of them"),
    ],
)
def test_what_is_lost_is_made_of_what_served_though_a_broken_new_one_stands(replicas: int, lost: int):
    fleet = broken(replicas)
    lose(fleet, lost)
    outcome = fleet.settle()
    assert (count(fleet, BEFORE, serving=True), count(fleet, NEW)) == (replicas, 1)
    assert condition(outcome.status, "Progressing")[1] == "RolloutPaused"


def test_what_the_spec_asks_for_is_tried_again_after_the_pause():
    fleet = broken(1)
    lose(fleet, 1)
    fleet.settle()
    fleet.broken_images = set()
    change(fleet, rollout={"paused": False})
    fleet.settle()
    assert (count(fleet, BEFORE), count(fleet, NEW, serving=True)) == (0, 1)


def test_a_change_that_is_paused_from_its_beginning_does_not_come_by_a_loss():
    fleet = Fleet(manual(1, engine={"image": BEFORE}))
    fleet.settle()
    change(fleet, engine={"image": NEW}, rollout={"paused": True})
    fleet.settle()
    lose(fleet, 1)
    fleet.settle()
    assert (count(fleet, BEFORE, serving=True), count(fleet, NEW)) == (1, 0)
