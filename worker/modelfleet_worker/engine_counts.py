"""What the engine says of its steps: counts and present values, one file an engine and API-server process.

vLLM gives a step's numbers to one of its API servers, so counts are summed over processes, and a present value is the
newest of all. Standard library only (the engine's Python).
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from time import monotonic_ns
from typing import Any

from modelfleet_worker.words import Words, of_processes

DECODE_EDGES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Most sequences that decode in a step of a cell; the last cell has no edge."""
PREFILL_EDGES = (0, 64, 256, 1024, 2048, 4096, 8192)
"""Most prompt tokens that are computed in a step of a cell; the last cell has no edge."""
_CELL_WORDS = 4
_MICRO = 1_000_000


class Word(IntEnum):
    """Where each number stands. STAMP_NS is the monotonic time of the present values; KV_USED is in millionths."""

    STAMP_NS = 0
    RUNNING = 1
    WAITING = 2
    KV_USED = 3
    KV_TOTAL_TOKENS = 4
    PROMPT_TOKENS = 5
    GENERATION_TOKENS = 6
    PREEMPTIONS = 7
    PREFIX_QUERIED_TOKENS = 8
    PREFIX_HIT_TOKENS = 9
    DRAFTED_TOKENS = 10
    ACCEPTED_TOKENS = 11
    CELLS = 12


_FIRST_CELL = int(Word.CELLS)
_COLUMNS = len(PREFILL_EDGES) + 1
_WORDS = _FIRST_CELL + (len(DECODE_EDGES) + 1) * _COLUMNS * _CELL_WORDS


class EngineCounts:
    """The counts of one engine in this process. `record` runs at every step, when the processor's caches hold what the
    model needs, so each thing that it touches takes several times what it takes in a loop. It is kept short.

    `by_sums`: a step without a note of what was in it is one in which all sequences decoded (vllm_core.py)."""

    def __init__(self, folder: Path, engine: int, *, by_sums: bool = False) -> None:
        self._by_sums = by_sums
        self._view = Words(folder / f"engine{engine}-{os.getpid()}", _WORDS, create=True).view
        self._decode = self._prefill = -1
        self._cell = _FIRST_CELL

    def sized(self, kv_tokens: int) -> None:
        """The engine's KV cache holds so many tokens."""
        self._view[Word.KV_TOTAL_TOKENS] = kv_tokens

    def record(self, scheduler: Any, iteration: Any) -> None:
        """What vLLM says after a step: its SchedulerStats and IterationStats, either may be None."""
        view = self._view
        if iteration is not None:
            view[6] += iteration.num_generation_tokens
            if prompt := iteration.prompt_token_stats.total:  # most steps have none of these
                view[5] += prompt
            if preempted := iteration.num_preempted_reqs:
                view[7] += preempted
        if scheduler is None:
            return
        view[0] = monotonic_ns()
        view[1] = scheduler.num_running_reqs
        view[2] = scheduler.num_waiting_reqs + scheduler.num_skipped_waiting_reqs
        view[3] = round(scheduler.kv_cache_usage * _MICRO)
        prefix = scheduler.prefix_cache_stats
        if prefix.queries:
            view[8] += prefix.queries
            view[9] += prefix.hits
        drafted = scheduler.spec_decoding_stats
        if drafted is not None:
            view[10] += drafted.num_draft_tokens
            view[11] += drafted.num_accepted_tokens
        details = scheduler.iteration_details
        gaps = iteration.inter_token_latencies_iter if iteration is not None else ()
        if details is None:
            if self._by_sums and gaps:
                self._step(min(gaps), len(gaps), 0)
            return
        scheduler.iteration_details = None  # else vLLM's own logger, which comes after us, prints a line a step
        if not details.is_dummy:
            seconds = min(gaps) if gaps else details.elapsed_ms / 1000
            self._step(seconds, details.num_generation_requests, details.num_ctx_tokens)

    def _step(self, seconds: float, decode: int, prefill: int) -> None:
        """Counts a step in the cell of its composition. Its time is the gap between two tokens of a sequence that
        decoded in it and in the one before, by the engine's clock; without such a sequence what the engine waited."""
        if decode != self._decode or prefill != self._prefill:  # most steps are like the one before
            row, column = bisect_left(DECODE_EDGES, decode), bisect_left(PREFILL_EDGES, prefill)
            self._decode, self._prefill = decode, prefill
            self._cell = _FIRST_CELL + (row * _COLUMNS + column) * _CELL_WORDS
        view, start = self._view, self._cell
        view[start] += 1
        view[start + 1] += round(seconds * _MICRO)
        view[start + 2] += decode
        if prefill:
            view[start + 3] += prefill


@dataclass(frozen=True)
class Cell:
    """Steps of like composition: how many, their time, and the sums of what was in them."""

    steps: int
    seconds: float
    decode_sequences: int
    prefill_tokens: int


@dataclass(frozen=True, kw_only=True)
class EngineSeen:
    """One engine. Present values are those of its last step: an engine that hangs keeps them. `cells` by (index of
    DECODE_EDGES, index of PREFILL_EDGES), those with steps only."""

    engine: int
    running: int
    waiting: int
    kv_used_tokens: int
    kv_total_tokens: int
    counts: Mapping[Word, int]
    cells: Mapping[tuple[int, int], Cell]


COUNTED = (
    Word.PROMPT_TOKENS,
    Word.GENERATION_TOKENS,
    Word.PREEMPTIONS,
    Word.PREFIX_QUERIED_TOKENS,
    Word.PREFIX_HIT_TOKENS,
    Word.DRAFTED_TOKENS,
    Word.ACCEPTED_TOKENS,
)


def read_engines(folder: Path) -> tuple[EngineSeen, ...]:
    """Every engine that a process of this worker told of."""
    numbers = {path.name.partition("-")[0].removeprefix("engine") for path in folder.glob("engine*-*")}
    seen = []
    for engine in sorted(int(number) for number in numbers if number.isdigit()):
        files = [words.view for _, words in of_processes(folder, f"engine{engine}", _WORDS)]
        if files:
            seen.append(_seen(engine, files))
    return tuple(seen)


def _seen(engine: int, files: Iterable[Any]) -> EngineSeen:
    views = list(files)
    newest = max(views, key=lambda view: int(view[Word.STAMP_NS]))
    total = max(int(view[Word.KV_TOTAL_TOKENS]) for view in views)
    return EngineSeen(
        engine=engine,
        running=newest[Word.RUNNING],
        waiting=newest[Word.WAITING],
        kv_used_tokens=newest[Word.KV_USED] * total // _MICRO,
        kv_total_tokens=total,
        counts={word: sum(view[word] for view in views) for word in COUNTED},
        cells=_cells(views),
    )


def _cells(views: list[Any]) -> dict[tuple[int, int], Cell]:
    found = {}
    for index in range((len(DECODE_EDGES) + 1) * _COLUMNS):
        start = _FIRST_CELL + index * _CELL_WORDS
        steps, micro, decode, prefill = (sum(view[start + offset] for view in views) for offset in range(_CELL_WORDS))
        if steps:
            found[divmod(index, _COLUMNS)] = Cell(steps, micro / _MICRO, decode, prefill)
    return found
