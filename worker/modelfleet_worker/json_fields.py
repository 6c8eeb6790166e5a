"""Reads fields of a JSON document, and says of each that cannot be used where it stands and what would work. Pure.

Standard library only: the gate reads the promise in the engine's Python too.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_REQUIRED: Any = object()


class Reader:
    """Reads below `root`, which stands at `where` in the document; raises `error`."""

    def __init__(self, root: Any, document: str, error: type[Exception], where: str = "") -> None:
        self._root, self._document, self._error, self._where = root, document, error, where

    def field(self, path: str, convert: Callable[[Any], T], default: Any = _REQUIRED) -> T:
        """The value at a dotted path, checked by `convert`, whose ValueError says what would work."""
        value = self._root
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            if default is _REQUIRED:
                raise self._error(f"{self._document}: {self._where}{path} is missing")
            missing: T = default
            return missing
        try:
            return convert(value)
        except ValueError as error:
            said = f"{self._document}: {self._where}{path} must be {error}, not {json.dumps(value)[:200]}"
            raise self._error(said) from error
