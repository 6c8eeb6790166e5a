"""How long a group may take to serve, and what does not count: its age, its weights on their way, a peer's wait."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import Fleet, Raw, condition, ready, running, waiting
from group_worlds import members, serving, wrote
from modelfleet.api import names
from modelfleet.core.group_clock import PULL_S
from modelfleet.core.start_deadline import FETCH_S

HOURS = timedelta(hours=3)
DIED = {"exitCode": 1, "message": json.dumps({"reason": "EngineDied", "message": "the engine died"})}
BROKE_OFF = {"exitCode": 1, "message": json.dumps({"reason": "FetchFailed", "message": "the server did not answer"})}
LATE = {"reason": "EngineStartTimeout", "message": "the group did not come together: rank 1 did not join"}
ENDED = ["delete 0", "delete 1"]


def limit_s(fleet: Fleet) -> float:
    return fleet.settings.start_deadline_s + PULL_S


def old() -> Fleet:
    """A group that has served for hours."""
    fleet = serving()
    fleet.now += HOURS
    return fleet


def done(fleet: Fleet) -> list[str]:
    return sorted(wrote(fleet.reconcile().effects))


def is_counted(fleet: Fleet) -> bool:
    """NAME-state holds an end of the group."""
    state = fleet.objects.get(("ConfigMap", "chat-state"), {"data": {}})
    return bool(json.loads(state["data"].get(names.GROUPS_KEY, "{}")))


def fetches(state: Raw, since: datetime, **more: Any) -> Raw:
    """The status of a pod whose worker waits for the container that fetches."""
    container = {"name": names.FETCH_CONTAINER, "restartCount": 0, "state": state, **more}
    return {**waiting("PodInitializing", since=since), "phase": "Pending", "initContainerStatuses": [container]}


def fetched(status: Raw, at: datetime) -> Raw:
    """The same status of a pod whose weights were there at that time."""
    ended = {"terminated": {"exitCode": 0, "finishedAt": at.isoformat()}}
    return {**status, "initContainerStatuses": [{"name": names.FETCH_CONTAINER, "state": ended}]}


def late(at: datetime) -> Raw:
    """How a worker ended that gave up its start at that time."""
    return {"exitCode": 1, "message": json.dumps(LATE), "finishedAt": at.isoformat()}


def just_ended(fleet: Fleet) -> Raw:
    """The kubelet says that the container ended, and not yet that the pod is not Ready."""
    container = {"name": "worker", "restartCount": 0, "state": {"terminated": DIED}}
    return {**ready(), "containerStatuses": [container]}


def backs_off(fleet: Fleet) -> Raw:
    return waiting("CrashLoopBackOff", restarts=1, ended=DIED, since=fleet.now)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(just_ended, id="its container has just ended"),
        pytest.param(backs_off, id="its container is about to start again"),
    ],
)
def test_a_group_of_any_age_whose_follower_restarts_is_waited_for(status: Any):
    fleet = old()
    members(fleet)[1]["status"] = status(fleet)
    assert done(fleet) == []
    members(fleet)[0]["status"] = running(1, DIED, since=fleet.now)
    members(fleet)[1]["status"] = running(1, DIED, since=fleet.now)
    assert done(fleet) == []
    for pod in members(fleet):
        pod["status"] = ready(fleet.now)
    assert fleet.reconcile().status["readyReplicas"] == 1
    assert not is_counted(fleet)


@pytest.mark.parametrize("rank", [0, 1], ids=["leader", "follower"])
def test_a_rank_that_does_not_come_back_ends_the_group_at_the_deadline_from_then(rank: int):
    fleet = old()
    members(fleet)[rank]["status"] = backs_off(fleet)
    fleet.now += timedelta(seconds=limit_s(fleet) - 1)
    assert done(fleet) == []
    fleet.now += timedelta(seconds=1)
    assert done(fleet) == ENDED


def test_a_node_whose_clock_is_ahead_ends_no_group():
    fleet = old()
    for pod in members(fleet):
        pod["status"] = running(1, DIED, since=fleet.now + timedelta(minutes=5))
    assert done(fleet) == []


def test_a_group_whose_weights_come_has_as_long_as_they_take_and_the_deadline_from_then():
    fleet = serving()
    began = fleet.now
    for pod in members(fleet):
        pod["status"] = fetches({"running": {"startedAt": began.isoformat()}}, since=began)
    fleet.now = began + HOURS
    assert done(fleet) == []
    there = fleet.now
    for pod in members(fleet):
        pod["status"] = fetched(running(since=there), there)
    fleet.now = there + timedelta(seconds=limit_s(fleet) - 1)
    assert done(fleet) == []
    fleet.now += timedelta(seconds=1)
    assert done(fleet) == ENDED
    assert is_counted(fleet)


def test_one_attempt_to_fetch_that_takes_more_than_a_day_ends_the_group():
    fleet = serving()
    began = fleet.now
    members(fleet)[1]["status"] = fetches({"running": {"startedAt": began.isoformat()}}, since=began)
    members(fleet)[0]["status"] = running(since=began)
    fleet.now = began + timedelta(seconds=FETCH_S - 1)
    assert done(fleet) == []
    fleet.now += timedelta(seconds=1)
    assert done(fleet) == ENDED


def test_a_rank_that_cannot_fetch_is_tried_again_in_place_and_says_why():
    fleet = old()
    failed = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": BROKE_OFF}}
    members(fleet)[0]["status"] = running(1, late(fleet.now), since=fleet.now)
    members(fleet)[1]["status"] = fetches(**failed, since=fleet.now, restartCount=7)
    fleet.now += HOURS
    outcome = fleet.reconcile()
    assert wrote(outcome.effects) == []
    assert condition(outcome.status, "Progressing")[1] == "FetchFailed"


def test_a_leader_that_gave_up_waiting_for_weights_of_another_rank_ends_no_group():
    fleet = old()
    gave_up = fleet.now
    members(fleet)[0]["status"] = running(1, late(gave_up), since=gave_up)
    members(fleet)[1]["status"] = fetches({"running": {"startedAt": gave_up.isoformat()}}, since=gave_up)
    outcome = fleet.reconcile()
    assert wrote(outcome.effects) == []
    assert condition(outcome.status, "Progressing")[1] != "EngineStartTimeout"
    there = gave_up + timedelta(minutes=30)
    fleet.now = there + timedelta(minutes=1)
    members(fleet)[1]["status"] = fetched(running(since=there), there)
    assert done(fleet) == []


def test_a_leader_that_gave_up_waiting_for_an_image_of_another_rank_ends_no_group():
    fleet = old()
    members(fleet)[0]["status"] = running(1, late(fleet.now), since=fleet.now)
    members(fleet)[1]["status"] = waiting("ContainerCreating", since=fleet.now)
    assert done(fleet) == []
    fleet.now += timedelta(minutes=5)
    members(fleet)[1]["status"] = running(since=fleet.now)
    assert done(fleet) == []


def test_a_start_that_takes_too_long_with_all_ranks_there_ends_the_group():
    fleet = old()
    members(fleet)[1]["status"] = fetched(running(since=fleet.now), fleet.now)
    fleet.now += timedelta(minutes=30)
    members(fleet)[0]["status"] = running(1, late(fleet.now), since=fleet.now)
    assert done(fleet) == ENDED


def test_a_slow_image_takes_nothing_of_the_time_to_start():
    fleet = serving()
    bound = fleet.now
    pulled = bound + timedelta(seconds=limit_s(fleet) - 10)
    for pod in members(fleet):
        pod["status"] = {**waiting("ContainerCreating", since=bound), "phase": "Pending"}
    fleet.now = pulled
    assert done(fleet) == []
    for pod in members(fleet):
        status = running(since=pulled)
        status["conditions"][1]["lastTransitionTime"] = bound.isoformat()
        pod["status"] = status
    fleet.now = pulled + timedelta(seconds=limit_s(fleet) - 1)
    assert done(fleet) == []
    fleet.now += timedelta(seconds=1)
    assert done(fleet) == ENDED
