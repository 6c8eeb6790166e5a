"""What a ModelDeployment wants for sessions: requests that come back with the same beginning. Pure.

The cache of prefixes is on without any of this, and nothing is pinned: a hold only keeps blocks from ageing.
"""

import re
from typing import Annotated

from pydantic import Field

from modelfleet.api.schema import ApiModel, Unique
from modelfleet.api.values import Clause, PositiveDuration, Share, Value, matches

_SHORT = r"([0-9]|[1-4][0-9])(\.[0-9]{1,4})?%|50(\.0{1,4})?%"
_LONGEST_S = 300


class HeaderName(Value):
    """The name of an HTTP header; case does not matter."""

    __slots__ = ()
    max_length = 64
    clauses = (
        matches("[A-Za-z0-9][-A-Za-z0-9]*", "a header's name is letters, digits and '-', such as x-tier"),
        Clause(
            "!self.lowerAscii().startsWith('x-modelfleet-')",
            lambda text: not text.lower().startswith("x-modelfleet-"),
            "headers that begin with x-modelfleet- are ours and never reach this: choose one of your own",
        ),
    )

    @property
    def canonical(self) -> str:
        """In lower case."""
        return self.lower()


class HeaderValue(Value):
    """A header's whole value."""

    __slots__ = ()
    max_length = 128
    clauses = (
        matches(
            "[!-~]([ -~]*[!-~])?", "a header's value is printable ASCII without blanks at either end, such as gold"
        ),
    )


class Gap(PositiveDuration):
    """A duration above zero, at most five minutes."""

    __slots__ = ()
    clauses = (
        *PositiveDuration.clauses,
        Clause(
            f"!self.matches('{PositiveDuration.pattern}') || duration(self) <= duration('{_LONGEST_S}s')",
            lambda text: PositiveDuration(text).seconds <= _LONGEST_S,
            "a session is held for at most 5m: a longer hold keeps the cache from those who come back sooner",
        ),
    )


def _half() -> Clause:
    cel = f"!self.matches('{Share.pattern}') || self.matches('^({_SHORT})$')".replace("\\", "\\\\")
    return Clause(
        f"type(self) == int ? self <= 50 : {cel}",
        lambda text: re.fullmatch(_SHORT, text) is not None,
        "at most 50% of the cache can be for held sessions: the rest is for everybody",
    )


class CacheShare(Share):
    """A share above 0%, at most 50%."""

    __slots__ = ()
    clauses = (*Share.clauses, _half())


class When(ApiModel):
    """Which requests belong to sessions that are held."""

    header: HeaderName
    """The header that says so, such as x-tier. Whoever can set it can ask for a hold: let a gateway set it."""
    values: Annotated[tuple[HeaderValue, ...], Field(min_length=1, max_length=16), Unique()]
    """Its values that do, such as [gold]."""


class Hold(ApiModel):
    """A short hold of a session's cached blocks between two of its requests: they are touched by a request for one
    token before they are the next to go, until the gap is over, the session's next request comes, or requests wait."""

    when: When
    """Which requests belong to sessions that are held."""
    max_gap: Gap
    """How long after an answer, such as 10s; at most 5m."""
    max_share_of_cache: CacheShare
    """How much of a replica's KV cache held sessions may have together, such as 10%; at most 50%."""


class Sessions(ApiModel):
    """How requests of one session are treated."""

    hold: Hold | None = None
    """A short hold for sessions of high value. Default: none, blocks age alike."""
