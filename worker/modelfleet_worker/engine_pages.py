"""The metrics of the engine's steps and of this worker's queue, from counts: families for the compact page."""

import time
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from modelfleet_worker.engine_counts import DECODE_EDGES, PREFILL_EDGES, EngineSeen, Word
from modelfleet_worker.gate_state import Counts

_COUNTERS = {
    Word.PROMPT_TOKENS: ("modelfleet_engine_prompt_tokens", "Prompt tokens taken in, from the cache or computed."),
    Word.GENERATION_TOKENS: ("modelfleet_engine_generation_tokens", "Tokens generated."),
    Word.PREEMPTIONS: ("modelfleet_engine_preemptions", "Sequences that lost their KV blocks."),
    Word.PREFIX_QUERIED_TOKENS: ("modelfleet_engine_prefix_queried_tokens", "Tokens looked up in the prefix cache."),
    Word.PREFIX_HIT_TOKENS: ("modelfleet_engine_prefix_hit_tokens", "Tokens found in the prefix cache."),
    Word.DRAFTED_TOKENS: ("modelfleet_engine_drafted_tokens", "Tokens proposed by speculation."),
    Word.ACCEPTED_TOKENS: ("modelfleet_engine_accepted_tokens", "Proposed tokens that were accepted."),
}


def families(engines: Sequence[EngineSeen], counts: Counts, balancedness: float | None) -> Iterator[Metric]:
    """Sums over the engines of this worker; step times by composition."""
    yield from _queue(counts)
    yield GaugeMetricFamily(
        "modelfleet_engine_running", "Sequences in the engine's batch.", sum(one.running for one in engines)
    )
    yield GaugeMetricFamily(
        "modelfleet_engine_waiting", "Sequences in the engine's queue.", sum(one.waiting for one in engines)
    )
    kv = GaugeMetricFamily("modelfleet_engine_kv_tokens", "Size and use of the KV cache, in tokens.", labels=["kv"])
    kv.add_metric(["total"], sum(one.kv_total_tokens for one in engines))
    kv.add_metric(["used"], sum(one.kv_used_tokens for one in engines))
    yield kv
    for word, (name, text) in _COUNTERS.items():
        yield CounterMetricFamily(name, text, sum(one.counts[word] for one in engines))
    yield from _steps(engines)
    if balancedness is not None:
        text = "Mean over most loaded expert group, of the latest step that told it."
        yield GaugeMetricFamily("modelfleet_engine_expert_balancedness", text, balancedness)


def _queue(counts: Counts) -> Iterator[Metric]:
    yield GaugeMetricFamily("modelfleet_worker_waiting", "Requests without a first token.", counts.waiting)
    age_s = (time.monotonic_ns() - counts.oldest_ns) / 1e9 if counts.oldest_ns else 0.0
    yield GaugeMetricFamily(
        "modelfleet_worker_oldest_waiting_seconds", "How long the oldest of them waits; 0 without one.", age_s
    )
    yield GaugeMetricFamily(
        "modelfleet_worker_event_loop_lag_seconds", "How late the busiest API process ran.", counts.lag_s
    )
    yield CounterMetricFamily(
        "modelfleet_worker_entry_wait_seconds",
        "Time that requests waited to be accepted and read.",
        counts.entry_wait_s,
    )


_CELLS = (
    ("modelfleet_engine_steps", "Steps by most sequences that decode and most prompt tokens.", "steps"),
    ("modelfleet_engine_step_seconds", "Time of those steps.", "seconds"),
    ("modelfleet_engine_step_decode_sequences", "Sequences that decoded in them.", "decode_sequences"),
    ("modelfleet_engine_step_prefill_tokens", "Prompt tokens computed in them.", "prefill_tokens"),
)


def _steps(engines: Sequence[EngineSeen]) -> Iterator[Metric]:
    """Cells that no step fell into are left out; (0, 0), which none can, stands for them from the start."""
    cells = sorted({cell for one in engines for cell in one.cells} | {(0, 0)})
    for name, text, part in _CELLS:
        family = CounterMetricFamily(name, text, labels=["decode", "prefill"])
        for row, column in cells:
            value = sum(getattr(one.cells[row, column], part) for one in engines if (row, column) in one.cells)
            family.add_metric([_edge(DECODE_EDGES, row), _edge(PREFILL_EDGES, column)], value)
        yield family


def _edge(edges: Sequence[int], index: int) -> str:
    return str(edges[index]) if index < len(edges) else "+Inf"
