"""A new leader knows what is pinned and not what was only decided: what its predecessor decided still finds room."""

import random

import pytest

from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.place import place
from modelfleet.core.placement.project import NodeEntry, PodEntry
from modelfleet.core.placement.view import Reservation
from modelfleet.core.placement.want import GroupWant, Placement
from unit.core.placement.sites import BLOCK, GPU, RACK, want

OFFERED = {GPU: 8, "cpu": 96_000, "memory": 2**40, "pods": 110}
DECIDED = 8
"""Groups that were created and not lifted when the leader went."""

Decided = tuple[GroupWant, tuple[str, ...]]


def books() -> Ledger:
    """Sixteen empty nodes of eight accelerators, two a rack and four a block."""
    ledger = Ledger()
    for number in range(16):
        labels = {"gpu": "h100", RACK: f"r{number // 2}", BLOCK: f"b{number // 4}"}
        ledger.set_node(f"n{number:02}", NodeEntry(labels, OFFERED, True, False, ()))
    return ledger


def decide(ledger: Ledger, asked: GroupWant) -> tuple[str, ...] | None:
    """The nodes of a group by the one placer, which keeps them reserved; None without room."""
    (answer,) = place(ledger.view(asked.deployment, {}), [asked])
    if not isinstance(answer, Placement):
        return None
    pods = enumerate(answer.nodes)
    room = [Reservation(pod=f"{asked.deployment}-{rank}", node=node, requests=asked.requests) for rank, node in pods]
    ledger.reserve(asked.deployment, room)
    return answer.nodes


def filled(choose: random.Random) -> list[Decided]:
    """Groups of all sizes, one after the other, until one finds no room."""
    ledger, groups = books(), list[Decided]()
    while True:
        size, number = choose.choice((1, 1, 2, 4, 8, 16)), len(groups)
        joined = {"members": 2, "topology": (RACK, BLOCK)} if size == 16 else {}
        asked = want(min(size, 8), key=str(number), deployment=f"m/{number}", **joined)
        nodes = decide(ledger, asked)
        if nodes is None:
            return groups
        groups.append((asked, nodes))


@pytest.mark.parametrize("seed", range(20))
def test_a_handover_costs_at_most_one_group_and_gives_no_room_twice(seed: int):
    choose = random.Random(seed)
    groups = filled(choose)
    successor = books()
    for asked, nodes in groups[:-DECIDED]:
        for rank, node in enumerate(nodes):
            successor.set_pod(f"{asked.deployment}-{rank}", PodEntry(node, asked.requests))
    late = [asked for asked, _ in groups[-DECIDED:]]
    choose.shuffle(late)
    lost = sum(decide(successor, asked) is None for asked in late)
    assert lost <= 1
    assert all(amount >= 0 for node in successor.view("m/other", {}).nodes for amount in node.free.values())
