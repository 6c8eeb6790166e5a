"""One sequence of a request in the stand-in engine, and the notes that vLLM keeps of it. Pure but for an event."""

import asyncio
import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import SimpleNamespace

from stand_in.cache import block_hashes, blocks_of


@dataclass
class Notes:
    """vLLM's RequestStateStats, as far as a stat logger reads it."""

    arrival_time: float = field(default_factory=time.time)
    num_generation_tokens: int = 0
    num_preemptions: int = 0
    queued_ts: float = field(default_factory=time.monotonic)
    scheduled_ts: float = 0.0
    first_token_ts: float = 0.0
    last_token_ts: float = 0.0
    first_token_latency: float = 0.0


@dataclass(eq=False)
class Sequence:
    """`wanted` tokens after `prompt`. `interval`: a reader is told each so many tokens; 0: at the end alone.

    `sampling_params` and `mm_features` are what a plugin reads of vLLM's own request object.
    """

    request_id: str
    prompt: tuple[Hashable, ...]
    wanted: int
    interval: int
    notes: Notes = field(default_factory=Notes)
    done: int = 0
    computed: int = 0
    cached: int = 0
    ended: str = ""
    named: list[int] = field(default_factory=list)
    nameless: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    sampling_params: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(prompt_logprobs=None))
    mm_features: tuple[()] = ()

    @property
    def tokens(self) -> tuple[Hashable, ...]:
        """Prompt and what was generated: numbers, counted from 0."""
        return (*self.prompt, *(str(number) for number in range(self.done)))

    @property
    def to_compute(self) -> int:
        """Prompt tokens that are not in the cache yet; after a preemption what was generated too."""
        return len(self.prompt) + max(0, self.done - 1 if self.notes.num_preemptions else 0) - self.computed

    @property
    def prefilled(self) -> bool:
        return self.to_compute <= 0

    def more_blocks(self, tokens: int) -> int:
        """How many blocks it lacks for so many more tokens."""
        return max(0, blocks_of(len(self.prompt) + self.done + tokens) - len(self.named) - self.nameless)

    def until_told(self) -> int:
        """Tokens until somebody must be told: the next of its interval, or the last."""
        left = self.wanted - self.done
        return min(left, self.interval - self.done % self.interval) if self.interval else left

    def hashes(self) -> list[int]:
        return block_hashes(self.prompt)

    def advance(self, tokens: int, now_s: float) -> None:
        """It has so many tokens more."""
        if not self.done:
            self.notes.first_token_ts = now_s
            self.notes.first_token_latency = time.time() - self.notes.arrival_time
        self.done += tokens
        self.notes.num_generation_tokens += tokens
        self.notes.last_token_ts = now_s
        if self.done >= self.wanted:
            self.ended = "length"
        if self.ended or (self.interval and self.done % self.interval == 0) or self.done == tokens:
            self.news.set()

    def end(self, reason: str) -> None:
        """It ends without being done."""
        self.ended = self.ended or reason
        self.news.set()
