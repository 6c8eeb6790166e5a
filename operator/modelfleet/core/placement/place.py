"""Nodes for groups, or what is missing. Pure and deterministic: an equal view and equal wants give an equal answer."""

from collections.abc import Sequence

from modelfleet.core.placement.view import ClusterView
from modelfleet.core.placement.want import GroupWant, Placement, Shortfall


def place(view: ClusterView, wants: Sequence[GroupWant]) -> tuple[Placement | Shortfall, ...]:
    """An answer for each want, in their order; what one got is gone for the next."""
    free = {node.name: dict(node.free) for node in view.nodes}
    return tuple(_first_fit(free, want) for want in wants)


def _first_fit(free: dict[str, dict[str, int]], want: GroupWant) -> Placement | Shortfall:
    names = [name for name, left in free.items() if all(left.get(k, 0) >= v for k, v in want.requests.items())]
    if len(names) < want.members:
        there = f"{len(names)} have room"
        return Shortfall(key=want.key, sentence=f"needs {want.members} nodes; {there}", missing=want.members)
    for name in names[: want.members]:
        for resource, amount in want.requests.items():
            free[name][resource] -= amount
    return Placement(key=want.key, nodes=tuple(names[: want.members]), reason="the first nodes with room")
