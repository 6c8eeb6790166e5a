"""What a sequence keeps in one accelerator, as vLLM's cache manager hands it out in blocks. Pure.

The rules are those of vllm/v1/core/kv_cache_utils.py and kv_cache_interface.py: layers of one kind form a bucket; where
a model has several kinds, buckets are cut into groups of equally many layers that draw blocks of equal size from one
pool, so a sequence costs the sum of its groups' blocks. An MLA cache is kept whole by every tensor-parallel rank.
"""

from dataclasses import dataclass
from math import ceil

from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import Attention, AttentionLayers, ModelFacts, Scheme
from modelfleet.core.perf.memory_version import Era
from modelfleet.core.perf.memory_weights import stage_layers, stage_share

_BYTES = {Scheme.BF16: 2.0, Scheme.FP16: 2.0, Scheme.FP8: 1.0, Scheme.INT8: 1.0, Scheme.NVFP4: 0.5 + 1 / 16}
_SPARSE_FP8_BYTES = 656
"""One token in one layer of sparse MLA under fp8: 512 of fp8, 4 scales of 4 bytes, 64 positions of 2 (fp8_ds_mla)."""
_INDEX_BYTES = 1 + 4 / 128
"""The indexer's keys are always fp8 with a 4-byte scale a 128."""
_STATE_BYTES = 4
"""Linear attention's states are kept in 32 bit (mamba_ssm_dtype of Qwen3.5)."""
_STATES_A_SEQUENCE = 2
"""With prefix caching a sequence holds its state and the last aligned one (mamba_cache_mode align)."""


@dataclass(frozen=True)
class _Bucket:
    """Layers of one kind in one pipeline stage. `token_bytes` is of one layer; a window's `limit_tokens` bounds it."""

    layers: int
    token_bytes: float
    limit_tokens: int | None = None
    state_bytes: float = 0.0


@dataclass(frozen=True)
class Pool:
    """The cache of one accelerator: blocks of `block_bytes`, of which a sequence takes `blocks(tokens)`."""

    block_bytes: float
    buckets: tuple[tuple[int, int, int | None], ...]
    """Groups, tokens a block (0: a state, whatever the length), the most tokens kept."""

    def blocks(self, tokens: int) -> int:
        """Blocks of one sequence of `tokens`."""
        total = 0
        for groups, block_tokens, limit in self.buckets:
            if not block_tokens:
                total += groups * _STATES_A_SEQUENCE
            elif limit is None or tokens <= limit:
                total += groups * ceil(tokens / block_tokens)
            else:  # a window may begin inside a block
                total += groups * (ceil(limit / block_tokens) + 1)
        return total

    def sequence_bytes(self, tokens: int) -> float:
        """Bytes of one sequence of `tokens`."""
        return self.blocks(tokens) * self.block_bytes

    @property
    def long_token_bytes(self) -> float:
        """Bytes that one more token of a long sequence takes, what groups are padded with included."""
        growing = ((groups, tokens) for groups, tokens, limit in self.buckets if tokens and limit is None)
        return sum(groups * self.block_bytes / tokens for groups, tokens in growing)


def kv_bytes_per_token(facts: ModelFacts, layout: Layout, kv: Scheme) -> float:
    """Bytes that one more token of a long sequence takes in one accelerator, in the stage with most layers.

    Windows and states do not grow with a long sequence and are not in it.
    """
    counts = stage_layers(facts.layers, layout.pipeline)
    return max(
        sum(
            stage_share(part.count, counts, stage) * layer_token_bytes(part, kv, layout.tensor)
            for part in facts.attention
            if part.kind in _GROWING
        )
        for stage in range(layout.pipeline)
    )


_GROWING = (Attention.FULL, Attention.LATENT, Attention.LATENT_SPARSE)


def layer_token_bytes(part: AttentionLayers, kv: Scheme, tensor: int) -> float:
    """Bytes of one token in one layer in one accelerator; 0 for linear attention."""
    if part.kind is Attention.LINEAR:
        return 0.0
    each = _BYTES.get(kv, 2.0)
    if part.kind is Attention.LATENT:
        return (part.latent_dim + part.rope_dim) * each
    if part.kind is Attention.LATENT_SPARSE:
        kept = _SPARSE_FP8_BYTES if each == 1 else (part.latent_dim + part.rope_dim) * each
        return kept + part.index_dim * _INDEX_BYTES
    return max(part.kv_heads // tensor, 1) * (part.head_dim + part.value_head_dim) * each


@dataclass(frozen=True)
class KvSettings:
    """What the cache's shape depends on besides model and layout."""

    kv: Scheme
    block_tokens: int
    token_budget: int
    era: Era


def pool(facts: ModelFacts, layout: Layout, settings: KvSettings, stage: int) -> Pool:
    """The cache of one accelerator of a pipeline stage."""
    counts = stage_layers(facts.layers, layout.pipeline)
    buckets = [
        _bucket(part, facts, settings, (stage_share(part.count, counts, stage), layout.tensor))
        for part in facts.attention
    ]
    buckets = _merged([bucket for bucket in buckets if bucket.layers])
    if not any(bucket.token_bytes for bucket in buckets):
        state = sum(bucket.layers * bucket.state_bytes for bucket in buckets)
        return Pool(state, ((1, 0, None),))
    if len(buckets) == 1:
        only = buckets[0]
        return Pool(
            only.layers * only.token_bytes * settings.block_tokens, ((1, settings.block_tokens, only.limit_tokens),)
        )
    return _grouped(buckets, settings.block_tokens)


def _bucket(part: AttentionLayers, facts: ModelFacts, settings: KvSettings, size: tuple[int, int]) -> _Bucket:
    layers, tensor = size
    if part.kind is Attention.LINEAR:
        return _Bucket(layers, 0.0, state_bytes=part.state_elements * _STATE_BYTES / tensor)
    each = layer_token_bytes(part, settings.kv, tensor)
    if part.kind is not Attention.SLIDING or part.window_tokens is None or not settings.era.keeps_windows(facts):
        return _Bucket(layers, each)
    return _Bucket(layers, each, part.window_tokens - 1 + settings.token_budget * settings.era.batches_in_flight)


def _merged(buckets: list[_Bucket]) -> list[_Bucket]:
    """Layers that keep the same of a token are one kind to the cache manager."""
    kinds: dict[tuple[float, int | None, float], int] = {}
    for bucket in buckets:
        key = (bucket.token_bytes, bucket.limit_tokens, bucket.state_bytes)
        kinds[key] = kinds.get(key, 0) + bucket.layers
    growing = [key for key in kinds if key[0] and key[1] is None]
    if len(growing) > 1 and len(growing) == len(
        kinds
    ):  # all keep every token: one block table, blocks of unequal width
        layers = sum(kinds.values())
        return [_Bucket(layers, sum(key[0] * count for key, count in kinds.items()) / layers)]
    return [_Bucket(layers, *key) for key, layers in kinds.items()]


def _grouped(buckets: list[_Bucket], block_tokens: int) -> Pool:
    """Groups of equally many layers, a block of each equally large: a narrower kind has more tokens in a block."""
    least, most = min(bucket.layers for bucket in buckets), max(bucket.layers for bucket in buckets)
    layers = most if most < 1.5 * least else least
    widest = max(bucket.token_bytes for bucket in buckets) * block_tokens
    state = max(bucket.state_bytes for bucket in buckets)
    # A block must hold a state, so attention's blocks grow to it in steps of the block size.
    page = widest * ceil(state / widest) if state > widest else widest
    shaped = []
    for bucket in buckets:
        tokens = 0 if not bucket.token_bytes else int(page / bucket.token_bytes) // block_tokens * block_tokens
        shaped.append((ceil(bucket.layers / layers), tokens, bucket.limit_tokens))
    return Pool(layers * page, tuple(shaped))
