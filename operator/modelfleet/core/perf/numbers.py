"""Bytes of a stored number and the arithmetic that it is multiplied with. Pure."""

from modelfleet.core.hardware import Hardware
from modelfleet.core.model.facts import Attention, ModelFacts, Scheme

BYTES = {
    Scheme.BF16: 2.0,
    Scheme.FP16: 2.0,
    Scheme.FP8: 1.0,
    Scheme.INT8: 1.0,
    Scheme.INT4: 0.5 + 2.5 / 128,  # a 16-bit scale and a zero point for 128 weights
    Scheme.MXFP4: 0.5 + 1 / 32,  # an 8-bit exponent for 32 weights (OCP MX)
    Scheme.NVFP4: 0.5 + 1 / 16,  # an fp8 scale for 16 weights
}
"""Bytes of one weight, scales included."""

FOUR_BIT = frozenset({Scheme.INT4, Scheme.MXFP4, Scheme.NVFP4})
SIXTEEN_BIT = frozenset({Scheme.BF16, Scheme.FP16})


def attention_scheme(facts: ModelFacts, weights: Scheme) -> Scheme:
    """How attention's matrices are stored when the model is in `weights`.

    Published four-bit checkpoints of mixture models with latent attention (nvidia's NVFP4, Kimi's INT4) and gpt-oss'
    mxfp4 quantize the experts and leave attention at 16 bit.
    """
    latent = any(part.kind in (Attention.LATENT, Attention.LATENT_SPARSE) for part in facts.attention)
    if weights in FOUR_BIT and (latent or (weights == facts.native and not facts.quantized_attention)):
        return Scheme.BF16
    return weights


def head_scheme(facts: ModelFacts, weights: Scheme) -> Scheme:
    """How the output projection is stored: 16 bit unless the checkpoint covers it."""
    return weights if facts.quantized_head and weights == facts.native else Scheme.BF16


def flops_per_s(hardware: Hardware, scheme: Scheme) -> float:
    """Dense arithmetic of one accelerator on weights of `scheme`, operations a second.

    Where the chip has no unit for a scheme, weights are unpacked and multiplied in 16 bit: INT4 always (weight-only
    kernels), the others on chips without it. MXFP4 is multiplied with fp8 activations where fp4 units exist.
    """
    unit = {
        Scheme.FP8: "fp8",
        Scheme.INT8: "int8",
        Scheme.MXFP4: "fp8" if "fp4" in hardware.flops else "bf16",
        Scheme.NVFP4: "fp4",
    }.get(scheme, "bf16")
    rate = hardware.flops.get(unit) or hardware.flops.get("bf16")
    if not rate:
        raise ValueError(f"{hardware.name}: its dense arithmetic is not known; state flops for bf16")
    return rate
