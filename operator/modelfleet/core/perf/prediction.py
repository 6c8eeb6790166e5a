"""What the performance model answers. Times are seconds, memory is bytes of one accelerator. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from modelfleet.core.perf.spread import Spread


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """One accelerator's memory, as vLLM accounts it. `kv_bytes` is what is left for the KV cache, below 0 where nothing
    is; `kv_tokens` is the KV tokens of the whole replica (all data-parallel ranks)."""

    budget_bytes: float
    weights_bytes: float
    activation_bytes: float
    graphs_bytes: float
    other_bytes: float
    """Communication buffers, the allocator's own, what the driver holds."""
    kv_bytes: float
    kv_bytes_per_token: float
    """Of a long sequence, in one accelerator; windows and states that do not grow are in `kv_bytes_per_sequence`."""
    kv_bytes_per_sequence: float
    kv_tokens: int
    reason: str
    """One sentence with the numbers: what fits, or what does not and by how much."""

    @property
    def fits(self) -> bool:
        """The engine would start: room for the weights and for one sequence of the longest context."""
        return self.kv_tokens > 0


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """The time of one engine step and where it goes, all in seconds. `total_s` is not their sum where they overlap."""

    total_s: float
    compute_s: float
    memory_s: float
    communication_s: float
    overhead_s: float


class Source(StrEnum):
    """Where a figure comes from."""

    PREDICTED = "predicted"
    MEASURED = "measured"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One replica under one load. Times are means unless they say otherwise."""

    ttft_s: float
    tpot_s: float
    ttft_p95_s: float
    tpot_p95_s: float
    concurrency: float
    """Requests in flight in the replica."""
    running: float
    """Those that run; the others wait for memory or for the sequence cap."""
    requests_per_s: float
    output_tokens_per_s: float
    memory: MemoryUse
    saturated: bool
    """The load is past what the replica can take: the queue grows, or sequences wait for KV (the cliff)."""
    source: Source
    reason: str
    uncertainty: float
    """Relative half-width of the 90 % interval of tpot_s."""
    ttft_uncertainty: float = 0.0
    """The same of ttft_s, which is wider: it depends on what else arrives."""
    spread: Spread | None = None
    """How both times spread over single requests; `spread.share` is the share inside two limits."""

    @property
    def fits(self) -> bool:
        """The engine would start."""
        return self.memory.fits


@dataclass(frozen=True, kw_only=True)
class Knee:
    """The highest load of one replica at which the wanted share of requests is inside both limits."""

    requests_per_s: float
    concurrency: float
    bound: str
    """What breaks first: `ttft`, `tpot`, `kv` or `throughput`."""
    at: Prediction
    """The prediction at the predicted knee."""
    measured: bool = False
    """The rate was measured; what else is told of it is scaled from the predicted knee."""
