"""Peak activation while vLLM profiles itself before it sizes the KV cache. Pure.

vLLM runs the model once with the token budget full and the sampler with the sequence cap full, and takes the peak
(v1/worker/gpu_worker.py: determine_available_memory). The larger of two stages counts: the widest layer, or the sampler
beside the hidden states.
"""

from dataclasses import dataclass

from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import Attention, FeedForwardLayers, ModelFacts
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory_constants import (
    EXPERT_CHUNK_TOKENS,
    FABRIC_BYTES_PER_S,
    FABRIC_GROUP_BYTES,
    GIB,
    HIDDEN_COPIES,
    MemoryConstants,
)
from modelfleet.core.perf.memory_version import Era

_ACTIVATION_BYTES = 2
_LOGIT_BYTES = 4
_WORKSPACE_TOKENS = 64 * 1024


@dataclass(frozen=True)
class Batching:
    """Tokens of one step and sequences at once, as given or as vLLM chooses."""

    tokens: int
    sequences: int


def batching(case: Case, era: Era) -> Batching:
    """The step's limits; vLLM's defaults are in engine/arg_utils.py (get_batch_defaults).

    Before 0.8 a prompt was not cut, so that the longest context was one step; above 32,768 tokens it was cut.
    """
    setup = case.setup
    context = setup.context_limit_tokens or case.facts.max_context_tokens
    tokens, sequences = _defaults(case.hardware, era)
    if era.before(0, 8):
        tokens, sequences = (max(context, 2048) if context <= 32768 else 2048), 256
    tokens = setup.token_budget or tokens
    return Batching(tokens, min(setup.sequence_cap or sequences, tokens))


def _defaults(hardware: Hardware, era: Era) -> tuple[int, int]:
    if hardware.memory_bytes >= 160 * GIB and not era.before(0, 21):
        return 16384, 1024
    if hardware.memory_bytes >= 70 * GIB and "a100" not in hardware.name.lower():
        return 8192, 1024
    return 2048, 256


def activation_bytes(case: Case, era: Era, constants: MemoryConstants, *, last: bool) -> float:
    """Peak activation of one accelerator; only the `last` pipeline stage samples."""
    facts, layout, steps = case.facts, case.layout, batching(case, era)
    row = steps.tokens * _ACTIVATION_BYTES
    hidden = HIDDEN_COPIES * facts.hidden * row
    copies = constants.copies_since if era.samples_in_place else constants.copies_before
    logits = steps.sequences * facts.vocabulary * _LOGIT_BYTES * copies if last else 0.0
    experts = max((_expert_bytes(part, facts, layout, steps) for part in facts.feed_forward), default=0.0)
    # Uncut prompts ran before torch.compile reused buffers: three rows of each width instead of two.
    rows = 3 if era.before(0, 8) else 2
    widest = max(_dense_width(part) for part in facts.feed_forward) / layout.tensor
    layer = max(rows * (widest + facts.hidden) * row, hidden + _context_bytes(case, steps))
    aside = constants.vision_bytes if has_tower(facts) else 0.0
    if not era.samples_in_place:
        return max(layer, hidden + logits, hidden + experts) + aside
    return max(layer, hidden + logits) + experts + aside  # since then experts keep their workspace


def _context_bytes(case: Case, steps: Batching) -> float:
    """MLA projects what a cut prompt has in the cache up to keys and values of its heads, a workspace at a time.

    The workspace is vllm/model_executor/layers/attention/mla_attention.py: determine_chunked_prefill_workspace_size.
    """
    context = case.setup.context_limit_tokens or case.facts.max_context_tokens
    tokens = min(max(8 * context, 4 * steps.sequences * case.setup.block_tokens), _WORKSPACE_TOKENS)
    widths = (
        part.heads / case.layout.tensor * (part.head_dim - part.rope_dim + part.value_head_dim)
        for part in case.facts.attention
        if part.kind is Attention.LATENT
    )
    return tokens * max(widths, default=0.0) * _ACTIVATION_BYTES


def has_tower(facts: ModelFacts) -> bool:
    """Whether a vision tower rides along: norms alone are a few rows of the hidden size a layer."""
    return facts.other_parameters > 16 * (facts.layers + 1) * facts.hidden


def _dense_width(part: FeedForwardLayers) -> int:
    return part.shared_intermediate if part.experts else part.intermediate


def _expert_bytes(part: FeedForwardLayers, facts: ModelFacts, layout: Layout, steps: Batching) -> float:
    """The fused kernel's two buffers: a row an expert visited. Data-parallel ranks gather each other's tokens."""
    if not part.experts:
        return 0.0
    tokens = min(steps.tokens * layout.data, max(EXPERT_CHUNK_TOKENS, steps.tokens))
    width = part.intermediate if layout.expert else part.intermediate / layout.tensor
    # Whole experts see the share of the tokens that visits them.
    visits = part.experts_per_token / (layout.tensor if layout.expert else 1)
    return tokens * max(visits, 1) * (max(facts.hidden, 2 * width) + width) * _ACTIVATION_BYTES


def other_bytes(case: Case, era: Era, constants: MemoryConstants) -> float:
    """What the driver, the allocator and the communication library hold."""
    if case.layout.tensor * case.layout.data == 1:
        if era.before(0, 8):
            return constants.one_uncut_bytes
        return constants.one_since_bytes if era.reserves_more else constants.one_bytes
    if not era.samples_in_place or case.hardware.fabric_bytes_per_s < FABRIC_BYTES_PER_S:
        return constants.group_bytes
    return FABRIC_GROUP_BYTES


def graphs_bytes(case: Case, era: Era, constants: MemoryConstants) -> float:
    """CUDA graphs inside the budget; before 0.21 they were outside."""
    if era.number is None or era.before(0, 21):
        return 0.0
    return case.facts.layers / case.layout.pipeline * constants.graph_bytes_a_layer
