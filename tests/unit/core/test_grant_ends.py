"""When what one model left to another comes back, and whose pods that end are waited for."""

from dataclasses import replace
from typing import Any

import pytest

from builders import START
from modelfleet.controller.autoscaler import Autoscaler
from modelfleet.controller.triggers import Key
from modelfleet.core.scaling.arbitration import (
    HELD_S,
    RETRY_S,
    ROOM_S,
    VAIN_S,
    Bid,
    Grant,
    decide_grants,
    decide_waits,
)
from scaling_worlds import Sampled, sampled

GIVER = Bid(
    key="team/large",
    pool="gpu",
    accelerators=1,
    priority=0,
    low=1,
    standing=6,
    need=6,
    lacks=0,
    load_rps=60.0,
    knee_rps=10.0,
)
TAKER = replace(GIVER, key="team/small", priority=5, low=3, standing=2, need=3, lacks=1, load_rps=20.0)
CLIPPED = replace(GIVER, standing=5)
SERVED = replace(TAKER, standing=3, lacks=0)


def granted() -> tuple[Grant, ...]:
    (grant,) = decide_grants([GIVER, TAKER], (), 0.0)
    return (grant,)


def after(times_s: list[float], giver: Bid, taker: Bid, grants: tuple[Grant, ...] | None = None) -> tuple[Grant, ...]:
    """The grants after a look at each of these times."""
    grants = granted() if grants is None else grants
    for at_s in times_s:
        grants = decide_grants([giver, taker], grants, at_s)
    return grants


LATER = [HELD_S, HELD_S + ROOM_S]


@pytest.mark.parametrize(
    ("giver", "taker", "holds"),
    [
        pytest.param({}, {}, True, id="it holds while the taker needs what it has and there is no room"),
        pytest.param({"room": True}, {}, False, id="it ends where nodes have room beside the taker"),
        pytest.param({}, {"standing": 0}, False, id="it ends where the taker went to zero, whose need is not known"),
        pytest.param({}, {"need": 2}, False, id="it ends where the taker needs fewer than it has"),
        pytest.param({"room": True}, {"standing": 2, "lacks": 1}, True, id="room is the taker's while it lacks some"),
        pytest.param({"room": True}, {"leaving": 1}, True, id="room is the taker's while it replaces one"),
        pytest.param({"room": True, "leaving": 1}, {}, True, id="it holds while the giver still leaves"),
        pytest.param({}, {"standing": 0, "lacks": 1}, True, id="it holds for one that comes back from zero"),
    ],
)
def test_after_the_pause(giver: dict[str, Any], taker: dict[str, Any], holds: bool) -> None:
    assert bool(after(LATER, replace(CLIPPED, **giver), replace(SERVED, **taker))) is holds


def test_a_moment_of_room_is_no_room() -> None:
    roomy = replace(CLIPPED, room=True)
    grants = after([HELD_S, HELD_S + 5], roomy, SERVED)
    grants = after([HELD_S + 10], CLIPPED, SERVED, grants)
    grants = after([HELD_S + 15, HELD_S + 15 + ROOM_S - 1], roomy, SERVED, grants)

    assert [each.replicas for each in grants] == [5]
    assert after([HELD_S + 15 + ROOM_S], roomy, SERVED, grants) == ()


def test_a_third_model_whose_pods_end_keeps_nobody_from_taking() -> None:
    third = replace(GIVER, key="team/third", priority=9, leaving=3)

    assert [each.giver for each in decide_grants([GIVER, TAKER, third], (), 0.0)] == ["team/large"]
    assert decide_waits([GIVER, TAKER, third], ()) == {}


@pytest.mark.parametrize(
    ("giver", "taker", "said"),
    [
        pytest.param({"leaving": 1}, {}, "team/large is asked for room once", id="of the giver"),
        pytest.param({}, {"leaving": 1}, "no other model is asked for room before its own", id="of the taker"),
    ],
)
def test_pods_that_end_are_waited_for_and_said(giver: dict[str, Any], taker: dict[str, Any], said: str) -> None:
    bids = [replace(GIVER, **giver), replace(TAKER, **taker)]

    assert decide_grants(bids, (), 0.0) == ()
    (why,) = decide_waits(bids, ()).values()
    assert said in why


def test_one_pair_does_not_wait_for_another_of_the_same_accelerators() -> None:
    other = replace(GIVER, key="team/other", priority=1, standing=4, low=1)
    urgent = replace(TAKER, key="team/urgent", priority=9)
    bids = [GIVER, replace(GIVER, key="team/more", load_rps=61.0), other, TAKER, urgent]

    first = decide_grants(bids, (), 0.0)
    served = [replace(each, lacks=0, standing=3) if each.key == "team/urgent" else each for each in bids]
    left = [replace(each, standing=1) if each.key == "team/large" else each for each in served]
    second = decide_grants(left, first, 5.0)

    assert [(each.giver, each.taker) for each in first] == [("team/large", "team/urgent")]
    assert [(each.giver, each.taker) for each in second[1:]] == [("team/more", "team/small")]


def story(room: int) -> Sampled:
    """A model of three replicas that leaves one to another."""
    fleet = sampled(minReplicas=1).run(300, 1.0)
    assert fleet.scaling is not None
    key = fleet.scaling.case.key
    grant = Grant(giver=key, taker="team/other", replicas=3, at_s=0.0, sentence=f"{key} leaves 1 of 4 to team/other")
    fleet.fleet.room = room
    fleet.read = lambda: {"grants": (grant,)}
    fleet.reconcile()
    return fleet


@pytest.mark.parametrize(
    ("room", "has"),
    [
        pytest.param(1, False, id="no room beside the replicas that stand"),
        pytest.param(9, True, id="room for one more"),
    ],
)
def test_a_model_that_leaves_replicas_to_another_looks_for_room_and_is_woken_by_it(room: int, has: bool) -> None:
    fleet = story(room)
    assert fleet.scaling is not None

    assert fleet.scaling.bid.room is has
    assert fleet.outcomes[-1].waits_for_room


def test_a_model_that_leaves_none_does_not_look() -> None:
    fleet = sampled()
    fleet.reconcile()

    assert not fleet.outcomes[-1].waits_for_room


def test_a_model_without_room_says_what_it_waits_for() -> None:
    fleet = sampled()
    fleet.fleet.room = 2
    fleet.read = lambda: {"waits_for": "team/large is waited for"}
    fleet.run(200, fleet.knee_rps * 5)

    assert fleet.decision["bound"] == "capacity"
    assert fleet.decision["detail"].endswith("; team/large is waited for")


def test_who_begins_to_wait_is_reconciled_and_told_why_and_again_when_it_ends() -> None:
    book, woken = {"large": held("large", 0, 0, 1), "small": held("small", 5, 1, 0)}, Woken()
    numbers = Autoscaler(lambda key: book[key.name].case.samples, woken, lambda: START)
    for name, scaling in book.items():
        numbers.hold(Key("team", name), scaling)

    first = numbers.arbitrate(0.0)
    numbers.hold(Key("team", "large"), held("large", 0, 0, 0))
    told = numbers.wait(Key("team", "small"))
    second = numbers.arbitrate(5.0)

    assert [key.name for key in first] == ["small"]
    assert "team/large" in told
    assert {key.name for key in second} == {"large", "small"}
    assert numbers.wait(Key("team", "small")) == numbers.wait(Key("team", "large")) == ""


class Woken:
    """Nobody is to be woken here."""

    def add(self, key: Key, *, behind: bool = False) -> None:
        raise AssertionError(key)


def held(name: str, priority: int, lacks: int, leaving: int) -> Any:
    """A model of four replicas as its last reconcile left it."""
    scaling = sampled().scaling
    assert scaling is not None
    seats = replace(scaling.case.seats, standing=4, leaving=leaving)
    case = replace(scaling.case, key=f"team/{name}", priority=priority, seats=seats)
    return replace(scaling, case=case, kept=replace(scaling.kept, replicas=4, need=4), lacks=lacks)


ROOMY = replace(CLIPPED, room=True)
VAIN = [HELD_S, HELD_S + VAIN_S]


def test_what_the_taker_has_no_use_for_goes_back_and_is_not_asked_for_again() -> None:
    """It lacks something else than accelerators: they stay free."""
    grants = after(VAIN, ROOMY, TAKER)

    assert [each.vain_s for each in grants] == [VAIN[-1]]
    assert decide_waits([GIVER, TAKER], grants) == {
        "team/small": "what team/large left stayed free, so it was given back"
    }
    assert after([VAIN[-1] + RETRY_S - 1], GIVER, TAKER, grants) == grants
    assert after([VAIN[-1] + 5], GIVER, SERVED, grants) == ()
    (again,) = after([VAIN[-1] + RETRY_S], GIVER, TAKER, grants)
    assert again.vain_s is None


def test_while_what_it_left_is_free_a_model_leaves_no_more() -> None:
    times = [number * 5.0 for number in range(1, 80)]

    assert [each.replicas for each in after(times, ROOMY, TAKER)] == [5]


def test_a_larger_taker_is_left_more_until_it_fits() -> None:
    larger = replace(TAKER, accelerators=4)
    (first,) = decide_grants([replace(GIVER, standing=20), larger], (), 0.0)
    grants = after([HELD_S], replace(GIVER, standing=16, room=True), larger, (first,))

    assert [each.replicas for each in grants] == [16, 12]


def test_room_that_the_taker_has_just_taken_is_looked_at_anew() -> None:
    grants = after([HELD_S, HELD_S + ROOM_S], ROOMY, TAKER)
    grants = after([HELD_S + ROOM_S + 5], ROOMY, SERVED, grants)

    assert [each.room_s for each in grants] == [HELD_S + ROOM_S + 5]


def test_what_was_given_in_vain_binds_the_giver_no_more() -> None:
    book = {"large": held("large", 0, 0, 0), "small": held("small", 5, 1, 0)}
    numbers = Autoscaler(lambda key: book[key.name].case.samples, Woken(), lambda: START)
    for name, scaling in book.items():
        numbers.hold(Key("team", name), scaling)
    numbers.arbitrate(0.0)
    given = numbers.grants(Key("team", "large"))
    numbers.hold(Key("team", "large"), replace(book["large"], room=True))
    for at_s in VAIN:
        numbers.arbitrate(at_s)

    assert [each.replicas for each in given] == [3]
    assert numbers.grants(Key("team", "large")) == numbers.grants(Key("team", "small")) == ()
    assert "was given back" in numbers.wait(Key("team", "small"))
