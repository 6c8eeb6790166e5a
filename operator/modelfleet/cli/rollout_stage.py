"""The cluster in memory that a rollout is previewed on, from files. I/O: reads files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelfleet.api import names
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.parse import parse_class, parse_deployment
from modelfleet.cli.cases import class_entry
from modelfleet.cli.catalog import manifest
from modelfleet.cli.fields import RowError
from modelfleet.cli.plan_files import contents, read_files
from modelfleet.cli.plan_flags import AskError
from modelfleet.core import raw
from modelfleet.core.render.metadata import Owner
from modelfleet.core.render.state import state
from modelfleet.core.stage import Raw, Stage

_CHILDREN = {"Pod", "Service", "ConfigMap", "ControllerRevision", "Job", "PodDisruptionBudget", "NetworkPolicy"}
_SPARE_NODES = 4  # in a cluster that no file tells of, beyond what all replicas need


_USED = {*_CHILDREN, names.DEPLOYMENT_KIND, names.CLASS_KIND, names.PROFILE_KIND, "Node"}
_OBJECTS = (("metadata", "labels"), ("spec",), ("status",), ("data",))


_MADE_UP = "The state holds no Node, so empty nodes in plenty are assumed: add nodes to what kubectl gets."


def read_stage(files: Sequence[str], state: str | None) -> tuple[Stage, str]:
    """The stage: the ModelDeployment of `files` on the cluster that the file `state` tells of; nodes in plenty where it
    tells of none, and then a sentence that says so.

    Raises AskError and UnreadableError.
    """
    found = read_files(files, None)
    if found.deployment is None:
        raise AskError(f"{files[0]}: it holds no {names.DEPLOYMENT_KIND}")
    there = [dict(item) for item in _there(state)] if state is not None else []
    stored = _stored(found.deployment, there)
    deployment = _applied(found.deployment, stored)
    known = {**_named(there, names.CLASS_KIND), **{name: dict(item) for name, item in found.classes.items()}}
    parsed = parse_deployment(deployment)
    if not isinstance(parsed, ModelDeployment):
        raise AskError(f"{found.shown}: {parsed[0]}")
    classes = known | {
        name: _of_catalogue(name) for name in map(str, parsed.spec.accelerators.classes) if name not in known
    }
    nodes = _named(there, "Node")
    note = "" if nodes or state is None else _MADE_UP
    if found.config is not None:
        there = [*there, *_read(deployment, parsed, found.config, there)]
    own = [item for item in there if item.get("kind") in _CHILDREN and _is_of(item, deployment)]
    stage = Stage(
        deployment,
        classes,
        nodes or dict(_plenty(parsed, classes)),
        others=[item for item in there if item.get("kind") == "Pod" and not _is_of(item, deployment)],
        profiles=tuple(dict(item) for item in (*there, *found.profiles) if item.get("kind") == names.PROFILE_KIND),
        objects={(str(item["kind"]), raw.name(item)): item for item in own},
    )
    return stage, note


def _there(state: str) -> Iterator[Mapping[str, Any]]:
    """The objects of the state that are looked at, each of a shape that the API server could have given."""
    found = False
    for number, item in enumerate(contents(state)):
        if not isinstance(item, Mapping):
            raise AskError(f"{state}: item {number} must be an object")
        if not isinstance(item.get("kind", ""), str):
            raise AskError(f"{state}: item {number}: kind must be a text")
        found = found or "kind" in item
        if item.get("kind") in _USED:
            yield _checked(item, f"{state}: item {number}")
    if not found:
        raise AskError(f"{state}: it holds no objects of Kubernetes; give what kubectl get -o json prints")


def _checked(item: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    kind, name = item["kind"], raw.name(item)
    if not name:
        raise AskError(f"{where} ({kind}): metadata.name must be a text")
    needed = [path for path in _OBJECTS if raw.at(item, *path) is not None or (kind == "Pod" and path == ("spec",))]
    for path in needed:
        if not isinstance(raw.at(item, *path), Mapping):
            raise AskError(f"{where} ({kind} {name}): {'.'.join(path)} must be an object")
    return item


def _stored(deployment: Mapping[str, Any], there: list[Raw]) -> Raw | None:
    name, namespace = raw.name(deployment), raw.text(deployment, "metadata", "namespace")
    same = [
        item
        for item in there
        if item.get("kind") == names.DEPLOYMENT_KIND
        and raw.name(item) == name
        and namespace in ("", raw.text(item, "metadata", "namespace"))
    ]
    if len(same) > 1:
        raise AskError(f"metadata.namespace: the state holds {name} in several namespaces; write which one is meant")
    return same[0] if same else None


def _applied(deployment: Mapping[str, Any], stored: Raw | None) -> Raw:
    """The object as it would be stored."""
    given = raw.mapping(deployment, "metadata")
    before = raw.mapping(stored, "metadata")
    metadata = {"namespace": "default", "uid": "uid-of-the-preview", **before, **given}
    metadata["generation"] = raw.integer(stored, "metadata", "generation") + 1
    return {**deployment, "metadata": metadata, "status": dict(raw.mapping(stored, "status"))}


def _read(deployment: Raw, parsed: ModelDeployment, config: Mapping[str, Any], there: list[Raw]) -> Iterator[Raw]:
    """What the operator keeps of a model that it has read, where the state has nothing of the kind."""
    name, source = names.state(raw.name(deployment)), parsed.spec.model.source.canonical
    if any(item.get("kind") == "ConfigMap" and raw.name(item) == name for item in there):
        return
    owner = Owner(raw.name(deployment), raw.text(deployment, "metadata", "namespace"), raw.uid(deployment))
    report = {"source": source, "report": {"config": dict(config)}}
    made = state(owner, {names.MODEL_KEY: json.dumps(report)})
    yield {**made, "metadata": {**made["metadata"], "uid": "uid-of-the-state"}}


def _named(there: list[Raw], kind: str) -> dict[str, Raw]:
    return {raw.name(item): item for item in there if item.get("kind") == kind}


def _is_of(item: Raw, deployment: Raw) -> bool:
    return raw.controller(item).get("uid") == raw.uid(deployment)


def _of_catalogue(name: str) -> Raw:
    try:
        return manifest(class_entry(name))
    except RowError as error:
        raise AskError(f"spec.accelerators.classes: {error}, and no file has an AcceleratorClass {name}") from error


def _plenty(deployment: ModelDeployment, classes: Mapping[str, Raw]) -> Iterator[tuple[str, Raw]]:
    """Empty nodes of each listed class, more than all replicas take."""
    scaling, rollout = deployment.spec.scaling, deployment.spec.rollout
    pins = deployment.spec.parallelism
    members = (pins.pipeline or 1) * (pins.data or 1)
    count = (scaling.max_replicas + rollout.max_surge) * members + _SPARE_NODES
    for name in map(str, deployment.spec.accelerators.classes):
        kind = parse_class(classes[name])
        if not isinstance(kind, AcceleratorClass):
            raise AskError(f"AcceleratorClass {name}: {kind[0]}")
        for index in range(count):
            yield f"{name}-{index}", _node(f"{name}-{index}", kind)


def _node(name: str, kind: AcceleratorClass) -> Raw:
    offered = {
        "cpu": "1024",
        "memory": "16Ti",
        "pods": "110",
        kind.spec.requested: str(kind.spec.accelerators_per_node),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {str(key): str(value) for key, value in kind.spec.node_selector.items()}},
        "spec": {},
        "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]},
    }
