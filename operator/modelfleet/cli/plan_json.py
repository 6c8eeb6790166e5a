"""A plan as JSON: the planner's answer under its own names, and the schema of that document, made from the types."""

import ast
import inspect
import itertools
import json
import math
import textwrap
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from modelfleet.core.layout.answer import Answer, to_json
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import ModelFacts

SCHEMA_VERSION = 1
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEXTS = {
    Layout: "A layout in one word, such as tp4-dp4-ep16.",
    Decimal: "An exact decimal number.",
    ModelFacts: "The model's name.",
}
_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def document(name: str, answer: Answer) -> dict[str, Any]:
    """The document that `modelfleet plan -o json` prints."""
    return {"schemaVersion": SCHEMA_VERSION, "name": name, "answer": _finite(to_json(answer))}


def _finite(value: Any) -> Any:
    """JSON has no infinity; what has no bound is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return value


def schema() -> dict[str, Any]:
    """The JSON Schema of `document`."""
    definitions: dict[str, Any] = {}
    answer = _schema_of(Answer, definitions)
    return {
        "$schema": _DRAFT,
        "title": "modelfleet plan",
        "description": "What `modelfleet plan -o json` prints. The first of answer.plans is the chosen one.",
        "type": "object",
        "required": ["schemaVersion", "name", "answer"],
        "additionalProperties": False,
        "properties": {
            "schemaVersion": {"const": SCHEMA_VERSION},
            "name": {"type": "string", "description": "The ModelDeployment's or the model's name."},
            "answer": answer,
        },
        "$defs": dict(sorted(definitions.items())),
    }


def schema_text() -> str:
    """The schema as it lies in docs/schemas."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]} if kind is not float else {"type": ["number", "null"]}
    if kind in _TEXTS:
        return {"type": "string", "description": _TEXTS[kind]}
    if origin in (types.UnionType, typing.Union):
        options = [_schema_of(one, definitions) for one in arguments if one is not type(None)]
        return {"anyOf": [*options, {"type": "null"}]}
    if origin is tuple and arguments[-1] is ...:
        return {"type": "array", "items": _schema_of(arguments[0], definitions)}
    if origin is tuple:
        items = [_schema_of(one, definitions) for one in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], definitions)}
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}  # a type may hold itself
        definitions[kind.__name__] = _definition(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _definition(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if issubclass(kind, Enum):
        return {"type": "string", "enum": [one.value for one in kind], "description": _one_line(kind.__doc__)}
    if not is_dataclass(kind) or not isinstance(kind, type):
        raise TypeError(f"{kind} has no form in JSON")
    hints, meanings = typing.get_type_hints(kind), _meanings(kind)
    properties = {}
    for part in fields(kind):
        found = _schema_of(hints[part.name], definitions)
        meaning = meanings.get(part.name)
        properties[_key(part.name)] = found | ({"description": meaning} if meaning else {})
    return {
        "type": "object",
        "description": _one_line(kind.__doc__),
        "required": list(properties),
        "additionalProperties": False,
        "properties": properties,
    }


def _key(name: str) -> str:
    """The key that `to_json` gives a field: camelCase, with the unit of seconds kept."""
    stem = name.removesuffix("_s")
    first, *rest = stem.split("_")
    return first + "".join(word.title() for word in rest) + name[len(stem) :]


def _meanings(kind: type) -> dict[str, str]:
    """The docstring that stands below each field."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = getattr(tree, "body", [])
    found: dict[str, str] = {}
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            told = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and below.value.value
            found |= {field.target.id: _one_line(told)} if isinstance(told, str) else {}
    return found


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
