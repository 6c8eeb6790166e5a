"""What a model is made of, as far as memory and time depend on it. Pure.

Sizes are of the whole model, never of one accelerator: who shares what is the business of `perf`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Attention(StrEnum):
    """How a layer looks back at what came before, which decides what it keeps of each token."""

    FULL = "full"
    """Keys and values of every token: MHA, GQA and MQA, told apart by the number of KV heads."""
    SLIDING = "sliding"
    """Keys and values of the last `window_tokens` tokens."""
    LATENT = "latent"
    """MLA: one compressed vector a token, shared by all heads."""
    LATENT_SPARSE = "latent-sparse"
    """MLA with an indexer that selects tokens: the compressed vector and the indexer's key."""
    LINEAR = "linear"
    """A constant state a sequence, whatever its length."""


@dataclass(frozen=True, kw_only=True)
class AttentionLayers:
    """`count` layers with the same attention. Dimensions are in elements, of one head where they say head."""

    kind: Attention
    count: int
    heads: int
    kv_heads: int
    head_dim: int
    value_head_dim: int
    window_tokens: int | None = None
    latent_dim: int = 0
    """MLA: the compressed vector's length, kv_lora_rank."""
    rope_dim: int = 0
    """MLA: the length of the key's part that carries the position, kept beside the compressed vector."""
    query_latent_dim: int = 0
    """MLA: the query's compressed length, q_lora_rank; 0 where queries are not compressed."""
    index_dim: int = 0
    """Sparse MLA: length of the indexer's key; `index_heads` are its query heads, `index_tokens` what it selects."""
    index_heads: int = 0
    index_tokens: int = 0
    state_elements: int = 0
    """Linear attention: elements of the state that one sequence keeps in one layer."""
    parameters: int
    """Parameters of one layer's attention."""


@dataclass(frozen=True, kw_only=True)
class FeedForwardLayers:
    """`count` layers with the same feed-forward part. Dense ones have `experts` 0."""

    count: int
    intermediate: int
    """Width of a dense layer's hidden part, or of one expert's."""
    matrices: int = 3
    """Weight matrices of hidden × intermediate: 3 with a gate, 2 without."""
    experts: int = 0
    experts_per_token: int = 0
    shared_intermediate: int = 0
    """Summed width of the experts that every token visits."""
    parameters: int
    """Parameters of one layer's feed-forward part, all experts and the router included."""
    active_parameters: int
    """Those that one token visits."""


class Scheme(StrEnum):
    """How numbers are stored; of weights and of the KV cache."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"
    """Four-bit integers in groups with a scale, as awq, gptq and compressed-tensors store them; 16-bit arithmetic."""
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """A decoder language model. `source` says where the facts come from (a path, a known name, the user)."""

    name: str
    architecture: str
    source: str
    layers: int
    hidden: int
    vocabulary: int
    tied_embeddings: bool
    max_context_tokens: int
    attention: tuple[AttentionLayers, ...]
    feed_forward: tuple[FeedForwardLayers, ...]
    embedding_parameters: int
    """Of the input embedding, and of the output projection where it is not the same matrix."""
    other_parameters: int = 0
    """Norms, vision towers and the like: kept on every accelerator."""
    native: Scheme = Scheme.BF16
    """The scheme that the published checkpoint is stored in; parts that it leaves out are 16 bit."""
    quantized_attention: bool = True
    """Whether the checkpoint's scheme covers attention too (gpt-oss' mxfp4 covers the experts only)."""
    quantized_head: bool = False
    """Whether it covers embeddings and the output projection."""
    checkpoint_bytes: int | None = None
    """The checkpoint's exact size, where its index states it."""

    @property
    def parameters(self) -> int:
        """All parameters."""
        attention = sum(part.count * part.parameters for part in self.attention)
        feed_forward = sum(part.count * part.parameters for part in self.feed_forward)
        return attention + feed_forward + self.embedding_parameters + self.other_parameters

    @property
    def is_mixture(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return any(part.experts for part in self.feed_forward)
