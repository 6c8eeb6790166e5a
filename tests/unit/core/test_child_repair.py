"""Children that somebody edited, deleted or holds the name of."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from builders import Fleet, condition, deployment, foreign, manual
from modelfleet.api import names
from modelfleet.core.effects import Apply, Create, Delete, Effect
from modelfleet.core.reconcile import LEFT_OVER_S, LOOK_AGAIN_S
from modelfleet.core.revisions import HISTORY_LIMIT

Raw = dict[str, Any]


def told(effects: tuple[Effect, ...]) -> list[str]:
    """Effects in short: verb, kind and name."""
    return [
        f"{type(effect).__name__} {effect.kind} {effect.name}"
        if isinstance(effect, Delete)
        else f"{type(effect).__name__} {effect.manifest['kind']} {effect.manifest['metadata']['name']}"
        for effect in effects
    ]


def edit(*path: str, to: Any) -> Callable[[Raw], None]:
    def change(item: Raw) -> None:
        for key in path[:-1]:
            item = item[int(key)] if isinstance(item, list) else item.setdefault(key, {})
        item[path[-1]] = to

    return change


PORT_80 = {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}
EXTRA = {"name": "status", "port": 8001, "targetPort": "status", "protocol": "TCP"}


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        pytest.param("Service", edit("metadata", "labels", "mine", to="x"), [], id="a label of a user's own stays"),
        pytest.param("Service", edit("spec", "clusterIP", to="10.0.0.1"), [], id="what the server adds stays"),
        pytest.param(
            "Service",
            edit("metadata", "labels", names.MANAGED_BY_LABEL, to="me"),
            ["Apply Service chat"],
            id="a Service's label is put back",
        ),
        pytest.param(
            "Service",
            edit("metadata", "labels", to={}),
            ["Apply Service chat"],
            id="a Service without any label is found by its name and owner",
        ),
        pytest.param(
            "Service",
            edit("spec", "selector", "app", to="x"),
            ["Apply Service chat"],
            id="a Service's selector is whole",
        ),
        pytest.param(
            "Service", edit("spec", "type", to="NodePort"), ["Apply Service chat"], id="a Service's type is put back"
        ),
        pytest.param(
            "Service",
            edit("spec", "ports", to=[{**PORT_80, "targetPort": 9}]),
            ["Apply Service chat"],
            id="a Service's target port is put back",
        ),
        pytest.param(
            "Service",
            edit("spec", "ports", to=[PORT_80, EXTRA]),
            ["Delete Service chat", "Create Service chat"],
            id="a port that an apply cannot take away costs the Service",
        ),
        pytest.param(
            "Service",
            edit("spec", "ports", to=[{**PORT_80, "port": 81}]),
            ["Delete Service chat", "Create Service chat"],
            id="so does a port with another number",
        ),
        pytest.param(
            "Service", edit("metadata", "deletionTimestamp", to="now"), [], id="a Service that ends is waited for"
        ),
        pytest.param(
            "ConfigMap",
            edit("data", "plan.json", to="{}"),
            ["Delete ConfigMap chat-REV", "Create ConfigMap chat-REV"],
            id="an immutable plan is replaced",
        ),
        pytest.param(
            "ConfigMap", edit("immutable", to=None), ["Apply ConfigMap chat-REV"], id="a plan is made immutable again"
        ),
        pytest.param(
            "ControllerRevision",
            edit("data", "plan", to="gone"),
            ["Delete ControllerRevision chat-REV", "Create ControllerRevision chat-REV"],
            id="a damaged revision is pinned again",
        ),
        pytest.param(
            "ControllerRevision",
            edit("data", "plan", "hostCpu", to="much"),
            ["Delete ControllerRevision chat-REV", "Create ControllerRevision chat-REV"],
            id="so is one with a quantity that is none",
        ),
        pytest.param(
            "ControllerRevision", edit("revision", to=7), [], id="a revision's number only has to be the highest"
        ),
        pytest.param(
            "Pod",
            edit("metadata", "labels", names.REVISION_LABEL, to="other"),
            ["Apply Pod chat-REV-0"],
            id="a pod's label is put back",
        ),
        pytest.param(
            "Pod",
            edit("metadata", "labels", to={}),
            ["Apply Pod chat-REV-0"],
            id="a pod without labels is found when its name is needed",
        ),
        pytest.param(
            "Pod",
            edit("metadata", "labels", names.SERVING_LABEL, to="false"),
            ["Apply Pod chat-REV-0"],
            id="a pod that nobody wants to leave serves again",
        ),
        pytest.param(
            "Pod",
            edit("spec", "containers", "0", "image", to="mirror.example/worker"),
            [],
            id="an image that a webhook rewrote at creation stays",
        ),
    ],
)
def test_an_edited_child(kind: str, change: Callable[[Raw], None], expected: list[str]) -> None:
    fleet = Fleet()
    revision = fleet.settle().status["plan"]["revision"]
    before = copy.deepcopy(fleet.objects)
    beside = {"chat-state", "chat-promise"}
    item = next(item for key, item in fleet.objects.items() if key[0] == kind and key[1] not in beside)
    change(item)
    fleet.written.clear()
    fleet.reconcile()
    assert told(tuple(fleet.written)) == [line.replace("REV", revision) for line in expected]
    if expected:
        again = fleet.reconcile()
        assert not again.effects
        for key, was in before.items():
            now = fleet.objects[key]
            assert (now.get("data"), now["metadata"]["labels"]) == (was.get("data"), was["metadata"]["labels"])
            if kind == "Service":
                assert now.get("spec") == was.get("spec")


def test_an_image_that_somebody_edited_is_put_back() -> None:
    fleet = Fleet()
    fleet.settle()
    pod = next(iter(fleet.pods().values()))
    image = pod["spec"]["containers"][0]["image"]
    pod["spec"]["containers"][0]["image"] = "registry.example/other"
    owns = {"f:spec": {"f:containers": {'k:{"name":"worker"}': {"f:image": {}}}}}
    pod["metadata"]["managedFields"] = [{"manager": "kubectl-edit", "operation": "Update", "fieldsV1": owns}]
    (effect,) = fleet.reconcile().effects
    assert isinstance(effect, Apply)
    assert effect.manifest["spec"] == {"containers": [{"name": "worker", "image": image}]}
    assert not fleet.reconcile().effects


@pytest.mark.parametrize("kind", ["Service", "ConfigMap", "ControllerRevision", "Pod"])
def test_a_deleted_child_comes_back(kind: str) -> None:
    fleet = Fleet()
    fleet.settle()
    before = set(fleet.objects)
    gone = next(key for key in fleet.objects if key[0] == kind)
    del fleet.objects[gone]
    effects = fleet.reconcile().effects
    assert [type(effect) for effect in effects] == [Create]
    fleet.settle()
    assert set(fleet.objects) == before


def test_the_plan_of_an_old_revision_comes_back_while_its_pods_run() -> None:
    fleet = Fleet(manual(2, engine={"image": "image:1"}), broken_images={"image:2"})
    old = fleet.settle().status["plan"]["revision"]
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    for _ in range(5):
        fleet.reconcile()
        fleet.tick()
    del fleet.objects["ConfigMap", f"chat-{old}"]
    assert told(fleet.reconcile().effects) == [f"Create ConfigMap chat-{old}"]


OTHER = {"kind": "Deployment", "name": "shop"}
EARLIER = {"apiVersion": names.API_VERSION, "kind": names.DEPLOYMENT_KIND, "name": "chat"}


@pytest.mark.parametrize(
    ("owner", "says", "again_s"),
    [
        pytest.param(None, "Service chat has a name that chat needs and has no owner", LOOK_AGAIN_S, id="no owner"),
        pytest.param(OTHER, "and belongs to Deployment shop", LOOK_AGAIN_S, id="another controller"),
        pytest.param(EARLIER, "left over from an earlier chat", LEFT_OVER_S, id="an earlier object of the same name"),
    ],
)
def test_a_foreign_service_is_named_and_never_touched(owner: Raw | None, says: str, again_s: float) -> None:
    fleet = Fleet()
    other = foreign("Service", "chat", owner)
    fleet.add(copy.deepcopy(other))
    for _ in range(6):
        outcome = fleet.reconcile()
        fleet.tick()
    status, reason, message = condition(outcome.status, "Accepted")
    assert (status, reason) == ("False", "NameTaken")
    assert says in message
    assert condition(outcome.status, "Ready")[:2] == ("False", "NameTaken")
    assert fleet.serving() == 1, "the other children go on"
    assert fleet.objects["Service", "chat"] == other
    assert outcome.wake_after_s == again_s
    del fleet.objects["Service", "chat"]
    assert condition(fleet.settle().status, "Ready")[:2] == ("True", "Serving")


@pytest.mark.parametrize("kind", ["ConfigMap", "ControllerRevision"])
def test_no_pod_starts_on_a_plan_that_is_somebody_elses(kind: str) -> None:
    fleet = Fleet()
    revision = fleet.settle().status["plan"]["revision"]
    fleet = Fleet()
    fleet.add(foreign(kind, f"chat-{revision}"))
    for _ in range(4):
        outcome = fleet.reconcile()
        fleet.tick()
    assert not fleet.pods()
    assert condition(outcome.status, "Progressing")[:2] == ("False", "NameTaken")
    assert f"{kind} chat-{revision}" in condition(outcome.status, "Accepted")[2]


def test_a_foreign_pod_costs_its_slot_and_is_told_once() -> None:
    fleet = Fleet()
    revision = fleet.settle().status["plan"]["revision"]
    fleet = Fleet()
    other = foreign("Pod", f"chat-{revision}-0")
    other |= {"spec": {"nodeName": "node", "containers": [{"image": "other"}]}, "status": {"phase": "Running"}}
    other["metadata"]["labels"] = {}
    fleet.add(copy.deepcopy(other))
    events = [event for _ in range(3) for event in fleet.reconcile().events]
    fleet.settle()
    assert set(fleet.pods()) == {f"chat-{revision}-0", f"chat-{revision}-1"}
    assert [event.reason for event in events].count("NameTaken") == 1


def test_a_spec_that_is_set_back_finds_its_revision_and_makes_it_the_newest() -> None:
    fleet = Fleet(deployment(engine={"image": "image:1"}))
    first = fleet.settle().status["plan"]["revision"]
    fleet.deployment["spec"]["engine"] = {"image": "image:2"}
    second = fleet.settle().status["plan"]["revision"]
    fleet.deployment["spec"]["engine"] = {"image": "image:1"}
    assert fleet.settle().status["plan"]["revision"] == first
    numbers = {key[1]: item["revision"] for key, item in fleet.objects.items() if key[0] == "ControllerRevision"}
    assert numbers == {f"chat-{first}": 3, f"chat-{second}": 2}


def test_old_revisions_and_their_plans_are_let_go_beyond_the_history() -> None:
    fleet = Fleet(deployment())
    seen = []
    for number in range(HISTORY_LIMIT + 4):
        fleet.deployment["spec"]["engine"] = {"image": f"image:{number}"}
        seen.append(fleet.settle().status["plan"]["revision"])
    expected = {f"chat-{revision}" for revision in seen[-HISTORY_LIMIT - 1 :]}
    for kind, others in (("ControllerRevision", set()), ("ConfigMap", {"chat-promise"})):
        assert {name for of, name in fleet.objects if of == kind} - {"chat-state"} == expected | others


def test_an_object_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    fleet = Fleet()
    fleet.settle()
    fleet.objects.pop(("Service", "chat"))
    fleet.deployment["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    before = copy.deepcopy(fleet.deployment["status"])
    outcome = fleet.reconcile()
    assert (outcome.effects, outcome.events, outcome.status) == ((), (), before)
