"""Which old replicas leave so that new ones have room. Pure.

One thing counts: whether the new ones could be placed on a class if these had left. What is free beside them, who may
stand on which node, and what a group needs together is in that answer.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

from modelfleet.core.groups import Replica

_LOOKED_AT = 64
"""On so many nodes at most fewer old ones are looked for: each is a placement of all that waits."""

_Fits = Callable[[Sequence[Replica]], bool]


class ClassRoom(Protocol):
    """What is known of the room for new replicas on one class. `pool`: the name of the wanted revision's pool there;
    `buys`: a node for one may be bought there, and those that were asked for lately came."""

    @property
    def pool(self) -> str: ...

    @property
    def buys(self) -> bool: ...

    def has_room(self, leaving: Sequence[Replica], count: int = 1) -> bool:
        """Whether so many more have room once these have left, and the pods that were asked to end have ended."""
        ...


def makers(
    room: ClassRoom, gone: Sequence[Replica], old: Sequence[Replica], count: int = 1
) -> tuple[Replica, ...] | None:
    """Those of the old ones that let `count` new ones in once they left beside those that are as good as `gone`, none
    of them in vain; None where all together do not. `old` has the first to leave first. It is the fewest Ready ones of
    these: the first that do, and for each node the first on it that do."""

    def fits(leaving: Sequence[Replica]) -> bool:
        return room.has_room([*gone, *leaving], count)

    if not fits(old):
        return None
    best = _needed(fits, old)
    nodes = dict.fromkeys(pod.node for replica in old for pod in replica.pods)
    for node in islice(nodes, _LOOKED_AT):
        if len(best) < 2:
            break
        here = [replica for replica in old if any(pod.node == node for pod in replica.pods)]
        if len(here) < len(old) and fits(here):
            best = min(best, _needed(fits, here), key=_cost)
    return best


def ready_among(replicas: Sequence[Replica]) -> int:
    """How many of them are Ready."""
    return sum(replica.ready for replica in replicas)


def _needed(fits: _Fits, replicas: Sequence[Replica]) -> tuple[Replica, ...]:
    """The first of these that fit and of which none may be left out; all of them together fit."""
    found: list[Replica] = []
    left = list(replicas)
    while not fits(found):
        last = bisect_left(range(len(left) - 1), True, key=lambda at: fits([*found, *left[: at + 1]]))
        found.append(left[last])
        left = left[:last]
    return tuple(sorted(found, key=replicas.index))


def _cost(replicas: Sequence[Replica]) -> tuple[int, int]:
    return ready_among(replicas), len(replicas)
