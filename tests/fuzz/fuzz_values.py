"""Values that a field of an API model may have, found from its type: a new field is fuzzed without a word here.

A class of strings with a form of its own (`Value`) needs at least one known example. It is looked for among all strings
of the good objects and of the rules, so that a row in the table of good objects is enough.
"""

import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from random import Random
from typing import Any

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic.fields import FieldInfo

from api_cases import BAD, GOOD
from modelfleet.api import rules
from modelfleet.api.schema import ApiModel
from modelfleet.api.values import Value

_INT32_MAX = 2_147_483_647
_BASICS = (
    "1",
    "0",
    "1.5",
    "99%",
    "500ms",
    "1m30s",
    "16Gi",
    "a",
    "a-b",
    "a/b",
    "a.example.com",
    "pvc://models/tiny",
    "",
)
TIMES = (
    "2026-01-02T03:04:05Z",
    "2026-01-02T04:04:05Z",
    "2026-01-02T02:04:05.123456Z",
    "1970-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-01-02T03:04:05+05:30",
    "0001-01-01T00:00:00Z",
)


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key)
            yield from strings(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from strings(part)


@cache
def corpus() -> tuple[str, ...]:
    """Strings that mean something somewhere: of the tables of good and bad objects, and of the rules."""
    quoted = (text for rule in rules.CHECKS for text in re.findall("'([^']*)'", rule.cel))
    objects = (text for case in (*GOOD, *BAD) for text in strings(case.manifest))
    return tuple(dict.fromkeys([*_BASICS, *objects, *quoted]))


@cache
def examples(kind: type[Value]) -> tuple[str, ...]:
    """The strings of the corpus and of the class's own rules that the class takes."""
    own = (text for clause in kind.clauses for text in re.findall("'([^']*)'", clause.cel))
    return tuple(text for text in dict.fromkeys((*corpus(), *own)) if _takes(kind, text))


def _takes(kind: type[Value], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def models(root: type[ApiModel]) -> set[type[ApiModel]]:
    """A model and all that stand in it."""
    found: set[type[ApiModel]] = set()
    pending: list[Any] = [root]
    while pending:
        part = pending.pop()
        if isinstance(part, type) and not isinstance(part, types.GenericAlias) and issubclass(part, ApiModel):
            if part not in found:
                found.add(part)
                pending += [field.annotation for field in part.model_fields.values()]
        else:
            pending += typing.get_args(part)
    return found


def forms(annotation: Any) -> set[type[Value]]:
    """The classes of strings that stand in an annotation."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return {annotation} if issubclass(annotation, Value) else set()
    return set().union(*map(forms, typing.get_args(annotation))) if typing.get_args(annotation) else set()


def sample(rng: Random, annotation: Any, marks: tuple[Any, ...] = ()) -> Any:
    """A JSON value that the annotation takes; what must hold between fields may not hold."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        more = tuple(part for mark in annotation.__metadata__ for part in _parts(mark))
        return sample(rng, args[0], (*marks, *more))
    if origin in (typing.Union, types.UnionType):
        return sample(rng, rng.choice([arm for arm in args if arm is not type(None)]), marks)
    if origin is typing.Literal:
        return rng.choice(args)
    if origin in (tuple, list, dict):
        return _collection(rng, origin, args, marks)
    return _scalar(rng, annotation, marks)


def field_value(rng: Random, field: FieldInfo) -> Any:
    """A value for a field of a model."""
    return sample(rng, field.annotation, tuple(field.metadata))


def instance(rng: Random, model: type[ApiModel]) -> dict[str, Any]:
    """An object with all that a model requires, and some of what it does not."""
    return {
        field.alias or name: field_value(rng, field)
        for name, field in model.model_fields.items()
        if field.is_required() or rng.random() < 0.3
    }


def _parts(mark: Any) -> tuple[Any, ...]:
    return tuple(mark.metadata) if isinstance(mark, FieldInfo) else (mark,)


def _bound(marks: tuple[Any, ...], kind: type[Any], read: Callable[[Any], Any], default: int) -> int:
    return next((int(read(mark)) for mark in marks if isinstance(mark, kind)), default)


def _collection(rng: Random, origin: Any, args: tuple[Any, ...], marks: tuple[Any, ...]) -> Any:
    least = _bound(marks, MinLen, lambda mark: mark.min_length, 0)
    most = _bound(marks, MaxLen, lambda mark: mark.max_length, 4)
    count = rng.choice((least, min(most, max(1, least)), min(most, least + 2), rng.randint(least, min(most, 6))))
    if origin is dict:
        return {str(sample(rng, args[0])): sample(rng, args[1]) for _ in range(count)}
    return [sample(rng, args[0]) for _ in range(count)]


def _scalar(rng: Random, kind: Any, marks: tuple[Any, ...]) -> Any:
    if not isinstance(kind, type):
        return rng.choice(corpus())  # Any, or a type that nobody has told of here
    if issubclass(kind, ApiModel):
        return instance(rng, kind)
    if issubclass(kind, Enum):
        return rng.choice(list(kind)).value
    if issubclass(kind, Value):
        return rng.choice(examples(kind) or corpus())
    if issubclass(kind, bool):
        return rng.random() < 0.5
    if issubclass(kind, int):
        return _integer(rng, marks)
    if kind.__name__ == "datetime":
        return rng.choice(TIMES)
    if issubclass(kind, str):
        return rng.choice(corpus())[: _bound(marks, MaxLen, lambda mark: mark.max_length, 64)]
    return rng.choice(corpus())


def _integer(rng: Random, marks: tuple[Any, ...]) -> int:
    low = max(_bound(marks, Ge, lambda mark: mark.ge, 0), _bound(marks, Gt, lambda mark: mark.gt + 1, 0))
    high = _bound(marks, Le, lambda mark: mark.le, _bound(marks, Lt, lambda mark: mark.lt - 1, _INT32_MAX))
    return rng.choice((low, min(high, low + 1), min(high, low + rng.randrange(8)), rng.randint(low, high), high))
