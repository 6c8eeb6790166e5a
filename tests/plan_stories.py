"""The planner's worked stories: a question each, on accelerators of the catalogue. The answers are in golden/plans."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from modelfleet.core.catalog import CATALOG
from modelfleet.core.layout.question import (
    ApiPrice,
    Bounds,
    Candidate,
    EconomicsWish,
    Evidence,
    LengthRegime,
    Objective,
    Pins,
    Question,
    SpeculationWish,
    Supply,
)
from modelfleet.core.model.facts import Scheme
from questions import nodes, variants

CHAT = LengthRegime(input_p50_tokens=900, input_p95_tokens=4000, output_p50_tokens=250, output_p95_tokens=800)
ENGINE = "0.32.0"


def on(key: str, standard: Scheme | None = Scheme.FP8, **changes: Any) -> Candidate:
    """A class of the catalogue, with a standard."""
    return Candidate(name=key, hardware=CATALOG[key].hardware, standard_weights=standard, **changes)


def promise(**changes: Any) -> Objective:
    base = Objective(name="interactive", ttft_s=1.0, tpot_s=0.05, share=0.95, load_rps=2.0, lengths=CHAT)
    return replace(base, **changes)


def asked(model: str, schemes: tuple[Scheme, ...], *classes: Candidate, **changes: Any) -> Question:
    values: dict[str, Any] = {
        "variants": variants(model, *schemes),
        "candidates": classes,
        "objectives": (promise(),),
        "max_context_tokens": 16384,
        "engine_version": ENGINE,
    }
    return Question(**(values | changes))


BF16, FP8 = (Scheme.BF16,), (Scheme.FP8,)
BOTH = (Scheme.BF16, Scheme.FP8)
LLAMA_8B, LLAMA_70B, LLAMA_405B = "Llama-3.1-8B-Instruct", "Llama-3.3-70B-Instruct", "Llama-3.1-405B-Instruct"


def small_model_on_one_accelerator() -> Question:
    """8B on one 80 GB accelerator: whole replicas."""
    return asked(LLAMA_8B, BF16, on("h100-sxm"), objectives=(promise(load_rps=30.0),))


def seventy_in_bf16() -> Question:
    """70B in bf16 on H100: the weights force tensor parallelism."""
    return asked(LLAMA_70B, BF16, on("h100-sxm"))


def seventy_in_fp8() -> Question:
    """70B in fp8 on H100: fits fewer, and still needs more than one."""
    return asked(LLAMA_70B, BOTH, on("h100-sxm"))


def speed_alone_forces_sharding() -> Question:
    """70B in fp8 on H200 fits one accelerator; a short tpot alone forces tensor parallelism."""
    return asked(LLAMA_70B, FP8, on("h200"), objectives=(promise(tpot_s=0.03, ttft_s=2.0, load_rps=1.0),))


def cache_bound() -> Question:
    """Long prompts beside weights that fill the accelerator: what ends first is the KV cache."""
    long = LengthRegime(input_p50_tokens=6000, input_p95_tokens=12000, output_p50_tokens=600, output_p95_tokens=1200)
    calm = promise(name="research", ttft_s=20.0, tpot_s=0.1, load_rps=1.0, lengths=long)
    return asked("Qwen3-32B", BF16, on("h100-sxm"), objectives=(calm,))


def four_hundred_over_two_nodes() -> Question:
    """405B pinned to bf16: two nodes, tensor inside each, stages between them."""
    calm = promise(name="batch", ttft_s=5.0, tpot_s=0.2, load_rps=0.5)
    return asked(LLAMA_405B, BOTH, on("h100-sxm"), objectives=(calm,), pins=Pins(weights=Scheme.BF16))


def four_hundred_in_one_node() -> Question:
    """The same model in the standard fp8 fits one node."""
    calm = promise(name="batch", ttft_s=5.0, tpot_s=0.2, load_rps=0.5)
    return asked(LLAMA_405B, BOTH, on("h100-sxm"), objectives=(calm,))


def experts() -> Question:
    """DeepSeek-V3 on H200: whole experts on eight accelerators; attention on data-parallel ranks is too uncertain."""
    busy = promise(name="chat", ttft_s=3.0, tpot_s=0.06, load_rps=40.0)
    return asked("DeepSeek-V3", FP8, on("h200"), objectives=(busy,))


def cheap_against_fast() -> Question:
    """L4 against H100 for a small model, by cost."""
    calm = promise(ttft_s=2.0, tpot_s=0.1, load_rps=1.0)
    return asked("Llama-3.2-3B-Instruct", BF16, on("h100-sxm"), on("l4"), objectives=(calm,))


def speculation_pays() -> Question:
    """Few requests at a time, bound by latency: a draft pays."""
    tight = promise(name="copilot", tpot_s=0.025, ttft_s=2.0, load_rps=0.3)
    return asked(LLAMA_70B, FP8, on("h100-sxm"), objectives=(tight,), speculation=DRAFT)


def speculation_does_not_pay() -> Question:
    """The same draft on a busy fleet for which the cache ends first: left out."""
    return replace(cache_bound(), speculation=DRAFT)


DRAFT = SpeculationWish(method="eagle3", source="hf://org/eagle3-draft")
GOOD = Evidence(artifact="hf://org/chat-int4@9f2c", evaluation="s3://evals/chat-int4-0.32", engine_version=ENGINE)


def exception_accepted() -> Question:
    """int4 on a class whose standard is fp8, with evidence for this engine."""
    return asked(LLAMA_70B, (*BOTH, Scheme.INT4), on("h100-sxm"), pins=Pins(weights=Scheme.INT4, evidence=GOOD))


def exception_refused() -> Question:
    """The same without evidence."""
    return asked(LLAMA_70B, (*BOTH, Scheme.INT4), on("h100-sxm"), pins=Pins(weights=Scheme.INT4))


def exception_expired() -> Question:
    """The same evidence after an upgrade of the engine."""
    return replace(exception_accepted(), engine_version="0.33.0")


def two_objectives_one_pool_cannot_keep() -> Question:
    """A copilot that wants tokens at once, and reports over long documents, in one deployment."""
    quick = promise(name="copilot", tpot_s=0.03, load_rps=5.0)
    long = LengthRegime(input_p50_tokens=48000, input_p95_tokens=90000, output_p50_tokens=800, output_p95_tokens=1500)
    reports = promise(name="reports", ttft_s=60.0, tpot_s=0.15, load_rps=1.0, lengths=long)
    return asked(
        LLAMA_70B,
        FP8,
        on("h100-sxm"),
        objectives=(quick, reports),
        max_context_tokens=None,
        bounds=Bounds(max_replicas=8),
    )


def infeasible_with_offers() -> Question:
    """70B in bf16 on at most four L40S: too few accelerators for the weights and the cache, and what would do."""
    return asked(
        LLAMA_70B,
        BF16,
        on("l40s", nodes=nodes(2, 8)),
        alternatives=(on("h100-sxm"), on("h200")),
        objectives=(promise(ttft_s=4.0, tpot_s=0.12, load_rps=1.0),),
        bounds=Bounds(max_accelerators=4),
        max_context_tokens=None,
    )


def prefill_and_decode_apart() -> Question:
    """Short tpot at a large load: no single pool keeps it, two pools would, and this version only says so."""
    return asked(LLAMA_70B, FP8, on("h100-sxm"), objectives=(promise(tpot_s=0.02, load_rps=60.0),))


def own_or_api() -> Question:
    """Self-hosting 70B against an API's price, with a reason that is not the price."""
    price = ApiPrice(input_per_million=Decimal("0.6"), output_per_million=Decimal("0.6"))
    return asked(
        LLAMA_70B,
        FP8,
        on("h100-sxm", supplies=(Supply(name="reserved", price_per_hour=Decimal("1.90")),)),
        objectives=(promise(load_rps=6.0),),
        economics=EconomicsWish(api_price=price, reasons=("DataControl",), measured_rps=1.5),
    )


STORIES: dict[str, Callable[[], Question]] = {
    "8b-on-one-80gb": small_model_on_one_accelerator,
    "70b-bf16-on-h100": seventy_in_bf16,
    "70b-fp8-on-h100": seventy_in_fp8,
    "70b-tpot-forces-tp": speed_alone_forces_sharding,
    "kv-bound": cache_bound,
    "405b-bf16-over-two-nodes": four_hundred_over_two_nodes,
    "405b-fp8-on-one-node": four_hundred_in_one_node,
    "deepseek-v3-experts": experts,
    "l4-against-h100-by-cost": cheap_against_fast,
    "speculation-yes": speculation_pays,
    "speculation-no": speculation_does_not_pay,
    "quantization-exception-accepted": exception_accepted,
    "quantization-exception-refused": exception_refused,
    "quantization-exception-expired": exception_expired,
    "two-objectives-one-pool-cannot-keep": two_objectives_one_pool_cannot_keep,
    "infeasible-with-offers": infeasible_with_offers,
    "prefill-and-decode-apart": prefill_and_decode_apart,
    "self-host-or-api": own_or_api,
}
