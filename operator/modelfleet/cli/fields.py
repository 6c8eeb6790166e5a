"""The values of a table's row, checked one by one: what is wrong is said in a sentence that names the column."""

import math
import re
from collections.abc import Mapping
from typing import Any

Cells = Mapping[str, Any]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_WITH_UNIT = re.compile(r"([+-]?\d+\.?\d*)\s*(ms|s|us|%|[kK]|tok|tokens|rps|req/s)")
_EMPTY = {"", "nan", "none", "null", "n/a"}
_LEAST_PERCENT = 10.0
"""A number from here to 100 where a share is wanted is taken as a percentage that was meant; 1.5 is just too much."""
MOST_TOKENS = 100_000_000
MOST_REQUESTS = 1_000_000


class RowError(ValueError):
    """A row that cannot be answered: which column, why, and what would work."""


def text(cells: Cells, column: str) -> str:
    """The cell as text without blanks around it; empty if it is missing, null or a word for "no value"."""
    value = cells.get(column)
    if isinstance(value, dict | list):
        raise RowError(f"{column}: must be text or a number, not a {'map' if isinstance(value, dict) else 'list'}")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    shown = str(value).strip()
    return "" if shown.lower() in _EMPTY else shown


def required(cells: Cells, column: str, example: str) -> str:
    """The cell as text, which must be there."""
    found = text(cells, column)
    if not found:
        raise RowError(f"{column}: is empty; write {example}")
    return found


def number(cells: Cells, column: str, most: float, *, of: str = "") -> float | None:
    """The cell as a number above 0 and up to `most`; None if it is empty. `of` says the unit in a fault."""
    found = text(cells, column)
    if not found:
        return None
    if not _NUMBER.fullmatch(found):
        raise RowError(f"{column}: {clipped(found)} is not a number{_advice(found, of)}")
    value = float(found)
    if not 0 < value <= most:
        raise RowError(f"{column}: {clipped(found)} is out of range; write a number above 0 and up to {most:,g}")
    return value


def whole(cells: Cells, column: str, most: int) -> int | None:
    """The cell as a whole number from 1 to `most`; None if it is empty. `8.0` is one, as tables write it."""
    value = number(cells, column, most)
    if value is not None and (value < 1 or value != int(value)):
        raise RowError(f"{column}: {value:g} is not a whole number; write one from 1 to {most:,}")
    return None if value is None else int(value)


def share(cells: Cells, column: str) -> float | None:
    """The cell as a share above 0 and up to 1; None if it is empty."""
    found = text(cells, column)
    if re.fullmatch(r"\d+(\.\d+)?\s*%", found) or (_NUMBER.fullmatch(found) and _LEAST_PERCENT <= float(found) <= 100):
        raise RowError(f"{column}: {clipped(found)} is not a share; write {float(found.rstrip('% ')) / 100:g}")
    return number(cells, column, 1.0)


def _advice(found: str, of: str) -> str:
    match = _WITH_UNIT.fullmatch(found)
    unit = f", the column is in {of}" if of else ""
    if match and not (of == "milliseconds" and match[2] == "s"):
        return f"; write {match[1]} without a unit{unit}"
    if match:
        return f"; write {float(match[1]) * 1000:g}{unit}"
    if "," in found:
        return "; write it without commas, as in 1024"
    return f"; write digits such as 128{unit}"


def clipped(shown: str, length: int = 60) -> str:
    """Text of a user's as a fault quotes it: printable and not endless."""
    shown = "".join(mark if mark.isprintable() else "?" for mark in shown)
    return repr(shown if len(shown) <= length else shown[:length] + "…")
