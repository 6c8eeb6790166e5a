"""The engine's settings for a sized layout: sequence cap, admission limits, flags, and why each is what it is. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from modelfleet.core.layout.admission import Admission, decide_admission
from modelfleet.core.layout.answer import Check, Predicted, Reason
from modelfleet.core.layout.ask import MOST_SEQUENCES, Ask
from modelfleet.core.layout.question import place
from modelfleet.core.layout.token_budget import BUDGETS, Budget, budget_of
from modelfleet.core.layout.wording import exact_seconds, rounded, seconds
from modelfleet.core.model.facts import Scheme
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import max_concurrent_sequences

_ONLINE_FLAG = {Scheme.FP8: "fp8", Scheme.INT8: "int8_per_channel_weight_only", Scheme.NVFP4: "nvfp4_per_token"}
"""vLLM's names for what it makes of wider weights while it loads."""


@dataclass(frozen=True)
class Settings:
    """Flags without dashes, and the reasons."""

    flags: dict[str, str]
    reasons: tuple[Reason, ...]


def sequence_cap(ask: Ask, case: Case) -> int:
    """Sequences that run together in one rank: as many whole mean requests as its KV cache holds, at most the engine's
    own largest, and no more than a step has tokens."""
    if ask.question.pins.sequence_cap is not None:
        return ask.question.pins.sequence_cap
    lengths = ask.demand.lengths
    whole = replace(
        lengths, output_tokens=2 * lengths.output_tokens
    )  # a sequence counts as half way through its output
    held = max_concurrent_sequences(case, whole) // case.layout.data
    cap = max(1, min(held, MOST_SEQUENCES, case.setup.token_budget or MOST_SEQUENCES))
    return cap if cap < 16 else cap // 8 * 8


def settings_of(ask: Ask, case: Case, budget: Budget, predicted: Predicted, in_flight: int) -> Settings:
    """All flags of one replica's engine; those that the user pinned keep their values. `in_flight` is the most requests
    that it takes."""
    admission = _admission(ask, budget, in_flight)
    flags = _parallel(case) | _limits(case) | _schemes(ask, case) | admission.flags
    reasons = (_budget_reason(ask, case, budget, predicted), _cap_reason(ask, case, predicted), ask.block_reason)
    return Settings(flags, (*reasons, admission.reason))


def _parallel(case: Case) -> dict[str, str]:
    layout = case.layout
    flags = {"tensor-parallel-size": str(layout.tensor)}
    if layout.pipeline > 1:
        flags["pipeline-parallel-size"] = str(layout.pipeline)
    if layout.data > 1:
        flags["data-parallel-size"] = str(layout.data)
    if layout.expert:
        flags["enable-expert-parallel"] = "true"
    return flags


def _limits(case: Case) -> dict[str, str]:
    setup = case.setup
    return {
        "max-model-len": str(setup.context_limit_tokens),
        "max-num-batched-tokens": str(setup.token_budget),
        "max-num-seqs": str(setup.sequence_cap),
        "block-size": str(setup.block_tokens),
        "gpu-memory-utilization": f"{setup.memory_fraction:g}",
    }


def _schemes(ask: Ask, case: Case) -> dict[str, str]:
    flags: dict[str, str] = {}
    if ask.variant.online:
        flags["quantization"] = _ONLINE_FLAG[ask.variant.weights]
    if case.setup.weights is Scheme.FP16 and ask.variant.weights is Scheme.BF16:
        flags["dtype"] = "half"
    if case.setup.kv not in (Scheme.BF16, Scheme.FP16):
        flags["kv-cache-dtype"] = str(case.setup.kv)
    return flags


def _admission(ask: Ask, budget: Budget, in_flight: int) -> Admission:
    binding = min(ask.demand.wanted, key=lambda one: one.limits.ttft_s)
    return decide_admission(
        ask.question.engine_version,
        ttft_s=binding.limits.ttft_s,
        prefill_s=budget.prompt_s(binding.long_prompt_tokens),
        prefill_tokens_per_s=budget.prefill_tokens_per_s,
        in_flight=in_flight,
    )


def _budget_reason(ask: Ask, case: Case, budget: Budget, predicted: Predicted) -> Reason:
    tpot = exact_seconds(ask.demand.tpot_s)
    step = f"a full step beside {rounded(predicted.concurrency)} running sequences takes {seconds(budget.step_s)}"
    if ask.question.pins.token_budget is not None:
        sentence = f"{budget.tokens} tokens a step, as {place(ask.question, 'pins.token_budget')} says; {step}"
        if budget.step_s > ask.demand.tpot_s:
            sentence += f", longer than tpot {tpot}: running answers stall while a prompt is prefilled"
    else:
        larger = next((size for size in BUDGETS if size > budget.tokens), budget.tokens)
        fits = budget_of(case, ask.demand, larger, predicted.concurrency).step_s
        bound = (
            "the largest whose activation leaves the KV cache that the load needs"
            if larger > budget.tokens and fits * (1 + predicted.uncertainty) <= ask.demand.tpot_s
            else f"the largest inside tpot {tpot} at the pessimistic end"
        )
        sentence = (
            f"{budget.tokens} tokens a step, {bound}: {step}, which is"
            f" also the longest gap between two tokens, and prefills {rounded(budget.prefill_tokens_per_s)} tokens/s"
        )
    stages = f" through {case.layout.pipeline} stages" if case.layout.pipeline > 1 else ""
    return Reason(check=Check.TOKEN_BUDGET, sentence=sentence + stages)


def _cap_reason(ask: Ask, case: Case, predicted: Predicted) -> Reason:
    cap, mean = case.setup.sequence_cap, ask.demand.lengths.input_tokens + ask.demand.lengths.output_tokens
    if ask.question.pins.sequence_cap is not None:
        sentence = f"{cap} sequences at the same time, as {place(ask.question, 'pins.sequence_cap')} says"
    elif cap in (MOST_SEQUENCES, case.setup.token_budget):
        end = f"a step of {cap} tokens has none left" if cap == case.setup.token_budget else "the engine takes no more"
        sentence = f"{cap} sequences at the same time: the KV cache has room for more, {end}"
    else:
        rank = " of a rank" if case.layout.data > 1 else ""
        sentence = (
            f"{cap} sequences at the same time: so many whole mean requests of {rounded(mean)} tokens have room in the"
            f" KV cache{rank}, {rounded(predicted.kv_tokens / case.layout.data)} tokens"
        )
    return Reason(check=Check.SEQUENCE_CAP, sentence=sentence)
