"""Which old replicas let a new one in: as few as do, and none in vain."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from modelfleet.core.groups import Replica, alone
from modelfleet.core.making_room import makers
from scenes import old


@dataclass(frozen=True)
class OneNode:
    """A new replica needs so many accelerators on one node; `free` are those that nobody holds, by node."""

    needs: float
    free: Mapping[str, float]
    pool: str = "new"
    buys: bool = False

    def has_room(self, leaving: Sequence[Replica], count: int = 1) -> bool:
        free = Counter(self.free)
        for each in leaving:
            free.update({pod.node: pod.requests["gpu"] for pod in each.pods if pod.node in self.free})
        return sum(amount // self.needs for amount in free.values()) >= count


def held(*where: str) -> list[Replica]:
    """One old replica on each of these nodes, the first to leave first, by slots that count up."""
    return [alone(old(slot, node=node)) for slot, node in enumerate(where)]


@pytest.mark.parametrize(
    ("needs", "free", "where", "count", "leave"),
    [
        pytest.param(1, {"x": 0, "y": 0}, "xy", 1, [0], id="one does: the first"),
        pytest.param(2, {"x": 0, "y": 1}, "xxy", 1, [2], id="one does beside what is free, though others leave first"),
        pytest.param(2, {"x": 0, "y": 1}, "xxyxx", 1, [2], id="one on its node, two on another"),
        pytest.param(2, {"x": 0, "y": 0}, "xyxy", 1, [0, 2], id="two do on one node, and not one of each"),
        pytest.param(2, {"y": 0}, "xyy", 1, [1, 2], id="what is left where none may stand is of no use"),
        pytest.param(3, {"x": 0, "y": 0}, "xyxy", 1, None, id="all together do not"),
        pytest.param(2, {"x": 0, "y": 0}, "xyxy", 2, [0, 1, 2, 3], id="for two more, all four"),
        pytest.param(1, {"x": 0, "y": 0}, "xyxy", 3, [0, 1, 2], id="for three more, three"),
    ],
)
def test_as_few_leave_as_do(needs: int, free: dict[str, int], where: str, count: int, leave: list[int] | None) -> None:
    found = makers(OneNode(needs, free), [], held(*where), count)
    assert (None if found is None else [each.slot for each in found]) == leave


def test_what_is_as_good_as_gone_counts() -> None:
    gone, *rest = held("x", "x", "x")
    found = makers(OneNode(2, {"x": 0}), [gone], rest)
    assert found is not None
    assert [each.slot for each in found] == [1]
