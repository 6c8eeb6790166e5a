"""The promise that requests are judged by: promise.json, as the operator writes it and may change it while we serve.

Pure. Standard library only: the gate reads it in the engine's Python too.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelfleet_worker.json_fields import MOST_S, Reader, parsed, whole


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
    root = parsed(text, "promise.json", PromiseError)
    if not isinstance(root, dict):
        raise PromiseError("promise.json must be an object")
    listed = root.get("objectives")
    if not isinstance(listed, list) or not listed or not all(isinstance(one, dict) for one in listed):
        raise PromiseError("promise.json: objectives must be a list of at least one object")
    objectives = tuple(_objective(one, f"objectives[{index}].") for index, one in enumerate(listed))
    named = Counter(one.name for one in objectives)
    if twice := [name for name, count in named.items() if count > 1]:
        raise PromiseError(f"promise.json: objectives must have names of their own; {twice[0]} is there twice")
    read = _reader(root)
    return Promise(
        digest=read.field("digest", _digest),
        objectives=objectives,
        callers=frozenset(read.field("callers", _texts, ())),
        hold=read.field("hold", _hold, None),
    )


def _reader(root: Mapping[str, Any], where: str = "") -> Reader:
    return Reader(root, "promise.json", PromiseError, where)


def _hold(value: Any) -> Hold:
    if not isinstance(value, dict):
        raise ValueError("an object")
    read = _reader(value, "hold.")
    return Hold(
        header=read.field("header", _header),
        values=frozenset(read.field("values", _texts)),
        max_gap_s=read.field("maxGap_s", _seconds),
        max_share_of_cache=read.field("maxShareOfCache", _part),
    )


def _objective(value: Mapping[str, Any], where: str) -> Objective:
    read = _reader(value, where)
    return Objective(
        name=read.field("name", _text),
        ttft_s=read.field("ttft_s", _seconds),
        tpot_s=read.field("tpot_s", _seconds),
        input_max_tokens=read.field("inputMaxTokens", whole, None),
        input_edges=read.field("inputEdges", _edges, ()),
        output_edges=read.field("outputEdges", _edges, ()),
        first_caller_waits_s=read.field("firstCallerWaits_s", _seconds, None),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text")
    return value


def _header(value: Any) -> str:
    if re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", _text(value)) is None:
        raise ValueError("the name of an HTTP header")
    return _text(value).lower()


def _digest(value: Any) -> str:
    if not isinstance(value, str) or re.fullmatch("[0-9a-f]{8,64}", value) is None:
        raise ValueError("8 to 64 hex digits")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("a list of texts")
    return tuple(_text(one) for one in value)


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_S:
        raise ValueError(f"a number of seconds above 0 and at most {MOST_S:.0f}")
    return float(value)


def _part(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError("a number between 0 and 1")
    return float(value)


def _edges(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError("a list of numbers of tokens")
    return tuple(sorted({whole(one) for one in value}))
