"""What a pod requires of its node's labels besides what its plan says: somebody else may add to it while it is gated,
as Kueue does at admission. Pure; no shape of a pod raises."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modelfleet.core import raw
from modelfleet.core.placement.view import NodeView

NODE_NAME = "metadata.name"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Match:
    """One expression over a label, or over the node's name where the key is NODE_NAME."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.key, self.operator, ", ".join(self.values))).strip()


Term = tuple[Match, ...]
"""Expressions that all hold; without any it holds nowhere, as in Kubernetes."""


def required_terms(pod: Any, own: Mapping[str, str]) -> tuple[Term, ...]:
    """The terms of which a node must fit one, with what the raw pod's selector holds besides `own` in each; none where
    nothing is added."""
    selector = raw.mapping(pod, "spec", "nodeSelector")
    added = tuple(Match(str(k), "In", (str(v),)) for k, v in sorted(selector.items()) if own.get(k) != v)
    affinity = raw.mapping(pod, "spec", "affinity", "nodeAffinity", _REQUIRED)
    terms = tuple(tuple(_matches(term)) for term in raw.items(affinity, "nodeSelectorTerms"))
    if not terms:
        return (added,) if added else ()
    return tuple((*term, *added) if term else () for term in terms)


def fits(node: NodeView, terms: tuple[Term, ...]) -> bool:
    """One of the terms holds for the node."""
    return any(term and all(_holds(node, match) for match in term) for term in terms)


def _matches(term: Any) -> Iterator[Match]:
    for part in ("matchExpressions", "matchFields"):
        for each in raw.items(term, part):
            values = each.get("values")
            listed = tuple(map(str, values)) if isinstance(values, list) else ()
            yield Match(raw.text(each, "key"), raw.text(each, "operator"), listed)


def _holds(node: NodeView, match: Match) -> bool:
    value = node.name if match.key == NODE_NAME else node.labels.get(match.key)
    match match.operator:
        case "In":
            return value in match.values
        case "NotIn":
            return value not in match.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _ordered(value, match)
    return False


def _ordered(value: str | None, match: Match) -> bool:
    """Whole numbers only, as in Kubernetes."""
    try:
        here, bound = int(value or ""), int(match.values[0])
    except (ValueError, IndexError):
        return False
    return here > bound if match.operator == "Gt" else here < bound
