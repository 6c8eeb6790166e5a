"""The rules that `modelfleet lint` reports by name: found from the API's own rules and forms, so none is written twice.

A fault carries its sentence; a rule is known by it. A new rule or form of the API has a name here by itself.
"""

import re
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any

from modelfleet.api import rules
from modelfleet.api.rule import Rule
from modelfleet.api.schema import ApiModel
from modelfleet.api.values import Value

OTHER = "invalid"


@dataclass(frozen=True)
class LintRule:
    """A rule: its name, what it asks for, and how a reader mends a fault."""

    id: str
    summary: str
    help: str


_EXPLAIN = "`kubectl explain mdep.spec` (or accel.spec) shows each field with its meaning and bounds."
_SHAPES: tuple[tuple[str, LintRule], ...] = (
    ("is required", LintRule("required-field", "A field that is needed is not there.", _EXPLAIN)),
    ("unknown field", LintRule("unknown-field", "A field does not exist, or not here.", _EXPLAIN)),
    ("(.+) stands here twice", LintRule("duplicate", "An entry of a list that must be unique stands twice.", _EXPLAIN)),
    ("at most [0-9]+ characters", LintRule("bounds", "A value is outside of its bounds.", _EXPLAIN)),
    ("must (be (at|one)|have at) ", LintRule("bounds", "A value is outside of its bounds.", _EXPLAIN)),
    ("must be ", LintRule("type", "A value has another type than the field.", _EXPLAIN)),
    (
        "this is not a Kubernetes object|this object does not say|(.+) is not served|there is no kind",
        LintRule(
            "unknown-kind", "An object is none of a kind and version that are served.", "Write apiVersion and kind."
        ),
    ),
    ("a number with a fraction must be", LintRule("quoted-number", "A number with a fraction is a string.", _EXPLAIN)),
)
_OTHER = LintRule(OTHER, "A value is not what the field takes.", _EXPLAIN)


def rule_of(message: str) -> LintRule:
    """The rule that a fault's sentence belongs to."""
    exact = _by_sentence().get(message)
    if exact is not None:
        return exact
    shapes = (rule for pattern, rule in (*_depending(), *_SHAPES) if re.match(pattern, message))
    return next(shapes, _OTHER)


def all_rules() -> tuple[LintRule, ...]:
    """Every rule once, by name."""
    found = (*_by_sentence().values(), *(rule for _, rule in (*_depending(), *_SHAPES)), _OTHER)
    return tuple(rule for _, rule in sorted({rule.id: rule for rule in found}.items()))


@cache
def _by_sentence() -> dict[str, LintRule]:
    """The rules whose sentence never varies: of fields among each other, and of the form of a string."""
    found: dict[str, LintRule] = {}
    for form in _forms():
        name, help_ = _kebab(form.__name__), "; ".join(clause.message for clause in form.clauses)
        rule = LintRule(f"form-of-{name}", _sentence(form.__doc__ or name), help_)
        found |= {clause.message: rule for clause in form.clauses}
    for row in _rows():
        if isinstance(row.message, str):
            name = _common(found[row.message].id, _kebab(row.id)) if row.message in found else _kebab(row.id)
            found[row.message] = LintRule(name, _sentence(row.message), row.message)
    return found


def _common(one: str, other: str) -> str:
    """The name of two rules with one sentence: what their names end with."""
    pairs = zip(reversed(one.split("-")), reversed(other.split("-")), strict=False)
    same = [part for part, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return "-".join(reversed(same)) or one


@cache
def _depending() -> tuple[tuple[str, LintRule], ...]:
    """The rules whose sentence names a part of the object, by what is fixed in it: the quoted parts of its CEL."""
    found = []
    for row in _rows():
        if not isinstance(row.message, str):
            fixed = [part for part in re.findall("'([^']*)'", row.message.cel) if " " in part]
            pattern = ".*".join(map(re.escape, fixed))
            help_ = "…".join(part.strip() for part in fixed)
            found.append((pattern, LintRule(_kebab(row.id), _sentence(help_), help_)))
    return tuple(found)


def _rows() -> Iterator[Rule[Any]]:
    for model in _models():
        yield from rules.rows(model)


@cache
def _models() -> tuple[type[ApiModel], ...]:
    return tuple(sorted(_inside(ApiModel), key=lambda model: model.__name__))


@cache
def _forms() -> tuple[type[Value], ...]:
    return tuple(sorted(_inside(Value), key=lambda form: form.__name__))


def _inside(kind: type[Any]) -> set[Any]:
    """The classes of that kind in the kinds that users write."""
    found: set[Any] = set()
    pending: list[Any] = list(rules.KINDS)
    while pending:
        part = pending.pop()
        if isinstance(part, type) and not isinstance(part, types.GenericAlias):
            if part in found:
                continue
            found.add(part)
            if issubclass(part, ApiModel):
                pending += [field.annotation for field in part.model_fields.values()]
                pending += [mark for field in part.model_fields.values() for mark in field.metadata]
        pending += typing.get_args(part)
    return {part for part in found if issubclass(part, kind)}


def _kebab(name: str) -> str:
    return re.sub("(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def _sentence(text: str) -> str:
    return " ".join(text.split()).split(". ")[0].rstrip(".") + "."
