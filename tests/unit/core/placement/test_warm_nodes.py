"""Nodes on which a start finds its weights, its image or compiled code: a preference, and never more."""

import json
from datetime import UTC, datetime

import pytest

from modelfleet.api.placement import Spread
from modelfleet.core.placement import scorers
from modelfleet.core.placement.fit import rooms
from modelfleet.core.placement.images import full_name, images_of
from modelfleet.core.placement.kept_on import Kept, told_by
from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.place import place
from modelfleet.core.placement.project import NodeEntry, PodEntry, node_entry, pod_entry
from modelfleet.core.placement.view import ZONE_KEY, NodeView
from modelfleet.core.placement.want import GroupWant, Placement, Shortfall, Warm
from unit.core.placement.sites import BLOCK, RACK, cluster, node, want

IMAGE = "ghcr.io/org/worker:1.0"
WITH_IMAGE = frozenset({IMAGE})
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def warm(weights: str = "", compiled: str = "") -> Warm:
    return Warm(weights=frozenset(weights.split()), compiled=frozenset(compiled.split()), image=IMAGE)


def placed(asked: GroupWant, *nodes: NodeView) -> Placement:
    (answer,) = place(cluster(*nodes), [asked])
    assert isinstance(answer, Placement)
    return answer


@pytest.mark.parametrize(
    ("nodes", "asked", "chosen"),
    [
        pytest.param([node("a"), node("b")], want(1), "a", id="nothing is known: the first by name, as ever"),
        pytest.param([node("a"), node("b")], want(1, warm=warm("b")), "b", id="the weights are there"),
        pytest.param([node("a"), node("b")], want(1, warm=warm("", "b")), "b", id="compiled code is there"),
        pytest.param([node("a"), node("b", images=WITH_IMAGE)], want(1, warm=warm()), "b", id="the image is there"),
        pytest.param(
            [node("a", images=WITH_IMAGE), node("b")],
            want(1, warm=warm("b", "a")),
            "b",
            id="weights count more than image and compiled code together",
        ),
        pytest.param(
            [node("a"), node("b", images=WITH_IMAGE)], want(1, warm=warm("", "a")), "b", id="an image more than code"
        ),
        pytest.param(
            [node("a"), node("b"), node("c")],
            want(1, warm=warm("b c", "c")),
            "c",
            id="both more than the weights alone",
        ),
        pytest.param([node("a"), node("b")], want(1, warm=warm("gone")), "a", id="a node that is gone helps nobody"),
        pytest.param([node("a"), node("b", 0)], want(1, warm=warm("b")), "a", id="not where there is no room"),
        pytest.param([node("a"), node("b", cordoned=True)], want(1, warm=warm("b")), "a", id="not on a cordoned node"),
        pytest.param([node("a"), node("b")], want(1, warm=warm("b"), avoid=frozenset("b")), "a", id="not in doubt"),
        pytest.param(
            [node("a", 3), node("b")], want(1, warm=warm("b")), "a", id="not where a whole node would be broken for it"
        ),
        pytest.param([node("a", 2), node("b", 5)], want(1, warm=warm("b")), "b", id="rather than the tightest fit"),
        pytest.param(
            [node("a", labels={ZONE_KEY: "1"}), node("b", labels={ZONE_KEY: "2"})],
            want(1, warm=warm("b"), spread=Spread.ZONE, peers=("b",)),
            "a",
            id="not beside another replica where the user wants them apart",
        ),
    ],
)
def test_a_replica_goes_where_it_starts_sooner_if_all_else_allows(
    nodes: list[NodeView], asked: GroupWant, chosen: str
) -> None:
    assert placed(asked, *nodes).nodes == (chosen,)


def test_the_reason_and_the_scores_say_what_a_start_finds() -> None:
    best = placed(want(1, warm=warm("b", "b")), node("a"), node("b", images=WITH_IMAGE))
    assert best.reason == "b keeps 7 of 8 free; its weights, its image and its compiled code are there"
    assert best.scores["coldParts"] == 0
    half = placed(want(1, warm=warm("b")), node("a"), node("b"))
    assert half.reason.endswith("; its weights are there")
    cold = placed(want(1, warm=warm()), node("a"), node("b"))
    assert (cold.reason, "coldParts" in cold.scores) == ("a keeps 7 of 8 free", False)


def test_a_group_takes_warm_nodes_inside_the_domain_that_it_would_take_anyway() -> None:
    nodes = [node(f"n{index}", labels={RACK: f"r{index // 4}", BLOCK: "b"}) for index in range(7)]
    asked = want(8, 2, warm=warm("n5 n6 n0"), topology=(RACK, BLOCK))
    (cold,) = place(cluster(*nodes), [want(8, 2, topology=(RACK, BLOCK))])
    found = placed(asked, *nodes)
    assert isinstance(cold, Placement)
    assert cold.nodes == ("n4", "n5"), "the rack that is left the fullest"
    assert (found.nodes, found.reason) == (("n5", "n6"), "2 nodes in one rack, r1; its weights are there")


def test_without_room_warmth_is_not_spoken_of() -> None:
    (answer,) = place(cluster(node("a", 0)), [want(1, warm=warm("a"))])
    assert isinstance(answer, Shortfall)
    assert "weights" not in answer.sentence


def test_cold_parts_count_what_is_missing() -> None:
    asked = want(1, warm=warm("a", "a b"))
    here = list(rooms([node("a", images=WITH_IMAGE), node("b"), node("c")]).values())
    scene = scorers.scene(asked, here, [])
    assert [scorers.cold_parts(room, scene) for room in here] == [0, 6, 7]


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("org/worker:2", "docker.io/org/worker:2"),
        ("ghcr.io/org/worker", "ghcr.io/org/worker:latest"),
        ("localhost/worker:1", "localhost/worker:1"),
        ("registry:5000/worker", "registry:5000/worker:latest"),
        ("ghcr.io/org/worker@sha256:ab", "ghcr.io/org/worker@sha256:ab"),
    ],
)
def test_an_image_is_looked_for_by_the_name_that_nodes_list(image: str, name: str) -> None:
    assert full_name(image) == name


def test_of_a_node_the_names_of_its_images_are_kept() -> None:
    images = [{"names": ["ghcr.io/a@sha256:1", "ghcr.io/a:1"], "sizeBytes": 5}, {"names": None}, {"names": [3]}]
    assert images_of({"status": {"images": images}}) == {"ghcr.io/a@sha256:1", "ghcr.io/a:1"}
    assert node_entry({"status": {"images": images}}).images == {"ghcr.io/a@sha256:1", "ghcr.io/a:1"}


def fetched(message: str, at: str = "2026-01-01T00:00:00Z", **state: object) -> dict[str, object]:
    ended = {"exitCode": 0, "finishedAt": at, "message": message, **state}
    owner = {"kind": "ModelDeployment", "apiVersion": "modelfleet.dev/v1alpha1", "name": "chat", "controller": True}
    return {
        "metadata": {"namespace": "team", "name": "p", "ownerReferences": [owner]},
        "spec": {"nodeName": "n1"},
        "status": {"initContainerStatuses": [{"name": "fetch", "state": {"terminated": ended}}]},
    }


TOLD = json.dumps({"weights": ["w1", "w2"], "compiled": ["c1"]})


@pytest.mark.parametrize(
    ("pod", "kept"),
    [
        pytest.param(fetched(TOLD), Kept(NOW, frozenset({"w1", "w2"}), frozenset({"c1"})), id="what a fetch tells"),
        pytest.param(fetched('{"weights": []}'), Kept(NOW, frozenset(), frozenset()), id="an empty folder"),
        pytest.param(fetched(""), None, id="a worker from before it told"),
        pytest.param(fetched("[1]"), None, id="something else"),
        pytest.param(fetched("{"), None, id="no JSON"),
        pytest.param(fetched(TOLD, exitCode=1), None, id="a fetch that failed"),
        pytest.param(fetched(TOLD, at="soon"), None, id="without a time"),
        pytest.param({}, None, id="no fetch"),
    ],
)
def test_what_a_pod_tells_of_its_nodes_cache(pod: dict[str, object], kept: Kept | None) -> None:
    assert told_by(pod) == kept


def test_only_our_own_pods_are_listened_to() -> None:
    ours, foreign = fetched(TOLD), fetched(TOLD)
    foreign["metadata"] = {"namespace": "team", "name": "p"}
    of_ours, of_others = pod_entry(ours), pod_entry(foreign)
    assert of_ours is not None
    assert of_others is not None
    assert (of_ours.kept == told_by(ours), of_others.kept) == (True, None)


def test_of_each_namespace_the_newest_fetch_on_a_node_counts() -> None:
    ledger = Ledger()
    ledger.set_node("n1", NodeEntry({}, {}, True, False, (), WITH_IMAGE))
    for index, (key, hour) in enumerate((("team/a", 1), ("team/b", 3), ("team/c", 2), ("other/a", 4))):
        kept = Kept(NOW.replace(hour=hour), frozenset({f"w{index}"}), frozenset())
        ledger.set_pod(key, PodEntry("n1", {"pods": 1}, deployment=key, kept=kept))
    (seen,) = ledger.view("", {}).nodes
    assert {name: kept.weights for name, kept in seen.kept.items()} == {"team": {"w1"}, "other": {"w3"}}
    assert seen.images == WITH_IMAGE
