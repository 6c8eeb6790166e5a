"""From a ModelDeployment in a file to the planner's question, as the operator would ask it. The only place for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from modelfleet.api.acceleratorclass import AcceleratorClass, Compute
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.parse import Fault, parse_class, parse_deployment
from modelfleet.api.values import Quantity
from modelfleet.cli.cases import class_entry
from modelfleet.cli.catalog import manifest
from modelfleet.cli.fields import RowError
from modelfleet.cli.models import ModelError, model_facts
from modelfleet.cli.plan_files import Files, rooms_of
from modelfleet.cli.plan_flags import AskError
from modelfleet.core.asking import Ask, question
from modelfleet.core.asking import AskError as SpecError
from modelfleet.core.described import ConfigError, stated
from modelfleet.core.layout.question import Question
from modelfleet.core.model.facts import ModelFacts
from modelfleet.core.placement.project import empty_node
from modelfleet.core.snapshot import Inventory

_LEAST_FIGURE = 10**8
"""Bytes, bytes a second, operations a second: no accelerator has as little as this of any."""


def manifest_question(files: Files, classes: Sequence[str], model: str | None) -> tuple[str, Question]:
    """The deployment's name and the question that it asks. `classes` replace those of the spec. Raises AskError."""
    raw = files.deployment or {}
    deployment = _sound(parse_deployment(_with_classes(raw, classes)), files.shown)
    accelerators = tuple(_class(name, files) for name in map(str, deployment.spec.accelerators.classes))
    for kind in accelerators:
        if not kind.is_predictable:
            raise AskError(
                f"AcceleratorClass {kind.metadata.name} states no memory, memoryBandwidth and compute; nothing can be"
                " predicted on it"
            )
    ask = Ask(deployment=deployment, classes=accelerators, facts=_facts(deployment, files, model))
    known_nodes = files.nodes is not None
    inventory = Inventory(nodes=tuple(map(empty_node, files.nodes or ())), profiles=tuple(files.profiles))
    try:
        asked = question(ask, inventory)
    except SpecError as error:
        raise AskError(f"{files.shown}: {error}") from error
    return deployment.metadata.name, asked if known_nodes else _with_listed(asked, files)


def _with_listed(asked: Question, files: Files) -> Question:
    """The nodes of a short list in place of those of a cluster; without one they are not known."""
    return replace(
        asked,
        candidates=tuple(
            replace(one, nodes=None if files.listed is None else rooms_of(files.listed, one.name))
            for one in asked.candidates
        ),
    )


def _with_classes(raw: Mapping[str, Any], classes: Sequence[str]) -> Mapping[str, Any]:
    if not classes or not isinstance(raw.get("spec"), Mapping):
        return raw
    stated_before = raw["spec"].get("accelerators")
    accelerators = {**(stated_before if isinstance(stated_before, Mapping) else {}), "classes": list(classes)}
    return {**raw, "spec": {**raw["spec"], "accelerators": accelerators}}


def _sound(parsed: ModelDeployment | tuple[Fault, ...], shown: str) -> ModelDeployment:
    if isinstance(parsed, tuple):
        raise AskError(f"{shown}: {parsed[0]}")
    return parsed


def _class(name: str, files: Files) -> AcceleratorClass:
    """The class as the files have it, else as the catalogue has it."""
    raw = files.classes.get(name)
    if raw is None:
        try:
            raw = manifest(class_entry(name))
        except RowError as error:
            raise AskError(f"spec.accelerators.classes: {error}, and no file has an AcceleratorClass {name}") from error
    parsed = parse_class(raw)
    if isinstance(parsed, tuple):
        raise AskError(f"AcceleratorClass {name}: {parsed[0]}")
    _check_units(name, parsed)
    return parsed


def _check_units(name: str, kind: AcceleratorClass) -> None:
    """AskError for a figure so small that its unit must be missing: memory of 80 is 80 bytes."""
    spec = kind.spec
    stated = (
        ("memory", spec.memory, "bytes", "80Gi"),
        ("memoryBandwidth", spec.memory_bandwidth, "bytes a second", "3350G"),
        *((f"compute.{key}", value, "operations a second", "989T") for key, value in _compute(spec.compute)),
    )
    for field, value, of, example in stated:
        if value is not None and value.exact < _LEAST_FIGURE:
            raise AskError(f"AcceleratorClass {name}: spec.{field} is {value} {of}; write the unit, as in {example}")


def _compute(compute: Compute | None) -> Iterator[tuple[str, Quantity | None]]:
    if compute is not None:
        yield from ((key, getattr(compute, key)) for key in ("bf16", "fp8", "fp4", "int8"))


def _facts(deployment: ModelDeployment, files: Files, model: str | None) -> ModelFacts:
    """What the model is made of: --model, a config.json among the files, the spec's facts, or its name."""
    if model is not None:
        return model_facts(model)
    if files.config is not None:
        return files.config_facts()
    spec = deployment.spec.model
    try:
        if spec.facts is not None:
            return stated(spec.facts, spec.source.canonical)
    except ConfigError as error:
        raise AskError(f"spec.model.facts: {error}") from error
    try:
        return model_facts(spec.source.canonical.rstrip("/").rpartition("/")[2])
    except ModelError as error:
        raise AskError(
            f"spec.model.source: {spec.source.canonical} is not read here; give its config.json with --model"
        ) from error
