"""Conditions as Kubernetes has them, and how one replaces another. Pure: the clock is an argument."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, ValidationError

from modelfleet.api.schema import ApiModel, Instant

MESSAGE_LIMIT = 4096


class ConditionType(StrEnum):
    """What is said about a ModelDeployment, each in positive polarity."""

    ACCEPTED = "Accepted"
    PLANNED = "Planned"
    PLACED = "Placed"
    AVAILABLE = "Available"
    PROGRESSING = "Progressing"
    READY = "Ready"
    OBJECTIVES_MET = "ObjectivesMet"


MEANING = {
    ConditionType.ACCEPTED: "The spec and what it refers to are valid.",
    ConditionType.PLANNED: "A layout that can work exists and is pinned.",
    ConditionType.PLACED: "Every wanted replica has a node.",
    ConditionType.AVAILABLE: "At least minReplicas replicas serve.",
    ConditionType.PROGRESSING: "The operator is moving the cluster towards the spec.",
    ConditionType.READY: (
        "A request sent now would be answered: Accepted, Planned, Available (its reason is theirs), and nodes know."
    ),
    ConditionType.OBJECTIVES_MET: "A request sent now would be answered within the promise.",
}


class ConditionStatus(StrEnum):
    """Unknown is said where it is not known."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One statement about an object."""

    type: Annotated[str, Field(max_length=64)]
    """What is stated."""
    status: ConditionStatus
    """Whether it holds: True, False or Unknown."""
    reason: Annotated[str, Field(min_length=1, max_length=64)]
    """Why, as a CamelCase word that docs/conditions.md explains."""
    message: Annotated[str, Field(max_length=MESSAGE_LIMIT)] = ""
    """Why, as a sentence with what to do."""
    observed_generation: Annotated[int, Field(ge=0)]
    """The spec's generation that the statement is about."""
    last_transition_time: Instant
    """When the status last changed."""


def upsert(old: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """`old` with `new` in it, ordered by type; a status that did not change keeps its time."""
    by_type = {condition.type: condition for condition in old}
    before = by_type.get(new.type)
    if before and before.status == new.status:
        new = new.model_copy(update={"last_transition_time": before.last_transition_time})
    return tuple(condition for _, condition in sorted((by_type | {new.type: new}).items()))


def read(raw_status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions of a raw status; one that cannot be read is left out, so that it is written anew."""
    listed = raw_status.get("conditions") or ()
    return tuple(_readable(listed)) if isinstance(listed, list | tuple) else ()


def _readable(listed: Iterable[Any]) -> Iterable[Condition]:
    for entry in listed:
        try:
            yield Condition.model_validate(entry, by_alias=True, by_name=False)
        except ValidationError:
            continue


def dump(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """Conditions as the API server takes them; times in whole seconds."""
    return [
        condition.model_copy(
            update={"last_transition_time": condition.last_transition_time.replace(microsecond=0)}
        ).model_dump(mode="json", by_alias=True)
        for condition in conditions
    ]
