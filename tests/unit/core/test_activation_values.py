"""What an activator reads of objects, and which endpoints and demand it wants in them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from activator_api import activator_slice, deployment, workers_slice
from modelfleet.api import names
from modelfleet.core.activation.demand import REFRESH_S, Step, Told, decide_demand, entry
from modelfleet.core.activation.known import Demand, Outlook, Refusal, known
from modelfleet.core.activation.slices import Address, Own, ready_addresses, serving, wanted_endpoints

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWN = Own("10.0.0.1", "activator-a", "modelfleet-system", "node-1")
MINE = {
    "addresses": ["10.0.0.1"],
    "conditions": {"ready": True, "serving": True, "terminating": False},
    "targetRef": {"kind": "Pod", "namespace": "modelfleet-system", "name": "activator-a"},
    "nodeName": "node-1",
}
OTHER = {"addresses": ["10.0.0.2"], "conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": "activator-b"}}


def test_a_model_is_known_with_all_that_bounds_what_is_held() -> None:
    pools = [
        {"role": "Serve", "predicted": {"kneeRequestsPerSecond": "2.5"}, "engine": {"sequenceCap": 64}, "replicas": 0}
    ]
    cold = {"p90Seconds": 190, "progress": {"percent": 40, "leftSeconds": 70}}
    zero = {
        "state": "Waking",
        "since": "2026-01-01T00:00:00Z",
        "refusal": {"reason": "NoCapacity", "message": "no room", "until": "2026-01-01T00:00:00Z"},
    }
    demand = [{"activator": "activator-b", "waiting": 4, "at": "2026-01-01T00:00:00Z"}]
    found = known(
        deployment("chat", 20001, waits="5m", plan={"pools": pools}, coldStart=cold, toZero=zero, demand=demand)
    )

    assert found is not None
    assert (found.port, found.patience_s, found.most_replicas) == (20001, 300.0, 3)
    assert (found.rate_rps, found.sequences) == (2.5, 64)
    assert found.outlook == Outlook(usual_s=190.0, left_s=70.0, since=NOW)
    assert found.refusal == Refusal("NoCapacity", "no room", NOW)
    assert found.demand == {"activator-b": Demand(4, NOW)}
    assert (found.waiting_elsewhere("activator-a"), found.waiting_elsewhere("activator-b")) == (4, 0)


def test_a_start_that_does_not_run_has_no_progress() -> None:
    found = known(deployment("chat", 20001, coldStart={"p90Seconds": 190, "progress": {"leftSeconds": 70}}))

    assert found is not None
    assert found.outlook == Outlook(usual_s=190.0)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="nothing at all"),
        pytest.param({"metadata": {"name": "chat"}, "spec": {}, "status": None}, id="no status"),
        pytest.param(deployment("chat", 0), id="no port"),
        pytest.param(deployment("chat", 70000), id="a port that is none"),
    ],
)
def test_a_model_without_a_port_is_not_ours(raw: dict[str, Any]) -> None:
    assert known(raw) is None


def test_what_cannot_be_read_is_not_known_and_takes_no_model_away() -> None:
    odd = {
        "metadata": {"name": "chat"},
        "spec": {"model": {"servedNames": "x"}, "scaling": {"maxReplicas": "two", "toZero": {"firstCallerWaits": 5}}},
        "status": {
            "toZero": {"activatorPort": 20001, "refusal": []},
            "plan": {"pools": [{"role": "Serve", "predicted": {"kneeRequestsPerSecond": "fast"}}]},
            "coldStart": {"p90Seconds": "long"},
            "demand": ["x", {"waiting": "many"}],
        },
    }
    found = known(odd)

    assert found is not None
    assert (found.served_names, found.most_replicas, found.patience_s) == (("chat",), 1, 300.0)
    assert (found.rate_rps, found.outlook, found.refusal) == (None, Outlook(), None)


def test_only_workers_that_kubernetes_lists_as_ready_serve() -> None:
    ready, unready = workers_slice("chat", {"10.0.1.1": 8000}), workers_slice("chat", {"10.0.1.2": 8000}, ready=False)
    activators = {**activator_slice("chat", 20001), "endpoints": [MINE]}

    assert serving([ready, unready, activators]) == {Address("10.0.1.1", 8000)}
    assert serving([]) == frozenset()
    assert ready_addresses([ready, unready]) == {"10.0.1.1"}


@pytest.mark.parametrize(
    "present, alive, listens, wanted",
    [
        pytest.param([], None, True, [MINE], id="it enters once it listens"),
        pytest.param([], None, False, None, id="not before"),
        pytest.param([MINE], None, True, None, id="nothing to do"),
        pytest.param([OTHER], None, True, [MINE, OTHER], id="others stay while nobody knows who lives"),
        pytest.param([OTHER], frozenset({"10.0.0.1", "10.0.0.2"}), True, [MINE, OTHER], id="one that lives stays"),
        pytest.param([OTHER], frozenset({"10.0.0.1"}), True, [MINE], id="one that is gone is taken out"),
        pytest.param([OTHER], frozenset({"10.0.0.2"}), True, None, id="it does not enter before it is ready"),
        pytest.param([MINE, OTHER], frozenset({"10.0.0.2"}), True, [OTHER], id="nor stays when it is not"),
        pytest.param([OTHER], frozenset({"10.0.0.3"}), True, [MINE], id="unless there is no other that is"),
        pytest.param([MINE, OTHER], frozenset(), True, None, id="where none is ready all stay"),
        pytest.param([MINE, OTHER], None, False, [OTHER], id="it leaves, the other stays"),
        pytest.param(
            [{**MINE, "targetRef": {"name": "activator-before"}}],
            None,
            True,
            [MINE],
            id="the entry of an earlier pod with this address becomes ours",
        ),
        pytest.param(None, None, True, [MINE], id="a slice whose endpoints are null"),
    ],
)
def test_wanted_endpoints(present: Any, alive: frozenset[str] | None, listens: bool, wanted: Any) -> None:
    stored = {**activator_slice("chat", 20001), "endpoints": present}

    assert wanted_endpoints(stored, OWN, alive, listens=listens) == wanted


def test_a_slice_of_the_other_family_of_addresses_is_left_alone() -> None:
    stored = {**activator_slice("chat", 20001), "addressType": "IPv6"}

    assert wanted_endpoints(stored, OWN, None, listens=True) is None
    assert wanted_endpoints(stored, Own("fd00::1", "a", "b"), None, listens=True) is not None


@pytest.mark.parametrize(
    "waiting, told, seen, now_s, step, wait_s",
    [
        pytest.param(0, Told(), None, 100, Step.CURRENT, None, id="nothing waits"),
        pytest.param(1, Told(), None, 100, Step.WRITE, None, id="the first is told at once"),
        pytest.param(1, Told(0, 99), None, 100, Step.WAIT, 1, id="but two seconds after the last write"),
        pytest.param(5, Told(1, 99), Demand(1, NOW), 100, Step.WAIT, 1, id="more wait, and it was just written"),
        pytest.param(5, Told(1, 98), Demand(1, NOW), 100, Step.WRITE, None, id="more wait, two seconds later"),
        pytest.param(5, Told(5, 98), Demand(5, NOW), 100, Step.WAIT, REFRESH_S - 2, id="as before: told anew seldom"),
        pytest.param(5, Told(5, 90), Demand(5, NOW), 100, Step.WRITE, None, id="as before, ten seconds later"),
        pytest.param(5, Told(5, 99), None, 100, Step.WAIT, 1, id="the watch may come later than the write's answer"),
        pytest.param(5, Told(5, 97), None, 100, Step.WRITE, None, id="an entry that was lost is written again"),
        pytest.param(5, Told(5, 97, confirmed=False), Demand(5, NOW), 100, Step.WRITE, None, id="a failed write"),
        pytest.param(5, Told(5, 99, confirmed=False), None, 100, Step.WAIT, 1, id="a failed write is not hammered"),
        pytest.param(0, Told(5, 97), Demand(5, NOW), 100, Step.WRITE, None, id="the last one left"),
        pytest.param(0, Told(0, 90, confirmed=False), None, 100, Step.WRITE, None, id="taking it out failed"),
        pytest.param(0, Told(0, 90), Demand(0, NOW), 100, Step.WRITE, None, id="an entry of nobody is taken out"),
    ],
)
def test_decide_demand(
    waiting: int, told: Told, seen: Demand | None, now_s: float, step: Step, wait_s: float | None
) -> None:
    decision = decide_demand(waiting, told, seen, now_s)

    assert (decision.step, decision.wait_s) == (step, wait_s)
    assert decision.why


def test_an_entry_has_whole_seconds_and_none_is_left_where_nothing_waits() -> None:
    assert entry("a", 3, NOW.replace(microsecond=5)) == [{"activator": "a", "waiting": 3, "at": "2026-01-01T00:00:00Z"}]
    assert entry("a", 0, NOW) == []


def test_names_of_the_slice_are_those_that_the_operator_uses() -> None:
    assert names.activator_slice("chat") == "chat-activator"
