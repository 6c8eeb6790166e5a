"""How far a pod is on the way to its worker's start, row by row."""

from datetime import UTC, datetime
from typing import Any

import pytest

from modelfleet.core.beginning import Beginning, beginning


def at(second: int) -> datetime:
    return datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC)


def ran(begin: int, end: int, code: int = 1) -> dict[str, Any]:
    times = {"startedAt": at(begin).isoformat(), "finishedAt": at(end).isoformat()}
    return {"terminated": {"exitCode": code, **times}}


def runs(begin: int) -> dict[str, Any]:
    return {"running": {"startedAt": at(begin).isoformat()}}


WAITS = {"waiting": {"reason": "CrashLoopBackOff"}}


def fetch(state: Any, last: Any = None) -> dict[str, Any]:
    return {"initContainerStatuses": [{"name": "fetch", "state": state, "lastState": last or {}}]}


def worker(restarts: int, state: Any, last: Any = None) -> dict[str, Any]:
    container = {"name": "worker", "restartCount": restarts, "state": state, "lastState": last or {}}
    return {"containerStatuses": [container]}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, Beginning(), id="nothing is reported yet"),
        pytest.param(fetch({"waiting": {"reason": "PodInitializing"}}), Beginning(), id="no container was made yet"),
        pytest.param(fetch(runs(1)), Beginning(fetches=True, fetch_since=at(1)), id="it fetches"),
        pytest.param(fetch(ran(1, 2)), Beginning(fetches=True), id="it broke off"),
        pytest.param(fetch(WAITS, ran(1, 2)), Beginning(fetches=True), id="it waits for another try"),
        pytest.param(fetch(runs(3), ran(1, 2)), Beginning(fetches=True, fetch_since=at(3)), id="it tries again"),
        pytest.param(fetch(ran(3, 4, 0), ran(1, 2)), Beginning(fetched_at=at(4)), id="the weights are there"),
        pytest.param(worker(0, runs(5)), Beginning(began_at=at(5)), id="the worker runs"),
        pytest.param(worker(0, ran(5, 6)), Beginning(began_at=at(5), ended_at=at(6)), id="it ended"),
        pytest.param(
            worker(0, WAITS, ran(5, 6)), Beginning(began_at=at(5), ended_at=at(6)), id="it waits to start again"
        ),
        pytest.param(worker(1, runs(7), ran(5, 6)), Beginning(began_at=at(5), ended_at=at(6)), id="it runs again"),
        pytest.param(worker(1, ran(7, 8), ran(5, 6)), Beginning(began_at=at(5), ended_at=at(8)), id="it ended again"),
        pytest.param(
            worker(1, WAITS, ran(7, 8)), Beginning(ended_at=at(8)), id="nobody knows any more when it began first"
        ),
        pytest.param(worker(2, runs(9), ran(7, 8)), Beginning(ended_at=at(8)), id="the same while it runs"),
        pytest.param(
            {**fetch(ran(1, 2, 0)), **worker(2, runs(9), ran(7, 8))},
            Beginning(fetched_at=at(2), ended_at=at(8)),
            id="its weights are of the pod, not of a run",
        ),
        pytest.param({"initContainerStatuses": "none", "containerStatuses": [7]}, Beginning(), id="no shape raises"),
    ],
)
def test_how_far_it_is(status: dict[str, Any], expected: Beginning) -> None:
    assert beginning({"status": status}) == expected


def test_a_start_that_is_known_counts_before_the_weights() -> None:
    assert Beginning(fetched_at=at(1), began_at=at(2)).at == at(2)
    assert Beginning(fetched_at=at(1)).at == at(1)
    assert Beginning().at is None
