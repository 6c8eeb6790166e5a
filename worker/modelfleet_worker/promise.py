"""The promise that requests are judged by: promise.json, as the operator writes it and may change it while we serve.

Pure. Standard library only: the gate reads it in the engine's Python too.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

T = TypeVar("T")


class PromiseError(Exception):
    """promise.json cannot be used; the text names the field and what would work."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """One objective's limits in seconds. A prompt of more than `input_max_tokens` does not count in the promise.

    `input_edges` and `output_edges` are declared lengths that a window is judged at, so they are edges of histograms.
    `first_caller_waits_s` replaces `ttft_s` for a request that arrived when no replica ran; None: it counts as others.
    """

    name: str
    ttft_s: float
    tpot_s: float
    input_max_tokens: int | None = None
    input_edges: tuple[int, ...] = ()
    output_edges: tuple[int, ...] = ()
    first_caller_waits_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Whose session's cached blocks are held for the next turn: requests with one of `values` in `header` (lower case).
    At most for `max_gap_s`, and so many that their tokens are at most `max_share_of_cache` (0 to 1) of the cache."""

    header: str
    values: frozenset[str]
    max_gap_s: float
    max_share_of_cache: float


@dataclass(frozen=True, kw_only=True)
class Promise:
    """`digest` names what is judged; counts of two digests are never added. `callers` are the SHA-256 sums, in hex, of
    the tokens of those whose word on a request's past is taken. `hold` is no part of what is judged."""

    digest: str
    objectives: tuple[Objective, ...]
    callers: frozenset[str] = frozenset()
    hold: Hold | None = None

    def index(self, name: str) -> int | None:
        """Which objective is called `name`; None if none is."""
        return next((index for index, one in enumerate(self.objectives) if one.name == name), None)


def parse_promise(text: str) -> Promise:
    """The promise in `text`; fields that are not known are ignored. Raises PromiseError."""
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PromiseError(f"promise.json is not JSON: {error}") from error
    if not isinstance(root, dict):
        raise PromiseError("promise.json must be an object")
    listed = root.get("objectives")
    if not isinstance(listed, list) or not listed or not all(isinstance(one, dict) for one in listed):
        raise PromiseError("promise.json: objectives must be a list of at least one object")
    return Promise(
        digest=_field(root, "digest", _digest),
        objectives=tuple(_objective(one, f"objectives[{index}].") for index, one in enumerate(listed)),
        callers=frozenset(_field(root, "callers", _texts, ())),
        hold=_field(root, "hold", _hold, None),
    )


def _hold(value: Any) -> Hold:
    if not isinstance(value, dict):
        raise ValueError("an object")
    return Hold(
        header=_field(value, "header", _text, where="hold.").lower(),
        values=frozenset(_field(value, "values", _texts, where="hold.")),
        max_gap_s=_field(value, "maxGap_s", _seconds, where="hold."),
        max_share_of_cache=_field(value, "maxShareOfCache", _part, where="hold."),
    )


def _objective(value: Mapping[str, Any], where: str) -> Objective:
    return Objective(
        name=_field(value, "name", _text, where=where),
        ttft_s=_field(value, "ttft_s", _seconds, where=where),
        tpot_s=_field(value, "tpot_s", _seconds, where=where),
        input_max_tokens=_field(value, "inputMaxTokens", _tokens, None, where=where),
        input_edges=_field(value, "inputEdges", _edges, (), where=where),
        output_edges=_field(value, "outputEdges", _edges, (), where=where),
        first_caller_waits_s=_field(value, "firstCallerWaits_s", _seconds, None, where=where),
    )


_REQUIRED: Any = object()


def _field(
    value: Mapping[str, Any], key: str, convert: Callable[[Any], T], default: Any = _REQUIRED, *, where: str = ""
) -> T:
    found = value.get(key)
    if found is None:
        if default is _REQUIRED:
            raise PromiseError(f"promise.json: {where}{key} is missing")
        absent: T = default
        return absent
    try:
        return convert(found)
    except ValueError as error:
        raise PromiseError(f"promise.json: {where}{key} must be {error}, not {json.dumps(found)[:200]}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text")
    return value


def _digest(value: Any) -> str:
    if not isinstance(value, str) or re.fullmatch("[0-9a-f]{8,64}", value) is None:
        raise ValueError("8 to 64 hex digits")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("a list of texts")
    return tuple(_text(one) for one in value)


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        raise ValueError("a number of seconds above 0")
    return float(value)


def _part(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError("a number between 0 and 1")
    return float(value)


def _tokens(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a number of tokens of at least 1")
    return value


def _edges(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError("a list of numbers of tokens")
    return tuple(sorted({_tokens(one) for one in value}))
