"""The steps of the stand-in engine: batches under vLLM's limits, the time they take, and what moves with each.

Steps in which nothing changes but the count of tokens are taken together, so that a long answer that nobody reads as it
comes costs as much processor time as a short one.
"""

import argparse
import asyncio
import threading
import time
from collections import deque
from types import SimpleNamespace
from typing import Any

from stand_in.cache import KvCache, blocks_of
from stand_in.group import Peers
from stand_in.options import BLOCK_TOKENS, Knobs, kv_blocks
from stand_in.pages import Page
from stand_in.sequences import Sequence
from stand_in.vllm_modules import IterationStats, OutputProcessor, stat_loggers


class RefusedError(Exception):
    """Over an admission limit; the text names vLLM's option."""


class Simulation:
    """Generates until it is told to end."""

    def __init__(self, options: argparse.Namespace, knobs: Knobs, peers: Peers) -> None:
        self.options, self.knobs, self._peers = options, knobs, peers
        self.cache = KvCache(kv_blocks(options, knobs), caching=not options.no_enable_prefix_caching)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.page = Page(options.served_model_name[0], self)
        self._processor = OutputProcessor()
        self._loggers = stat_loggers(self.cache.blocks * BLOCK_TOKENS, options.served_model_name[0])
        self._arrived = asyncio.Event()
        self._queried, self._hit = 0, 0

    def add(self, sequences: list[Sequence]) -> None:
        """Takes in the sequences of one request, in whose context this runs. Raises RefusedError."""
        if reason := self._over():
            self.page.refused(reason)
            for logger in self._loggers:
                getattr(logger, "record_admission_rejection", lambda _: None)(reason)
            raise RefusedError(f"Request rejected: --{reason.replace('_', '-')} is reached.")
        for sequence in sequences:
            self._processor.add_request(sequence)
            self.waiting.append(sequence)
        self._arrived.set()

    def abort(self, sequences: list[Sequence], reason: str = "abort") -> None:
        """Drops what is not done."""
        for sequence in sequences:
            if sequence in self.running:
                self._leave(sequence)
            elif sequence in self.waiting:
                self.waiting.remove(sequence)
            self._processor.request_states.pop(sequence.request_id, None)
            sequence.end(reason)

    def die(self) -> None:
        """Everything in flight breaks."""
        self._processor.propagate_error(RuntimeError("EngineCore encountered an issue."))
        self.abort([*self.running, *self.waiting], "error")

    async def run(self) -> None:
        """Takes steps until another member of the group is gone."""
        while True:
            if not self.running and not self.waiting:
                self._arrived.clear()
                await self._arrived.wait()
            await self._fault()
            if not await self._peers.step():
                return
            prefill, preempted = self._schedule()
            await self._step(prefill, preempted)

    def _over(self) -> str:
        options, backlog = self.options, sum(one.to_compute for one in self.waiting)
        if options.max_num_queued_reqs and len(self.running) + len(self.waiting) >= options.max_num_queued_reqs:
            return "max_num_queued_reqs"
        if options.max_num_queued_tokens and backlog >= options.max_num_queued_tokens:
            return "max_num_queued_tokens"
        return ""

    async def _fault(self) -> None:
        """It hangs from its second request on; the first shows that it serves."""
        if self.page.finished and self.knobs.fault in ("stalls", "spins", "freezes"):
            if self.knobs.fault == "freezes":
                time.sleep(3600)  # noqa: ASYNC251 (the API is to hang with it)
            if self.knobs.fault == "spins":
                threading.Thread(target=_spin, daemon=True).start()
            await asyncio.sleep(3600)

    def _schedule(self) -> tuple[dict[Sequence, int], int]:
        """Decides the next step: prompt tokens by sequence, and how many sequences were put back."""
        preempted = self._grow()
        budget = self.options.max_num_batched_tokens - sum(one.prefilled for one in self.running)
        while self.waiting and not preempted and budget > 0 and len(self.running) < self.options.max_num_seqs:
            if not self._admit(self.waiting[0]):
                break
            self.running.append(self.waiting.popleft())
        prefill: dict[Sequence, int] = {}
        for sequence in self.running:
            if not sequence.prefilled and budget > 0:
                prefill[sequence] = min(budget, sequence.to_compute)
                budget -= prefill[sequence]
        return prefill, preempted

    def _grow(self) -> int:
        """Room for a token of each that decodes; the last to come goes back to the queue where there is none."""
        preempted = 0
        for sequence in list(self.running):
            while sequence in self.running and sequence.prefilled and (lacks := sequence.more_blocks(1)):
                if self.cache.take((), lacks):
                    sequence.nameless += lacks
                else:
                    self._put_back(self.running[-1])
                    preempted += 1
        return preempted

    def _put_back(self, sequence: Sequence) -> None:
        self._leave(sequence)
        sequence.computed = 0
        sequence.notes.num_preemptions += 1
        self.waiting.appendleft(sequence)

    def _admit(self, sequence: Sequence) -> bool:
        hashes = sequence.hashes()
        nameless = blocks_of(len(sequence.prompt) + sequence.done + 1) - len(hashes)
        known = self.cache.known(hashes)
        if not self.cache.take(hashes, nameless):
            return False
        sequence.named, sequence.nameless = hashes, nameless
        sequence.computed = sequence.cached = min(known * BLOCK_TOKENS, len(sequence.prompt) - 1)
        self._queried += len(sequence.prompt)
        self._hit += sequence.cached
        sequence.notes.scheduled_ts = sequence.notes.scheduled_ts or time.monotonic()
        return True

    async def _step(self, prefill: dict[Sequence, int], preempted: int) -> None:
        decoding = [one for one in self.running if one.prefilled]
        steps = 1 if prefill or not decoding or self._peers else self._alike(decoding)
        step_s = self.knobs.step_s(len(decoding), sum(prefill.values()))
        steps = await self._wait(steps, step_s)
        for sequence, tokens in prefill.items():
            sequence.computed += tokens
        begun = [one for one in prefill if one.prefilled and one in self.running]
        going = [one for one in decoding if one in self.running]
        self._tell(steps, step_s, begun, going, sum(prefill.values()), preempted)

    def _alike(self, decoding: list[Sequence]) -> int:
        """How many steps go on without anybody told, finished, admitted or lacking room."""
        steps = max(1, min(one.until_told() for one in decoding))
        lacks = sum(one.more_blocks(steps) for one in decoding)
        if steps > 1 and (lacks > self.cache.free or not all(self._reserve(one, steps) for one in decoding)):
            return 1
        return steps

    def _reserve(self, sequence: Sequence, steps: int) -> bool:
        lacks = sequence.more_blocks(steps)
        taken = self.cache.take((), lacks)
        sequence.nameless += lacks if taken else 0
        return taken

    async def _wait(self, steps: int, step_s: float) -> int:
        """Lets up to `steps` steps pass; an arrival is seen at the end of the step in which it comes."""
        begun_s = time.monotonic()
        self._arrived.clear()
        if steps == 1:
            await asyncio.sleep(step_s)
            return 1
        try:
            async with asyncio.timeout(steps * step_s):
                await self._arrived.wait()
        except TimeoutError:
            return steps
        passed = min(steps, int((time.monotonic() - begun_s) / step_s) + 1)
        await asyncio.sleep(max(0.0, begun_s + passed * step_s - time.monotonic()))
        return passed

    def _tell(
        self, steps: int, step_s: float, begun: list[Sequence], going: list[Sequence], prompt: int, preempted: int
    ) -> None:
        now_s = time.monotonic()
        for sequence in going:
            sequence.advance(steps, now_s)
        for sequence in begun:
            sequence.advance(1, now_s)
        iteration = IterationStats()
        ended = [one for one in (*begun, *going) if one.ended]
        for sequence in ended:
            self._finish(sequence, iteration)
        self.page.stepped(steps, steps * len(going) + len(begun), begun, preempted)
        for number in range(steps if self._loggers else 0):
            last = number == steps - 1
            each = iteration if last else IterationStats()
            each.num_generation_tokens = len(going) + (len(begun) if last else 0)
            each.num_preempted_reqs = preempted if last else 0
            each.prompt_token_stats.total = sum(len(one.prompt) for one in begun) if last else 0
            each.inter_token_latencies_iter = [step_s] * len(going)
            self._record(each, step_s, len(going), prompt)

    def _record(self, iteration: IterationStats, step_s: float, decoding: int, prompt: int) -> None:
        details = SimpleNamespace(
            is_dummy=False, elapsed_ms=step_s * 1000, num_generation_requests=decoding, num_ctx_tokens=prompt
        )
        scheduler = SimpleNamespace(
            num_running_reqs=len(self.running),
            num_waiting_reqs=len(self.waiting),
            num_skipped_waiting_reqs=0,
            kv_cache_usage=self.cache.usage,
            prefix_cache_stats=SimpleNamespace(queries=self._queried, hits=self._hit),
            spec_decoding_stats=None,
            iteration_details=details if self.options.enable_logging_iteration_details else None,
        )
        self.page.prefix(self._queried, self._hit)
        self._queried = self._hit = 0
        for logger in self._loggers:
            logger.record(scheduler, iteration, None, 0)

    def _finish(self, sequence: Sequence, iteration: IterationStats) -> None:
        self._leave(sequence)
        self._processor.request_states.pop(sequence.request_id, None)
        self.page.ended(sequence)
        iteration.update_from_finished_request(
            finish_reason=sequence.ended,
            request_id=sequence.request_id,
            num_prompt_tokens=len(sequence.prompt),
            max_tokens_param=sequence.wanted,
            req_stats=sequence.notes,
        )

    def _leave(self, sequence: Sequence) -> None:
        from stand_in.cache import block_hashes

        self.running.remove(sequence)
        self.cache.give_back(sequence.named, sequence.nameless, block_hashes(sequence.tokens))
        sequence.named, sequence.nameless = [], 0


def _spin() -> Any:
    while True:
        pass
