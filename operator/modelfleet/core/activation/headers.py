"""Which headers are handed on: all but those of one connection (RFC 9110, 7.6.1) and those that only we send. Pure."""

import hmac
from collections.abc import Iterable

from modelfleet.api import names

Headers = list[tuple[str, str]]

_OF_ONE_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OURS = frozenset({names.CALLER_HEADER, names.SPENT_HEADER, names.AT_ZERO_HEADER})
_ANSWERED_HERE = frozenset({"expect"})  # 100-continue: the body was asked for before it is handed on
_MOST_SPENT_MS = 24 * 3600 * 1000


def end_to_end(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers without those of one connection; repeated ones stay repeated, in their order. One whose bytes are not
    UTF-8 is left out: it would be written without these bytes, and so say something else."""
    given = [(name, value) for name, value in headers if value.isascii() or _is_utf8(value)]
    named = {each.strip().lower() for name, value in given if name.lower() == "connection" for each in value.split(",")}
    return [(name, value) for name, value in given if name.lower() not in _OF_ONE_CONNECTION | named]


def handed_on(headers: Iterable[tuple[str, str]], token: str, spent_s: float, *, at_zero: bool) -> Headers:
    """A request's headers for a worker. What a client claims of our own is left out, unless it knows the token: then
    its time is added to ours."""
    given = list(headers)
    spent_ms = max(0, round(spent_s * 1000)) + _spent_before_ms(given, token)
    passed = [(n, v) for n, v in end_to_end(given) if n.lower() not in _OURS | _ANSWERED_HERE]
    if not token:
        return passed
    ours = [(names.CALLER_HEADER, token), (names.SPENT_HEADER, str(min(spent_ms, _MOST_SPENT_MS)))]
    return passed + ours + ([(names.AT_ZERO_HEADER, "true")] if at_zero else [])


def _spent_before_ms(headers: Headers, token: str) -> int:
    said = {name.lower(): value for name, value in headers if name.lower() in _OURS}
    caller = said.get(names.CALLER_HEADER, "")
    if not token or not hmac.compare_digest(caller.encode(errors="surrogateescape"), token.encode()):
        return 0
    spent = said.get(names.SPENT_HEADER, "")
    return int(spent) if spent.isascii() and spent.isdigit() and len(spent) < 10 else 0


def _is_utf8(value: str) -> bool:
    """Bytes that are not come as surrogates (PEP 383)."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
