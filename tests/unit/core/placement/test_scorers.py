"""Each scorer alone, then the order among them."""

import pytest

from modelfleet.api.placement import Spread
from modelfleet.core.placement import scorers
from modelfleet.core.placement.fit import rooms
from modelfleet.core.placement.place import place
from modelfleet.core.placement.view import ZONE_KEY, Taint
from modelfleet.core.placement.want import Placement, Tolerated
from unit.core.placement.sites import BLOCK, GPU, RACK, cluster, node, want

OLD = (Taint("old", "", "PreferNoSchedule"),)
ZONES = [node("a1", labels={ZONE_KEY: "a"}), node("a2", 3, labels={ZONE_KEY: "a"}), node("b1", labels={ZONE_KEY: "b"})]


def figures(scorer, nodes, asked, peers=()):
    here = list(rooms(nodes).values())
    by_name = {each.name: each for each in nodes}
    scene = scorers.scene(asked, here, [by_name[name] for name in peers])
    made = scorer(scene) if scorer in (around_rack, around_block) else scorer
    return {room.node.name: made(room, scene) for room in here}


def around_rack(scene):
    return scorers.whole_nodes_around(RACK, scene)


def around_block(scene):
    return scorers.whole_nodes_around(BLOCK, scene)


RACKS = [
    node("n1", labels={RACK: "r1", BLOCK: "b1"}),
    node("n2", labels={RACK: "r1", BLOCK: "b1"}),
    node("n3", labels={RACK: "r2", BLOCK: "b1"}),
    node("n4", 7, labels={RACK: "r2", BLOCK: "b1"}),
]


@pytest.mark.parametrize(
    ("scorer", "nodes", "asked", "peers", "expected"),
    [
        pytest.param(
            scorers.replicas_in_failure_domain,
            ZONES,
            want(1, spread=Spread.ZONE),
            ("a1", "a2", "b1"),
            {"a1": 2, "a2": 2, "b1": 1},
            id="replicas in the zone",
        ),
        pytest.param(
            scorers.replicas_in_failure_domain,
            ZONES,
            want(1, spread=Spread.NODE),
            ("a1", "a1"),
            {"a1": 2, "a2": 0, "b1": 0},
            id="replicas on the node",
        ),
        pytest.param(
            scorers.replicas_in_failure_domain,
            ZONES,
            want(1, spread=Spread.NONE),
            ("a1",),
            {"a1": 0, "a2": 0, "b1": 0},
            id="nothing is spread",
        ),
        pytest.param(
            scorers.unwelcome, [node("n1", taints=OLD), node("n2")], want(1), (), {"n1": 1, "n2": 0}, id="a soft taint"
        ),
        pytest.param(
            scorers.unwelcome,
            [node("n1", taints=OLD)],
            want(1, tolerations=(Tolerated(key="old", operator="Exists"),)),
            (),
            {"n1": 0},
            id="a soft taint that is tolerated",
        ),
        pytest.param(
            scorers.breaks_whole_node,
            [node("n1"), node("n2", 7), node("n3", 4, 4)],
            want(4),
            (),
            {"n1": 1, "n2": 0, "n3": 0},
            id="a node that nobody uses is broken, unless it is filled",
        ),
        pytest.param(
            scorers.left_over, [node("n1"), node("n2", 5)], want(4), (), {"n1": 4, "n2": 1}, id="what stays free"
        ),
        pytest.param(around_rack, RACKS, want(1), (), {"n1": 2, "n2": 2, "n3": 1, "n4": 1}, id="unused in the rack"),
        pytest.param(around_block, RACKS, want(1), (), {"n1": 3, "n2": 3, "n3": 3, "n4": 3}, id="unused in the block"),
    ],
)
def test_a_scorer(scorer, nodes, asked, peers, expected):
    assert figures(scorer, nodes, asked, peers) == expected


@pytest.mark.parametrize(
    ("nodes", "asked", "chosen"),
    [
        pytest.param(ZONES, want(1, spread=Spread.ZONE, peers=("a1",)), "b1", id="spreading comes before packing"),
        pytest.param(ZONES, want(1, spread=Spread.NONE, peers=("a1",)), "a2", id="packed where nothing is spread"),
        pytest.param(
            [node("n1", 2, taints=OLD), node("n2", 4)], want(1), "n2", id="a soft taint comes before a tight fit"
        ),
        pytest.param(
            [node("n1", 2, 2), node("n2", 7)], want(1), "n2", id="a whole small node is kept rather than a tight fit"
        ),
        pytest.param([node("n1", 5), node("n2", 3)], want(2), "n2", id="the tightest fit"),
        pytest.param(
            [*RACKS[:3], node("n4", 0, labels={RACK: "r2", BLOCK: "b1"})],
            want(8, topology=(RACK, BLOCK)),
            "n3",
            id="the rack that is broken already",
        ),
        pytest.param([node("n2"), node("n1")], want(8), "n1", id="the first by name where all is even"),
    ],
)
def test_what_wins(nodes, asked, chosen):
    (answer,) = place(cluster(*nodes), [asked])
    assert isinstance(answer, Placement)
    assert answer.nodes == (chosen,)
    assert answer.reason.startswith(f"{chosen} keeps")


def test_replicas_of_one_call_are_spread_against_each_other():
    asked = [want(1, key=f"chat-{slot}", deployment="m/chat", spread=Spread.ZONE) for slot in range(4)]
    nodes = [answer.nodes[0] for answer in place(cluster(*ZONES), asked)]
    assert sorted(name[0] for name in nodes) == ["a", "a", "b", "b"]


def test_the_scores_tell_what_decided():
    (answer,) = place(cluster(*ZONES), [want(1, spread=Spread.ZONE, peers=("a1",))])
    assert answer.scores == {"replicasInFailureDomain": 0}
    assert answer.reason == "b1 keeps 7 of 8 free; 0 other replicas in its zone"


def test_every_node_is_looked_at_with_what_the_call_has_taken():
    asked = [want(4, key=f"chat-{slot}") for slot in range(3)]
    first, second, third = place(cluster(node("n1"), node("n2", 4)), asked)
    assert [first.nodes, second.nodes, third.nodes] == [("n2",), ("n1",), ("n1",)]
    assert GPU in want(1).requests
