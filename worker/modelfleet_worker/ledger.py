"""Where gate and engine meet on one request, inside one API-server process: a context variable.

The gate sets it, the engine's own code runs in that context, and our hooks there (`vllm_plugin.py`) hand over what the
engine notes of each sequence. That object is the engine's and is kept up to date by it, so nothing is copied for a
token, nothing is matched by name, and a request that ends badly has its numbers too. Standard library only.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from modelfleet_worker.goodput import Ending, Measured

_SET_S = 0.05
"""Wall clock and monotonic clock run alike; if their distance changed by more than that, the wall clock was set."""


class SequenceStats(Protocol):
    """What vLLM notes of one sequence (RequestStateStats of 0.32 and 0.33).

    Times in seconds: `arrival_time` by the wall clock, the `_ts` by the engine's monotonic clock, `first_token_latency`
    from arrival_time, 0.0 until then.
    """

    num_generation_tokens: int
    arrival_time: float
    first_token_ts: float
    last_token_ts: float
    first_token_latency: float


class Sequence:
    """One sequence of a request: its prompt's length and the engine's notes."""

    __slots__ = ("finished", "prompt_tokens", "stats")

    def __init__(self, stats: SequenceStats, prompt_tokens: int) -> None:
        self.stats, self.prompt_tokens = stats, prompt_tokens
        self.finished = False


class Request:
    """A request as the engine knows it. `entered` is when it entered the system by the wall clock, which may lie before
    it reached this process; `entered_monotonic_ns` the same by the monotonic one."""

    __slots__ = ("clocks_apart_s", "ending", "entered", "entered_monotonic_ns", "refused", "sequences", "uploading")

    def __init__(self, entered: float, entered_monotonic_ns: int) -> None:
        self.enters(entered, entered_monotonic_ns)
        self.uploading = False
        """Its client has not sent all of it, so nothing waits for us."""
        self.sequences: list[Sequence] = []
        self.refused = False
        """The engine would not admit it."""
        self.ending = Ending.FAILED
        """How it ended; until then it has not been answered."""

    def enters(self, at: float, at_monotonic_ns: int) -> None:
        """It is whole, or was believed to be, since then by both clocks."""
        self.entered, self.entered_monotonic_ns = at, at_monotonic_ns
        self.clocks_apart_s = _clocks_apart_s()

    @property
    def has_token(self) -> bool:
        """Whether anything was generated for it."""
        return any(one.stats.num_generation_tokens for one in self.sequences)

    @property
    def finished(self) -> bool:
        """Whether the engine finished all its sequences without an error. False without any."""
        return bool(self.sequences) and all(one.finished for one in self.sequences)

    @property
    def input_tokens(self) -> int:
        """The length of its longest prompt; 0 until the engine took it."""
        return max((one.prompt_tokens for one in self.sequences), default=0)

    def measured(self) -> Measured | None:
        """What the engine measured; None without a token."""
        begun = [one.stats for one in self.sequences if one.stats.num_generation_tokens]
        if not begun:
            return None
        return Measured(
            ttft_s=self._ttft_s(begun),
            tpot_s=max(map(_tpot_s, begun)),
            input_tokens=self.input_tokens,
            output_tokens=max(one.num_generation_tokens for one in begun),
        )

    def waited_s(self) -> float:
        """For how long its first token was waited for, or has been until now; 0 while its client still sends it."""
        seen = self.measured()
        if seen is not None:
            return seen.ttft_s
        return 0.0 if self.uploading else (time.monotonic_ns() - self.entered_monotonic_ns) / 1e9

    def _ttft_s(self, begun: list[SequenceStats]) -> float:
        """The engine notes arrivals by the wall clock. If that was set while the request ran, its times mean nothing,
        and the monotonic ones count; those of an engine on another machine, which has its own, are told by that they
        lie outside of the request."""
        elapsed_s = (time.monotonic_ns() - self.entered_monotonic_ns) / 1e9
        wall_s = min(one.arrival_time + one.first_token_latency for one in begun) - self.entered
        if abs(_clocks_apart_s() - self.clocks_apart_s) > _SET_S:
            monotonic_s = min(one.first_token_ts for one in begun) - self.entered_monotonic_ns / 1e9
            wall_s = monotonic_s if 0 <= monotonic_s <= elapsed_s else min(wall_s, elapsed_s)
        return max(wall_s, 0.0)


def _clocks_apart_s() -> float:
    """From the monotonic clock to the wall clock: a constant, until one of them is set."""
    return time.time() - time.monotonic()


def _tpot_s(stats: SequenceStats) -> float:
    gaps = stats.num_generation_tokens - 1
    return max(stats.last_token_ts - stats.first_token_ts, 0.0) / gaps if gaps > 0 else 0.0


CURRENT: ContextVar[Request | None] = ContextVar("modelfleet_request", default=None)
"""The request in whose context code runs; None outside of any."""

_FINISHED = frozenset({"stop", "length", "repetition"})
_by_stats: dict[int, Sequence] = {}


def sequence_added(stats: SequenceStats, prompt_tokens: int) -> None:
    """The engine took a sequence of the current request. The same one twice is one."""
    request = CURRENT.get()
    if request is not None and all(one.stats is not stats for one in request.sequences):
        sequence = Sequence(stats, prompt_tokens)
        request.sequences.append(sequence)
        _by_stats[id(stats)] = sequence


def sequence_finished(stats: SequenceStats, reason: str) -> None:
    """The engine finished a sequence, for one of its own words as `reason`."""
    sequence = _by_stats.pop(id(stats), None)
    if sequence is not None:
        sequence.finished = reason in _FINISHED


def refused() -> None:
    """The engine does not admit the current request."""
    request = CURRENT.get()
    if request is not None:
        request.refused = True


@contextmanager
def following(request: Request) -> Iterator[None]:
    """What runs inside is for `request`. Afterwards what the engine never finished of it is let go."""
    token = CURRENT.set(request)
    try:
        yield
    finally:
        CURRENT.reset(token)
        for sequence in request.sequences:
            _by_stats.pop(id(sequence.stats), None)
