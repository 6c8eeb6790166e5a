"""Parts of Kubernetes' own API that our objects carry: metadata, selectors, tolerations, references. Pure."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from modelfleet.api.schema import ApiModel, whole
from modelfleet.api.strings import LabelValue, ObjectName, QualifiedName

NodeSelector = Annotated[dict[QualifiedName, LabelValue], Field(max_length=32)]
"""Node labels that must all be there."""


class Metadata(ApiModel):
    """What we read of an object's metadata."""

    name: str
    """The object's name."""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    deletion_timestamp: datetime | None = None


class TolerationOperator(StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(ApiModel):
    """A toleration as pods have it: which node taints the workers put up with."""

    key: QualifiedName | None = None
    """The taint's key. Absent matches every key and needs operator Exists."""
    operator: TolerationOperator | None = None
    """Equal compares key and value, Exists only the key. Default: Equal."""
    value: LabelValue | None = None
    """The taint's value; only with operator Equal."""
    effect: TaintEffect | None = None
    """The taint's effect. Absent matches every effect."""
    toleration_seconds: Annotated[int, Field(strict=True, ge=0, le=9_007_199_254_740_991)] | None = None
    """How long, in seconds, a NoExecute taint is put up with. Absent: for ever. Only with effect NoExecute."""


Tolerations = Annotated[tuple[Toleration, ...], Field(max_length=32)]
"""Tolerations of the worker pods."""


class LocalObjectReference(ApiModel):
    """A reference to an object in the same namespace."""

    name: ObjectName
    """The object's name."""


Replicas = Annotated[int, whole(0, 1000)]
"""A number of replicas."""
