"""The question that a prediction answers: which engine settings, which requests, how many of them. Pure."""

from dataclasses import dataclass

from modelfleet.core.model.facts import Scheme


@dataclass(frozen=True, kw_only=True)
class EngineSetup:
    """What the engine is started with, as far as memory and time depend on it. None is "the engine's own default"."""

    engine: str = "vllm"
    version: str = ""
    weights: Scheme = Scheme.BF16
    kv: Scheme = Scheme.BF16
    memory_fraction: float = 0.9
    token_budget: int | None = None
    """Tokens that one step takes at most, max-num-batched-tokens."""
    sequence_cap: int | None = None
    """Sequences that run at the same time at most, in one data-parallel rank; max-num-seqs."""
    context_limit_tokens: int | None = None
    """The longest context, input and output together, max-model-len."""
    block_tokens: int = 16


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How long requests are, in tokens. Means; the upper figures are 95th percentiles and may be unknown."""

    input_tokens: float
    output_tokens: float
    input_p95_tokens: float | None = None
    output_p95_tokens: float | None = None
    shared_prefix_tokens: float = 0.0
    """Leading tokens that most requests have in common, and that are prefilled once."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """Requests that one replica has to do with: in flight at the same time (closed loop), or arriving in a second (open
    loop, Poisson). Exactly one of the two is set."""

    concurrency: float | None = None
    requests_per_s: float | None = None
