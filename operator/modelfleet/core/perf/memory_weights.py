"""Weights in one accelerator: what a layout splits and what every accelerator keeps whole. Pure.

The rules are those of vLLM's parallel layers (model_executor/layers/linear.py, vocab_parallel_embedding.py,
fused_moe/config.py, distributed/utils.py: get_pp_indices): queries, outputs and dense feed-forward parts are split over
tensor parallelism, keys and values up to their number of heads, experts over tensor × data parallelism whether whole
(expert parallelism) or by their width; MLA's down projections, the indexer, routers, norms and vision towers are kept
whole; data-parallel ranks have everything but experts for themselves.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import Attention, AttentionLayers, FeedForwardLayers, ModelFacts, Scheme

BYTES = {
    Scheme.BF16: 2.0,
    Scheme.FP16: 2.0,
    Scheme.FP8: 1.0 + 4 / 128**2,  # a 4-byte scale a block of 128 × 128
    Scheme.INT8: 1.0,
    Scheme.INT4: 0.5 + 2.5 / 128,  # a 2-byte scale and a 4-bit zero a group of 128
    Scheme.MXFP4: 0.5 + 1 / 32,  # a 1-byte scale a group of 32 (OCP MX 1.0)
    Scheme.NVFP4: 0.5 + 1 / 16,  # a 1-byte scale a group of 16
}
"""Bytes a parameter, scales included."""

_PLAIN_BYTES = 2.0
_SURPLUS = 1.03
_INT4_EXPERT_BYTES = 0.5 + 2 / 32
"""Kimi's experts have a 2-byte scale a group of 32: its checkpoint of 594 GB confirms it."""
_MXFP4_HIDDEN_STEP = 256
"""MXFP4 kernels pad the hidden size to this: weights of gpt-oss-120b are 64.4 GiB in memory and 60.8 on disk."""


def weights_bytes(facts: ModelFacts, scheme: Scheme, layout: Layout) -> float:
    """Bytes of the accelerator that holds most, in the pipeline stage that holds most."""
    return max(stage_weights_bytes(facts, scheme, layout))


def stage_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each pipeline stage: what does not divide goes before the last stage, from the back."""
    counts = [layers // stages] * stages
    for offset in range(layers % stages):
        counts[max(stages - 2 - offset, 0)] += 1
    return tuple(counts)


def stage_weights_bytes(facts: ModelFacts, scheme: Scheme, layout: Layout) -> tuple[float, ...]:
    """Bytes of one accelerator of each pipeline stage.

    Stages hold equal shares of every kind of layer; the input embedding is in the first, the output projection in the
    last, and a tied one in both.
    """
    attention = sum(part.count * _attention_bytes(part, facts, scheme, layout.tensor) for part in facts.attention)
    feed_forward = sum(part.count * _feed_forward_bytes(part, facts, scheme, layout) for part in facts.feed_forward)
    head_each = _PLAIN_BYTES if not (facts.quantized_head and scheme is facts.native) else BYTES[scheme]
    matrix = facts.vocabulary * facts.hidden * head_each / layout.tensor
    always = facts.other_parameters * _PLAIN_BYTES + _positions_bytes(facts)
    layers = (attention + feed_forward) * _surplus(facts, scheme)
    stages = [layers * count / facts.layers + always for count in stage_layers(facts.layers, layout.pipeline)]
    stages[0] += matrix
    if layout.pipeline > 1 or not facts.tied_embeddings:
        stages[-1] += matrix
    return tuple(stages)


def _surplus(facts: ModelFacts, scheme: Scheme) -> float:
    """By how much layers are larger than their scheme says, where the checkpoint's index states the size of it all.

    Up to 3 % is scales and layers for speculation that are not loaded; more is parts left in a wider scheme, which
    config.json did not say. A tied head that is stored all the same would look like that, so those are not compared.
    """
    if facts.checkpoint_bytes is None or scheme is not facts.native or facts.tied_embeddings:
        return 1.0
    bare = replace(facts, checkpoint_bytes=None)
    stated = stage_weights_bytes(bare, scheme, Layout())[0] - _positions_bytes(facts)
    surplus = facts.checkpoint_bytes / stated
    return surplus if _SURPLUS < surplus < facts.parameters * _PLAIN_BYTES / stated * _SURPLUS else 1.0


def _positions_bytes(facts: ModelFacts) -> float:
    """The table of rotary positions, one for all layers: as many rows as the model's longest context. It is 2.5 GiB for
    Llama-4-Scout's ten million tokens."""
    widths = [part.rope_dim or part.head_dim for part in facts.attention if part.kind is not Attention.LINEAR]
    return facts.max_context_tokens * max(widths, default=0) * _PLAIN_BYTES


def quantizes_attention(facts: ModelFacts, scheme: Scheme) -> bool:
    """Whether attention is stored in the scheme. Another scheme than the checkpoint's follows the usual checkpoints:
    four-bit floats leave MLA alone (nvidia/DeepSeek-R1-NVFP4), fp8 leaves that of Llama 4 alone."""
    if scheme is facts.native:
        return facts.quantized_attention
    if scheme is Scheme.FP8 and facts.architecture.startswith("Llama4"):
        return False
    return scheme not in (Scheme.NVFP4, Scheme.MXFP4) or not any(_is_latent(part) for part in facts.attention)


def _is_latent(part: AttentionLayers) -> bool:
    return part.kind in (Attention.LATENT, Attention.LATENT_SPARSE)


def _attention_bytes(part: AttentionLayers, facts: ModelFacts, scheme: Scheme, tensor: int) -> float:
    """Of one layer in one accelerator."""
    each = BYTES[scheme] if quantizes_attention(facts, scheme) else _PLAIN_BYTES
    hidden = facts.hidden
    if _is_latent(part):
        kept = hidden * (part.latent_dim + part.rope_dim + part.query_latent_dim)
        queries = part.query_latent_dim or hidden
        kept += queries * part.index_heads * part.index_dim + hidden * (part.index_dim + part.index_heads)
        kept = min(kept, part.parameters)
        return (kept + (part.parameters - kept) / tensor) * each
    if part.kind is Attention.LINEAR:
        return part.parameters / tensor * each
    projected = hidden * part.kv_heads * (part.head_dim + part.value_head_dim)
    projected = min(projected, part.parameters)
    share = 1 / min(tensor, part.kv_heads)
    return (projected * share + (part.parameters - projected) / tensor) * each


def _feed_forward_bytes(part: FeedForwardLayers, facts: ModelFacts, scheme: Scheme, layout: Layout) -> float:
    """Of one layer in one accelerator."""
    each = BYTES[scheme]
    if not part.experts:
        dense = _PLAIN_BYTES if _experts_only(facts, scheme) else each
        return part.parameters / layout.tensor * dense
    spread = layout.tensor * layout.data
    one_expert = (part.parameters - part.active_parameters) / max(part.experts - part.experts_per_token, 1)
    if part.experts == part.experts_per_token:
        one_expert = part.active_parameters / part.experts
    experts = ceil(part.experts / spread) if layout.expert else part.experts / spread
    padding = ceil(facts.hidden / _MXFP4_HIDDEN_STEP) * _MXFP4_HIDDEN_STEP / facts.hidden
    expert_each = each
    if scheme is Scheme.MXFP4:
        expert_each = each * padding
    elif scheme is Scheme.INT4 and _experts_only(facts, scheme):
        expert_each = _INT4_EXPERT_BYTES
    router = part.experts * facts.hidden
    shared = max(part.parameters - part.experts * one_expert - router, 0)
    shared_each = _PLAIN_BYTES if _experts_only(facts, scheme) else each
    return experts * one_expert * expert_each + router * _PLAIN_BYTES + shared / layout.tensor * shared_each


def _experts_only(facts: ModelFacts, scheme: Scheme) -> bool:
    """Kimi's four-bit checkpoints quantize the routed experts and nothing else."""
    return scheme is facts.native and scheme in (Scheme.INT4, Scheme.MXFP4) and not facts.quantized_attention


def stage_share(count: int, counts: Sequence[int], stage: int) -> int:
    """Layers of one kind in one stage, rounded up, for a kind with `count` layers in all."""
    return min(count, ceil(count * counts[stage] / max(sum(counts), 1)))
