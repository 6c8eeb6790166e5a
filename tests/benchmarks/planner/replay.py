"""Single requests through the performance model's steps, one after the other, as vLLM's scheduler forms them.

The planner itself has formulas for means and shares; this runs real or drawn arrivals through the same step times, so
that both the step times and the formulas can be held to measured requests.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from modelfleet.core.perf.case import Case
from modelfleet.core.perf.constants import constants_for
from modelfleet.core.perf.memory import memory_use
from modelfleet.core.perf.pace import sequence_cap, token_budget
from modelfleet.core.perf.steps import Batch, step_time


@dataclass(frozen=True)
class Request:
    """One request: arrival in seconds from the start, tokens in and out."""

    arrival_s: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Times:
    """What one request saw."""

    ttft_s: float
    tpot_s: float


@dataclass
class _Running:
    index: int
    request: Request
    prefilled: int = 0
    generated: int = 0
    again: int = 0
    """Tokens that were generated before it lost its place; they are prefilled with the prompt."""
    first_s: float = 0.0

    @property
    def prompt(self) -> int:
        return self.request.input_tokens + self.again

    @property
    def held(self) -> int:
        return self.prefilled + self.generated - self.again


@dataclass
class _Rank:
    """One data-parallel rank's scheduler."""

    cap: int
    kv_tokens: float
    budget: int
    waiting: deque[_Running] = field(default_factory=deque)
    running: list[_Running] = field(default_factory=list)

    def step(self) -> tuple[list[_Running], list[tuple[_Running, int]]]:
        """Those that decode, and the prompt chunks, of the next step; running requests go before waiting ones."""
        self._make_room()
        decoding = [one for one in self.running if one.prefilled >= one.prompt]
        left = self.budget - len(decoding)
        chunks = []
        for one in self.running:
            if one.prefilled < one.prompt and left > 0:
                taken = min(left, one.prompt - one.prefilled)
                chunks.append((one, taken))
                left -= taken
        while self.waiting and left > 0 and len(self.running) < self.cap and self._fits(self.waiting[0]):
            one = self.waiting.popleft()
            self.running.append(one)
            taken = min(left, one.prompt)
            chunks.append((one, taken))
            left -= taken
        return decoding, chunks

    def _promised(self) -> int:
        return sum(max(one.held, one.prompt) for one in self.running)

    def _fits(self, one: _Running) -> bool:
        return self._promised() + one.prompt <= self.kv_tokens

    def _make_room(self) -> None:
        """The youngest goes back to the queue and starts again when the cache is full (recomputation)."""
        while len(self.running) > 1 and self._promised() + len(self.running) > self.kv_tokens:
            youngest = self.running.pop()
            youngest.prefilled, youngest.again = 0, youngest.generated
            self.waiting.appendleft(youngest)


def replay(case: Case, requests: Sequence[Request]) -> list[Times]:
    """The times of every request, in the order given; arrivals have to be in order.

    ValueError for a request that the cache cannot hold: it would wait for ever.
    """
    ranks = _ranks(case)
    longest = max((one.input_tokens + one.output_tokens for one in requests), default=0)
    if longest > ranks[0].kv_tokens:
        raise ValueError(f"a request of {longest} tokens does not fit into {ranks[0].kv_tokens:.0f}")
    constants = constants_for(case)
    found: list[Times | None] = [None] * len(requests)
    now, arrived = 0.0, 0
    while any(one is None for one in found):
        while arrived < len(requests) and requests[arrived].arrival_s <= now:
            ranks[arrived % len(ranks)].waiting.append(_Running(arrived, requests[arrived]))
            arrived += 1
        if not any(rank.waiting or rank.running for rank in ranks):
            now = requests[arrived].arrival_s
            continue
        now = _advance(case, ranks, now, found, constants.prompt_s)
    return [one for one in found if one is not None]


def _ranks(case: Case) -> list[_Rank]:
    ranks = case.layout.data
    tokens = memory_use(case).kv_tokens / ranks
    return [_Rank(int(min(sequence_cap(case) / ranks, 4096)), tokens, token_budget(case)) for _ in range(ranks)]


def _advance(case: Case, ranks: list[_Rank], now: float, found: list[Times | None], outside_s: float) -> float:
    """One step of all ranks together; returns the time after it."""
    steps = [rank.step() for rank in ranks]
    decoding = [one for part, _ in steps for one in part]
    chunks = [pair for _, part in steps for pair in part]
    prompt = sum(taken for _, taken in chunks)
    batch = Batch(
        prefill_tokens=prompt,
        prefill_context_tokens=sum(one.prefilled * taken for one, taken in chunks) / max(prompt, 1),
        decode_sequences=len(decoding),
        decode_context_tokens=sum(one.held for one in decoding) / max(len(decoding), 1),
    )
    now += step_time(case, batch).total_s
    for one, taken in chunks:
        one.prefilled += taken
    finishing = [one for one, _ in chunks if one.prefilled >= one.prompt]
    for one in [*decoding, *finishing]:
        one.generated += 1
        if one.generated == 1:
            one.first_s = now
        if one.generated >= one.request.output_tokens:
            found[one.index] = _times(one, now, outside_s)
    for rank in ranks:
        rank.running = [one for one in rank.running if found[one.index] is None]
    return now


def _times(one: _Running, now: float, outside_s: float) -> Times:
    steps = max(one.request.output_tokens - 1, 1)
    return Times(one.first_s - one.request.arrival_s + outside_s, (now - one.first_s) / steps)
