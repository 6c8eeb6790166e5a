"""What must hold for every decision, whatever world it was made on. Raises BrokenError with one sentence."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

import fastjsonschema

from builders import check_status
from modelfleet.api import names
from modelfleet.api.crd import KINDS
from modelfleet.api.reasons import EventReason, Reason
from modelfleet.cli.schema import json_schema
from modelfleet.controller.resources import CHILDREN, SLICES
from modelfleet.core import raw
from modelfleet.core.effects import Apply, Delete, Effect, Event, Forget, Lift, Outcome
from modelfleet.core.snapshot import World

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
Seen = Mapping[tuple[str, str], Any]
"""What a world shows, by name and uid."""

_KINDS = {child.kind for child in (*CHILDREN, SLICES)}
_REASONS = {str(reason) for reason in (*Reason, *EventReason)}
_LONGEST_WAIT_S = 24 * 3600
_INT64 = range(-(2**63), 2**63)


class BrokenError(AssertionError):
    """A promise that a decision does not keep."""


def require(holds: object, what: str) -> None:
    """Raises BrokenError unless it holds."""
    if not holds:
        raise BrokenError(what)


def check(world: World, outcome: Outcome) -> None:
    """All promises about one decision."""
    if raw.at(world.deployment, "metadata", "deletionTimestamp") is not None:
        require(outcome.effects == (), "a deployment that is being deleted is left to the garbage collector")
        return
    _check_report(outcome.status)
    for event in outcome.events:
        _check_event(event)
    wake = outcome.wake_after_s
    require(wake is None or 0 < wake <= _LONGEST_WAIT_S, f"it looks again after {wake} s")
    lists = (getattr(world, field.name) for field in fields(World))
    listed = [item for part in lists if isinstance(part, tuple) for item in part]
    seen = {(raw.name(item), raw.uid(item)): item for item in (*listed, *world.taken.values())}
    for effect in outcome.effects:
        _check_effect(world, seen, effect)


def _check_report(status: Mapping[str, Any]) -> None:
    check_status(status)
    text = json.dumps(status, allow_nan=False, ensure_ascii=False)
    text.encode()  # a lone surrogate is not Unicode
    require(json.loads(text) == status, "the status is plain JSON")
    try:
        _status_schema()(status)
    except fastjsonschema.JsonSchemaException as error:
        raise BrokenError(f"the status does not fit the CRD's schema: {error.message}") from error
    require(None not in list(_scalars(status)), "a status has no null")


def fits_status(status: Any) -> bool:
    """Whether the API server would let somebody write this status."""
    try:
        _status_schema()(status)
    except fastjsonschema.JsonSchemaException:
        return False
    told = [condition["type"] for condition in (status or {}).get("conditions") or ()]
    return len(told) == len(set(told))


@cache
def _status_schema() -> Any:
    of = next(kind for kind in KINDS if kind.model.__name__ == names.DEPLOYMENT_KIND)
    return fastjsonschema.compile(json_schema(of)["properties"]["status"])


def _check_event(event: Event) -> None:
    require(event.type in ("Normal", "Warning"), f"an event's type is {event.type}")
    require(event.reason in _REASONS, f"an event's reason is {event.reason}")
    require(event.message, f"event {event.reason} says nothing")


def _check_effect(world: World, seen: Seen, effect: Effect) -> None:
    if isinstance(effect, Lift):
        _check_ours(world, seen, Delete("", "Pod", effect.name, effect.patch["metadata"]["uid"]))
        json.dumps(effect.patch, allow_nan=False, ensure_ascii=False).encode()
        return
    if isinstance(effect, Forget):
        require(effect.activator, "the entry of nobody is taken out")
        return
    if isinstance(effect, Delete):
        require(effect.kind in _KINDS, f"a {effect.kind} is deleted")
        _check_ours(world, seen, effect)
        return
    manifest = effect.manifest
    kind, metadata = manifest["kind"], manifest["metadata"]
    require(kind in _KINDS, f"a {kind} is written")
    _check_metadata(world, kind, metadata)
    for scalar in _scalars(manifest):
        require(not isinstance(scalar, int) or scalar in _INT64, f"{kind} {metadata['name']} holds the number {scalar}")
    json.dumps(manifest, allow_nan=False, ensure_ascii=False).encode()
    if isinstance(effect, Apply):
        _check_ours(world, seen, Delete("", kind, metadata["name"], effect.uid))


def _check_metadata(world: World, kind: str, metadata: Mapping[str, Any]) -> None:
    of, name = world.deployment["metadata"], metadata["name"]
    require(_LABEL.fullmatch(name) and len(name) <= 63, f"{kind} has the name {name}")
    require(metadata["namespace"] == of["namespace"], f"{kind} {name} goes to namespace {metadata['namespace']}")
    (owner,) = metadata["ownerReferences"]
    ours = (owner["uid"], owner["name"], owner["controller"]) == (of["uid"], of["name"], True)
    require(ours and owner["uid"], f"{kind} {name} is owned by {owner}")
    for key, value in metadata["labels"].items():
        require(_LABEL_VALUE.fullmatch(value), f"{kind} {name} has label {key}={value}")


def _check_ours(world: World, seen: Seen, target: Delete) -> None:
    """Whether what is written over or deleted was seen, under this uid, as ours."""
    what = f"{target.kind} {target.name}"
    require(target.uid, f"{what} is touched without a uid")
    found = seen.get((target.name, target.uid))
    require(found is not None, f"{what} with uid {target.uid} was never seen")
    require(raw.controller(found).get("uid") == raw.uid(world.deployment), f"{what} is not ours and is touched")


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _scalars(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _scalars(part)
    else:
        yield value
