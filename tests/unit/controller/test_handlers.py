"""Which events wake a reconcile: own status writes must not, and nothing else may be lost."""

import pytest

from modelfleet.api import names
from modelfleet.controller.handlers import Echoes, deployments_of


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
