"""What maxSurge, maxUnavailable, a pause and a cordoned node change in a step, row by row."""

from datetime import timedelta
from typing import Any

import pytest

from builders import START
from modelfleet.api.reasons import Reason
from modelfleet.core.failures import Failure
from modelfleet.core.rollout import Scene, Way, decide_step
from scenes import NEW, OFF, OLD, STARTING, old, pod, scene, told

NO_ROOM = {"gpu": 1.0}
DEAD: dict[str, Any] = {"barred": frozenset({"dead"})}
FIRST = frozenset({NEW})
BROKEN: dict[str, Any] = {"ready": False, "failure": Failure(Reason.MODEL_REFUSED, "it is odd", hopeless=True)}
UNSEEN: dict[str, Any] = {"ready": False, "placed": False}
WAITS: dict[str, Any] = UNSEEN | {
    "unschedulable": "2 Insufficient gpu",
    "unschedulable_since": START - timedelta(minutes=14),
    "lacks": ("gpu",),
}


@pytest.mark.parametrize(
    ("of", "expected", "way"),
    [
        pytest.param(
            scene(old(0), old(1), replicas=2, surge=0, short={}),
            {},
            Way.BLOCKED,
            id="no surge, and no room though all old ones left: none leaves in vain",
        ),
        pytest.param(
            scene(old(0), old(1), replicas=2, surge=0, short=NO_ROOM),
            {"off": "a1"},
            Way.DELETE_FIRST,
            id="no surge and no room beside: an old one that leaves enough leaves first",
        ),
        pytest.param(
            scene(old(0), old(1), replicas=2, surge=0, short={"gpu": 2.0}),
            {},
            Way.BLOCKED,
            id="no surge and an old one holds too little: none leaves in vain",
        ),
        pytest.param(
            scene(old(0), old(1), replicas=2, surge=0, missing=2, short={"gpu": 2.0}),
            {"off": "a0 a1"},
            Way.DELETE_FIRST,
            id="two may be missing and hold enough together: both leave first",
        ),
        pytest.param(
            scene(old(0, node="out"), old(1, node="out"), replicas=2, short=NO_ROOM, barred=frozenset({"out"})),
            {"create": (0,)},
            Way.BLOCKED,
            id="no room, and no new one may stand where the old ones do: blocked",
        ),
        pytest.param(
            scene(old(0, node="in"), old(1, node="out"), replicas=2, short=NO_ROOM, barred=frozenset({"out"})),
            {"create": (0,), "off": "a0"},
            Way.DELETE_FIRST,
            id="no room: the old one makes room on whose node a new one may stand",
        ),
        pytest.param(
            scene(pod(0), pod(1), surge=0, moving=frozenset({"chat-bbbbbbbb-0"})),
            {"create": (2,)},
            Way.SURGE,
            id="a cordoned node and no surge: its replica is replaced before it leaves all the same",
        ),
        pytest.param(
            scene(pod(0), pod(1), surge=0, moving=frozenset({"chat-bbbbbbbb-0"}), short={}),
            {"create": (2,)},
            Way.BLOCKED,
            id="a cordoned node, no surge and no room elsewhere: it stays",
        ),
        pytest.param(
            scene(old(0), old(1), surge=0, known=False),
            {},
            Way.SURGE,
            id="no surge, and the nodes are not known: none leaves while nothing can be placed",
        ),
        pytest.param(
            scene(old(0), old(1), old(2, terminating=True, ready=False, node="dead"), short=NO_ROOM, **DEAD),
            {"create": (0,), "off": "a1"},
            Way.DELETE_FIRST,
            id="no room, and what is to end on a dead node does not end: an old one makes room",
        ),
        pytest.param(
            scene(old(0), old(1), old(2, terminating=True, ready=False, node="alive"), short=NO_ROOM, **DEAD),
            {"create": (0,)},
            Way.SURGE,
            id="no room while one ends on a node that lives: it is waited for",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **WAITS), bought=FIRST),
            {},
            Way.SURGE,
            id="a node is bought for the new one: the old ones stay, however long it takes",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **WAITS), bought=FIRST, short=NO_ROOM),
            {},
            Way.SURGE,
            id="no further node may be bought, and one is on its way: the old ones stay",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **WAITS), bought=FIRST, unbrought=FIRST, short=NO_ROOM),
            {"off": "a1"},
            Way.DELETE_FIRST,
            id="nobody has brought a node lately: an old one makes room",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **UNSEEN), bought=FIRST, unbrought=FIRST, short=NO_ROOM),
            {"off": "a1"},
            Way.DELETE_FIRST,
            id="nor is the scheduler's word waited for once more then",
        ),
        pytest.param(
            scene(old(0), old(1), old(2), replicas=3, surge=2),
            {"create": (0, 1)},
            Way.SURGE,
            id="two above the wanted number, if two may be",
        ),
        pytest.param(
            scene(old(0), old(1), old(2), pod(0), pod(1), replicas=3, surge=2),
            {"off": "a1 a2"},
            Way.SURGE,
            id="two new ones are Ready: two old ones drain",
        ),
        pytest.param(
            scene(old(0), old(1), old(2), replicas=3, surge=0),
            {"off": "a2"},
            Way.DELETE_FIRST,
            id="no surge: an old one leaves first",
        ),
        pytest.param(
            scene(old(0), old(1), old(2), replicas=3, surge=0, missing=2),
            {"off": "a1 a2"},
            Way.DELETE_FIRST,
            id="no surge and two may be missing: two leave first",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **STARTING), replicas=3, surge=0),
            {},
            Way.DELETE_FIRST,
            id="no surge: no further one leaves while one is missing",
        ),
        pytest.param(
            scene(old(0), old(1), replicas=2, short=NO_ROOM),
            {"create": (0,), "off": "a1"},
            Way.DELETE_FIRST,
            id="the placer finds no room: an old one makes room, and the new one is asked for again",
        ),
        pytest.param(
            scene(old(0), old(1), replicas=2, short=NO_ROOM, missing=0),
            {"create": (0,)},
            Way.BLOCKED,
            id="no room and none may be missing: blocked",
        ),
        pytest.param(
            scene(old(0), old(1), replicas=2, short={"gpu": 4.0}),
            {"create": (0,)},
            Way.BLOCKED,
            id="no room and an old one holds too little: blocked",
        ),
        pytest.param(
            scene(old(0), old(1), old(2), old(3), replicas=4, short=NO_ROOM, missing=2),
            {"create": (0,), "off": "a2 a3"},
            Way.DELETE_FIRST,
            id="no room and two may be missing: two make room at once",
        ),
        pytest.param(
            scene(old(0), old(1), old(2), replicas=2, paused=True),
            {"off": "a2"},
            Way.NONE,
            id="paused: what is too much still leaves",
        ),
        pytest.param(
            scene(old(0), pod(0), replicas=3, paused=True),
            {"create": (1,)},
            Way.NONE,
            id="paused: both revisions stay, what is missing is made",
        ),
        pytest.param(
            scene(old(0), pod(0), pod(1), replicas=2, paused=True),
            {},
            Way.NONE,
            id="paused: what a rollout has made above the wanted number stays",
        ),
        pytest.param(
            scene(old(0), pod(0), pod(1), pod(2), replicas=2, paused=True),
            {"off": "a0"},
            Way.NONE,
            id="paused: of what is too much the other revision leaves first",
        ),
        pytest.param(
            scene(pod(0), pod(1), old(0, **BROKEN), replicas=3, paused=True),
            {"create": (2,)},
            Way.NONE,
            id="paused: one that cannot come up is not there, and stays beside what is made",
        ),
        pytest.param(
            scene(pod(0), pod(1), old(0, **BROKEN), replicas=3, paused=True, surge=0),
            {"create": (2,), "delete": "a0"},
            Way.NONE,
            id="paused without a surge: it makes room for what is made",
        ),
        pytest.param(
            scene(pod(0), old(0, **BROKEN), old(1, **UNSEEN, unschedulable="no node"), replicas=2, paused=True),
            {"create": (1,), "delete": "a0"},
            Way.NONE,
            id="paused: of two that cannot come up one stays, so that no more than the surge is above",
        ),
        pytest.param(
            scene(pod(0), pod(1), old(0, **STARTING), replicas=3, paused=True),
            {},
            Way.NONE,
            id="paused: one that still starts is there",
        ),
        pytest.param(
            scene(pod(0), old(0, **BROKEN), replicas=0, paused=True),
            {"off": "b0", "delete": "a0"},
            Way.NONE,
            id="paused and none is wanted: all leave",
        ),
        pytest.param(
            scene(pod(0), pod(1), old(0, **BROKEN), moving=frozenset({"chat-bbbbbbbb-0"}), paused=True),
            {"create": (2,), "delete": "a0"},
            Way.SURGE,
            id="paused, one that cannot come up and a cordoned node: its replica is replaced",
        ),
        pytest.param(
            scene(pod(0), pod(1), pod(2), pod(3, **STARTING), replicas=3, known=False),
            {},
            Way.NONE,
            id="the nodes are not known: the replacement of one on a cordoned node is not taken for one too many",
        ),
        pytest.param(
            scene(pod(0), pod(1), replicas=0, known=False),
            {"off": "b0 b1"},
            Way.NONE,
            id="the nodes are not known and none is wanted: all leave",
        ),
        pytest.param(
            scene(old(0), old(1), pod(0, **WAITS), known=False),
            {},
            Way.SURGE,
            id="the nodes are not known: none makes room for one without a node either",
        ),
        pytest.param(
            scene(pod(0), pod(1), moving=frozenset({"chat-bbbbbbbb-0"})),
            {"create": (2,)},
            Way.SURGE,
            id="a cordoned node: its replica is replaced elsewhere before it leaves",
        ),
        pytest.param(
            scene(pod(0), pod(1), pod(2), moving=frozenset({"chat-bbbbbbbb-0"})),
            {"off": "b0"},
            Way.SURGE,
            id="a cordoned node: when the other one is Ready it drains",
        ),
        pytest.param(
            scene(pod(0), pod(1), moving=frozenset({"chat-bbbbbbbb-0"}), short=NO_ROOM),
            {"create": (2,)},
            Way.BLOCKED,
            id="a cordoned node and no room elsewhere: what leaves it would free nothing that may be used",
        ),
        pytest.param(
            scene(pod(0, **OFF), pod(1), pod(2), moving=frozenset()),
            {},
            Way.NONE,
            id="a node that is uncordoned while its replica drains: one replica is too many, and it is that one",
        ),
        pytest.param(
            scene(old(0), pod(0), pod(1), moving=frozenset({f"chat-{OLD}-0"}), paused=True),
            {"off": "a0"},
            Way.SURGE,
            id="paused does not keep a replica on a cordoned node",
        ),
    ],
)
def test_one_step(of: Scene, expected: dict[str, Any], way: Way) -> None:
    assert (told(of), decide_step(of).way) == (expected, way)
