"""Reads fields of a JSON document, and says of each that cannot be used where it stands and what would work. Pure.

Standard library only: the gate reads the promise in the engine's Python too.
"""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_REQUIRED: Any = object()
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
_SHOWN_CHARACTERS = 200
MOST_S = 1e9
"""Thirty years: more seconds than anybody means. Python's integers have no end, and its floats and timers do."""
MOST_WHOLE = 2**53
"""Whole numbers up to here are exact in every JSON reader."""


def parsed(text: str | bytes, document: str, error: type[Exception]) -> Any:
    """The value of a JSON document. Raises `error`, also for one that is nested deeper than Python can follow."""
    try:
        return json.loads(text)
    except RecursionError as cause:
        raise error(f"{document} is not valid JSON: it is nested too deep") from cause
    except ValueError as cause:
        raise error(f"{document} is not valid JSON: {cause}") from cause


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
            if not is_text(value):
                raise ValueError("without the character NUL and halves of surrogate pairs")
            return convert(value)
        except ValueError as error:
            shown = json.dumps(value)[:_SHOWN_CHARACTERS]
            raise self._error(f"{self._document}: {self._where}{path} must be {error}, not {shown}") from error


def is_text(value: Any) -> bool:
    """Whether all strings in a JSON value can be written to files, command lines and pages."""
    if isinstance(value, str):
        return _UNUSABLE.search(value) is None
    if isinstance(value, dict):
        return all(is_text(key) and is_text(one) for key, one in value.items())
    return all(map(is_text, value)) if isinstance(value, list) else True


def seconds(value: Any) -> float:
    """A time of 0 or more. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_S:
        raise ValueError(f"a number of seconds from 0 to {MOST_S:.0f}")
    return float(value)


def whole(value: Any, least: int = 1) -> int:
    """A whole number. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_WHOLE:
        raise ValueError(f"a whole number of at least {least} and at most 2^53")
    return value
