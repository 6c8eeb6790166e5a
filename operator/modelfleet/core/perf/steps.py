"""How long one engine step takes. Pure.

The time of a step is the sum of its terms, each times a constant: parts of a step overlap little, because a layer's
kernels wait for each other. A sum is also monotone in every term, so faster memory is never slower.
"""

from modelfleet.core.perf.case import Case
from modelfleet.core.perf.constants import Constants, constants_for
from modelfleet.core.perf.prediction import StepTime
from modelfleet.core.perf.terms import Batch, Terms, step_terms

__all__ = ["Batch", "step_time", "weigh"]


def step_time(case: Case, batch: Batch) -> StepTime:
    """The time of one step of `batch`, through all pipeline stages, and where it goes."""
    return weigh(step_terms(case, batch), constants_for(case), prompts=1.0 if batch.prefill_tokens else 0.0)


def weigh(terms: Terms, k: Constants, *, prompts: float = 0.0) -> StepTime:
    """The seconds of `terms` under the constants `k`; `prompts` is 1 for a step that has prompt tokens."""
    compute = terms.gemm_s * k.gemm_s + terms.expert_gemm_s * k.expert_gemm_s + terms.attention_s * k.attention_s
    memory = terms.weights_s * k.weights_s + terms.experts_s * k.experts_s + terms.kv_s * k.kv_s
    memory += terms.stream_s * k.stream_s + terms.route_s * k.route_s
    communication = terms.exchange_s * k.exchange_s + terms.exchanges * k.exchanges
    overhead = k.step_s + terms.layers * k.layers + terms.mixture_layers * k.mixture_layers
    overhead += terms.indexed_layers * k.indexed_layers + terms.sequences * k.sequences
    overhead += prompts * terms.layers * k.prompt_layer_s
    return StepTime(
        total_s=compute + memory + communication + overhead,
        compute_s=compute,
        memory_s=memory,
        communication_s=communication,
        overhead_s=overhead,
    )
