"""Stories of a sampled fleet on full nodes: what makes room there, and what does not."""

import copy

import pytest

from scaling_worlds import sampled


@pytest.mark.parametrize("surge", [0, 1])
def test_a_slow_replica_makes_room_for_its_replacement_where_there_is_none_beside_it(surge: int) -> None:
    fleet = sampled(minReplicas=3)
    fleet.fleet.deployment["spec"]["rollout"] = {"maxSurge": surge}
    fleet.run(600, fleet.knee_rps * 1.5)
    pods = sorted(fleet.fleet.pods())
    fleet.fleet.room = len(pods)
    fleet.slow = {pods[0]}
    uid = fleet.fleet.pods()[pods[0]]["metadata"]["uid"]

    fleet.run(400)

    assert uid not in {pod["metadata"]["uid"] for pod in fleet.fleet.pods().values()}
    assert len(fleet.fleet.pods()) == len(pods)


def test_a_pod_that_never_ends_on_a_dead_node_does_not_hide_that_there_is_no_room() -> None:
    fleet = sampled()
    fleet.run(300, 1.0)
    fleet.fleet.room = 3
    dead = copy.deepcopy(next(iter(fleet.fleet.world().pods)))
    dead["metadata"] |= {"name": dead["metadata"]["name"][:-1] + "7", "uid": "dead", "deletionTimestamp": "2026-01-02"}
    dead["spec"]["nodeName"] = "gone"
    fleet.read = lambda: {"pods": (*fleet.fleet.world().pods, dead)}
    fleet.run(200, fleet.knee_rps * 5)

    assert (fleet.decision["to"], fleet.decision["bound"]) == (3, "capacity")
