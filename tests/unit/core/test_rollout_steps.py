"""One step of the pods, row by row."""

from datetime import timedelta
from typing import Any

import pytest

from builders import START
from modelfleet.api.reasons import Reason
from modelfleet.core.drain import Terms
from modelfleet.core.failures import Failure
from modelfleet.core.pods import PodView
from modelfleet.core.rollout import RETRY_S, SURGE_PATIENCE_S, Scene, Way, decide_step
from scenes import OFF, STARTING, old, pod, scene, told

BROKEN = Failure(Reason.IMAGE_NOT_PULLABLE, "the image cannot be pulled", hopeless=True)
DIED = Failure(Reason.ENGINE_DIED, "the engine died", hopeless=False)
PENDING: dict[str, Any] = {
    "ready": False,
    "placed": False,
    "unschedulable": "1 Insufficient gpu",
    "unschedulable_since": START - timedelta(minutes=5),
    "lacks": ("gpu",),
}
FAILED: dict[str, Any] = {"ready": False, "finished": True, "failure": Failure(Reason.REPLICA_LOST, "Evicted", True)}


def out(seconds: dict[str, float]) -> Terms:
    """For how long replicas have been out of the Service."""
    return Terms(propagation_s=5.0, out_s=seconds)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(scene(), {"create": (0, 1)}, id="nothing there: all replicas are created at once"),
        pytest.param(scene(pod(0), pod(1)), {}, id="all there: nothing to do"),
        pytest.param(scene(pod(0), pod(1, **STARTING)), {}, id="a pod that starts is waited for"),
        pytest.param(scene(pod(1)), {"create": (0,)}, id="the lowest free slot is used"),
        pytest.param(
            scene(pod(0, terminating=True, ready=False), pod(1)), {"create": (2,)}, id="a pod that ends holds its slot"
        ),
        pytest.param(scene(pod(0), replicas=5), {"create": (1, 2, 3, 4)}, id="growing creates all at once"),
        pytest.param(scene(pod(0), pod(1), replicas=1), {"off": "b1"}, id="shrinking drains the highest slot"),
        pytest.param(
            scene(pod(0, **STARTING), pod(1), replicas=1),
            {"delete": "b0"},
            id="shrinking takes what does not serve first",
        ),
        pytest.param(
            scene(pod(0, **STARTING), pod(1, ready=False, failure=DIED), replicas=1),
            {"delete": "b1"},
            id="shrinking takes the broken before what starts",
        ),
        pytest.param(
            scene(pod(0, **OFF), pod(1), replicas=1),
            {},
            id="what already drains stays the victim while others could be",
        ),
        pytest.param(scene(pod(0, **OFF), pod(1)), {"on": "b0"}, id="a label switched off by hand is put back"),
        pytest.param(
            scene(pod(0), pod(1, **OFF), replicas=1, drains=out({"chat-bbbbbbbb-1": 4.9})),
            {},
            id="a draining pod is kept until the endpoints had time to spread",
        ),
        pytest.param(
            scene(pod(0), pod(1, **OFF), replicas=1, drains=out({"chat-bbbbbbbb-1": 5.0})),
            {"delete": "b1"},
            id="then it is deleted",
        ),
        pytest.param(
            scene(pod(0), pod(1, **FAILED)), {"create": (2,), "delete": "b1"}, id="an evicted pod is replaced at once"
        ),
        pytest.param(
            scene(pod(0), pod(1, **{**FAILED, "created_at": START - timedelta(seconds=1)})),
            {},
            id="a pod that ended right after its creation is not replaced in a tight loop",
        ),
        pytest.param(
            scene(old(0), old(1)), {"create": (0,)}, id="a rollout creates one pod more than wanted, not a second fleet"
        ),
        pytest.param(scene(old(0), old(1), pod(0, **STARTING)), {}, id="the old ones stay until the new one is Ready"),
        pytest.param(scene(old(0), old(1), pod(0)), {"off": "a1"}, id="then one old one drains"),
        pytest.param(
            scene(old(0), old(1, **OFF), pod(0)), {}, id="no second old one drains while the first is on its way"
        ),
        pytest.param(
            scene(old(0), old(1, terminating=True, ready=False), pod(0)),
            {"create": (1,)},
            id="the next new pod comes when the old one was deleted",
        ),
        pytest.param(
            scene(old(0, ready=False, failure=BROKEN), old(1, ready=False, failure=BROKEN)),
            {"create": (0, 1), "delete": "a0 a1"},
            id="old pods that never come up do not hold the rollout",
        ),
        pytest.param(
            scene(old(0, **STARTING), old(1), pod(0, **STARTING)),
            {},
            id="an old pod that restarts is not given up for a new revision that has proved nothing",
        ),
        pytest.param(
            scene(old(0, **STARTING), old(1), pod(0)),
            {"create": (1,), "delete": "a0"},
            id="once a new pod is Ready the old ones that do not serve go first",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, ready=False, failure=BROKEN)), {}, id="a broken new pod moves no old one"
        ),
        pytest.param(
            scene(old(0), old(1), old(2), replicas=1), {"off": "a1 a2"}, id="shrinking in a rollout takes old ones"
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **PENDING)), {"off": "a1"}, id="no room: an old one makes room first"
        ),
        pytest.param(
            scene(old(0), pod(0, **PENDING)),
            {},
            id="no room and one missing already: no second one leaves",
        ),
        pytest.param(
            scene(old(0), old(1, **STARTING), pod(0, **PENDING)),
            {"delete": "a1"},
            id="no room: an old one that does not serve makes room before one that does",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **{**PENDING, "unschedulable_since": START})),
            {},
            id="no room since a moment: the scheduler gets its time",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **{**PENDING, "lacks": ()})),
            {},
            id="no node for another reason than room: no old one would help",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **PENDING, requests={"gpu": 2.0})),
            {},
            id="no room and an old one holds too little: none leaves in vain",
        ),
        pytest.param(
            scene(old(0), old(1), old(2, terminating=True, ready=False), pod(0, **PENDING)),
            {},
            id="no room while a pod of ours is ending: its room is waited for",
        ),
        pytest.param(
            scene(PodView(**{**vars(old(0)), "revision": None, "slot": None}), pod(0), pod(1)),
            {"off": "?None"},
            id="a pod of ours under a strange name leaves as an old one does",
        ),
    ],
)
def test_one_step(of: Scene, expected: dict[str, Any]) -> None:
    assert told(of) == expected


@pytest.mark.parametrize(
    ("of", "wake_after_s"),
    [
        pytest.param(scene(pod(0), pod(1)), None, id="nothing to wait for"),
        pytest.param(scene(pod(0), pod(1), replicas=1), 5.0, id="a drain begins: the propagation time"),
        pytest.param(
            scene(pod(0), pod(1, **OFF), replicas=1, drains=out({"chat-bbbbbbbb-1": 3.0})),
            2.0,
            id="what is left of it",
        ),
        pytest.param(
            scene(pod(0), pod(1, **{**FAILED, "created_at": START - timedelta(seconds=10)})),
            RETRY_S - 10,
            id="an ended pod that is too young",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **{**PENDING, "unschedulable_since": START - timedelta(seconds=10)})),
            SURGE_PATIENCE_S - 10,
            id="the scheduler's time",
        ),
    ],
)
def test_when_to_look_again(of: Scene, wake_after_s: float | None) -> None:
    assert decide_step(of).wake_after_s == wake_after_s


@pytest.mark.parametrize(
    ("of", "way"),
    [
        pytest.param(scene(pod(0), pod(1)), Way.NONE, id="no old pods"),
        pytest.param(scene(old(0), old(1), pod(0, **STARTING)), Way.SURGE, id="a new pod beside the old ones"),
        pytest.param(scene(old(0), old(1), pod(0, **PENDING)), Way.DELETE_FIRST, id="an old one makes room"),
        pytest.param(
            scene(old(0), old(1), pod(0, **PENDING, requests={"gpu": 8.0})),
            Way.BLOCKED,
            id="none can make enough room",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **{**PENDING, "lacks": ()})),
            Way.BLOCKED,
            id="no node is fit for it, however much room there is",
        ),
    ],
)
def test_the_step_says_which_way_it_chose(of: Scene, way: Way) -> None:
    assert decide_step(of).way is way


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_clock_that_is_hours_off_delays_nothing_for_hours(hours: int) -> None:
    of = scene(pod(0), pod(1, **FAILED), now=START + timedelta(hours=hours))
    assert told(of)["delete"] == "b1"
