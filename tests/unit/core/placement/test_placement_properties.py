"""What holds for every cluster and every group."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from modelfleet.api.placement import Spread
from modelfleet.core.placement.place import place
from modelfleet.core.placement.view import ZONE_KEY, ClusterView, NodeView, Taint
from modelfleet.core.placement.want import GroupWant, Placement, Shortfall
from unit.core.placement.sites import BLOCK, CLIQUE, GPU, cluster, node, want

_TAINTS = st.sampled_from([(), (Taint("gpu", "", "NoSchedule"),), (Taint("old", "", "PreferNoSchedule"),)])


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeView:
    """A node of 8 in one of two zones, four blocks and eight cliques, which nest; a label may be missing."""
    clique = draw(st.integers(0, 7))
    labels = {CLIQUE: f"c{clique}", BLOCK: f"b{clique // 2}", ZONE_KEY: f"z{clique // 4}"}
    if draw(st.integers(0, 9)) == 0:
        labels.pop(draw(st.sampled_from(sorted(labels))))
    held = tuple(sorted(draw(st.lists(st.sampled_from((1, 2, 4)), max_size=4)), reverse=True))
    free = 8 - sum(held)
    states = {"ready": draw(st.integers(0, 9)) > 0, "cordoned": draw(st.integers(0, 9)) == 0, "taints": draw(_TAINTS)}
    return node(name, max(free, 0), labels=labels, held={GPU: held if free >= 0 else (8,)}, **states)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    return cluster(*(draw(nodes(f"n{index:02}")) for index in range(draw(st.integers(0, 12)))))


@st.composite
def groups(draw: st.DrawFn) -> GroupWant:
    """One pod, pods in one block, or tensor parallelism over several pods of a clique."""
    common = {"spread": draw(st.sampled_from(Spread)), "deployment": "chat"}
    match draw(st.integers(0, 3)):
        case 0:
            accelerators = draw(st.sampled_from((1, 2, 4, 8)))
            return want(
                accelerators, tensor=min(2, accelerators), domain_size=4 if accelerators > 1 else None, **common
            )
        case 1:
            return want(draw(st.sampled_from((1, 2, 4, 8))), topology=(BLOCK,), **common)
        case 2:
            return want(
                8, draw(st.integers(2, 4)), topology=draw(st.sampled_from([(), (BLOCK,), (CLIQUE, BLOCK)])), **common
            )
    parts, span = draw(st.integers(1, 2)), 2
    return want(4, parts * span, tensor=8, domain_size=72, topology=(CLIQUE, BLOCK, ZONE_KEY), **common)


def _after(view: ClusterView, wants: list[GroupWant]) -> tuple[Counter[str], list[Placement]]:
    answers = [answer for answer in place(view, wants) if isinstance(answer, Placement)]
    by_key = {each.key: each for each in wants}
    taken: Counter[str] = Counter()
    for answer in answers:
        for name in answer.nodes:
            taken[name] += by_key[answer.key].accelerators
    return taken, answers


@given(view=clusters(), wants=st.lists(groups(), max_size=6))
def test_nothing_is_given_twice_and_nothing_goes_where_it_may_not(view, wants):
    wants = [replace(each, key=f"g{index}") for index, each in enumerate(wants)]
    taken, answers = _after(view, wants)
    by_name = {each.name: each for each in view.nodes}
    assert all(amount <= by_name[name].free[GPU] for name, amount in taken.items())
    for answer in answers:
        for name in answer.nodes:
            standing = by_name[name]
            assert standing.ready
            assert not standing.cordoned
            assert not any(taint.effect == "NoSchedule" for taint in standing.taints)


@given(view=clusters(), group=groups())
def test_a_group_stands_whole_in_one_far_domain_and_tensor_parallelism_in_one_fabric(view, group):
    (answer,) = place(view, [group])
    if isinstance(answer, Shortfall):
        return
    by_name = {each.name: each for each in view.nodes}
    assert len(set(answer.nodes)) == group.members
    if group.members > 1 and group.topology:
        (far,) = {by_name[name].domain(group.topology[-1]) for name in answer.nodes}
        assert far is not None
    if group.span > 1:
        for start in range(0, group.members, group.span):
            (near,) = {by_name[name].domain(group.topology[0]) for name in answer.nodes[start : start + group.span]}
            assert near is not None


@given(view=clusters(), wants=st.lists(groups(), max_size=4))
def test_the_same_question_has_the_same_answer(view, wants):
    assert place(view, wants) == place(view, wants)


@given(view=clusters(), group=groups())
def test_what_a_shortfall_says_is_enough_is_enough_and_one_less_is_not(view, group):
    (answer,) = place(view, [group])
    if isinstance(answer, Placement):
        return
    more = [node(f"x{index:02}", labels=labels) for index, labels in enumerate(answer.would_do)]
    assert more
    assert isinstance(place(cluster(*view.nodes, *more), [group])[0], Placement)
    assert isinstance(place(cluster(*view.nodes, *more[1:]), [group])[0], Shortfall)


@given(view=clusters(), group=groups(), seats=st.integers(1, 3))
def test_members_that_have_their_nodes_keep_them_and_the_others_join_them(view, group, seats):
    (whole,) = place(view, [group])
    if isinstance(whole, Shortfall):
        return
    pinned = dict(list(enumerate(whole.nodes))[:seats])
    (joined,) = place(view, [replace(group, pinned=pinned)])
    assert isinstance(joined, Placement), joined
    assert all(joined.nodes[rank] == name for rank, name in pinned.items())
    assert len(set(joined.nodes)) == group.members
