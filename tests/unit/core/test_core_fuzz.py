"""Whatever stands in the API server, a decision is made and never raised."""

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import Fleet, accelerator_class, check_status, deployment, manual, world
from modelfleet.api import names
from modelfleet.core.pods import view
from modelfleet.core.reconcile import plan
from planner_worlds import PlannedFleet, gpu_class, node, planned
from planner_worlds import settled as pinned_fleet

STATE = {
    "name": "chat-state",
    "namespace": "team",
    "uid": "uid-of-state",
    "labels": {"modelfleet.dev/deployment": "chat"},
    "ownerReferences": [{"kind": "ModelDeployment", "name": "chat", "uid": "uid-of-chat", "controller": True}],
}
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, part in parts for path in paths(part, (*here, key)))]


def planted(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """`value` with `junk` at `path`."""
    if not path:
        return junk
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {**value, key: planted(value[key], rest, junk)}
    return [planted(part, rest, junk) if index == key else part for index, part in enumerate(value)]


PROFILE = {
    "metadata": {"name": "measured", "namespace": "team"},
    "spec": {
        "source": "pvc://weights/llama",
        "class": "h100",
        "layout": "tp1",
        "quantization": {"weights": "bf16"},
        "stepTime": {"decode": "1.1", "decodeSamples": 9},
        "provenance": {"by": "hand"},
    },
}


def inspected() -> PlannedFleet:
    """A fleet whose model a Job has just reported on, and nobody has looked yet."""
    fleet = PlannedFleet(planned(None))
    fleet.reconcile()
    fleet.run_jobs()
    fleet.add({"kind": "ConfigMap", "metadata": STATE, "data": {"model.json": '{"source": "pvc://weights/llama"}'}})
    return fleet


def settled() -> Fleet:
    fleet = Fleet(manual(2))
    fleet.settle()
    first = next(iter(fleet.pods().values()))
    first["status"] |= {"containerStatuses": [{"name": "worker", "state": {"running": {}}, "restartCount": 1}]}
    first["metadata"]["managedFields"] = [{"manager": "x", "fieldsV1": {"f:spec": {"f:containers": {}}}}]
    return fleet


FLEET = settled()
KEYS = sorted(FLEET.objects)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), junk=JUNK)
def test_junk_anywhere_in_a_child_is_survived(data: st.DataObject, junk: Any) -> None:
    key = data.draw(st.sampled_from(KEYS))
    item = FLEET.objects[key]
    path = data.draw(st.sampled_from([path for path in paths(item) if path and path != ("metadata",)]))
    seen = FLEET.world()
    fields = {
        "Pod": "pods",
        "Service": "services",
        "ConfigMap": "config_maps",
        "ControllerRevision": "revisions",
        "PodDisruptionBudget": "budgets",
        "NetworkPolicy": "policies",
    }
    listed = getattr(seen, fields[key[0]])
    changed = tuple(planted(one, path, junk) if one["metadata"]["name"] == key[1] else one for one in listed)
    parts = {field: getattr(seen, field) for field in fields.values()} | {fields[key[0]]: changed}
    check_status(plan(world(seen.deployment, now=seen.now, **parts)).status)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), junk=JUNK)
def test_junk_anywhere_in_spec_status_or_class_is_survived(data: st.DataObject, junk: Any) -> None:
    of, kind = FLEET.world().deployment, accelerator_class()
    if data.draw(st.booleans()):
        path = data.draw(st.sampled_from([path for path in paths(of) if path and path[0] in ("spec", "status")]))
        of = planted(of, path, junk)
    else:
        kind = planted(kind, data.draw(st.sampled_from(paths(kind)[1:])), junk)
    seen = FLEET.world()
    parts = {"pods": seen.pods, "services": seen.services, "revisions": seen.revisions}
    outcome = plan(world(of, classes={"cpu": kind}, **parts))
    check_status(outcome.status)


INSPECTED = inspected()
PLANNER_KEYS = sorted(key for key in INSPECTED.objects if key[0] in ("Job", "ConfigMap", "Pod"))


@settings(max_examples=100, deadline=None)
@given(data=st.data(), junk=JUNK)
def test_junk_in_what_a_plan_is_made_from_is_survived(data: st.DataObject, junk: Any) -> None:
    of, kind = INSPECTED.deployment, gpu_class()
    seen = copy.copy(INSPECTED)
    target = data.draw(st.sampled_from(["class", "node", "profile", "spec", "child"]))
    if target == "class":
        seen.classes = {"h100": planted(kind, data.draw(st.sampled_from(paths(kind)[1:])), junk)}
    elif target == "node":
        seen.nodes = (planted(node("one"), data.draw(st.sampled_from(paths(node("one")))), junk),)
    elif target == "profile":
        seen.profiles = (planted(PROFILE, data.draw(st.sampled_from(paths(PROFILE))), junk),)
    elif target == "spec":
        path = data.draw(st.sampled_from([path for path in paths(of) if path and path[0] == "spec"]))
        seen.deployment = planted(of, path, junk)
    else:
        key = data.draw(st.sampled_from(PLANNER_KEYS))
        item = seen.objects[key]
        path = data.draw(
            st.sampled_from([path for path in paths(item) if path and path[0] not in ("metadata", "kind")])
        )
        seen.objects = {**seen.objects, key: planted(item, path, junk)}
    check_status(plan(seen.world()).status)


PINNED = pinned_fleet(planned())
STORED = next(key for key in PINNED.objects if key[0] == "ControllerRevision")


@settings(max_examples=200, deadline=None)
@given(data=st.data(), junk=JUNK | st.sampled_from([10**12, -1, 1e300, "x" * 5000]))
def test_junk_in_a_pinned_plan_is_survived(data: st.DataObject, junk: Any) -> None:
    stored = PINNED.objects[STORED]
    path = data.draw(st.sampled_from([path for path in paths(stored) if path[:2] == ("data", "plan")]))
    seen = copy.copy(PINNED)
    seen.objects = {**seen.objects, STORED: planted(stored, path, junk)}
    check_status(plan(seen.world()).status)


@given(JUNK)
def test_a_pod_that_is_no_pod_is_seen_as_nothing(junk: Any) -> None:
    assert view(junk, "chat").name == ""


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JUNK))
def test_a_deployment_that_is_junk_is_answered(junk: dict[str, Any]) -> None:
    assert plan(world({"kind": names.DEPLOYMENT_KIND, **junk})).effects == ()


@given(seconds=st.integers(-(10**9), 10**9), refused=st.text(max_size=20))
def test_time_alone_changes_no_status(seconds: float, refused: str) -> None:
    """Of a fleet that was seen to serve for longer than nodes need to learn of it."""
    seen = FLEET.world()
    later, served = seen.now + timedelta(seconds=seconds), {pod["metadata"]["uid"]: 60.0 for pod in seen.pods}
    moved = replace(seen, now=later, refused=refused, not_serving_s={"nobody": float(seconds)}, serving_s=served)
    assert plan(moved).status == seen.deployment["status"]


def test_a_valid_deployment_without_uid_owns_nothing_that_has_no_owner() -> None:
    of = deployment(metadata={"uid": ""})
    seen = FLEET.world()
    outcome = plan(world(of, pods=seen.pods, services=seen.services))
    assert outcome.status["replicas"] == 0
