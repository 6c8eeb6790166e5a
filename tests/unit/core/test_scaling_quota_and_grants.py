"""Quotas and other models as bounds: what they leave, who gives to whom, and that nothing is passed to and fro."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import START
from modelfleet.controller.autoscaler import Autoscaler
from modelfleet.controller.triggers import Key
from modelfleet.core.active import Scaling
from modelfleet.core.scaling.arbitration import HELD_S, Bid, Grant, allowance, decide_grants
from modelfleet.core.scaling.quota import quota_limits
from modelfleet.core.scaling.weighing import Limit
from scaling_worlds import sampled

GIVER = Bid(
    key="team/large",
    pool="gpu",
    accelerators=1,
    priority=0,
    low=1,
    standing=6,
    need=6,
    lacks=0,
    load_rps=50.0,
    knee_rps=10.0,
)
TAKER = replace(GIVER, key="team/small", standing=1, need=4, lacks=3, load_rps=40.0)


def quota(name: str, hard: dict[str, str], used: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec, "status": {"hard": hard, "used": used}}


@pytest.mark.parametrize(
    ("hard", "used", "left"),
    [
        pytest.param({"requests.nvidia.com/gpu": "8"}, {"requests.nvidia.com/gpu": "6"}, 2, id="accelerators"),
        pytest.param({"pods": "5"}, {"pods": "5"}, 0, id="no pod more"),
        pytest.param({"pods": "5"}, {}, 5, id="nothing used yet"),
        pytest.param({"pods": "5"}, {"pods": "7"}, 0, id="a quota that was lowered"),
        pytest.param({"requests.cpu": "30"}, {"requests.cpu": "500m"}, 2, id="cores"),
    ],
)
def test_a_quota_leaves_room_for_so_many_more(hard: dict[str, str], used: dict[str, str], left: int) -> None:
    fleet = sampled()
    (limit,) = quota_limits([quota("team", hard, used)], _plan(fleet), 3)

    assert limit == Limit("ResourceQuota team", 3 + left)


def _plan(fleet: Any) -> Any:
    assert fleet.scaling is not None
    return fleet.scaling.case.plan


def test_a_quota_of_other_things_or_with_scopes_bounds_nothing() -> None:
    plan = _plan(sampled())
    scoped = quota("scoped", {"pods": "1"}, {"pods": "1"}, scopes=["BestEffort"])

    assert quota_limits([quota("secrets", {"count/secrets": "1"}, {}), scoped], plan, 3) == ()


def _scope(name: str, operator: str = "Exists", *values: str) -> dict[str, Any]:
    return {"scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": operator, "values": list(values)}]}}


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        pytest.param({"scopes": ["NotTerminating"]}, True, id="pods without a deadline"),
        pytest.param({"scopes": ["Terminating"]}, False, id="pods with one"),
        pytest.param({"scopes": ["NotBestEffort"]}, True, id="pods that ask for cores"),
        pytest.param({"scopes": ["NotTerminating", "BestEffort"]}, False, id="all scopes must match"),
        pytest.param(_scope("PriorityClass", "In", "high", "low"), True, id="its priority class"),
        pytest.param(_scope("PriorityClass", "In", "low"), False, id="another priority class"),
        pytest.param(_scope("PriorityClass", "NotIn", "low"), True, id="all priority classes but another"),
        pytest.param(_scope("PriorityClass", "NotIn", "high"), False, id="all priority classes but its own"),
        pytest.param(_scope("PriorityClass", "DoesNotExist"), False, id="pods without a priority class"),
        pytest.param({"scopes": ["PriorityClass"]}, True, id="any priority class"),
        pytest.param(_scope("CrossNamespacePodAffinity"), False, id="a scope that is not known to match"),
        pytest.param({"scopes": "NotTerminating", "scopeSelector": 5}, True, id="what is no list of scopes is none"),
    ],
)
def test_a_quota_with_scopes_bounds_where_it_certainly_counts_these_pods(spec: dict[str, Any], counts: bool) -> None:
    plan = _plan(sampled()).model_copy(update={"priority_class_name": "high"})
    limits = quota_limits([quota("team", {"pods": "5"}, {"pods": "5"}, **spec)], plan, 3)

    assert bool(limits) is counts


def test_of_a_priority_class_that_is_not_named_no_scope_is_certain() -> None:
    scoped = [quota("team", {"pods": "5"}, {}, **_scope("PriorityClass", each, "x")) for each in ("In", "NotIn")]

    assert quota_limits(scoped, _plan(sampled()), 3) == ()


@pytest.mark.parametrize(
    ("hard", "used", "each", "left"),
    [
        pytest.param("1200m", "0", "400m", 3, id="three times 0.4 are 1.2"),
        pytest.param("0.3", "100m", "0.1", 2, id="0.3 less 0.1 is twice 0.1"),
        pytest.param("1199m", "0", "400m", 2, id="a thousandth less"),
        pytest.param("no quantity", "0", "400m", 0, id="what is no quantity leaves nothing"),
    ],
)
def test_quantities_are_divided_exactly(hard: str, used: str, each: str, left: int) -> None:
    plan = _plan(sampled()).model_copy(update={"host_cpu": each})
    (limit,) = quota_limits([quota("team", {"requests.cpu": hard}, {"requests.cpu": used})], plan, 3)

    assert limit.replicas == 3 + left


def test_of_several_quotas_the_tightest_bounds_and_one_that_is_deleted_bounds_no_more() -> None:
    fleet = sampled()

    def pods(name: str, most: int) -> dict[str, Any]:
        return quota(name, {"pods": str(most)}, {"pods": str(len(fleet.fleet.pods()))})

    fleet.read = lambda: {"quotas": (pods("wide", 9), pods("tight", 2))}
    fleet.reconcile()
    fleet.run(200, fleet.knee_rps * 5)
    assert (fleet.replicas, fleet.decision["bound"]) == (2, "ResourceQuota tight")

    fleet.read = lambda: {"quotas": (pods("wide", 9),)}
    fleet.run(120)

    assert fleet.replicas > 2


def test_growing_stops_at_the_quota_says_so_and_a_quota_that_shrinks_takes_nothing_away() -> None:
    fleet = sampled()
    fleet.read = lambda: {"quotas": (quota("team", {"pods": "3"}, {"pods": str(len(fleet.fleet.pods()))}),)}
    fleet.reconcile()
    fleet.run(200, fleet.knee_rps * 5)

    assert (fleet.replicas, fleet.decision["bound"]) == (3, "ResourceQuota team")
    assert "ResourceQuota team allows 3" in fleet.decision["detail"]

    fleet.read = lambda: {"quotas": (quota("team", {"pods": "1"}, {"pods": "3"}),)}
    fleet.run(100)

    assert fleet.replicas == 3


def test_what_has_no_room_is_said_as_the_bound_and_is_not_counted_as_decided() -> None:
    fleet = sampled()
    fleet.fleet.room = 3
    fleet.run(200, fleet.knee_rps * 5)

    assert (fleet.decision["to"], fleet.decision["bound"]) == (3, "capacity")
    assert "there is room for 3" in fleet.decision["detail"]
    assert len(fleet.fleet.pods()) == 3


def test_a_replacement_without_room_is_no_replica_that_is_missed() -> None:
    fleet = sampled(minReplicas=3)
    fleet.run(600, fleet.knee_rps)
    fleet.fleet.room = 3
    fleet.fleet.deployment["spec"]["engine"] = {"image": "registry.example/worker:2"}

    fleet.run(240)

    assert {(each.status["scaling"]["lastDecision"]["to"]) for each in fleet.outcomes[-10:]} == {3}
    assert fleet.decision.get("bound") != "capacity"


def test_a_model_above_its_minimum_gives_to_one_whose_load_gains_more() -> None:
    (grant,) = decide_grants([GIVER, TAKER], (), 0.0)

    assert (grant.giver, grant.taker, grant.replicas) == ("team/large", "team/small", 5)
    assert "an accelerator brings 10 good requests a second there and 0 here" in grant.sentence
    assert allowance("team/large", [grant]) == grant
    assert allowance("team/small", [grant]) is None


@pytest.mark.parametrize(
    ("giver", "taker", "gives"),
    [
        pytest.param({"load_rps": 60.0}, {}, False, id="not where both gain the same"),
        pytest.param({"load_rps": 60.0}, {"priority": 5}, True, id="to a higher priority"),
        pytest.param({"priority": 5}, {}, False, id="never to a lower priority"),
        pytest.param({"standing": 1}, {"priority": 5}, False, id="never below its minimum"),
        pytest.param({"load_rps": 60.0}, {"low": 2}, True, id="to one below its minimum"),
        pytest.param({}, {"lacks": 0}, False, id="not to one that lacks nothing"),
        pytest.param({"pool": "other"}, {}, False, id="not of other accelerators"),
        pytest.param(
            {"standing": 10, "load_rps": 8.9, "knee_rps": 1.0},
            {"accelerators": 8, "knee_rps": 4.0, "load_rps": 8.0},
            False,
            id="the first of eight small ones is spare, all eight cost more than the large one brings",
        ),
        pytest.param(
            {"standing": 10, "load_rps": 1.5, "knee_rps": 1.0},
            {"accelerators": 8, "knee_rps": 4.0, "load_rps": 8.0},
            True,
            id="all eight are spare",
        ),
        pytest.param(
            {"standing": 10, "low": 7, "load_rps": 1.5, "knee_rps": 1.0},
            {"accelerators": 8, "knee_rps": 4.0, "load_rps": 8.0},
            False,
            id="three of eight make no room",
        ),
        pytest.param(
            {"accelerators": 8, "standing": 4, "load_rps": 320.0, "knee_rps": 80.0},
            {"standing": 2, "lacks": 23, "load_rps": 1000.0, "knee_rps": 40.0},
            True,
            id="eight small ones in the place of a large one bring more than it does",
        ),
        pytest.param(
            {"accelerators": 8, "standing": 4, "load_rps": 320.0, "knee_rps": 80.0},
            {"standing": 2, "lacks": 1, "load_rps": 120.0, "knee_rps": 40.0},
            False,
            id="the one small one that is lacking does not",
        ),
    ],
)
def test_who_gives(giver: dict[str, Any], taker: dict[str, Any], gives: bool) -> None:
    assert bool(decide_grants([replace(GIVER, **giver), replace(TAKER, **taker)], (), 0.0)) is gives


def test_a_large_replica_takes_as_many_small_ones_as_make_room_for_it() -> None:
    (grant,) = decide_grants([GIVER, replace(TAKER, accelerators=2, knee_rps=40.0, priority=1)], (), 0.0)

    assert grant.replicas == 4


def test_one_step_at_a_time_and_nothing_is_passed_to_and_fro() -> None:
    bids, grants = [GIVER, TAKER], tuple[Grant, ...]()
    for number in range(200):
        grants = decide_grants(bids, grants, number * 5.0)
        giver, taker = bids
        allowed = allowance(giver.key, grants)
        giver = replace(giver, standing=min(giver.standing, allowed.replicas) if allowed else giver.standing)
        taken = 6 - giver.standing
        bids = [giver, replace(taker, standing=1 + taken, lacks=max(0, 3 - taken))]
        assert allowance(taker.key, grants) is None

    assert [bid.standing for bid in bids] == [5, 2]


def test_what_was_given_comes_back_once_the_taker_needs_less() -> None:
    grants = decide_grants([GIVER, TAKER], (), 0.0)
    served = replace(TAKER, standing=2, need=1, lacks=0, load_rps=5.0)

    assert decide_grants([GIVER, served], grants, HELD_S - 1) == grants
    assert decide_grants([GIVER, served], grants, HELD_S) == ()


_BIDS = st.lists(
    st.builds(
        Bid,
        key=st.sampled_from(["a", "b", "c", "d"]),
        pool=st.sampled_from(["x", "y"]),
        accelerators=st.integers(1, 8),
        priority=st.integers(-1, 1),
        low=st.integers(1, 3),
        standing=st.integers(0, 9),
        need=st.integers(1, 9),
        lacks=st.integers(0, 3),
        load_rps=st.floats(0, 100),
        knee_rps=st.floats(0.1, 20),
    ),
    max_size=4,
    unique_by=lambda bid: bid.key,
)


@given(_BIDS)
def test_nobody_falls_below_its_minimum_and_the_order_of_bids_does_not_matter(bids: list[Bid]) -> None:
    grants = decide_grants(bids, (), 0.0)

    assert grants == decide_grants(list(reversed(bids)), (), 0.0)
    for grant in grants:
        giver = next(bid for bid in bids if bid.key == grant.giver)
        assert giver.low <= grant.replicas < giver.standing
        assert grant.sentence


def test_a_model_that_lacks_room_gets_a_replica_of_another_and_both_say_so() -> None:
    book = {"large": _held("large", 6, lacks=0, rps=5.0), "small": _held("small", 1, lacks=2, rps=40.0)}
    woken: list[Key] = []
    numbers = Autoscaler(lambda key: book[key.name].case.samples, _Woken(woken), lambda: START)
    for name, scaling in book.items():
        numbers.hold(Key("team", name), scaling)

    changed = numbers.arbitrate(0.0)

    assert {key.name for key in changed} == {"large", "small"}
    for name, findings in {"large": "given", "small": "got"}.items():
        key = Key("team", name)
        case = replace(book[name].case, grants=numbers.grants(key))
        after = book[name].again(case)
        assert "team/large leaves 1 of 6 replicas to team/small" in getattr(after.kept, findings).sentence
        assert after.kept.replicas == {"large": 5, "small": 1}[name]
        assert [each.fault for each in after.news] == [{"given": "Yielded", "got": "Granted"}[findings]]


def test_what_a_schedule_keeps_is_not_left_to_another_model() -> None:
    schedule = {"cron": "* * * * *", "duration": "1h", "minReplicas": 4}
    fleet = sampled(schedules=[schedule])
    assert fleet.scaling is not None
    assert fleet.scaling.bid.low == 4

    grant = Grant(giver=fleet.scaling.case.key, taker="team/other", replicas=1, at_s=0.0, sentence="it needs it")
    after = fleet.scaling.again(replace(fleet.scaling.case, grants=(grant,)))

    assert after.kept.replicas == 4


class _Woken:
    """What asks for reconciles."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys = keys

    def add(self, key: Key, *, behind: bool = False) -> None:
        self.keys.append(key)


def _held(name: str, standing: int, *, lacks: int, rps: float) -> Scaling:
    """A model as its last reconcile left it; its knee is 10 requests a second."""
    scaling = sampled(minReplicas=1).scaling
    assert scaling is not None
    planned = scaling.case.plan.planned
    assert planned is not None
    hosted = planned.hosted.model_copy(update={"knee_rps": 10.0})
    plan = scaling.case.plan.model_copy(update={"planned": planned.model_copy(update={"hosted": hosted})})
    seats = replace(scaling.case.seats, standing=standing)
    case = replace(scaling.case, key=f"team/{name}", plan=plan, seats=seats)
    kept = replace(scaling.kept, replicas=standing, peak_rps=rps, need=6)
    return replace(scaling, case=case, kept=kept, lacks=lacks)
