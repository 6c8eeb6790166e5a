"""The base of all API models, and what a field can declare for the structural schema and the parser alike. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from modelfleet.api.values import Value


class ApiModel(BaseModel):
    """camelCase outside, snake_case inside, immutable, and deaf to fields that a newer version may have added."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        use_attribute_docstrings=True,  # what `kubectl explain` shows
    )

    @classmethod
    def aliases(cls) -> Iterator[str]:
        """The names of the fields as users write them."""
        return (field.alias or name for name, field in cls.model_fields.items())

    @classmethod
    def field(cls, alias: str) -> FieldInfo:
        """The field that users write as `alias`; raises KeyError if there is none."""
        return {field.alias: field for field in cls.model_fields.values()}[alias]


@dataclass(frozen=True)
class Unique:
    """A list whose items differ: by the fields `keys` (a list map), or as a whole (a set)."""

    keys: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Refuses a second item with the same key."""
        return core_schema.no_info_after_validator_function(self._refuse_duplicates, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Marks the list as a map by its keys, or as a set."""
        if not self.keys:
            return handler(schema) | {"x-kubernetes-list-type": "set"}
        keys = [to_camel(key.removesuffix("_")) for key in self.keys]
        return handler(schema) | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}

    def _refuse_duplicates(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        seen: set[Any] = set()
        for item in items:
            mark = "/".join(getattr(item, key) for key in self.keys) if self.keys else item
            if mark in seen:
                raise PydanticCustomError("duplicate", "{mark} stands here twice", {"mark": str(mark)})
            seen.add(mark)
        return items


@dataclass(frozen=True)
class Needed:
    """A required field whose absence a CEL rule reports, with a sentence, unless `unless` is there.

    A field in the schema's `required` would keep the server from evaluating any rule, `unless`'s refusal included.
    """

    message: str
    unless: str


@dataclass(frozen=True)
class Refused:
    """A field that exists only so that writing it gets a reason instead of "unknown field".

    `spellings`: other names, in lower case, that mean the same and get the same reason from lint.
    """

    message: str
    spellings: frozenset[str] = frozenset()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Refuses every value."""
        return core_schema.no_info_plain_validator_function(self._refuse)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Anything short can be written, so that the refusal is the only thing said about it."""
        return {"x-kubernetes-int-or-string": True, "maxLength": 64}

    def _refuse(self, value: object) -> None:
        raise ValueError(self.message)


def whole(minimum: int, maximum: int = 2_147_483_647) -> Any:
    """Field metadata: a whole number within bounds; no text, no truth value."""
    return Field(strict=True, ge=minimum, le=maximum)


Tokens = Annotated[int, whole(1, 100_000_000)]
"""A number of tokens."""


def _in_a_zone(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


Instant = Annotated[datetime, AfterValidator(_in_a_zone)]
"""A time; without a zone, as an object of an older schema may have it, it is UTC."""


def canonical(part: object) -> Any:
    """A plain JSON value in which everything equal is spelled alike: absent stays absent, 1024Mi is 1Gi, 60s is 1m."""
    if isinstance(part, BaseModel):
        fields = type(part).model_fields
        values = {fields[name].alias or name: canonical(value) for name, value in part}
        return {name: value for name, value in sorted(values.items()) if value is not None}
    if isinstance(part, Value):
        return part.canonical
    if isinstance(part, Mapping):
        return {str(key): canonical(value) for key, value in sorted(part.items())}
    if isinstance(part, list | tuple):
        return [canonical(item) for item in part]
    return part
