"""What would make room: a few replicas of ours that fit elsewhere. Proposed, not done."""

from hypothesis import given
from hypothesis import strategies as st

from modelfleet.core.placement.place import place
from modelfleet.core.placement.want import Proposal, Shortfall
from unit.core.placement.sites import BLOCK, GPU, cluster, node, want


def small(gpus: int):
    return {GPU: gpus, "cpu": 1000 * gpus, "pods": 1}


def used(name: str, *sizes: int, foreign: int = 0, **more):
    return node(name, 8 - sum(sizes) - foreign, movable=tuple(map(small, sizes)), **more)


def proposal(*nodes, asked=None):
    (answer,) = place(cluster(*nodes), [asked or want(8)])
    assert isinstance(answer, Shortfall)
    assert answer.proposal is None or answer.sentence.endswith(f"; {answer.proposal}")
    return answer.proposal


def test_the_node_that_the_fewest_moves_empty():
    found = proposal(used("n1", 1, 1), used("n2", 2), used("n3", 2, 2))
    assert found == Proposal("n2", (2,), ("n3",))
    assert str(found) == "moving a replica of 2 off n2 to n3 would make room"


def test_several_replicas_go_to_several_nodes():
    found = proposal(used("n1", 3, 3), used("n2", 4, 1), used("n3", 4, 1))
    assert found == Proposal("n1", (3, 3), ("n2", "n3"))
    assert str(found) == "moving 2 replicas of 3 + 3 off n1 to n2, n3 would make room"


def test_foreign_pods_do_not_move():
    assert proposal(used("n1", 1, foreign=1), used("n2", 2, foreign=1)) is None


def test_no_more_moves_than_a_reader_reads():
    assert proposal(used("n1", 1, 1, 1, 1), used("n2", 1, 1, 1, 1)) is None


def test_a_node_outside_of_the_block_is_no_help():
    nodes = [
        node("n1", labels={BLOCK: "b1"}),
        used("n2", 1, labels={BLOCK: "b2"}),
        used("n3", 1, 4, labels={BLOCK: "b2"}),
    ]
    assert proposal(*nodes, asked=want(8, 2, topology=(BLOCK,))) is None
    nodes[1] = used("n2", 1, labels={BLOCK: "b1"})
    assert proposal(*nodes, asked=want(8, 2, topology=(BLOCK,))) == Proposal("n2", (1,), ("n3",))


@given(fleets=st.lists(st.lists(st.sampled_from((1, 2, 4)), max_size=4).filter(lambda s: 0 < sum(s) <= 8), max_size=6))
def test_what_is_proposed_would_do(fleets):
    nodes = {f"n{index}": list(sizes) for index, sizes in enumerate(fleets)}
    (answer,) = place(cluster(*(used(name, *sizes) for name, sizes in nodes.items())), [want(8)])
    found = answer.proposal if isinstance(answer, Shortfall) else None
    if found is None:
        return
    for size, target in zip(found.sizes, found.targets, strict=True):
        nodes[found.node].remove(size)
        nodes[target].append(size)
    assert all(sum(sizes) <= 8 for sizes in nodes.values())
    assert not isinstance(
        place(cluster(*(used(name, *sizes) for name, sizes in nodes.items())), [want(8)])[0], Shortfall
    )
