"""How long one engine step takes. Pure.

The time of a step is the sum of its terms, each times a constant: parts of a step overlap little, because a layer's
kernels wait for each other. A sum is also monotone in every term, so faster memory is never slower.
"""

from modelfleet.core.perf.case import Case
from modelfleet.core.perf.constants import Constants, constants_for
from modelfleet.core.perf.prediction import StepTime
from modelfleet.core.perf.terms import Batch, Terms, step_terms


def step_time(case: Case, batch: Batch) -> StepTime:
    """The time of one step of `batch`, through all pipeline stages, and where it goes."""
    constants = constants_for(case.setup.engine)
    return weigh(step_terms(case, batch), constants, prompts=1.0 if batch.prefill_tokens else 0.0)


def weigh(terms: Terms, k: Constants, *, prompts: float = 0.0) -> StepTime:
    """The seconds of `terms` under the constants `k`; `prompts` is 1 for a step that has prompt tokens."""
    compute = terms.gemm_s * k.gemm + terms.expert_gemm_s * k.expert_gemm + terms.attention_s * k.attention
    memory = terms.weights_s * k.weights + terms.experts_s * k.experts + terms.kv_s * k.kv
    communication = terms.exchange_s * k.exchange + terms.exchanges * k.exchange_s
    overhead = k.step_s + terms.layers * k.layer_s + terms.mixture_layers * k.mixture_layer_s
    overhead += terms.sequences * k.sequence_s + prompts * terms.layers * k.prompt_layer_s
    return StepTime(
        total_s=compute + memory + communication + overhead,
        compute_s=compute,
        memory_s=memory,
        communication_s=communication,
        overhead_s=overhead,
    )


__all__ = ["Batch", "step_time", "weigh"]
