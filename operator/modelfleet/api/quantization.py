"""How numbers are stored, as users write it, and what departs from a class's standard. Pure.

The names are those of `modelfleet.core.model.facts.Scheme`.
"""

from enum import StrEnum

from modelfleet.api.schema import ApiModel
from modelfleet.api.strings import EngineVersion, Reference


class WeightScheme(StrEnum):
    """How weights are stored."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"


class CacheScheme(StrEnum):
    """How the KV cache is stored."""

    BF16 = "bf16"
    FP8 = "fp8"


class OnlineQuantization(StrEnum):
    """Whether the engine may quantize while it loads."""

    FORBID = "Forbid"
    ALLOW = "Allow"


class StandardQuantization(ApiModel):
    """The one quantization that everything on a class uses unless an exception brings evidence."""

    weights: WeightScheme | None = None
    """How weights are stored. Default: as the model was published."""
    kv_cache: CacheScheme | None = None
    """How the KV cache is stored. Default: 16 bit."""


class QuantizationEvidence(ApiModel):
    """Why a departure from the class's standard is good enough; it holds for one engine version."""

    artifact: Reference
    """The weights that were evaluated, such as a path or an address."""
    evaluation: Reference
    """Where the result of the evaluation is."""
    engine_version: EngineVersion
    """The engine version that was evaluated; with another one the exception no longer holds."""


class Quantization(ApiModel):
    """How numbers are stored, where it is not the class's standard."""

    weights: WeightScheme | None = None
    """How weights are stored: one of the variants offered. Default: the class's standard."""
    kv_cache: CacheScheme | None = None
    """How the KV cache is stored. Default: the class's standard."""
    evidence: QuantizationEvidence | None = None
    """Needed where a quantized scheme is not the class's standard."""
    online: OnlineQuantization = OnlineQuantization.FORBID
    """Whether the engine may make the wanted weights from others while it loads: Forbid or Allow. Default: Forbid."""
