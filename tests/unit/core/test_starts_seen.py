"""How long a start takes is learned from first starts, not from a replica that failed for a moment or was restarted."""

from datetime import timedelta

import pytest

from builders import START, Raw, running
from modelfleet.core.active import starts_first
from modelfleet.core.groups import alone
from modelfleet.core.pods import view
from scaling_worlds import Sampled, sampled

HOURS_S = 5 * 3600


def grown() -> Sampled:
    """A fleet whose starts were seen."""
    fleet = sampled(maxReplicas=3).run(60, 1.0)
    return fleet.run(100, fleet.knee_rps * 3)


def starts(fleet: Sampled) -> tuple[float, ...]:
    assert fleet.kept is not None
    return fleet.kept.starts_s


def later(fleet: Sampled) -> str:
    """The name of a replica, hours later."""
    fleet.fleet.now += timedelta(seconds=HOURS_S)
    fleet.run(30)
    return sorted(fleet.fleet.pods())[0]


def test_a_start_that_is_seen_is_learned_once() -> None:
    fleet = sampled().run(60, 1.0)
    before = starts(fleet)
    fleet.run(100, fleet.knee_rps * 3)

    assert len(starts(fleet)) == len(before) + len(fleet.fleet.pods()) - 1
    assert max(starts(fleet)) <= 30.0


@pytest.mark.parametrize(
    "restarts", [pytest.param(0, id="not Ready for a moment"), pytest.param(1, id="its worker was restarted")]
)
def test_a_replica_that_comes_back_after_hours_teaches_no_cold_start(restarts: int) -> None:
    fleet = grown()
    name = later(fleet)
    known = starts(fleet)
    fleet.failing = {name: restarts}
    fleet.run(30)
    fleet.failing = {}
    fleet.run(60)

    assert known
    assert starts(fleet) == known


def test_an_operator_that_starts_while_a_replica_is_not_ready_for_a_moment_learns_no_cold_start() -> None:
    fleet = grown()
    name = later(fleet)
    fleet.failing = {name: 0}
    fleet.run(30)
    fleet.restart()
    fleet.run(30)
    fleet.failing = {}
    fleet.run(60)

    assert max(starts(fleet), default=0.0) <= 30.0


def test_a_worker_that_dies_while_it_starts_teaches_no_cold_start() -> None:
    fleet = sampled(maxReplicas=2).run(60, 1.0)
    before = set(fleet.fleet.pods())
    fleet.rps["interactive"] = fleet.knee_rps * 2.5
    while set(fleet.fleet.pods()) == before:
        fleet.run(5)
    known = starts(fleet)
    fleet.failing = dict.fromkeys(set(fleet.fleet.pods()) - before, 0)
    fleet.run(60)
    assert fleet.scaling is not None
    assert fleet.scaling.case.seats.starting, "they start"
    fleet.failing = dict.fromkeys(fleet.failing, 1)
    fleet.run(100)
    fleet.failing = {}
    fleet.run(60)

    assert starts(fleet) == known


def pod(turned_s: float, restarts: int = 0) -> Raw:
    """A pod whose worker runs since START and is not Ready since `turned_s` later."""
    status = running(restarts)
    status["conditions"][-1]["lastTransitionTime"] = (START + timedelta(seconds=turned_s)).isoformat()
    spec = {"nodeName": "node", "containers": [{"name": "worker", "image": "image:1"}]}
    return {"metadata": {"name": "chat-aaaaaaaa-0", "uid": "u", "labels": {}}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("turned_s", "restarts", "first"),
    [
        pytest.param(-20, 0, True, id="not Ready since before its worker ran: it starts"),
        pytest.param(0, 0, True, id="since the same second"),
        pytest.param(700, 0, False, id="not Ready since later: it was Ready"),
        pytest.param(-20, 1, False, id="its worker was restarted"),
    ],
)
def test_a_first_start_is_told_from_another(turned_s: float, restarts: int, first: bool) -> None:
    seen = alone(view(pod(turned_s, restarts), "chat"))

    assert starts_first(seen) is first
