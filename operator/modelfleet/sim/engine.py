"""One replica's engine: continuous batching, chunked prefill, a KV cache with preemption, admission limits.

Steps without prompts are alike until the batch changes, so they are taken many at once: a replica costs a few events a
request, not one a token. What vLLM does is followed in its order: running sequences decode first, the rest of a step's
token budget goes to admitted prompts in order of arrival, and when the cache is full the latest sequence is preempted
and computed anew.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import sqrt

from modelfleet.sim.pace import Pace
from modelfleet.sim.requests import End, Outcome, Request


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """An engine as it is started. `queued_tokens` and `in_flight` are its admission limits; None: everything queues."""

    pace: Pace
    kv_tokens: int
    sequence_cap: int
    token_budget: int
    queued_tokens: int | None = None
    in_flight: int | None = None


@dataclass(slots=True)
class _Sequence:
    request: Request
    prompt_tokens: int  # to compute before the next token, prefix hits left out
    context_tokens: int  # what the cache holds of it once the prompt is computed
    done_tokens: int = 0
    made_tokens: int = 0
    first_token_s: float = 0.0
    ends_at_step: int = 0
    order: int = 0

    def __lt__(self, other: "_Sequence") -> bool:
        return self.order < other.order


class Engine:
    """`now_s` is the end of the step that it computes, or the time that it was advanced to while idle."""

    def __init__(self, spec: EngineSpec, number: int, now_s: float, ended: Callable[[Outcome], None]) -> None:
        self._spec, self._number, self._ended = spec, number, ended
        self.now_s = now_s
        self._waiting: deque[_Sequence] = deque()
        self._prefilling: deque[_Sequence] = deque()
        self._running: list[tuple[int, int, _Sequence]] = []  # a heap by the step that makes the last token
        self._step = 0
        self._order = 0
        self._held_tokens = 0  # of prompts in prefill and of running sequences
        self._context_tokens = 0  # of running sequences
        self._queued_tokens = 0
        self._warm_prefix_tokens = 0
        self.made_tokens = 0
        self.computed_tokens = 0
        self.preemptions = 0

    @property
    def in_flight(self) -> int:
        """Requests that it holds."""
        return len(self._waiting) + len(self._prefilling) + len(self._running)

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return len(self._prefilling) + len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that are not in the batch yet."""
        return len(self._waiting)

    @property
    def queued_tokens(self) -> int:
        """Prompt tokens that are still to be computed."""
        return self._queued_tokens

    @property
    def kv_use(self) -> float:
        """The share of the KV cache in use."""
        return self._held_tokens / self._spec.kv_tokens

    @property
    def oldest_wait_since_s(self) -> float | None:
        """When the first waiting request arrived."""
        return self._waiting[0].request.arrival_s if self._waiting else None

    def arrive(self, request: Request) -> None:
        """Takes a request at its arrival, to which the engine was advanced; or refuses it."""
        spec = self._spec
        hit = min(request.prefix_tokens, self._warm_prefix_tokens, request.input_tokens - 1)
        prompt = request.input_tokens - hit
        full = (
            spec.queued_tokens is not None and self._queued_tokens and self._queued_tokens + prompt > spec.queued_tokens
        )
        crowded = spec.in_flight is not None and self.in_flight >= spec.in_flight
        if full or crowded or request.input_tokens + request.output_tokens > spec.kv_tokens:
            self._ended(Outcome(request, End.REFUSED, request.arrival_s, replica=self._number))
            return
        self._order += 1
        self._queued_tokens += prompt
        self._waiting.append(_Sequence(request, prompt, request.input_tokens, order=self._order))

    def die(self, at_s: float) -> None:
        """Everything it holds fails."""
        held = [*self._waiting, *self._prefilling, *(sequence for *_, sequence in self._running)]
        for sequence in held:
            self._ended(Outcome(sequence.request, End.FAILED, at_s, replica=self._number))
        self._waiting.clear()
        self._prefilling.clear()
        self._running.clear()
        self._held_tokens = self._context_tokens = self._queued_tokens = 0

    def advance(self, until_s: float) -> None:
        """Computes until the first step that ends at or after `until_s`."""
        while self.now_s < until_s:
            self._admit()
            if self._running and self.running > 1 and self._held_tokens + self.running > self._spec.kv_tokens:
                self._preempt()
            elif self._prefilling:
                self._mixed_step()
            elif self._running:
                self._decode_steps(until_s)
            elif self._waiting:
                raise AssertionError("an idle engine has room for any request that it took")
            else:
                self.now_s = until_s

    def _admit(self) -> None:
        cap, room = self._spec.sequence_cap, self._spec.kv_tokens
        while self._waiting and self.running < cap:
            first = self._waiting[0]
            if self._held_tokens + first.context_tokens + self.running >= room and self.running:
                return
            self._waiting.popleft()
            self._held_tokens += first.context_tokens
            self._prefilling.append(first)

    def _mixed_step(self) -> None:
        """One step that decodes what runs and spends the rest of the budget on prompts."""
        sequences = len(self._running)
        left = max(self._spec.token_budget - sequences, 1)
        prompt_tokens, seen, through = 0, 0.0, 0
        for sequence in self._prefilling:
            part = min(left, sequence.prompt_tokens - sequence.done_tokens)
            before = sequence.context_tokens - sequence.prompt_tokens + sequence.done_tokens
            seen += part * (before + part / 2)
            prompt_tokens += part
            sequence.done_tokens += part
            left -= part
            if sequence.done_tokens < sequence.prompt_tokens:
                break
            through += 1
            if not left:
                break
        line = self._spec.pace.step(prompt_tokens, sequences)
        lookback = seen / prompt_tokens - prompt_tokens / 2
        self.now_s += max(
            line.base_s + line.per_context_token_s * self._context_tokens + line.per_lookback_token_s * lookback, 1e-6
        )
        self._queued_tokens -= prompt_tokens
        self.computed_tokens += prompt_tokens
        self._count_steps(1)
        for _ in range(through):
            self._first_token(self._prefilling.popleft())

    def _first_token(self, sequence: _Sequence) -> None:
        if not sequence.made_tokens:
            sequence.first_token_s = self.now_s
            self._warm_prefix_tokens = max(self._warm_prefix_tokens, sequence.request.prefix_tokens)
        sequence.made_tokens += 1
        self.made_tokens += 1
        left = sequence.request.output_tokens - sequence.made_tokens
        if left <= 0:
            self._held_tokens -= sequence.context_tokens
            self._finish(sequence)
            return
        sequence.context_tokens += 1
        self._held_tokens += 1
        self._context_tokens += sequence.context_tokens
        sequence.ends_at_step = self._step + left
        heappush(self._running, (sequence.ends_at_step, sequence.order, sequence))

    def _decode_steps(self, until_s: float) -> None:
        """As many steps as are alike: until the first sequence ends, the cache is full, or `until_s` is reached."""
        sequences = len(self._running)
        line = self._spec.pace.step(0, sequences)
        steps = self._running[0][0] - self._step
        room = (self._spec.kv_tokens - self._held_tokens) // sequences
        steps = min(steps, max(room, 1))
        first_s = line.base_s + line.per_context_token_s * self._context_tokens
        grow_s = line.per_context_token_s * sequences
        wanted_s = until_s - self.now_s
        if first_s * steps + grow_s * steps * (steps - 1) / 2 > wanted_s:
            steps = min(steps, max(1, _steps_in(wanted_s, first_s, grow_s)))
        self.now_s += first_s * steps + grow_s * steps * (steps - 1) / 2
        self._count_steps(steps)

    def _count_steps(self, steps: int) -> None:
        sequences = len(self._running)
        self._step += steps
        self.made_tokens += steps * sequences
        self._held_tokens += steps * sequences
        self._context_tokens += steps * sequences
        while self._running and self._running[0][0] <= self._step:
            sequence = heappop(self._running)[2]
            context = sequence.request.input_tokens + sequence.request.output_tokens
            self._held_tokens -= context
            self._context_tokens -= context
            self._finish(sequence)

    def _preempt(self) -> None:
        """The latest sequence gives its cache back and is computed anew, tokens that it made included."""
        latest = max(self._running, key=lambda entry: entry[1])
        self._running.remove(latest)
        heapify(self._running)
        sequence = latest[2]
        made = sequence.request.output_tokens - (sequence.ends_at_step - self._step)
        context = sequence.request.input_tokens + made
        self._held_tokens -= context
        self._context_tokens -= context
        again = _Sequence(
            sequence.request, context, context, made_tokens=made, first_token_s=sequence.first_token_s,
            order=sequence.order,
        )  # fmt: skip
        self._queued_tokens += context
        self._waiting.appendleft(again)
        self.preemptions += 1

    def _finish(self, sequence: _Sequence) -> None:
        request = sequence.request
        gaps = request.output_tokens - 1
        self._ended(
            Outcome(
                request,
                End.FINISHED,
                self.now_s,
                ttft_s=sequence.first_token_s - request.arrival_s,
                tpot_s=(self.now_s - sequence.first_token_s) / gaps if gaps else 0.0,
                replica=self._number,
            )
        )


def _steps_in(seconds: float, first_s: float, grow_s: float) -> int:
    """The least number of steps that takes at least `seconds`: each is `grow_s` longer than the one before."""
    if grow_s <= 0:
        return int(seconds / first_s) + 1
    b = first_s - grow_s / 2
    return int((sqrt(b * b + 2 * grow_s * seconds) - b) / grow_s) + 1
