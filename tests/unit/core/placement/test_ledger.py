"""The books: what is kept step by step equals what is counted anew."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.project import NodeEntry, PodEntry
from modelfleet.core.placement.view import Reservation
from unit.core.placement.sites import GPU

NODE = NodeEntry({}, {GPU: 8, "cpu": 8000}, True, False, ())
NODES, PODS, OWNERS = ("n1", "n2"), ("m/a", "m/b", "m/c", "m/d"), ("m/x", "m/y")


def pod(node: str, gpus: int = 1) -> PodEntry:
    return PodEntry(node, {GPU: gpus, "cpu": 1000})


def reserved(name: str, node: str, gpus: int = 1) -> Reservation:
    return Reservation(pod=name, node=node, requests={GPU: gpus, "cpu": 1000})


def books(*nodes: str) -> Ledger:
    ledger = Ledger()
    for name in nodes or NODES:
        ledger.set_node(name, NODE)
    return ledger


def free(ledger: Ledger, owner: str = "m/other", own: dict[str, PodEntry] | None = None) -> dict[str, int]:
    return {node.name: node.free[GPU] for node in ledger.view(owner, own or {}).nodes}


def test_bound_pods_and_reservations_of_others_are_taken():
    ledger = books()
    ledger.set_pod("m/a", pod("n1", 2))
    ledger.reserve("m/x", [reserved("m/x-0", "n1", 4), reserved("m/x-1", "n2", 1)])
    assert free(ledger) == {"n1": 2, "n2": 7}
    assert free(ledger, "m/x") == {"n1": 6, "n2": 8}


def test_what_is_ending_holds_its_room_and_is_told():
    ledger = books()
    ledger.set_pod("m/a", pod("n1", 2))
    assert ledger.set_pod("m/a", replace(pod("n1", 2), leaving=True))
    view = ledger.view("m/other", {}).node("n1")
    assert (view.free[GPU], [one.requests[GPU] for one in view.leaving]) == (6, [2])


def test_a_reservation_ends_when_its_pod_is_seen_or_its_owner_decides_anew():
    ledger = books()
    ledger.reserve("m/x", [reserved("m/x-0", "n1", 4), reserved("m/x-1", "n2", 1)])
    ledger.set_pod("m/x-0", pod("n1", 4))
    assert (free(ledger), len(ledger.reservations("m/x"))) == ({"n1": 4, "n2": 7}, 1)
    ledger.reserve("m/x", ())
    assert free(ledger) == {"n1": 4, "n2": 8}


def test_own_pods_that_the_watch_has_not_shown_yet_count():
    ledger = books()
    own = {"m/x-0": pod("n1", 4)}
    assert free(ledger, "m/x", own) == {"n1": 4, "n2": 8}
    ledger.set_pod("m/x-0", own["m/x-0"])
    assert free(ledger, "m/x", own) == {"n1": 4, "n2": 8}


def test_room_for_a_pod_whose_namesake_is_still_shown_elsewhere_is_reserved():
    ledger = books()
    ledger.set_pod("m/x-0", pod("n1", 4))
    ledger.reserve("m/x", [reserved("m/x-0", "n2", 4)])
    assert free(ledger) == {"n1": 4, "n2": 4}
    ledger.set_pod("m/x-0", None)
    assert (free(ledger), free(ledger, "m/x")) == ({"n1": 8, "n2": 4}, {"n1": 8, "n2": 8})


def test_room_for_a_pod_whose_namesake_is_still_shown_on_the_same_node_is_kept_when_that_goes():
    ledger = books()
    ledger.set_pod("m/x-0", pod("n1", 4))
    ledger.reserve("m/x", [reserved("m/x-0", "n1", 4)])
    assert (free(ledger), free(ledger, "m/x")) == ({"n1": 4, "n2": 8}, {"n1": 4, "n2": 8})
    ledger.set_pod("m/x-0", None)
    assert (free(ledger), free(ledger, "m/x")) == ({"n1": 4, "n2": 8}, {"n1": 8, "n2": 8})
    ledger.set_pod("m/x-0", pod("n1", 4))
    assert (free(ledger), ledger.reservations("m/x")) == ({"n1": 4, "n2": 8}, ())


def test_a_node_that_is_gone_and_comes_back_still_holds_its_pods():
    ledger = books()
    ledger.set_pod("m/a", pod("n1", 2))
    ledger.drop_node("n1")
    assert free(ledger) == {"n2": 8}
    ledger.set_node("n1", NODE)
    assert free(ledger) == {"n1": 6, "n2": 8}


_STEPS = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from(PODS), st.sampled_from(NODES), st.integers(0, 3)),
    st.tuples(
        st.just("reserve"), st.sampled_from(OWNERS), st.lists(st.tuples(st.sampled_from(PODS), st.sampled_from(NODES)))
    ),
    st.tuples(st.just("node"), st.sampled_from(NODES), st.booleans()),
    st.tuples(st.just("look"), st.sampled_from(OWNERS)),
)


@given(steps=st.lists(_STEPS, max_size=30))
def test_the_books_equal_a_count_from_scratch(steps):
    ledger, pods, promised, nodes = books(), {}, {}, set(NODES)
    for step in steps:
        match step:
            case ("pod", name, node, gpus):
                pods[name] = pod(node, gpus) if gpus else None
                ledger.set_pod(name, pods[name])
                if gpus:
                    promised = {key: one for key, one in promised.items() if (key, one[1]) != (name, node)}
            case ("reserve", owner, wants):
                mine = {name: node for name, node in wants if name[-1] in ("ab" if owner == "m/x" else "cd")}
                promised = {key: one for key, one in promised.items() if one[0] != owner}
                promised |= {name: (owner, node) for name, node in mine.items()}
                ledger.reserve(owner, [reserved(name, node) for name, node in mine.items()])
            case ("node", name, there):
                nodes = nodes | {name} if there else nodes - {name}
                ledger.set_node(name, replace(NODE)) if there else ledger.drop_node(name)
            case ("look", owner):
                expected = dict.fromkeys(sorted(nodes), 8)
                held = [(one.node, one.requests[GPU]) for one in pods.values() if one]
                held += [
                    (node, 1)
                    for name, (by, node) in promised.items()
                    if by != owner and not (pods.get(name) and pods[name].node == node)
                ]
                for node, gpus in held:
                    if node in expected:
                        expected[node] -= gpus
                assert free(ledger, owner) == expected
