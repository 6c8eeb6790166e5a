"""What engines and chips reach of their data sheets. Pure numbers.

A first, unfitted set: typical shares of peak that kernels of this kind reach. `make fit-planner` replaces it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Multipliers of the terms of `terms.Terms` (1 is the data sheet's rate) and seconds of its counts."""

    weights: float = 1.35
    experts: float = 1.6
    kv: float = 1.4
    gemm: float = 1.7
    expert_gemm: float = 2.2
    attention: float = 2.5
    exchange: float = 1.5
    exchange_s: float = 12e-6
    layer_s: float = 12e-6
    mixture_layer_s: float = 15e-6
    sequence_s: float = 8e-6
    step_s: float = 0.8e-3
    prompt_layer_s: float = 300e-6
    """A step with prompt tokens runs without a full CUDA graph: extra seconds a layer."""
    prompt_s: float = 12e-3
    """From the client to the scheduler and back: tokenizing, queueing, streaming."""
    residual: float = 1.0
    """Of a decode step, the mean wait of an arrival for the step that is under way."""
    queue: float = 1.0
    """Of the queueing formula."""
    burst: float = 0.05
    """Share of requests that start together at the beginning of a closed-loop run."""


_ENGINES: dict[str, Constants] = {"vllm": Constants()}


def constants_for(engine: str) -> Constants:
    """The constants of an engine; an engine that nobody measured here is taken as vLLM."""
    return _ENGINES.get(engine.lower(), _ENGINES["vllm"])
