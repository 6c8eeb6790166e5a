"""ModelProfile: what was measured of one model on one class in one layout. Pure.

The planner reads profiles when it makes a plan; a profile that comes or changes later moves no pod.
"""

from typing import Annotated

from pydantic import Field

from modelfleet.api.kubernetes_types import Metadata
from modelfleet.api.quantization import CacheScheme, WeightScheme
from modelfleet.api.schema import ApiModel, Tokens, whole
from modelfleet.api.sources import ModelSource
from modelfleet.api.strings import EngineVersion, LabelValue, LayoutName, ObjectName, Reference
from modelfleet.api.values import Factor, Rate, Share

Samples = Annotated[int, whole(0)]


class ProfiledQuantization(ApiModel):
    """How numbers were stored."""

    weights: WeightScheme
    """How weights were stored."""
    kv_cache: CacheScheme = CacheScheme.BF16
    """How the KV cache was stored. Default: bf16."""


class StepTime(ApiModel):
    """Measured times over predicted ones. A factor of 1.1 is a tenth slower than predicted."""

    prefill: Factor = Factor("1")
    """For the work on prompts. Default: 1."""
    prefill_samples: Samples = 0
    """Measurements behind it. Default: 0."""
    decode: Factor = Factor("1")
    """For the work on answers. Default: 1."""
    decode_samples: Samples = 0
    """Measurements behind it. Default: 0."""
    overhead: Factor = Factor("1")
    """For what a request takes outside of steps. Default: 1."""
    ttft_uncertainty: Share = Share("30%")
    """Half-width of the 90 % interval of a corrected TTFT, in percent of it. Default: 30%."""
    tpot_uncertainty: Share = Share("15%")
    """The same of a corrected TPOT. Default: 15%."""


class MeasuredKnee(ApiModel):
    """The highest rate at which one replica kept a promise."""

    promise: LabelValue
    """What it was measured for: a digest of the objectives' times, shares and lengths. It counts for no other."""
    requests_per_second: Rate
    """The rate."""
    uncertainty: Share = Share("10%")
    """Half-width of its 90 % interval, in percent of it. A plan counts on the lower end. Default: 10%."""
    samples: Samples = 0
    """Requests behind it. Default: 0."""


class Provenance(ApiModel):
    """Where the measurement comes from."""

    by: Reference
    """Who or what measured, such as a command."""
    note: Annotated[str, Field(max_length=1024)] = ""
    """How, in free words. Default: empty."""


class ModelProfileSpec(ApiModel):
    """What was measured, and of what."""

    source: ModelSource
    """Where the model's weights are, as the ModelDeployment writes it."""
    class_: Annotated[ObjectName, Field(alias="class")]
    """The AcceleratorClass that it was measured on."""
    layout: LayoutName
    """How a replica was spread over accelerators, such as tp2 or tp4-dp4-ep16."""
    quantization: ProfiledQuantization
    """How numbers were stored."""
    engine_version: EngineVersion | None = None
    """The engine's version, as spec.engine.version writes it. Default: not known."""
    step_time: StepTime = StepTime()
    """Corrections of the predicted step time."""
    kv_cache_tokens: Tokens | None = None
    """Tokens that the KV cache of one replica held, as the engine reported. Default: what is predicted."""
    knee: MeasuredKnee | None = None
    """The knee of one replica. Default: what is predicted."""
    provenance: Provenance
    """Where the measurement comes from."""


class ModelProfile(ApiModel):
    """What was measured for one model, accelerator class, layout, quantization and engine version."""

    metadata: Metadata
    spec: ModelProfileSpec
    """What was measured, and of what."""
