"""The CEL expressions by which a DeviceClass selects devices, decided as kube-scheduler decides them. Pure.

https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.36/#celdeviceselector-v1-resource-k8s-io
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Any

import celpy
from celpy import celtypes
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from modelfleet.api.values import Quantity
from modelfleet.controller.device_parts import Parts, parts_read

_log = logging.getLogger(__name__)

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_TYPES = {"string": celtypes.StringType, "int": celtypes.IntType, "bool": celtypes.BoolType}


def selects(expression: str, device: Mapping[str, Any]) -> bool:
    """Whether the expression holds for a device (core.placement.devices). One that is false, that the device has no
    attribute for, or that cannot be evaluated here does not: such devices are not counted on."""
    read = _read(expression)
    if read is None:
        return False
    return _decided(expression, json.dumps(device if read.parts is None else _only(device, read.parts), sort_keys=True))


@lru_cache(maxsize=65536)
def _decided(expression: str, device: str) -> bool:
    """Most devices differ in nothing that an expression reads (their uuid, their address), so few are decided."""
    read = _read(expression)
    if read is None:
        return False
    try:
        return bool(read.runner.evaluate({"device": _device(json.loads(device))}))
    except (CELEvalError, RecursionError) as error:
        _log.debug("a device is not selected: %s: %s", expression, error)
        return False


@dataclass(frozen=True)
class _Read:
    """An expression, and what it can see of a device."""

    runner: celpy.Runner
    parts: Parts | None


@lru_cache(maxsize=1024)
def _read(expression: str) -> _Read | None:
    environment = celpy.Environment()
    try:
        tree = environment.compile(expression)
        return _Read(environment.program(tree, functions=_FUNCTIONS), parts_read(tree))
    except (CELParseError, RecursionError) as error:
        said = str(error).splitlines()[0]
        _log.warning("no device is selected by an expression that cannot be read here: %s", said)
        return None


def _only(device: Mapping[str, Any], parts: Parts) -> Mapping[str, Any]:
    """The device with these parts alone."""
    found: dict[str, Any] = {"driver": device["driver"], "attributes": {}, "capacity": {}}
    for kind, domain, name in parts:
        values = device[kind].get(domain, {})
        if name in values:
            found[kind].setdefault(domain, {})[name] = values[name]
    return found


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

    def __lt__(self, other: object) -> bool:
        return self._exact < other._exact if isinstance(other, _Amount) else NotImplemented

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

    def __lt__(self, other: object) -> bool:
        return self._key < other._key if isinstance(other, _Version) else NotImplemented

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
