"""What is served: where the weights are, in which forms, and what the model is made of. Pure."""

from typing import Annotated

from pydantic import Field

from modelfleet.api.quantization import WeightScheme
from modelfleet.api.schema import ApiModel, Tokens, Unique, whole
from modelfleet.api.strings import ModelSource, ServedName


class Variant(ApiModel):
    """The same model in other weights."""

    weights: WeightScheme
    """How these weights are stored, unique in this list."""
    source: ModelSource
    """Where they are: pvc://CLAIM/PATH."""


class MixtureFacts(ApiModel):
    """The feed-forward part of a mixture of experts."""

    experts: Annotated[int, whole(1, 4096)]
    """Experts of a layer."""
    experts_per_token: Annotated[int, whole(1, 4096)]
    """Experts that a token visits."""
    expert_intermediate_size: Annotated[int, whole(1, 1_000_000)]
    """Width of an expert's hidden part."""


class StatedFacts(ApiModel):
    """What a decoder language model is made of, stated by hand for an architecture that is not known: full attention,
    gated feed-forward layers."""

    layers: Annotated[int, whole(1, 1000)]
    """Layers."""
    hidden_size: Annotated[int, whole(1, 1_000_000)]
    """Width of the model."""
    heads: Annotated[int, whole(1, 4096)]
    """Attention heads."""
    kv_heads: Annotated[int, whole(1, 4096)]
    """Key and value heads; as many as heads where they are not shared."""
    head_size: Annotated[int, whole(1, 4096)] | None = None
    """Width of a head. Default: hiddenSize / heads."""
    intermediate_size: Annotated[int, whole(1, 10_000_000)]
    """Width of a feed-forward layer's hidden part."""
    vocabulary_size: Annotated[int, whole(1, 10_000_000)]
    """Tokens in the vocabulary."""
    max_context_tokens: Tokens
    """The longest context that the model was made for, in tokens."""
    weights: WeightScheme = WeightScheme.BF16
    """How the weights in the source are stored. Default: bf16."""
    mixture: MixtureFacts | None = None
    """Experts, if all feed-forward layers are mixtures. Default: they are not."""


class Model(ApiModel):
    """What is served."""

    source: ModelSource
    """Where the weights are: pvc://CLAIM/PATH, a PersistentVolumeClaim in this namespace and the model's folder."""
    variants: Annotated[tuple[Variant, ...], Field(max_length=8), Unique(("weights",))] = ()
    """The same model in other weights, to choose among; the source is one of the choice. Default: only the source."""
    facts: StatedFacts | None = None
    """What the model is made of. Default: read from the config.json in its folder."""
    served_names: Annotated[tuple[ServedName, ...], Field(min_length=1, max_length=8), Unique()] | None = None
    """Names that clients may send as `model`. Default: the object's name."""
    max_context_tokens: Tokens | None = None
    """The longest context, input and output together, in tokens. Default: what the model's configuration says."""
