"""How one accelerator's memory is used and what is left for the KV cache, as vLLM accounts it. Pure.

KV = fraction × memory - weights - peak activation - what the driver and the libraries hold - CUDA graphs. The formula
and the fields are described with their sources in docs/planner-memory.md.
"""

from dataclasses import dataclass, replace
from math import floor

from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory_activation import activation_bytes, batching, graphs_bytes, other_bytes
from modelfleet.core.perf.memory_constants import CONSTANTS, GIB, MemoryConstants
from modelfleet.core.perf.memory_kv import KvSettings, Pool, kv_bytes_per_token, pool
from modelfleet.core.perf.memory_version import Era
from modelfleet.core.perf.memory_weights import stage_weights_bytes, weights_bytes
from modelfleet.core.perf.prediction import MemoryUse
from modelfleet.core.perf.workload import Lengths

__all__ = [
    "kv_bytes_per_token",
    "longest_context_that_fits",
    "max_concurrent_sequences",
    "memory_use",
    "reported_kv_tokens",
    "weights_bytes",
    "with_context_that_fits",
]


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """One pipeline stage's accelerator, in bytes."""

    weights: float
    activation: float
    kv: float
    pool: Pool
    """As the engine admits a sequence: with a window it reserves the tokens of whole steps besides."""
    running: Pool
    """As a sequence holds it while it generates."""

    @property
    def blocks(self) -> int:
        """Blocks of the KV cache."""
        return floor(self.kv / self.pool.block_bytes) if self.kv > 0 and self.pool.block_bytes else 0


def memory_use(case: Case, constants: MemoryConstants = CONSTANTS) -> MemoryUse:
    """Memory of the accelerator that has least room; the reason has the numbers.

    `kv_tokens` is 0 where the engine would not start: the weights do not fit, or not one sequence of the longest
    context (`context_limit_tokens`, by default the model's). For models with windows or states it is what vLLM reports
    since 0.21: sequences of the longest context that fit, times that context.
    """
    era = _era(case)
    context = _context(case)
    stage = _binding(case, constants, context)
    concurrency = stage.blocks / stage.pool.blocks(context)
    tokens = int(concurrency * context) * case.layout.data if concurrency >= 1 else 0
    each = stage.running.long_token_bytes
    use = MemoryUse(
        budget_bytes=_budget(case),
        weights_bytes=stage.weights,
        activation_bytes=stage.activation,
        graphs_bytes=graphs_bytes(case, era, constants),
        other_bytes=other_bytes(case, era, constants),
        kv_bytes=stage.kv,
        kv_bytes_per_token=each,
        kv_bytes_per_sequence=max(stage.running.sequence_bytes(context) - each * context, 0.0),
        kv_tokens=tokens,
        reason="",
    )
    return replace(use, reason=_reason(case, use, stage))


def max_concurrent_sequences(case: Case, lengths: Lengths, constants: MemoryConstants = CONSTANTS) -> int:
    """Sequences of the given mean lengths that the whole replica holds at once; a shared prefix is held once.

    On average a sequence is half way through its output. The sequence cap is not applied: it is a setting. Unlike
    `kv_tokens` over the lengths it is right for windows and states, and for blocks that are not full.
    """
    held = max(round(lengths.input_tokens + lengths.output_tokens / 2), 1)
    stage = _binding(case, constants, held)
    shared = round(min(lengths.shared_prefix_tokens, lengths.input_tokens))
    prefix = stage.running.blocks(shared) if shared else 0
    own = max(stage.running.blocks(held) - prefix, 1)
    return max((stage.blocks - prefix) // own, 0) * case.layout.data


def longest_context_that_fits(case: Case, constants: MemoryConstants = CONSTANTS) -> int:
    """The longest context, at most the model's, of which one sequence finds room; 0 where none does.

    What vLLM does for `--max-model-len auto`.
    """
    low, high = 0, case.facts.max_context_tokens
    middle = high  # mostly the model's own fits
    while low < high:
        limited = replace(case, setup=replace(case.setup, context_limit_tokens=middle))
        stage = _binding(limited, constants, middle)
        low, high = (middle, high) if stage.blocks >= stage.pool.blocks(middle) else (low, middle - 1)
        middle = (low + high + 1) // 2
    return low


def with_context_that_fits(case: Case, constants: MemoryConstants = CONSTANTS) -> Case:
    """The case as `--max-model-len auto` runs it: without a stated context, the longest that fits.

    Unchanged where one is stated, where the model's own fits, and where none does.
    """
    if case.setup.context_limit_tokens is not None:
        return case
    longest = longest_context_that_fits(case, constants)
    if longest in (0, case.facts.max_context_tokens):
        return case
    return replace(case, setup=replace(case.setup, context_limit_tokens=longest))


def reported_kv_tokens(case: Case, constants: MemoryConstants = CONSTANTS) -> int:
    """What the engine's line "GPU KV cache size" says, summed over data-parallel ranks, also where it then refuses.

    Before 0.21 it was blocks ÷ groups × block size, which for models with windows or states is far below what fits.
    """
    context = _context(case)
    stage = _binding(case, constants, context)
    groups = sum(groups for groups, _, _ in stage.pool.buckets)
    logs_blocks = case.setup.engine.lower().startswith("vllm") and Era.of(case.setup.version).before(0, 21)
    if groups > 1 and logs_blocks:  # an unstated version logs as new ones do
        smallest = min(tokens for _, tokens, _ in stage.pool.buckets if tokens)
        return stage.blocks // groups * smallest * case.layout.data
    return int(stage.blocks / stage.pool.blocks(context) * context) * case.layout.data


def _era(case: Case) -> Era:
    return Era.of_engine(case.setup.engine, case.setup.version, case.facts.architecture)


def _context(case: Case) -> int:
    return case.setup.context_limit_tokens or case.facts.max_context_tokens


def _budget(case: Case) -> float:
    return case.hardware.memory_bytes * case.setup.memory_fraction


def _binding(case: Case, constants: MemoryConstants, tokens: int) -> _Stage:
    """The pipeline stage with room for fewest sequences of `tokens`."""
    return min(_stages(case, constants), key=lambda stage: (stage.blocks / stage.pool.blocks(tokens), stage.kv))


def _stages(case: Case, constants: MemoryConstants) -> list[_Stage]:
    era, layout = _era(case), case.layout
    settings = KvSettings(case.setup.kv, case.setup.block_tokens, batching(case, era).tokens, era)
    taken = other_bytes(case, era, constants) + graphs_bytes(case, era, constants)
    stages = []
    for index, weights in enumerate(stage_weights_bytes(case.facts, case.setup.weights, layout)):
        activation = activation_bytes(case, era, constants, last=index == layout.pipeline - 1)
        admits = pool(case.facts, layout, settings, index)
        has_window = any(limit is not None for _, _, limit in admits.buckets)
        stages.append(
            _Stage(
                weights=weights,
                activation=activation,
                kv=_budget(case) - weights - activation - taken,
                pool=admits,
                running=pool(case.facts, layout, replace(settings, token_budget=1), index) if has_window else admits,
            )
        )
    return stages


def _reason(case: Case, use: MemoryUse, stage: _Stage) -> str:
    spent = use.weights_bytes + use.activation_bytes + use.other_bytes + use.graphs_bytes
    budget = f"{case.setup.memory_fraction:g} of {_gib(case.hardware.memory_bytes)} GiB is {_gib(use.budget_bytes)} GiB"
    parts = f"weights {_gib(use.weights_bytes)}, activation {_gib(use.activation_bytes)}, other "
    parts += _gib(use.other_bytes + use.graphs_bytes)
    if use.kv_bytes <= 0:
        return f"does not fit: {budget}, {parts} GiB need {_gib(spent - use.budget_bytes)} GiB more"
    context = _context(case)
    needed = stage.pool.sequence_bytes(context)
    left = f"{budget}, {parts} leave {_gib(use.kv_bytes)} GiB for KV"
    if not use.kv_tokens:
        return f"does not fit: {left}, one sequence of {context:,} tokens needs {_gib(needed)} GiB"
    sequences = use.kv_tokens / context
    return f"fits: {left}, {use.kv_tokens:,} tokens or {sequences:.1f} sequences of {context:,}"


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}"
