"""What is said where there is no room: what is needed, what there is, what is not counted."""

from dataclasses import replace

import pytest

from modelfleet.core.placement.place import place
from modelfleet.core.placement.view import Taint
from modelfleet.core.placement.want import Shortfall
from unit.core.placement.sites import BLOCK, CLIQUE, GPU, cluster, node, want

B1, B2, C1 = {BLOCK: "b1"}, {BLOCK: "b2"}, {CLIQUE: "c1", BLOCK: "b1"}


@pytest.mark.parametrize(
    ("nodes", "asked", "sentence", "would_do"),
    [
        pytest.param(
            [node("n1", labels=B1), node("n2", 0, labels=B1), node("n3", labels=B2), node("n4", 5, labels=B2)],
            want(8, 2, topology=(BLOCK,)),
            "needs 2 nodes × 8 free h100-sxm in one block; block b2 has 1 and 1 with 5 free; block b1 has 1",
            ({BLOCK: "b1"},),
            id="each block has one",
        ),
        pytest.param(
            [node("n1", 3), node("n2", 5)],
            want(8),
            "needs 1 node × 8 free h100-sxm; the best of 2 nodes has 5 free",
            ({},),
            id="no node has enough",
        ),
        pytest.param(
            [node("n1"), node("n2", 5)],
            want(8, 3),
            "needs 3 nodes × 8 free h100-sxm; 1 has that, at best 5 free on another",
            ({}, {}),
            id="a group that may stand anywhere",
        ),
        pytest.param(
            [node("n1", labels={"gpu": "a100"})],
            want(8),
            "needs 1 node × 8 free h100-sxm; no node carries the labels of the class and of"
            " spec.placement.nodeSelector",
            ({},),
            id="no node of the class",
        ),
        pytest.param(
            [
                node("n1", cordoned=True),
                node("n2", ready=False),
                node("n3", taints=(Taint("gpu", "", "NoSchedule"),)),
                node("n4"),
                replace(node("n5"), free={GPU: 8, "cpu": 500, "pods": 9}),
            ],
            want(8, avoid=frozenset({"n4"})),
            "needs 1 node × 8 free h100-sxm; the best of 5 nodes has 8 free; not counted: 1 cordoned, 1 in doubt after"
            " a failed start, 1 not ready, 1 short of 8 cpu, 1 tainted",
            ({},),
            id="free nodes that do not count",
        ),
        pytest.param(
            [node("n1"), node("n2", labels=B1)],
            want(8, 2, topology=(BLOCK,)),
            "needs 2 nodes × 8 free h100-sxm in one block; block b1 has 1; 1 node without the label"
            " topology.example.com/block",
            ({BLOCK: "b1"},),
            id="a node without the label is near to nobody",
        ),
        pytest.param(
            [node("n1", 4, 4, labels=C1), node("n2", 4, 4, labels=C1), node("n3", 4, 4, labels=C1)],
            want(4, 4, tensor=8, domain_size=72, topology=(CLIQUE, BLOCK)),
            "needs 4 nodes × 4 free h100-sxm in one block, each 2 of them in one clique; block b1 has 3",
            ({BLOCK: "b1", CLIQUE: "c1"},),
            id="a part of tensor parallelism that has begun",
        ),
        pytest.param(
            [node("n1", 4, held={GPU: (2, 2)})],
            want(4, domain_size=4, tensor=4, requests={GPU: 4}),
            "",
            (),
            id="two pairs are taken to stand in one half",
        ),
        pytest.param(
            [node("n1", 4, held={GPU: (3, 1)})],
            want(4, domain_size=4, tensor=4, requests={GPU: 4}),
            "",
            (),
            id="three and one too",
        ),
        pytest.param(
            [node("n1", 2, held={GPU: (3, 3)})],
            want(2, domain_size=4, tensor=2, requests={GPU: 2}),
            "needs 1 node × 2 free h100-sxm; the best of 1 node has 2 free; not counted: 1 short of domains of the"
            " fabric that are free",
            ({},),
            id="one free in each half is no pair",
        ),
        pytest.param(
            [node("n1")],
            want(8, domain_size=4),
            "tensor parallelism over 8 leaves the fabric, which joins 4",
            (),
            id="wider than the fabric",
        ),
        pytest.param(
            [node("n1")],
            want(4, 2, tensor=8),
            "tensor parallelism over 8 leaves the fabric, which joins 4",
            (),
            id="over nodes that no fabric joins",
        ),
        pytest.param(
            [node("n1")],
            want(4, 2, tensor=8, domain_size=72),
            "the fabric joins more than a node and the class names no topologyKeys, whose first would tell its domains",
            (),
            id="a fabric over nodes that nothing tells apart",
        ),
        pytest.param(
            [node("n1")],
            want(4, 3, tensor=8, domain_size=72, topology=(CLIQUE,)),
            "3 pods of 4 cannot be cut into parts of 8",
            (),
            id="parts that do not come out even",
        ),
    ],
)
def test_the_sentence(nodes, asked, sentence, would_do):
    (answer,) = place(cluster(*nodes), [asked])
    found = (answer.sentence, answer.would_do) if isinstance(answer, Shortfall) else ("", ())
    assert found == (sentence, would_do)


@pytest.mark.parametrize(
    ("pinned", "sentence"),
    [
        pytest.param({0: "gone"}, "a pod of the group is bound to node gone, which is gone", id="its node is gone"),
        pytest.param(
            {0: "n1"}, "needs 1 more node × 8 free h100-sxm near n1, where its group stands", id="nobody can join"
        ),
    ],
)
def test_a_group_that_stands_in_part_and_cannot_be_made_whole(pinned, sentence):
    view = cluster(node("n1", 0, labels=B1), node("n2", labels=B2))
    (answer,) = place(view, [want(8, 2, topology=(BLOCK,), pinned=pinned)])
    assert (type(answer), answer.sentence) == (Shortfall, sentence)


def test_a_group_goes_where_its_ranks_are_nearest():
    near = [node(f"n{index}", labels={CLIQUE: f"c{index // 2}", BLOCK: "b1"}) for index in range(1, 6)]
    (answer,) = place(cluster(*near), [want(8, 4, topology=(CLIQUE, BLOCK))])
    assert answer.nodes == ("n2", "n3", "n4", "n5")
    assert answer.reason == "4 nodes in one block, b1"
