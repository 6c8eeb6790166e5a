"""The form of a rule: one row, checked by the API server in CEL and by us in Python. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from modelfleet.api.schema import ApiModel

M = TypeVar("M", bound=ApiModel)


class Code(StrEnum):
    """What kind of fault the API server reports."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    FORBIDDEN = "FieldValueForbidden"


@dataclass(frozen=True)
class Words:
    """A sentence with a part that depends on the object: as a CEL expression, and in Python."""

    cel: str
    text: Callable[[Any], str]


@dataclass(frozen=True)
class Rule(Generic[M]):
    """A row: what must hold for every `on`, in CEL (`self` is that object) and in Python, and the sentence if not.

    `field` is the field that the fault is reported at, below `on`; empty is `on` itself. `holds` is None where the
    parser itself refuses (a required or a refused field).
    """

    id: str
    on: type[M]
    cel: str
    holds: Callable[[M], bool] | None
    message: str | Words
    field: str = ""
    code: Code = Code.INVALID


def quoted(names: Iterable[str]) -> str:
    """The names as a list in CEL, in their order."""
    return "[" + ", ".join(f"'{name}'" for name in sorted(names)) + "]"
