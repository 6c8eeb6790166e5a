"""From an object as the API server or a file has it to a model, or to faults a human understands. Pure."""

import difflib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from modelfleet.api import rules
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.modelprofile import ModelProfile
from modelfleet.api.schema import ApiModel, Needed, Refused

Raw = Mapping[str, Any]
Place = tuple[str | int, ...]
M = TypeVar("M", ModelDeployment, AcceleratorClass, ModelProfile)
_INT64 = 2**63  # a larger whole number is none to the API server


@dataclass(frozen=True)
class Fault:
    """What is wrong with an object: where, as the steps to the field, and one sentence."""

    place: Place
    message: str

    @property
    def path(self) -> str:
        """The field path as Kubernetes writes it: spec.objectives[0].ttft."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.place).lstrip(".")

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.place else self.message


def parse_deployment(raw: Raw) -> ModelDeployment | tuple[Fault, ...]:
    """A ModelDeployment that keeps every rule, or all its faults. Unknown fields and the status are passed over.

    The API server checks the same rules, but its CRDs may be older than the operator, and allow-lists are a matter of
    security: so nothing unchecked gets past here.
    """
    return _parse(ModelDeployment, raw, "ignore")


def parse_class(raw: Raw) -> AcceleratorClass | tuple[Fault, ...]:
    """An AcceleratorClass that keeps every rule, or all its faults. Unknown fields are passed over."""
    return _parse(AcceleratorClass, raw, "ignore")


def parse_profile(raw: Raw) -> ModelProfile | tuple[Fault, ...]:
    """A ModelProfile that keeps every rule, or all its faults. Unknown fields are passed over."""
    return _parse(ModelProfile, raw, "ignore")


def strict_faults(kind: type[M], raw: Raw) -> tuple[Fault, ...]:
    """All faults of what a user wrote; a field that does not exist is one."""
    allowed = {"apiVersion", "kind", "metadata", "spec", "status"}
    unknown = tuple(Fault((str(key),), _unknown_field(kind, (str(key),))) for key in raw if key not in allowed)
    parsed = _parse(kind, raw, "forbid")
    return unknown + (parsed if isinstance(parsed, tuple) else ())


def _parse(kind: type[M], raw: Raw, extra: Literal["ignore", "forbid"]) -> M | tuple[Fault, ...]:
    metadata = raw.get("metadata")
    known = {"name", "namespace", "uid", "generation", "deletionTimestamp"}
    if isinstance(metadata, Mapping):
        metadata = {key: value for key, value in metadata.items() if key in known}
    picked = _as_served({"metadata": metadata, "spec": raw.get("spec")})
    try:
        parsed = kind.model_validate(picked, extra=extra, by_alias=True, by_name=False)
    except ValidationError as error:
        shapes = tuple(_faults(kind, picked, error.errors(include_url=False)))
        return shapes + tuple(Fault(place, message) for place, message in _broken_in_sound_parts(kind, picked, ()))
    broken = tuple(Fault(place, message) for place, message in rules.broken(parsed))
    return broken or parsed


def _as_served(value: Any) -> Any:
    """As the API server sees it: a field that is null is a field that is not there, 2.0 is a whole number."""
    match value:
        case Mapping():
            return {key: _as_served(item) for key, item in value.items() if item is not None}
        case list() | tuple():
            return [_as_served(item) for item in value]
        case float() if value.is_integer() and abs(value) < _INT64:
            return int(value)
    return value


def _faults(kind: type[ApiModel], raw: Any, errors: Iterable[ErrorDetails]) -> Iterator[Fault]:
    for error in errors:
        place = tuple(step for step in error["loc"] if step != "[key]")
        if error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]:
            continue  # pydantic counts only the items that are well, and has reported the others
        if error["type"] == "missing":
            field = _model_at(kind, place[:-1]).field(str(place[-1]))
            needed = next((mark for mark in field.metadata if isinstance(mark, Needed)), None)
            if needed is None:
                yield Fault(place, f"is required: {_summary(field.description)}".removesuffix(": "))
            elif needed.unless not in _value_at(raw, place[:-1]):
                yield Fault(place, needed.message)
        elif error["type"] == "extra_forbidden":
            yield Fault(place, _unknown_field(kind, place))
        else:
            yield Fault(place, _SENTENCES.get(error["type"], _own_words)(error))


def _broken_in_sound_parts(kind: type[ApiModel], raw: Any, place: Place) -> Iterator[tuple[Place, str]]:
    """The rules that do not hold in those parts of a broken object that can be read by themselves."""
    if isinstance(raw, list):
        for index, item in enumerate(raw):
            yield from _broken_in_sound_parts(kind, item, (*place, index))
        return
    if not isinstance(raw, Mapping):
        return
    try:
        yield from rules.broken(kind.model_validate(raw, by_alias=True, by_name=False), place)
    except ValidationError:
        for alias in kind.aliases():
            inner = _model_in(kind.field(alias).annotation)
            if inner is not None and alias in raw:
                yield from _broken_in_sound_parts(inner, raw[alias], (*place, alias))


def _own_words(error: ErrorDetails) -> str:
    return error["msg"].removeprefix("Value error, ")


def _must_be(what: str) -> Callable[[ErrorDetails], str]:
    return lambda error: f"must be {what}, not {_kind_of(error['input'])}"


def _bound(words: str, key: str) -> Callable[[ErrorDetails], str]:
    return lambda error: words.format(error["ctx"][key])


_SENTENCES: dict[str, Callable[[ErrorDetails], str]] = {
    "int_type": _must_be("a whole number without quotes"),
    "bool_type": _must_be("true or false, without quotes"),
    "string_type": _must_be("text"),
    "tuple_type": _must_be("a list"),
    "dict_type": _must_be("a map of fields"),
    "model_type": _must_be("a map of fields"),
    "model_attributes_type": _must_be("a map of fields"),
    "enum": _bound("must be one of {}", "expected"),
    "greater_than_equal": _bound("must be at least {}", "ge"),
    "less_than_equal": _bound("must be at most {}", "le"),
    "too_short": _bound("must have at least {} of them", "min_length"),
    "too_long": _bound("must have at most {} of them", "max_length"),
    "string_too_long": _bound("must have at most {} characters", "max_length"),
    "string_too_short": _bound("must have at least {} characters", "min_length"),
}


def _kind_of(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value[:40]}"'
        case int() | float():
            return f"the number {value}"
        case Mapping():
            return "a map"
        case list() | tuple():
            return "a list"
    return type(value).__name__


def _summary(description: str | None) -> str:
    return " ".join((description or "").removeprefix("Required. ").split()).split(". ")[0].rstrip(".")


def _unknown_field(kind: type[ApiModel], place: Place) -> str:
    """The sentence for a field that does not exist, with the nearest ones that do."""
    wrong, parent = str(place[-1]), ".".join(str(step) for step in place[:-1] if isinstance(step, str))
    model = _model_at(kind, place[:-1])
    refused = {
        alias: mark for alias in model.aliases() for mark in model.field(alias).metadata if isinstance(mark, Refused)
    }
    for mark in refused.values():
        if wrong.lower() in mark.spellings:
            return mark.message
    names = [alias for alias in model.aliases() if alias not in refused]
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=0.7)
    elsewhere = [
        path for path in _paths(kind) if path.rpartition(".")[2] == wrong and path.rpartition(".")[0] != parent
    ]
    if near:
        return f"unknown field, did you mean {near[0]}?"
    depth = min((path.count(".") for path in elsewhere), default=0)
    elsewhere = [path for path in elsewhere if path.count(".") == depth]  # what is meant is seldom deep inside a list
    if elsewhere:
        return f"unknown field here, did you mean {' or '.join(elsewhere[:3])}?"
    return f"unknown field; there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"


def _paths(kind: type[ApiModel], prefix: str = "") -> Iterator[str]:
    for alias in kind.aliases():
        if not prefix and alias in {"metadata", "status"}:
            continue
        path = f"{prefix}.{alias}" if prefix else alias
        yield path
        inner = _model_in(kind.field(alias).annotation)
        if inner is not None:
            yield from _paths(inner, path)


def _model_at(kind: type[ApiModel], place: Place) -> type[ApiModel]:
    """The model whose fields stand at `place`, which is a place of an error and therefore exists."""
    for step in place:
        if isinstance(step, str):
            inner = _model_in(kind.field(step).annotation)
            if inner is None:
                return kind
            kind = inner
    return kind


def _model_in(annotation: Any) -> type[ApiModel] | None:
    """The model inside `X`, `X | None`, `tuple[X, ...]` or `Annotated[X, ...]`, if there is one."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, ApiModel) else None
    return next(filter(None, map(_model_in, typing.get_args(annotation))), None)


def _value_at(raw: Any, place: Place) -> Any:
    for step in place:
        raw = raw[step]
    return raw
