"""`modelfleet schema`: JSON Schemas of our kinds for editors, made from the CRDs' schemas and so from the models.

A structural schema says less than JSON Schema in some places and more in others. What is only a rule (CEL) there stays
out, except that a field is required or refused, and that a string is one of a few or has one pattern: an editor
underlines shapes, `modelfleet lint` says the rest.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelfleet.api import names
from modelfleet.api.crd import KINDS, Kind, Schema, schema

_DRAFT = "http://json-schema.org/draft-07/schema#"  # the one that every editor's YAML server knows
_ALL = "all"
_INT64 = {"minimum": -(2**63), "maximum": 2**63 - 1}
_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_NAMED = {"name": {"type": "string", "minLength": 1, "maxLength": 253, "description": "The object's name."}}
_METADATA: Schema = {
    "type": "object",
    "description": "Name, namespace, labels and annotations, as every Kubernetes object has them.",
    "properties": _NAMED | {"namespace": {"type": "string"}, "labels": _STRINGS, "annotations": _STRINGS},
    "required": ["name"],
}


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("schema", help="print the JSON Schema of a kind, for editors")
    known = [*(kind.model.__name__ for kind in KINDS), _ALL]
    parser.add_argument(
        "kind", nargs="?", choices=known, default=_ALL, metavar="KIND", help=f"{', '.join(known)} (default: {_ALL})"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="write one file a kind to this folder")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the schema, or writes all of them; 2 if that is not possible."""
    made = schemas()
    if arguments.output is None:
        print(made[arguments.kind], end="")
        return 0
    wanted = made if arguments.kind == _ALL else {arguments.kind: made[arguments.kind]}
    try:
        arguments.output.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.items():
            (arguments.output / f"{name.lower()}.json").write_text(text)
    except OSError as error:
        print(f"modelfleet: {error}", file=sys.stderr)
        return 2
    return 0


def schemas() -> dict[str, str]:
    """The schema of each kind, and under `all` the one that takes any of them, as text."""
    made = {kind.model.__name__: json_schema(kind) for kind in KINDS}
    return {name: json.dumps(part, indent=1) + "\n" for name, part in (made | {_ALL: _any_of(made)}).items()}


def json_schema(kind: Kind) -> Schema:
    """The JSON Schema of a kind; an unknown field is refused, as `modelfleet lint` does."""
    name = kind.model.__name__
    root = _converted(schema(kind.model))
    root["properties"] |= {
        "apiVersion": {"enum": [names.API_VERSION], "description": f"Always {names.API_VERSION}."},
        "kind": {"enum": [name], "description": f"Always {name}."},
        "metadata": _METADATA,
    }
    root["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return {"$schema": _DRAFT, "title": name, **root}


def _any_of(made: Mapping[str, Schema]) -> Schema:
    """The schema of a file that holds any of our kinds. Chosen by `kind`, so that an editor speaks of the right one."""
    chosen = [
        {"if": {"properties": {"kind": {"const": name}}, "required": ["kind"]}, "then": part}
        for name, part in made.items()
    ]
    return {"$schema": _DRAFT, "title": names.GROUP, "properties": {"kind": {"enum": list(made)}}, "allOf": chosen}


def _converted(node: Schema) -> Schema:
    """The JSON Schema of a structural schema."""
    kept = {key: value for key, value in node.items() if not key.startswith("x-kubernetes-")}
    if node.get("x-kubernetes-int-or-string"):
        kept["type"] = ["integer", "string"]
    if kept.get("format") in ("int32", "int64"):
        kept = (_INT64 if kept.pop("format") == "int64" else {}) | kept
    if kept.get("type") == "string":
        kept = _form(node) | kept
    if node.get("x-kubernetes-list-type") == "set":
        kept["uniqueItems"] = True
    for key in ("items", "additionalProperties"):
        if key in node:
            kept[key] = _converted(node[key])
    if "properties" in node:
        kept |= _object(node)
    return kept


def _form(node: Schema) -> Schema:
    """The form of a string as far as its rules are one choice or one pattern, which JSON Schema knows, too."""
    form: Schema = {}
    for rule in node.get("x-kubernetes-validations", ()):
        if choice := re.fullmatch(r"self in \[(.*)\]", rule["rule"]):
            form["enum"] = re.findall("'([^']*)'", choice[1])
        elif pattern := re.fullmatch(r"self\.matches\('((?:[^'\\]|\\.)*)'\)", rule["rule"]):
            form["pattern"] = re.sub(r"\\(.)", r"\1", pattern[1])
    return form


def _object(node: Schema) -> Schema:
    refused, required = _declared(node)
    required = list(dict.fromkeys([*node.get("required", ()), *required]))
    properties = {name: _converted(part) for name, part in node["properties"].items() if name not in refused}
    return {
        "properties": {name: part if name in required else _or_null(part) for name, part in properties.items()},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _declared(node: Schema) -> tuple[set[str], list[str]]:
    """The fields that rules of an object refuse altogether, and those that they require."""
    refused, required = set(), []
    for rule in node.get("x-kubernetes-validations", ()):
        name = rule.get("fieldPath", "").lstrip(".")
        if rule["rule"] == f"!has(self.{name})":
            refused.add(name)
        elif re.fullmatch(rf"has\(self\.{name}\)( \|\| has\(self\.\w+\))?", rule["rule"]):
            required.append(name)
    return refused, required


def _or_null(node: Schema) -> Schema:
    """A field that may be absent may be null: the API server takes it for absent."""
    nullable = dict(node)
    if "type" in nullable:
        given = nullable["type"]
        nullable["type"] = [*(given if isinstance(given, list) else [given]), "null"]
    if "enum" in nullable:
        nullable["enum"] = [*nullable["enum"], None]
    return nullable
