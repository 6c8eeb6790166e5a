"""How the planner's sentences write numbers: rounded, so that a message does not move with noise. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor, isfinite, log10

GIB = 1024**3


def rounded(value: float, digits: int = 2) -> str:
    """With so many significant digits and no exponent: 1234 is 1,200 and 0.01234 is 0.012."""
    if not isfinite(value):
        return "no limit"
    if value == 0:
        return "0"
    places = digits - 1 - floor(log10(abs(value)))
    short = round(value, places)
    return f"{short:,.{places}f}".rstrip("0").rstrip(".") if places > 0 else f"{short:,.0f}"


def seconds(value: float) -> str:
    """A time: 450 ms, 1.2 s, 5 µs."""
    if value < 0.001:
        return f"{rounded(value * 1e6)} µs"
    return f"{rounded(value * 1e3)} ms" if value < 0.9995 else f"{rounded(value, 3)} s"


def exact_seconds(value: float) -> str:
    """A time that the user stated, as a duration that can be written back: 500ms, 2s."""
    if not isfinite(value):
        return f"{value:g} s"
    milliseconds = round(value * 1e3)
    if milliseconds < 1:
        return f"{value * 1e6:g}µs"
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"


def gib(value: float) -> str:
    """Bytes: 71 GiB, 4.2 GiB."""
    return f"{rounded(value / GIB, 2 if abs(value) < 10 * GIB else 3)} GiB"


def share(value: float) -> str:
    """A share as a percentage: 99 %, 99.5 %."""
    return f"{value * 100:.4g} %"


def percent(value: float) -> str:
    """A rough share: 12 %."""
    return f"{rounded(value * 100)} %"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 replica, 3 replicas."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def in_flight(number: str) -> str:
    """A number, as it is written, of requests in flight: 1 request in flight, 64 requests in flight."""
    return f"{number} request{'' if number == '1' else 's'} in flight"


def rate(value: float) -> str:
    """Requests in a second: 1 request/s, 2.4 requests/s."""
    number = rounded(value)
    return f"{number} request/s" if number == "1" else f"{number} requests/s"


def listed(words: Iterable[str], last: str = "and") -> str:
    """a, b and c."""
    *head, tail = tuple(words) or ("",)
    return f"{', '.join(head)} {last} {tail}" if head else tail
