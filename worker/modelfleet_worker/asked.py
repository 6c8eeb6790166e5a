"""What the headers of a request say to us, and a scope without them: the engine sees none of ours. Pure.

Headers that a client may send:       x-modelfleet-objective: NAME
Headers believed of a known caller:   x-modelfleet-spent-ms: N      milliseconds already spent in the system
                                      x-modelfleet-at-zero: true    no replica ran when it arrived
A known caller is one with x-modelfleet-caller: TOKEN, where the promise holds the token's SHA-256 sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from modelfleet_worker.gate_state import TOKEN_HEADER
from modelfleet_worker.promise import Promise

_PREFIX = b"x-modelfleet-"
_SUPERVISOR = TOKEN_HEADER.encode()
_MOST_SPENT_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class Asked:
    """`supervisor`: sent by our own supervisor. `spent_s` and `at_zero` are 0 and False unless a known caller says
    otherwise."""

    supervisor: bool = False
    objective: str | None = None
    spent_s: float = 0.0
    at_zero: bool = False


_NOTHING = Asked()


def asked(scope: Any, token: bytes, promise: Promise | None) -> tuple[Asked, Any]:
    """What `scope` asks of us, and the scope for the engine."""
    headers = scope["headers"]
    ours = {name: value for name, value in headers if name.startswith(_PREFIX)}
    if not ours:
        return _NOTHING, scope
    rest = [(name, value) for name, value in headers if not name.startswith(_PREFIX)]
    known = promise is not None and _is_known(ours, promise)
    objective = ours.get(b"x-modelfleet-objective")
    found = Asked(
        supervisor=ours.get(_SUPERVISOR) == token,
        objective=objective.decode("latin-1") if objective is not None else None,
        spent_s=_spent_s(ours) if known else 0.0,
        at_zero=known and ours.get(b"x-modelfleet-at-zero") == b"true",
    )
    return found, {**scope, "headers": rest}


def _is_known(ours: Mapping[bytes, bytes], promise: Promise) -> bool:
    caller = ours.get(b"x-modelfleet-caller")
    return caller is not None and sha256(caller).hexdigest() in promise.callers


def _spent_s(ours: Mapping[bytes, bytes]) -> float:
    text = ours.get(b"x-modelfleet-spent-ms", b"")
    milliseconds = int(text) if text.isdigit() and len(text) < 10 else 0
    return min(milliseconds, _MOST_SPENT_MS) / 1000
