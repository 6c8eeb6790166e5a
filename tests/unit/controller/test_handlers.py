"""Which events wake a reconcile: own status writes must not, and nothing else may be lost."""

from typing import Any

import pytest

from modelfleet.api import names
from modelfleet.controller.handlers import Echoes, Wakes, classes_of, deployments_of
from modelfleet.controller.triggers import Key


def event(kind, generation=1, **metadata):
    return {"type": kind, "object": {"metadata": {"uid": "u", "generation": generation, **metadata}, "status": {}}}


@pytest.mark.parametrize(
    ("events", "wakes"),
    [
        pytest.param([event("ADDED"), event("MODIFIED")], [True, False], id="a status write does not"),
        pytest.param([event(None), event("MODIFIED")], [True, False], id="nor after the first list"),
        pytest.param([event("ADDED"), event("MODIFIED", 2)], [True, True], id="a changed spec does"),
        pytest.param([event("ADDED"), event("MODIFIED", labels={"a": "b"})], [True, True], id="a changed label does"),
        pytest.param(
            [event("ADDED"), event("MODIFIED", annotations={"a": "b"})], [True, True], id="an annotation does"
        ),
        pytest.param([event("MODIFIED")], [True], id="the first event of an object does, whatever it is"),
        pytest.param([event("ADDED"), event(None)], [True, True], id="a new list does"),
        pytest.param([event("ADDED"), event("DELETED"), event("MODIFIED")], [True, True, True], id="a deletion does"),
        pytest.param(
            [event("ADDED", deletionTimestamp="t"), event("MODIFIED", deletionTimestamp="t")],
            [True, True],
            id="everything of an object that is being deleted does",
        ),
    ],
)
def test_what_wakes(events, wakes):
    echoes = Echoes()
    assert [not echoes.only_status_changed(one) for one in events] == wakes


def test_nothing_is_remembered_of_a_deleted_object():
    echoes = Echoes()
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        echoes.only_status_changed(event(kind))
    assert echoes._seen == {}


def owned_by(name, kind=names.DEPLOYMENT_KIND, controller=True):
    return [{"kind": kind, "name": name, "uid": "u", "controller": controller}]


@pytest.mark.parametrize(
    ("owners", "wakes"),
    [
        pytest.param(None, {"labelled"}, id="no owner: the one that its label names"),
        pytest.param(owned_by("owner"), {"labelled", "owner"}, id="an edited label: its owner, too"),
        pytest.param(owned_by("other", kind="Job"), {"labelled"}, id="an owner of another kind does not count"),
        pytest.param(owned_by("other", controller=False), {"labelled"}, id="nor one that does not control it"),
    ],
)
def test_whom_a_child_s_event_is_about(owners, wakes):
    assert deployments_of({"labels": {names.DEPLOYMENT_LABEL: "labelled"}, "ownerReferences": owners}) == wakes


CHAT, OTHER = Key("team", "chat"), Key("team", "other")


class Asked:
    """The keys that were asked for: of which something changed, and those behind them."""

    def __init__(self) -> None:
        self.ahead: list[Key] = []
        self.behind: list[Key] = []

    def add(self, key: Key, *, behind: bool = False) -> None:
        (self.behind if behind else self.ahead).append(key)


def of_model(kind: str | None, key: Key = CHAT, *classes: str, **status: Any) -> Any:
    spec = {"accelerators": {"classes": list(classes)}}
    metadata = {"uid": f"uid-of-{key.name}", "name": key.name, "generation": 2}
    return {"type": kind, "object": {"metadata": metadata, "spec": spec, "status": status}}


@pytest.mark.parametrize(
    ("told", "ahead"),
    [
        pytest.param(of_model("ADDED"), True, id="a new one goes ahead"),
        pytest.param(of_model("MODIFIED", observedGeneration=2), True, id="a changed one does"),
        pytest.param(of_model("DELETED", observedGeneration=2), True, id="one that is gone does"),
        pytest.param(of_model(None, observedGeneration=2), False, id="one that is listed and was seen goes behind"),
        pytest.param(of_model(None, observedGeneration=1), True, id="not one that was changed while nobody led"),
        pytest.param(of_model(None), True, id="nor one that was made then"),
        pytest.param(of_model(None, observedGeneration=2, demand=[{"waiting": 1}]), True, id="nor one with callers"),
    ],
)
def test_what_users_change_goes_ahead_of_what_is_only_listed(told, ahead):
    asked = Asked()
    Wakes(asked).deployment(told, CHAT)
    assert (asked.ahead, asked.behind) == (([CHAT], []) if ahead else ([], [CHAT]))


@pytest.mark.parametrize(
    ("kind", "ahead"), [("ADDED", True), ("MODIFIED", True), ("DELETED", True), (None, False)], ids=str
)
def test_a_child_s_change_goes_ahead_of_what_is_only_listed(kind, ahead):
    asked = Asked()
    child = {"kind": "Pod", "metadata": {"uid": "u", "labels": {names.DEPLOYMENT_LABEL: "chat"}}}
    Wakes(asked).child({"type": kind, "object": child}, "team")
    assert (asked.ahead, asked.behind) == (([CHAT], []) if ahead else ([], [CHAT]))


def test_a_class_asks_for_those_alone_that_name_it_or_run_on_it_and_behind_what_users_change():
    asked = Asked()
    wakes, third = Wakes(asked), Key("team", "third")
    wakes.accelerator_class("h100")  # its models' own events are still to come
    wakes.deployment(of_model("ADDED", CHAT, "h100", "l40s"), CHAT)
    wakes.deployment(of_model("ADDED", OTHER, "l40s"), OTHER)
    wakes.deployment(of_model("ADDED", third, "l40s", plan={"pools": [{"class": "h100"}]}), third)
    wakes.accelerator_class("h100")
    assert (asked.ahead, asked.behind) == ([CHAT, OTHER, third], [CHAT, third])

    wakes.deployment(of_model("DELETED", CHAT, "h100"), CHAT)
    wakes.deployment(of_model("MODIFIED", third, "l40s", plan={"pools": [{"class": "l40s"}]}), third)
    asked.behind.clear()
    wakes.accelerator_class("h100")
    assert asked.behind == [third], "old replicas of a rollout may still run on it"


@pytest.mark.parametrize("spec", [None, "x", {"accelerators": None}, {"accelerators": {"classes": "h100"}}], ids=str)
def test_a_model_of_any_shape_names_no_class(spec):
    assert classes_of({"spec": spec, "status": []}) == frozenset()
