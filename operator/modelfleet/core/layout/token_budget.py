"""The token budget of a step (rule 1). Pure.

The largest whose mixed step (the sequences that decode, and prompt tokens up to the budget) is inside tpot at the
decode batch and context of the target load, through all stages. More would stall every running answer past its promise.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from modelfleet.core.layout.demand import Demand
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.steps import Batch, step_time

BUDGETS = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
"""Two sizes an octave, up to the largest default of the engine."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Tokens a step in one data-parallel rank, the time of a full step, and the prompt tokens a second of the replica
    that are left beside `running` decoding sequences."""

    tokens: int
    step_s: float
    prefill_tokens_per_s: float
    ranks: int = 1

    def prompt_s(self, tokens: float) -> float:
        """The time of one prompt in full steps of its rank."""
        return tokens * self.ranks / self.prefill_tokens_per_s


def full_batch(case: Case, demand: Demand, tokens: int, running: float) -> Batch:
    """A step of `tokens` in each rank: `running` sequences of the whole replica decode, prompts take the rest."""
    decoding = running / case.layout.pipeline
    return Batch(
        prefill_tokens=max(1.0, tokens * case.layout.data - decoding),
        prefill_context_tokens=_behind(demand, tokens),
        decode_sequences=decoding,
        decode_context_tokens=demand.context_tokens,
    )


def budget_of(case: Case, demand: Demand, tokens: int, running: float) -> Budget:
    """What a step of `tokens` takes and gives with `running` sequences in the whole replica."""
    batch = full_batch(case, demand, tokens, running)
    step_s = step_time(case, batch).total_s
    rate = batch.prefill_tokens * case.layout.pipeline / step_s
    return Budget(tokens=tokens, step_s=step_s, prefill_tokens_per_s=rate, ranks=case.layout.data)


def largest_budget(case: Case, demand: Demand, running: float, tpot_s: float) -> Budget | None:
    """The largest budget whose full step is inside `tpot_s`; None where not even the smallest is."""
    least = running / case.layout.data / case.layout.pipeline
    sizes = [tokens for tokens in BUDGETS if tokens > least]
    inside = bisect_right(sizes, tpot_s, key=lambda tokens: budget_of(case, demand, tokens, running).step_s)
    return budget_of(case, demand, sizes[inside - 1], running) if inside else None


def _behind(demand: Demand, tokens: int) -> float:
    """Tokens before the middle chunk of a mean prompt that is cut in chunks of the budget."""
    rest = max(0.0, demand.uncached_tokens - tokens)
    return demand.lengths.shared_prefix_tokens + rest / 2
