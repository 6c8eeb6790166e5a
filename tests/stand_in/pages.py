"""The stand-in's metrics page: those of vLLM's series that anything of ours reads, under vLLM's names and labels."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from stand_in.options import BLOCK_TOKENS
from stand_in.sequences import Sequence

_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_TPOT = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_LABELS = ("model_name", "engine")


class Page:
    """Counts; `text` is the page."""

    def __init__(self, model: str, engine: Any) -> None:
        self.finished = 0
        self._engine = engine
        self._registry = CollectorRegistry()
        self._own = (model, "0")
        self._model = model
        config = Gauge(
            "vllm:cache_config_info", "", (*_LABELS[1:], "block_size", "num_gpu_blocks"), registry=self._registry
        )
        config.labels("0", str(BLOCK_TOKENS), str(engine.cache.blocks)).set(1)
        self._prompt, self._generation = self._counter("prompt_tokens"), self._counter("generation_tokens")
        self._preemptions = self._counter("num_preemptions")
        self._queries, self._hits = self._counter("prefix_cache_queries"), self._counter("prefix_cache_hits")
        self._success = self._counter("request_success", "finished_reason")
        self._rejections = self._counter("admission_rejections", "reason")
        self._ttft = self._histogram("time_to_first_token_seconds", _TTFT)
        self._tpot = self._histogram("request_time_per_output_token_seconds", _TPOT)
        self._e2e = self._histogram("e2e_request_latency_seconds", _TTFT)
        self._steps = self._histogram("iteration_tokens_total", (1, 8, 64, 512, 4096))
        self._running, self._waiting = self._gauge("num_requests_running"), self._gauge("num_requests_waiting")
        self._usage = self._gauge("kv_cache_usage_perc")

    def stepped(self, steps: int, tokens: int, begun: list[Sequence], preempted: int) -> None:
        """Steps passed; so many tokens came, the first ones of `begun` among them."""
        self._generation.inc(tokens)
        self._preemptions.inc(preempted)
        engine = self._engine  # vLLM's gauges too move with a step alone
        self._running.set(len(engine.running))
        self._waiting.set(len(engine.waiting))
        self._usage.set(engine.cache.usage)
        for _ in range(steps):
            self._steps.observe(tokens / steps)
        for sequence in begun:
            self._prompt.inc(len(sequence.prompt))
            self._ttft.observe(sequence.notes.first_token_latency)

    def prefix(self, queried: int, hit: int) -> None:
        self._queries.inc(queried)
        self._hits.inc(hit)

    def ended(self, sequence: Sequence) -> None:
        self.finished += 1
        notes = sequence.notes
        self._success.labels(*self._own, sequence.ended).inc()
        decode_s = notes.last_token_ts - notes.first_token_ts
        self._tpot.observe(decode_s / (sequence.done - 1) if sequence.done > 1 else 0.0)
        self._e2e.observe(notes.first_token_latency + decode_s)

    def refused(self, reason: str) -> None:
        self._rejections.labels(*self._own, reason).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _counter(self, name: str, *more: str) -> Any:
        counter = Counter(f"vllm:{name}", "", (*_LABELS, *more), registry=self._registry)
        return counter if more else counter.labels(*self._own)

    def _gauge(self, name: str) -> Any:
        return Gauge(f"vllm:{name}", "", _LABELS, registry=self._registry).labels(*self._own)

    def _histogram(self, name: str, edges: tuple[float, ...]) -> Any:
        return Histogram(f"vllm:{name}", "", _LABELS, buckets=edges, registry=self._registry).labels(*self._own)
