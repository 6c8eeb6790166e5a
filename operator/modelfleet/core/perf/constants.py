"""What engines and chips reach of their data sheets: the constants that turn terms into time. Pure.

A constant is one number for all (`fitted.BASE`) times a factor of the engine (its overheads), of the chip's generation
(latencies) and of the arithmetic unit (matrix kernels). A generation or unit without measurements has factor 1; an
engine without any is taken as vLLM.
"""

from dataclasses import dataclass, fields
from functools import lru_cache

from modelfleet.core.perf import fitted
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.numbers import generation, unit


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The first part multiplies the terms of `terms.Terms` by name: seconds at the data sheet's rate, or counts."""

    weights_s: float
    experts_s: float
    kv_s: float
    gemm_s: float
    expert_gemm_s: float
    attention_s: float
    stream_s: float
    route_s: float
    exchange_s: float
    exchanges: float
    layers: float
    mixture_layers: float
    indexed_layers: float
    sequences: float
    step_s: float
    """What a step costs whatever it does: scheduling, sampling, the loop."""
    prompt_layer_s: float
    """A step with prompt tokens runs without a full CUDA graph: extra seconds a layer."""
    prompt_s: float
    """Of a request, outside of the steps: tokenizing, the server's queues, streaming."""
    wait_steps: float
    """Decode steps that an arrival sits through: the rest of the one under way, and its own prompt's."""
    rank_steps: float
    """Further ones with data parallelism: TensorRT-LLM holds prompts back until all ranks have one (timeout_iters)."""
    burst: float
    """Of a closed loop, the share of requests that start at the same time at its beginning (10 % as usual: ten requests
    a user), each behind half of the others; and how much prompts meet later."""


NAMES = tuple(field.name for field in fields(Constants))


def constants_for(case: Case) -> Constants:
    """The constants of a case's engine, accelerator and weights."""
    return _constants(case.setup.engine.lower(), generation(case.hardware), unit(case.hardware, case.setup.weights))


@lru_cache(maxsize=256)
def _constants(engine: str, chip: str, arithmetic: str) -> Constants:
    known = engine if engine in fitted.BY_ENGINE else "vllm"
    factors = (fitted.BY_ENGINE[known], fitted.BY_GENERATION.get(chip, {}), fitted.BY_UNIT.get(arithmetic, {}))
    values = dict(fitted.BASE)
    for factor in factors:
        for name, value in factor.items():
            values[name] *= value
    return Constants(**values)


_UNMEASURED = (2.0, 1.0)
"""Half-widths where no measurement covers the layout: a factor of three and of two."""


def half_widths(case: Case) -> tuple[float, float]:
    """Relative half-widths of the 90 % intervals of TTFT and TPOT of an architecture that was not measured.

    The measurements have no replica that leaves the fabric's domain, no pipeline, and data parallelism in TensorRT-LLM
    only: such layouts are predicted from data sheets alone.
    """
    layout, engine = case.layout, case.setup.engine.lower()
    unmeasured = layout.accelerators > case.hardware.domain or layout.pipeline > 1
    if unmeasured or (layout.data > 1 and engine not in fitted.DATA_PARALLEL):
        return _UNMEASURED
    return fitted.HALF_WIDTHS.get(engine, fitted.HALF_WIDTHS["vllm"])
