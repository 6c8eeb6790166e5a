"""What replicas of several classes carry, and how many carry what is needed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelfleet.core.mix import Mix
from modelfleet.core.plan import Plan
from planner_worlds import planned, settled


def plan(knee_rps: float, accelerators: int = 1) -> Plan:
    """Any plan of a replica with this knee."""
    (stored,) = (item for (kind, _), item in WORLD.objects.items() if kind == "ControllerRevision")
    made = Plan.model_validate(stored["data"]["plan"])
    assert made.planned is not None
    hosted = made.planned.hosted.model_copy(update={"knee_rps": knee_rps})
    of = made.planned.model_copy(update={"hosted": hosted})
    return made.model_copy(update={"planned": of, "accelerators": accelerators})


WORLD = settled(planned())
FIRST, HALF, TWICE, WIDE = plan(10.0), plan(5.0), plan(20.0), plan(10.0, 4)


@pytest.mark.parametrize(
    ("mix", "need", "replicas"),
    [
        pytest.param({"on_first": 5}, 3, 3, id="one class is counted as ever"),
        pytest.param({"on_first": 0}, 3, 3, id="none stands"),
        pytest.param({"on_first": 2, "later": ((HALF, 2),)}, 4, 5, id="two halves are one, so one more"),
        pytest.param({"on_first": 2, "later": ((HALF, 4),)}, 4, 6, id="four halves are two"),
        pytest.param({"on_first": 2, "later": ((HALF, 4),)}, 3, 4, id="two halves leave for one"),
        pytest.param({"on_first": 2, "later": ((HALF, 4),)}, 1, 1, id="the later ones leave, then the others"),
        pytest.param({"on_first": 3, "later": ((TWICE, 1),)}, 4, 4, id="a strong one stays while the rest is too weak"),
        pytest.param({"on_first": 3, "later": ((TWICE, 1),)}, 3, 3, id="and leaves first once it is not needed"),
        pytest.param({"on_first": 1, "later": ((HALF, 1), (TWICE, 1))}, 1.5, 2, id="the latest class leaves first"),
    ],
)
def test_replicas_are_counted_by_what_they_carry(mix: dict[str, Any], need: float, replicas: int) -> None:
    assert Mix(first=FIRST, **mix).carrying(need) == replicas


@given(
    need=st.integers(0, 30),
    on_first=st.integers(0, 12),
    halves=st.integers(0, 12),
    twices=st.integers(0, 12),
    room=st.integers(0, 12),
    grown_on=st.sampled_from([HALF, TWICE]),
)
def test_numbers_come_to_rest_where_the_load_is_carried(
    need: int, on_first: int, halves: int, twices: int, room: int, grown_on: Plan
) -> None:
    mix = Mix(first=FIRST, on_first=on_first, later=((HALF, halves), (TWICE, twices)))
    for _ in range(40):
        count = mix.carrying(need)
        if count == mix.standing:
            break
        before, mix = mix, leaves(mix, max(0, mix.standing - count))
        assert mix.capacity >= need or mix == before
        more = max(0, count - mix.standing)
        first = min(more, room)
        room -= first
        later = tuple((plan, there + (more - first if plan is grown_on else 0)) for plan, there in mix.later)
        mix = Mix(first=FIRST, on_first=mix.on_first + first, later=later)
    assert mix.capacity >= need
    assert mix.carrying(need) == mix.standing


def leaves(mix: Mix, count: int) -> Mix:
    """The mix without those that leave first."""
    later = list(mix.later)
    for index in reversed(range(len(later))):
        gone = min(count, later[index][1])
        later[index], count = (later[index][0], later[index][1] - gone), count - gone
    return Mix(first=mix.first, on_first=mix.on_first - count, later=tuple(later))


@pytest.mark.parametrize(
    ("mix", "accelerators", "replicas"),
    [
        pytest.param({"on_first": 2}, 8, 8, id="all of the first class"),
        pytest.param({"on_first": 2, "later": ((WIDE, 1),)}, 8, 5, id="a wide one leaves room for four"),
        pytest.param({"on_first": 0, "later": ((WIDE, 3),)}, 9, 2, id="fewer than stand on later classes"),
    ],
)
def test_accelerators_bound_replicas_of_all_classes(mix: dict[str, Any], accelerators: int, replicas: int) -> None:
    assert Mix(first=FIRST, **mix).within(accelerators) == replicas


def test_the_knee_of_a_mix_is_the_mean_and_that_of_one_class_its_own() -> None:
    assert Mix(first=FIRST, on_first=7).knee_rps == 10.0
    assert Mix(first=FIRST, on_first=1, later=((HALF, 1),)).knee_rps == 7.5
