"""What holding sessions does and costs: a file of each API-server process, read by the supervisor. Standard library
only (the engine's Python)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from modelfleet_worker.words import Words, of_processes

_FILE = "hold"


class Ended(StrEnum):
    """Why a session is held no more. RETURNED: its next turn came. PRESSURE: requests waited for room. EVICTED: its
    blocks were gone when it was touched. REFUSED: the touch was not answered with a token. NO_ROOM: it was never held,
    because the share of the cache was taken."""

    RETURNED = "returned"
    DEADLINE = "deadline"
    PRESSURE = "pressure"
    EVICTED = "evicted"
    REFUSED = "refused"
    NO_ROOM = "no_room"


_ENDED = tuple(Ended)
_SESSIONS, _TOKENS, _TOUCHES, _TOUCHED_TOKENS, _COMPUTED_TOKENS, _FIRST = range(6)
_WORDS = _FIRST + len(_ENDED)


class HoldCounts:
    """The counts of this process."""

    def __init__(self, folder: Path) -> None:
        self._words = Words(folder / f"{_FILE}-{os.getpid()}", _WORDS, create=True)

    @property
    def tokens(self) -> int:
        """Tokens of all held sessions."""
        return self._words[_TOKENS]

    def held(self, sessions: int, tokens: int) -> None:
        """So many more are held; negative for fewer."""
        self._words[_SESSIONS] += sessions
        self._words[_TOKENS] += tokens

    def ended(self, why: Ended) -> None:
        """A session is held no more, or never was."""
        self._words[_FIRST + _ENDED.index(why)] += 1

    def touched(self, tokens: int, computed: int) -> None:
        """A session of `tokens` was touched, of which the engine computed some anew."""
        self._words[_TOUCHES] += 1
        self._words[_TOUCHED_TOKENS] += tokens
        self._words[_COMPUTED_TOKENS] += computed


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Sums over all processes; `sessions` and `tokens` of living ones alone."""

    sessions: int
    tokens: int
    touches: int
    touched_tokens: int
    computed_tokens: int
    ended: Mapping[Ended, int]


def read_holding(folder: Path) -> Holding:
    """What is held now, and what was done so far."""
    sums = [0] * _WORDS
    for pid, words in of_processes(folder, _FILE, _WORDS):
        alive = Path(f"/proc/{pid}").exists()
        for index in range(_WORDS):
            sums[index] += words[index] if alive or index > _TOKENS else 0
    return Holding(
        sessions=sums[_SESSIONS],
        tokens=sums[_TOKENS],
        touches=sums[_TOUCHES],
        touched_tokens=sums[_TOUCHED_TOKENS],
        computed_tokens=sums[_COMPUTED_TOKENS],
        ended={why: sums[_FIRST + index] for index, why in enumerate(_ENDED)},
    )
