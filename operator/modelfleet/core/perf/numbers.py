"""Which arithmetic unit multiplies stored weights, and how fast it is on paper. Pure."""

from modelfleet.core.hardware import Hardware
from modelfleet.core.model.facts import ModelFacts, Scheme
from modelfleet.core.perf.memory_weights import BYTES, quantizes_attention

__all__ = ["BYTES", "attention_scheme", "flops_per_s", "generation", "head_scheme", "unit", "usual_kv_scheme"]


def attention_scheme(facts: ModelFacts, weights: Scheme) -> Scheme:
    """How attention's matrices are stored when the model is in `weights`: 16 bit where the scheme leaves them out."""
    return weights if quantizes_attention(facts, weights) else Scheme.BF16


def head_scheme(facts: ModelFacts, weights: Scheme) -> Scheme:
    """How the output projection is stored: 16 bit unless the checkpoint covers it."""
    return weights if facts.quantized_head and weights is facts.native else Scheme.BF16


def unit(hardware: Hardware, scheme: Scheme) -> str:
    """How weights of `scheme` are multiplied: `bf16`, `fp8`, `fp4`, or `unpacked`.

    Four-bit weights without a four-bit unit, and INT4 always, are unpacked and multiplied in 16 bit (Marlin and its
    like). INT8 counts as fp8: the same rate and bytes. Without a unit of eight bits fp8 is unpacked too.
    """
    if scheme in (Scheme.BF16, Scheme.FP16):
        return "bf16"
    if scheme in (Scheme.FP8, Scheme.INT8):
        return "fp8" if "fp8" in hardware.flops or (scheme is Scheme.INT8 and "int8" in hardware.flops) else "unpacked"
    return "fp4" if "fp4" in hardware.flops and scheme is not Scheme.INT4 else "unpacked"


def flops_per_s(hardware: Hardware, scheme: Scheme) -> float:
    """Dense arithmetic of one accelerator on weights of `scheme`, operations a second.

    MXFP4 weights are multiplied with fp8 activations where fp4 units exist. ValueError where bf16's rate is not known.
    """
    names = {"bf16": ("bf16",), "unpacked": ("bf16",), "fp4": ("fp4",), "fp8": ("fp8", "int8")}
    wanted = ("fp8",) if scheme is Scheme.MXFP4 and "fp4" in hardware.flops else names[unit(hardware, scheme)]
    rate = next((hardware.flops[name] for name in (*wanted, "bf16") if hardware.flops.get(name)), 0.0)
    if not rate:
        raise ValueError(f"{hardware.name}: its dense arithmetic is not known; state flops for bf16")
    return rate


def generation(hardware: Hardware) -> str:
    """The chip's generation as far as it is told apart in the fit: `hopper`, `blackwell` (data centre), or `other`."""
    major = hardware.compute_capability[0] if hardware.compute_capability else 0
    return {9: "hopper", 10: "blackwell"}.get(major, "other")


def usual_kv_scheme(weights: Scheme) -> Scheme:
    """The KV cache's scheme where it is not stated: fp8 beside weights in floats of 8 or 4 bits, else 16 bit.

    So public benchmarks run: with it all of vLLM's measured series fall off the cliff within one step of where they are
    predicted to, with 16 bit throughout 93 % do. An engine's own default is 16 bit, so who knows better should say so.
    """
    return Scheme.FP8 if weights in (Scheme.FP8, Scheme.MXFP4, Scheme.NVFP4) else Scheme.BF16
