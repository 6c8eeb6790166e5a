"""What is served: where the weights are, in which forms, and what the model is made of. Pure."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from modelfleet.api.kubernetes_types import LocalObjectReference
from modelfleet.api.quantization import WeightScheme
from modelfleet.api.schema import ApiModel, Tokens, Unique, whole
from modelfleet.api.sources import Endpoint, ModelSource
from modelfleet.api.strings import ObjectName, ServedName


class Variant(ApiModel):
    """The same model in other weights."""

    weights: WeightScheme
    """How these weights are stored, unique in this list."""
    source: ModelSource
    """Where they are, written as the model's source."""


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


class RemoteCode(StrEnum):
    """Whether code that comes with the weights is run."""

    REFUSE = "Refuse"
    ALLOW = "Allow"


class PickledWeights(StrEnum):
    """Whether weights may be stored as Python pickles, which can run code when they are loaded."""

    REFUSE = "Refuse"
    ALLOW = "Allow"


class WeightCache(ApiModel):
    """Where fetched weights are kept."""

    claim_name: ObjectName
    """A PersistentVolumeClaim of this namespace that the fetch writes to; several models share it."""


class Model(ApiModel):
    """What is served."""

    source: ModelSource
    """Where the weights are: hf://ORG/REPO@REVISION, s3://BUCKET/PREFIX, oci://REGISTRY/REPOSITORY:TAG (fetched),
    pvc://CLAIM/PATH (a PersistentVolumeClaim in this namespace), or file:///PATH (a folder of the node, where the
    operator's settings allow it)."""
    endpoint: Endpoint | None = None
    """The server of hf:// or s3:// sources, such as https://minio.example.com. Default: the public hub; AWS."""
    credentials_secret_ref: LocalObjectReference | None = None
    """A Secret of this namespace, read only by the container that fetches: token (hf); accessKeyId, secretAccessKey,
    sessionToken, region (s3); username, password or .dockerconfigjson (oci). Default: without credentials."""
    cache: WeightCache | None = None
    """Where fetched weights are kept. Default: the node cache of the AcceleratorClass, else each pod for itself."""
    pickled_weights: PickledWeights = PickledWeights.REFUSE
    """Whether pickled weights are served (Allow), or safetensors only (Refuse). Default: Refuse."""
    remote_code: RemoteCode = RemoteCode.REFUSE
    """Whether Python code in the model's folder is run (Allow). Default: Refuse."""
    variants: Annotated[tuple[Variant, ...], Field(max_length=8), Unique(("weights",))] = ()
    """The same model in other weights, to choose among; the source is one of the choice. Default: only the source."""
    facts: StatedFacts | None = None
    """What the model is made of. Default: read from the config.json in its folder."""
    served_names: Annotated[tuple[ServedName, ...], Field(min_length=1, max_length=8), Unique()] | None = None
    """Names that clients may send as `model`. Default: the object's name."""
    max_context_tokens: Tokens | None = None
    """The longest context, input and output together, in tokens. Default: what the model's configuration says."""

    @property
    def sources(self) -> tuple[ModelSource, ...]:
        """The source, then the variants'."""
        return (self.source, *(variant.source for variant in self.variants))

    @property
    def is_fetched(self) -> bool:
        """Whether any of the sources is fetched from a server."""
        return any(source.is_fetched for source in self.sources)
