"""The CEL expressions by which a DeviceClass selects devices, decided as kube-scheduler decides them. Pure.

https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.36/#celdeviceselector-v1-resource-k8s-io
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, total_ordering
from typing import Any

import celpy
from celpy import celtypes
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from modelfleet.api.values import Quantity

_log = logging.getLogger(__name__)

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_TYPES = {"string": celtypes.StringType, "int": celtypes.IntType, "bool": celtypes.BoolType}


def selects(expression: str, device: Mapping[str, Any]) -> bool:
    """Whether the expression holds for a device (core.placement.devices). One that is false, that the device has no
    attribute for, or that cannot be evaluated here does not: such devices are not counted on."""
    return _decided(expression, json.dumps(device, sort_keys=True))


@lru_cache(maxsize=65536)
def _decided(expression: str, device: str) -> bool:
    """Devices of one kind are alike, so few are decided."""
    program = _program(expression)
    if program is None:
        return False
    try:
        return bool(program.evaluate({"device": _device(json.loads(device))}))
    except CELEvalError as error:
        _log.debug("a device is not selected: %s: %s", expression, error)
        return False


@lru_cache(maxsize=1024)
def _program(expression: str) -> celpy.Runner | None:
    environment = celpy.Environment()
    try:
        return environment.program(environment.compile(expression), functions=_FUNCTIONS)
    except CELParseError as error:
        said = str(error).splitlines()[0]
        _log.warning("no device is selected by an expression that cannot be read here: %s", said)
        return None


class _Domains(celtypes.MapType):
    """A driver that a device says nothing of has no attributes, rather than being an error."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key, celtypes.MapType())


@total_ordering
class _Amount:
    """A quantity as CEL compares it."""

    def __init__(self, text: str) -> None:
        try:
            self._exact = Quantity(text).exact
        except ValueError as error:
            raise CELEvalError(f"{text!r} is no quantity") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Amount) and self._exact == other._exact

    def __lt__(self, other: "_Amount") -> bool:
        return self._exact < other._exact

    def __hash__(self) -> int:
        return hash(self._exact)


@total_ordering
class _Version:
    """A semantic version: its numbers, then whatever is before a release (https://semver.org/#spec-item-11)."""

    def __init__(self, text: str) -> None:
        found = _VERSION.fullmatch(text)
        if found is None:
            raise CELEvalError(f"{text!r} is no semantic version")
        major, minor, patch, before = found.groups()
        parts = (before or "").split(".") if before else []
        self.numbers = (int(major), int(minor), int(patch))
        self._key = (
            self.numbers,
            before is None,
            [(not one.isdigit(), int(one) if one.isdigit() else one) for one in parts],
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Version) and self._key == other._key

    def __lt__(self, other: "_Version") -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self.numbers)


def _compared(one: Any, other: Any) -> celtypes.IntType:
    return celtypes.IntType((one > other) - (one < other))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity": _Amount,
    "semver": _Version,
    "compareTo": _compared,
    "isGreaterThan": lambda one, other: celtypes.BoolType(one > other),
    "isLessThan": lambda one, other: celtypes.BoolType(one < other),
    "major": lambda version: celtypes.IntType(version.numbers[0]),
    "minor": lambda version: celtypes.IntType(version.numbers[1]),
    "patch": lambda version: celtypes.IntType(version.numbers[2]),
    "lowerAscii": lambda text: celtypes.StringType(text.lower()),
    "upperAscii": lambda text: celtypes.StringType(text.upper()),
}
"""What Kubernetes adds to CEL and device selectors use."""


def _device(device: Mapping[str, Any]) -> celtypes.MapType:
    text = celtypes.StringType
    return celtypes.MapType(
        {
            text("driver"): text(device["driver"]),
            text("allowMultipleAllocations"): celtypes.BoolType(False),
            text("attributes"): _domains(device["attributes"], _attribute),
            text("capacity"): _domains(device["capacity"], _Amount),
        }
    )


def _domains(by_domain: Mapping[str, Mapping[str, Any]], read: Callable[[Any], Any]) -> _Domains:
    text = celtypes.StringType
    return _Domains(
        {
            text(domain): celtypes.MapType(
                {text(name): value for name, given in values.items() if (value := read(given)) is not None}
            )
            for domain, values in by_domain.items()
        }
    )


def _attribute(given: Any) -> Any:
    """The one value of an attribute; None for a kind that is not known here."""
    if not isinstance(given, Mapping):
        return None
    for kind, value in given.items():
        if kind == "version":
            return _Version(value)
        if kind in _TYPES:
            return _TYPES[kind](value)
    return None
