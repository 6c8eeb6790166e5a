"""Pods as replicas: which belong together, and what a group is when one of its ranks is not."""

from dataclasses import replace
from typing import Any

import pytest

from builders import READY, Fleet, deployment, running, waiting
from modelfleet.api import names
from modelfleet.core.groups import Replica, replicas
from modelfleet.core.layout.shape import Layout
from modelfleet.core.plan import Plan, read
from modelfleet.core.pods import PodView, view

REVISION = "aaaaaaaa"


def plan(nodes: int) -> Plan:
    """Any plan, on so many nodes."""
    fleet = Fleet(deployment())
    fleet.reconcile()
    stored = next(item for (kind, _), item in fleet.objects.items() if kind == "ControllerRevision")
    made = read(stored["data"]["plan"])
    assert made is not None
    return made.model_copy(update={"nodes": nodes})


PLANS = {REVISION: plan(2)}


def rank(number: int, slot: int = 0, **change: Any) -> PodView:
    raw = {"metadata": {"name": names.pod("chat", REVISION, slot, number), "uid": f"{slot}-{number}"}, "status": READY}
    return replace(view(raw, "chat"), **{"placed": True, **change})


def group(*pods: PodView) -> Replica:
    (made,) = replicas(pods, PLANS)
    return made


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        pytest.param("chat-aaaaaaaa-0", (REVISION, 0, 0), id="a leader"),
        pytest.param("chat-aaaaaaaa-12-3", (REVISION, 12, 3), id="another rank"),
        pytest.param("chat-aaaaaaaa-0-0", (None, None, 0), id="rank 0 has no number of its own"),
        pytest.param("chat-aaaaaaaa-0-01", (None, None, 0), id="a number with a leading zero"),
        pytest.param("other-aaaaaaaa-0-1", (None, None, 0), id="of another deployment"),
    ],
)
def test_a_pod_s_name_tells_its_revision_slot_and_rank(name: str, identity: tuple[Any, ...]):
    seen = view({"metadata": {"name": name}}, "chat")
    assert (seen.revision, seen.slot, seen.rank) == identity


def test_ranks_of_a_slot_are_one_replica_that_its_leader_names():
    first, second = replicas([rank(1, 1), rank(0, 1), rank(0), rank(1)], PLANS)
    assert (first.name, second.name) == ("chat-aaaaaaaa-0", "chat-aaaaaaaa-1")
    assert [pod.rank for pod in second.pods] == [0, 1]
    assert first.ready
    assert first.complete


LATE = running(3, {"exitCode": 1, "message": '{"reason": "EngineDied", "message": "it died"}'})


def follower(status: Any) -> PodView:
    name = names.pod("chat", REVISION, 0, 1)
    return replace(view({"metadata": {"name": name, "uid": "0-1"}, "status": status}, "chat"), placed=True)


def test_a_group_whose_rank_waits_in_a_crash_loop_does_not_serve_though_its_leader_is_ready():
    made = group(rank(0), follower(waiting("CrashLoopBackOff", restarts=1, ended={"exitCode": 1})))
    assert (made.ready, made.hopeless) == (False, False)


def test_a_group_that_serves_again_is_not_hopeless_while_a_rank_is_not_ready_yet():
    made = group(rank(0), follower(LATE))
    assert (made.ready, made.hopeless) == (True, False)
    assert group(rank(0, ready=False), follower(LATE)).hopeless


def test_a_rank_beyond_the_plan_is_a_stray_of_no_revision():
    whole, stray = replicas([rank(0), rank(1), rank(2)], PLANS)
    assert (whole.size, stray.revision, stray.size) == (2, None, 1)


def test_without_a_plan_the_ranks_that_are_there_count():
    (made,) = replicas([rank(0), rank(2)], {})
    assert (made.size, made.members[1], made.complete) == (3, None, False)


@pytest.mark.parametrize(
    ("pods", "ready", "finished"),
    [
        pytest.param([rank(0), rank(1)], True, False, id="all ranks are there and run"),
        pytest.param([rank(0), rank(1, running=False, ready=False)], False, False, id="a rank does not run yet"),
        pytest.param([rank(0, ready=False), rank(1)], False, False, id="the leader does not answer"),
        pytest.param([rank(0)], False, True, id="a follower is gone"),
        pytest.param([rank(1)], False, True, id="the leader is gone"),
        pytest.param([rank(0), rank(1, terminating=True)], False, True, id="a follower is asked to end"),
        pytest.param([rank(0), rank(1, finished=True)], False, True, id="a follower ended"),
        pytest.param([rank(0, ready=False, started=False)], False, False, id="a rank is not made yet"),
        pytest.param(
            [rank(0, terminating=True), rank(1, terminating=True)], False, False, id="all are asked to end: it is going"
        ),
    ],
)
def test_a_group_serves_and_ends_as_one(pods: list[PodView], ready: bool, finished: bool):
    made = group(*pods)
    assert (made.ready, made.finished) == (ready, finished)


def test_the_failure_of_the_rank_that_waiting_does_not_mend_speaks_first():
    ended = {"exitCode": 1, "message": '{"reason": "EngineDied", "message": "the engine died"}'}
    raw = {"metadata": {"name": "chat-aaaaaaaa-0-1", "uid": "f"}, "status": running(5, ended)}
    leader = rank(0, ready=False, failure=replace_failure(hopeless=False))
    made = group(leader, view(raw, "chat"))
    assert made.failed is not None
    assert (made.failed.rank, made.hopeless) == (1, True)


def replace_failure(hopeless: bool) -> Any:
    seen = view({"metadata": {"name": "x"}, "status": {"phase": "Failed"}}, "chat").failure
    assert seen is not None
    return replace(seen, hopeless=hopeless)


@pytest.mark.parametrize(
    ("layout", "per_node", "nodes"),
    [
        pytest.param("tp8", 8, 1, id="it fits a node"),
        pytest.param("tp1-pp2", 1, 2, id="a stage a node"),
        pytest.param("tp4-pp3", 8, 3, id="a stage is not cut for an equal part of fewer nodes"),
        pytest.param("tp2-pp4", 4, 2, id="two stages a node"),
        pytest.param("tp1-dp16-ep16", 8, 2, id="eight data-parallel ranks a node"),
        pytest.param("tp4-pp3-dp2", 8, 6, id="data-parallel ranks are whole or evenly cut"),
        pytest.param("tp16", 8, 2, id="tensor parallelism over whole nodes that a fabric joins"),
    ],
)
def test_the_nodes_of_a_layout(layout: str, per_node: int, nodes: int):
    assert Layout.parse(layout).nodes(per_node) == nodes
