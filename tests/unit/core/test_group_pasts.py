"""For how long it counts that a replica ended, and that a node is in doubt: however long a start may take."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import SETTINGS, START, Fleet, Raw, running
from group_worlds import grouped, members, ranks, serving
from modelfleet.api import names
from modelfleet.core.group_clock import PULL_S
from modelfleet.core.group_life import (
    BACKOFF_MOST_S,
    DOUBT_S,
    FORGET_S,
    TRIES_HERE,
    UNBROUGHT_S,
    Life,
    Watched,
    decide_life,
)
from modelfleet.core.groups import alone
from modelfleet.core.pods import PodView
from scenes import NEW, STARTING, pod


def kept(fleet: Fleet) -> Raw:
    """What NAME-state holds of groups."""
    state = fleet.objects.get(("ConfigMap", "chat-state"), {"data": {}})
    found: Raw = json.loads(state["data"].get(names.GROUPS_KEY, "{}"))
    return found


def counts(fleet: Fleet) -> list[int]:
    return [past["count"] for past in kept(fleet).get("replicas", {}).values()]


def hang(fleet: Fleet) -> set[str]:
    """Lets time pass until the group has nodes, where its workers run and get no further; gives the nodes."""
    before = {item["metadata"]["uid"] for item in fleet.pods().values()}
    while True:
        fleet.reconcile()
        fleet.tick(1.0)
        new = [item for item in fleet.pods().values() if item["metadata"]["uid"] not in before]
        if len(new) == 2 == len(fleet.pods()) and all(item["spec"].get("nodeName") for item in new):
            break
    for item in new:
        item["status"] = running(since=fleet.now)
    return set(ranks(fleet).values())


@pytest.mark.parametrize("deadline_s", [60.0, 1800.0, 9000.0])
def test_a_group_that_hangs_to_its_deadline_again_and_again_goes_to_other_nodes(deadline_s: float):
    fleet = grouped(settings=replace(SETTINGS, start_deadline_s=deadline_s))
    tried = [hang(fleet)]
    for count in range(1, TRIES_HERE + 1):
        fleet.now += timedelta(seconds=deadline_s + PULL_S)
        fleet.reconcile()
        assert counts(fleet) == [count]
        tried.append(hang(fleet))
    assert tried[0] == tried[1] == tried[2] != tried[3]


def test_the_doubt_about_a_node_outlasts_the_longest_back_off():
    fleet = grouped()
    for _ in range(9):
        hang(fleet)
        fleet.now += timedelta(seconds=fleet.settings.start_deadline_s + PULL_S)
        fleet.reconcile()
    (until,) = kept(fleet)["doubtful"].values()
    assert (datetime.fromisoformat(until) - fleet.now).total_seconds() == BACKOFF_MOST_S + DOUBT_S
    (doubtful,) = kept(fleet)["doubtful"]
    assert doubtful not in hang(fleet)


def test_a_group_that_has_served_for_a_while_begins_its_count_anew():
    fleet = serving()
    del fleet.objects["Pod", members(fleet)[1]["metadata"]["name"]]
    fleet.reconcile()
    fleet.settle()
    assert counts(fleet) == [1]
    fleet.now += timedelta(seconds=FORGET_S)
    fleet.reconcile()
    assert counts(fleet) == []


def ended(slot: int = 0, ago_s: float = 60.0, **more: Any) -> Raw:
    """What is kept of a replica in that slot that ended three times."""
    past = {"count": 3, "at": (START - timedelta(seconds=ago_s)).isoformat(), "pods": ["gone"], "why": "it hung"}
    return {"replicas": {f"{NEW}-{slot}": {**past, **more}}}


def life(entry: Raw, *pods: PodView) -> tuple[Life, Raw]:
    """What comes of a look, and what is kept after it."""
    watched = Watched(
        fleet=tuple(map(alone, pods)), plans={}, goal=NEW, replicas=2, kept=entry, refused=frozenset(), now=START
    )
    found = decide_life(watched)
    return found, dict(entry if found.kept is None else found.kept)


def since(seconds: float) -> datetime:
    return START - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("entry", "pods", "after"),
    [
        pytest.param(
            ended(ago_s=90000),
            [pod(0, **STARTING, created_at=since(89000))],
            ended(ago_s=90000),
            id="it has started for a day: it counts",
        ),
        pytest.param(
            ended(ago_s=90000),
            [pod(0, ready_since=since(FORGET_S - 1))],
            ended(ago_s=90000),
            id="it has not served for long yet: it counts",
        ),
        pytest.param(
            ended(ago_s=90000), [pod(0, ready_since=since(FORGET_S))], {}, id="it has served for long: it is forgotten"
        ),
        pytest.param(
            ended(ago_s=FORGET_S - 1), [pod(1)], ended(ago_s=FORGET_S - 1), id="nothing stands there: it counts"
        ),
        pytest.param(ended(ago_s=FORGET_S), [pod(1)], {}, id="nothing stands there for long: it is forgotten"),
        pytest.param(
            ended(ago_s=90000),
            [pod(0, terminating=True)],
            ended(ago_s=90000),
            id="it has drained for a day: it counts",
        ),
        pytest.param(
            ended(slot=0, ago_s=60),
            [pod(0, terminating=True), pod(1, created_at=since(3600)), pod(2, **STARTING, created_at=since(20))],
            ended(slot=2, ago_s=60),
            id="it was made anew in another slot, after its back-off: it counts there",
        ),
        pytest.param(
            ended(slot=0, ago_s=60),
            [pod(0, terminating=True), pod(1, **STARTING, created_at=since(65))],
            ended(slot=0, ago_s=60),
            id="another was made before the end: it is not that one's",
        ),
        pytest.param(
            {"replicas": {f"{NEW}-{slot}": ended(slot)["replicas"][f"{NEW}-{slot}"] for slot in (0, 1)}},
            [pod(2, **STARTING, created_at=since(30))],
            {"replicas": {f"{NEW}-{slot}": ended()["replicas"][f"{NEW}-0"] for slot in (1, 2)}},
            id="two ended and one is made anew: one count is its own",
        ),
    ],
)
def test_how_long_an_end_counts(entry: Raw, pods: list[PodView], after: Raw) -> None:
    assert life(entry, *pods)[1] == after


@pytest.mark.parametrize(("ago_s", "expected"), [(UNBROUGHT_S - 1, {"cloud"}), (UNBROUGHT_S, set())])
def test_a_node_that_nobody_brought_is_hoped_for_again_though_the_replica_starts_elsewhere(
    ago_s: float, expected: set[str]
) -> None:
    entry = ended(ago_s=ago_s, unbrought="cloud")
    found, after = life(entry, pod(0, **STARTING, created_at=since(ago_s)))
    assert (found.unbrought, after) == (expected, entry)
