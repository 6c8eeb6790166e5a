"""The prompts that the engine took last, in a small file mapped into memory that outlives the engine.

Each API-server process writes a file of its own, the supervisor reads all of them when the engine has died. Standard
library only: the writer runs in the engine's Python.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from modelfleet_worker.words import Words

SLOTS = 64
_FILE = "inputs-"
_SLOT_WORDS = 2
_LOGPROBS, _MEDIA, _ENDED = 1, 2, 4
_FLAG_BITS = 3


@dataclass(frozen=True, kw_only=True)
class Input:
    """A prompt. `logprobs`: the log-probabilities of its own tokens were asked for; `media`: it holds images or sounds.
    `at_ns` is when it came, by the monotonic clock."""

    tokens: int
    logprobs: bool
    media: bool
    ended: bool
    at_ns: int


class RecentInputs:
    """Writes this process's file in `folder`. Not for several threads."""

    def __init__(self, folder: Path) -> None:
        self._words = Words(folder / f"{_FILE}{os.getpid()}", SLOTS * _SLOT_WORDS, create=True)
        self._keys: list[int] = [0] * SLOTS
        self._slots: dict[int, int] = {}
        self._next = 0
        self._frozen = False

    def began(self, key: int, tokens: int, *, logprobs: bool, media: bool) -> None:
        """The engine took a prompt; `key` names it until it has ended, and may name another one then."""
        slot = self._next
        self._next = (slot + 1) % SLOTS
        before = self._keys[slot]
        if self._slots.get(before) == slot:  # a key of a prompt that has ended may name a newer one by now
            del self._slots[before]
        self._keys[slot], self._slots[key] = key, slot
        self._words[slot * _SLOT_WORDS + 1] = time.monotonic_ns()
        self._words[slot * _SLOT_WORDS] = tokens << _FLAG_BITS | _LOGPROBS * logprobs | _MEDIA * media

    def ended(self, key: int) -> None:
        """A prompt's request has ended. One that is not known (any more) is passed over."""
        slot = self._slots.pop(key, None)
        if slot is not None and not self._frozen:
            self._words[slot * _SLOT_WORDS] |= _ENDED

    def freeze(self) -> None:
        """The engine has died: what is open stays open, whatever its API server still tidies up."""
        self._frozen = True


def recent_inputs(folder: Path) -> tuple[Input, ...]:
    """All that the files in `folder` hold, the oldest first."""
    return tuple(sorted(_read(folder), key=lambda one: one.at_ns))


def forget_inputs(folder: Path) -> None:
    """Removes the files of an earlier engine."""
    for path in folder.glob(f"{_FILE}*"):
        path.unlink(missing_ok=True)


def _read(folder: Path) -> Iterator[Input]:
    for path in folder.glob(f"{_FILE}*"):
        with suppress(OSError, ValueError):  # cut off by a full disk: what is not there is not told
            words = Words(path, SLOTS * _SLOT_WORDS, create=False)
            for slot in range(SLOTS):
                packed, at_ns = words[slot * _SLOT_WORDS], words[slot * _SLOT_WORDS + 1]
                if at_ns:
                    yield Input(
                        tokens=packed >> _FLAG_BITS,
                        logprobs=bool(packed & _LOGPROBS),
                        media=bool(packed & _MEDIA),
                        ended=bool(packed & _ENDED),
                        at_ns=at_ns,
                    )
